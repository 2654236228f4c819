/*
 * The visible messages: a window of blocks that moves when you scroll. A block is not rendered again when
 * another one is added, and distant blocks are dropped, so scrolling costs the same in a chain of any length.
 */
import { memo, useLayoutEffect, useRef, useState } from 'react'

import type { Entry } from '../api/types'
import { t } from '../texts/texts'
import { asClock, asDay, asUtc } from '../ui/format'
import { Button } from '../ui/ui'

const BLOCK = 25
const BLOCKS = 8 // at a time
const NEAR = 800
const NEAR_END = 60

function Message ({ entry, own, day, read }: { entry: Entry, own: boolean, day: boolean, read: boolean | null }) {
  return (
    <>
      {day && <li className='day'>{asDay(entry.createdAt)}</li>}
      <li className={own ? 'message own' : 'message'}>
        <span className='author'>{own ? t('chat.you') : entry.username}</span>
        <p dir='auto'>{entry.chatEntry}</p>
        <time dateTime={entry.createdAt} title={asUtc(entry.createdAt)}>{asClock(entry.createdAt)}</time>
        {own && read !== null && <span className='delivery'>{read ? t('chat.read') : t('chat.sent')}</span>}
      </li>
    </>
  )
}

/*
 * `unread`: the first message that the other participant has not read, in the block or at its ends. Infinity:
 * unknown.
 */
interface BlockProps { entries: Entry[], from: number, to: number, own: string, unread: number }

/* A block is unchanged if it has the same messages, whatever else is in the chain by now. */
function isSame (one: BlockProps, other: BlockProps) {
  let same = one.from === other.from && one.to === other.to && one.own === other.own && one.unread === other.unread &&
    one.entries[one.from - 1] === other.entries[other.from - 1]
  for (let at = one.from; same && at < one.to; at++) same = one.entries[at] === other.entries[at]
  return same
}

const isNewDay = (entries: Entry[], at: number) =>
  at === 0 || asDay(entries[at - 1]!.createdAt) !== asDay(entries[at]!.createdAt)

const Block = memo(function Block ({ entries, from, to, own, unread }: BlockProps) {
  return (
    <ol>
      {entries.slice(from, to).map((entry, i) =>
        <Message key={entry.uuid} entry={entry} own={entry.username === own} day={isNewDay(entries, from + i)} read={unread === Infinity ? null : from + i < unread} />)}
    </ol>
  )
}, isSame)

/* Messages being sent: at most one, because the box sends them one after the other. */
function Pending ({ texts }: { texts: string[] }) {
  return (
    <ol>
      {texts.map((text) => (
        <li key={text} className='message own'>
          <span className='author'>{t('chat.you')}</span>
          <p dir='auto'>{text}</p>
          <span className='delivery'>{t('chat.sending')}</span>
        </li>
      ))}
    </ol>
  )
}

const within = (place: number, from: number, to: number) => place === Infinity ? place : Math.min(Math.max(place, from), to)

interface Kept { block: Element, top: number }

/*
 * `fresh`: the number of new messages below the window. `ended` is called with whether the last message is
 * visible.
 */
interface MessagesProps { entries: Entry[], own: string, pending: string[], unreadFrom: number, fresh: number, ended: (is: boolean) => void }

export function Messages ({ entries, own, pending, unreadFrom, fresh, ended }: MessagesProps) {
  const [moved, setMoved] = useState<{ from: number, to: number } | null>(null) // after the first scroll
  const list = useRef<HTMLDivElement>(null)
  const atEnd = useRef(true)
  const [away, setAway] = useState(false) // from the end
  const kept = useRef<Kept | null>(null) // the element that keeps its place in the window while others are added and removed
  const count = Math.ceil(entries.length / BLOCK)
  const from = moved ? moved.from : Math.max(0, count - 2)
  const to = Math.min(moved?.to ?? count, count)
  const blocks = Array.from({ length: to - from }, (_, i) => (from + i) * BLOCK)

  const place = (end: boolean) => { atEnd.current = end; setAway(!end); ended(end) }
  const toEnd = () => {
    const box = list.current
    place(true)
    kept.current = null
    setMoved(null)
    if (box) box.scrollTop = box.scrollHeight
  }

  useLayoutEffect(() => { if (pending.length > 0) toEnd() }, [pending]) // show a message being sent
  useLayoutEffect(() => {
    const box = list.current
    if (box && kept.current) box.scrollTop += kept.current.block.getBoundingClientRect().top - kept.current.top
    else if (box && atEnd.current) box.scrollTop = box.scrollHeight
    kept.current = null
  }, [from, to, entries, pending])
  const move = (first: number, last: number, stays: Element | null | undefined) => {
    if (stays) kept.current = { block: stays, top: stays.getBoundingClientRect().top }
    place(false)
    setMoved({ from: first, to: last >= count ? Infinity : last })
  }
  const up = () => move(from - 1, Math.min(to, from - 1 + BLOCKS), list.current?.querySelector('ol'))
  const down = () => move(Math.max(from, to + 1 - BLOCKS), to + 1, list.current?.querySelectorAll('ol').item(to - from - 1))
  const scrolled = () => {
    const box = list.current
    if (!box) return
    const below = box.scrollHeight - box.scrollTop - box.clientHeight
    place(to === count && below < NEAR_END)
    if (atEnd.current) setMoved(null) // the window follows the end
    else if (!moved) setMoved({ from, to: Infinity }) // a new block must not push out the text being read
    if (box.scrollTop < NEAR && from > 0 && !atEnd.current) up()
    else if (below < NEAR && to < count) down()
  }
  return (
    <div className='messages' ref={list} onScroll={scrolled} tabIndex={0} role='log' aria-label={t('chat.messages')}>
      {from > 0 && <Button onClick={up}>{t('chat.earlier')}</Button>}
      {blocks.map((at) => {
        const end = Math.min(at + BLOCK, entries.length)
        return <Block key={at} entries={entries} from={at} to={end} own={own} unread={within(unreadFrom, at, end)} />
      })}
      {pending.length > 0 && to === count && <Pending texts={pending} />}
      {away && (
        <div className='jump'>
          <Button kind={fresh > 0 ? 'main' : 'plain'} onClick={toEnd}>{fresh > 0 ? t('chat.fresh', { n: fresh }) : t('chat.newest')} <span aria-hidden='true'>↓</span></Button>
        </div>
      )}
    </div>
  )
}
