/*
 * The visible messages: a window of blocks that moves when you scroll. A block is not rendered again when
 * another one is added, and distant blocks are dropped, so scrolling costs the same in a chain of any length.
 */
import { ArrowDown } from 'lucide-react'
import { memo, useLayoutEffect, useRef, useState } from 'react'

import type { Entry } from '../api/types'
import { t } from '../texts/texts'
import { asClock, asDay, asUtc } from '../ui/format'
import { Button } from '../ui/ui'
import { linked } from './text'

const BLOCK = 25
const BLOCKS = 8 // at a time
const NEAR = 800
const NEAR_END = 60
const GROUP_MS = 5 * 60000
const AHEAD = 3 // blocks above the window while earlier messages are read

interface MessageProps {
  entry: Entry
  before: Entry | null | undefined
  own: boolean
  read: boolean | null
}

const isNewDay = (before: Entry | null | undefined, entry: Entry) =>
  before === null || (before !== undefined && asDay(before.createdAt) !== asDay(entry.createdAt))

/* A message that soon follows another one of its author does not show the author again. */
const follows = (before: Entry | null | undefined, entry: Entry) =>
  before?.username === entry.username && Date.parse(entry.createdAt) - Date.parse(before.createdAt) < GROUP_MS

function Message ({ entry, before, own, read }: MessageProps) {
  const day = isNewDay(before, entry)
  const again = !day && follows(before, entry)

  return (
    <>
      {day && <li className='day'>{asDay(entry.createdAt)}</li>}
      <li className={`message${own ? ' own' : ''}${again ? ' again' : ''}`}>
        <span className={again ? 'hidden' : 'author'}>{own ? t('chat.you') : entry.username}</span>
        <p dir='auto'>{linked(entry.chatEntry)}</p>
        <time dateTime={entry.createdAt} title={asUtc(entry.createdAt)}>
          {asClock(entry.createdAt)}
        </time>
        {own && read !== null && <span className='delivery'>{read ? t('chat.read') : t('chat.sent')}</span>}
      </li>
    </>
  )
}

/*
 * `unread`: the number of messages in the block before the first one that the other participant has not read.
 * Infinity: unknown. `before`: the last message of the previous block; null: the chain begins, undefined: it is
 * not known, and so is the day.
 */
interface BlockProps {
  part: Entry[]
  before: Entry | null | undefined
  own: string
  unread: number
}

/* A block is unchanged if it has the same messages, whatever else is in the chain by now. */
const isSame = (one: BlockProps, other: BlockProps) =>
  one.own === other.own &&
  one.unread === other.unread &&
  one.before === other.before &&
  one.part.length === other.part.length &&
  one.part.every((entry, at) => entry === other.part[at])

const Block = memo(function Block({ part, before, own, unread }: BlockProps) {
  return (
    <ol>
      {part.map((entry, i) => (
        <Message
          key={entry.uuid}
          entry={entry}
          before={i === 0 ? before : part[i - 1]}
          own={entry.username === own}
          read={unread === Infinity ? null : i < unread}
        />
      ))}
    </ol>
  )
}, isSame)

/* The message that is being sent. */
function Pending ({ text }: { text: string }) {
  return (
    <ol>
      <li className='message own'>
        <span className='author'>{t('chat.you')}</span>
        <p dir='auto'>{text}</p>
        <span className='delivery'>{t('chat.sending')}</span>
      </li>
    </ol>
  )
}

const within = (place: number, length: number) => (place === Infinity ? place : Math.min(Math.max(place, 0), length))

interface Kept {
  block: Element
  top: number
}

/*
 * `first`: the place of the first known message in the chain; `earlier` reads those before it. `fresh`: the
 * number of new messages below the window. `ended` is called with whether the last message is visible.
 */
interface MessagesProps {
  entries: Entry[]
  first: number
  own: string
  pending: string | null
  unreadFrom: number
  fresh: number
  ended: (is: boolean) => void
  earlier: () => void
}

export function Messages ({ entries, first, own, pending, unreadFrom, fresh, ended, earlier }: MessagesProps) {
  const [moved, setMoved] = useState<{ from: number; to: number } | null>(null) // after the first scroll
  const list = useRef<HTMLDivElement>(null)
  const atEnd = useRef(true)
  const height = useRef({ first, height: 0 }) // of the list, when `first` was the first message
  const [away, setAway] = useState(false) // from the end
  const kept = useRef<Kept | null>(null) // keeps its place in the window while others are added and removed
  const before = first - 1 // messages that are not known
  const least = Math.floor(before / BLOCK)
  const count = Math.ceil((before + entries.length) / BLOCK)
  const from = moved ? moved.from : Math.max(least, count - 2)
  const to = Math.min(moved?.to ?? count, count)
  const blocks = Array.from({ length: to - from }, (_, i) => Math.max(0, (from + i) * BLOCK - before))

  const place = (end: boolean) => {
    atEnd.current = end
    setAway(!end)
    ended(end)
  }
  const toEnd = () => {
    const box = list.current
    place(true)
    kept.current = null
    setMoved(null)
    if (box) box.scrollTop = box.scrollHeight
  }

  useLayoutEffect(() => {
    if (pending !== null) toEnd() // show a message being sent
  }, [pending])
  useLayoutEffect(() => {
    const box = list.current
    if (!box) return
    const grown = box.scrollHeight - height.current.height
    const scrolledTo = box.scrollTop
    if (kept.current) box.scrollTop += kept.current.block.getBoundingClientRect().top - kept.current.top
    else if (atEnd.current) box.scrollTop = box.scrollHeight
    else if (first < height.current.first && from === Math.floor(height.current.first / BLOCK)) box.scrollTop += grown
    kept.current = null
    const came = first < height.current.first
    height.current = { first, height: box.scrollHeight }
    if (!came || box.scrollTop >= NEAR || from <= least || atEnd.current) return
    up() // it cannot be scrolled further
    const anchor = kept.current as Kept | null
    if (anchor) anchor.top -= grown - (box.scrollTop - scrolledTo) // where it was before
  }, [from, to, entries, first, pending])
  const move = (start: number, end: number, stays: Element | null | undefined) => {
    if (stays) kept.current = { block: stays, top: stays.getBoundingClientRect().top }
    place(false)
    setMoved({ from: start, to: end >= count ? Infinity : end })
  }
  const up = () => {
    if (from <= least + AHEAD && before > 0) earlier()
    if (from > least)
      move(from - 1, Math.min(to, from - 1 + BLOCKS), list.current?.querySelector('ol > li:last-child'))
  }
  const down = () =>
    move(Math.max(from, to + 1 - BLOCKS), to + 1, list.current?.querySelectorAll('ol').item(to - from - 1))
  const scrolled = () => {
    const box = list.current
    if (!box) return
    const below = box.scrollHeight - box.scrollTop - box.clientHeight
    place(to === count && below < NEAR_END)
    if (atEnd.current)
      setMoved(null) // the window follows the end
    else if (!moved) setMoved({ from, to: Infinity }) // a new block must not push out the text being read
    if (box.scrollTop < NEAR && (from > least || before > 0) && !atEnd.current) up()
    else if (below < NEAR && to < count) down()
  }
  return (
    <div className='messages' ref={list} onScroll={scrolled} tabIndex={0} role='log' aria-label={t('chat.messages')}>
      {(from > least || before > 0) && <Button onClick={up}>{t('chat.earlier')}</Button>}
      {blocks.map((at, i) => {
        const part = entries.slice(at, Math.max(0, (from + i + 1) * BLOCK - before))
        const unread = within(unreadFrom - at, part.length)
        return (
          <Block
            key={from + i}
            part={part}
            before={at === 0 && before === 0 ? null : entries[at - 1]}
            own={own}
            unread={unread}
          />
        )
      })}
      {pending !== null && to === count && <Pending text={pending} />}
      {away && (
        <div className='jump'>
          <Button kind={fresh > 0 ? 'main' : 'plain'} icon={ArrowDown} onClick={toEnd}>
            {fresh > 0 ? t('chat.fresh', { n: fresh }) : t('chat.newest')}
          </Button>
        </div>
      )}
    </div>
  )
}
