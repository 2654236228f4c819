/*
 * The visible messages: the page has only those near the window, so scrolling costs the same in a chain of any
 * length.
 */
import { useVirtualizer } from '@tanstack/react-virtual'
import { ArrowDown, Download, Mail } from 'lucide-react'
import { memo, useEffect, useLayoutEffect, useRef, useState, type KeyboardEvent } from 'react'

import { download } from '../api/client'
import type { Entry } from '../api/types'
import { isPicture, Picture } from '../devices/picture'
import { useMe } from '../session'
import { t } from '../texts/texts'
import { asBytes, asClock, asDay, asFileName, asTime, asUtc } from '../ui/format'
import { refuse } from '../ui/toast'
import { Button, problemOf } from '../ui/ui'
import type { Sending } from './drafts'
import { formatted, mentionOf } from './text'

const NEAR = 800
const NEAR_END = 60
const GROUP_MS = 5 * 60000
const FIRST_AROUND = 1 // messages above and below the window that are drawn at first,
const AROUND = 8 // and a moment later, so that the first ones are visible earlier
const LATER_MS = 100
const HEIGHT = 72 // of a message that was not shown yet; a short one, so that the first ones fill the window

/*
 * `path`: of the attachments; `author`: the name or e-mail; `before`: the message before it, if there is one; `news`:
 * whether it is the first one that the user had not read; `unread` marks the messages from a place on as unread;
 * `stop`: whether its button is the one that Tab reaches.
 */
interface MessageProps {
  entry: Entry
  path: string
  author: string
  before: Entry | undefined
  own: boolean
  read: boolean | null
  wanted: boolean
  news: boolean
  unread: ((uuid: string) => unknown) | undefined
  stop: boolean
}

const isNewDay = (before: Entry | undefined, entry: Entry) =>
  before === undefined || asDay(before.createdAt) !== asDay(entry.createdAt)

/* A message that soon follows another one of its author does not show the author again. */
const follows = (before: Entry | undefined, entry: Entry) =>
  before?.username === entry.username && Date.parse(entry.createdAt) - Date.parse(before.createdAt) < GROUP_MS

/* The files of a message. Small pictures are shown. */
const Attachments = ({ path, files }: { path: string, files: NonNullable<Entry['attachments']> }) => (
  <ul className='files'>
    {files.map((file) => {
      const at = `${path}/${file.id}`
      const name = asFileName(file.name)
      return (
        <li key={file.id}>
          {isPicture(file.contentType) && <Picture path={at} document={{ name, size: file.size }} />}
          <Button kind='plain' icon={Download} title={t('devices.download', { name })}
            onClick={() => { download(at, name).catch((error) => refuse(problemOf(error))) }}>
            <span className='name'>{name}</span> <small>{asBytes(file.size)}</small>
          </Button>
        </li>
      )
    })}
  </ul>
)

const Message = memo(function Message (props: MessageProps) {
  const { entry, path, author, before, own, read, wanted, news, unread, stop } = props
  const day = isNewDay(before, entry)
  const again = !day && !news && follows(before, entry)
  const mention = mentionOf(useMe())

  return (
    <>
      {day && <div className='day'>{asDay(entry.createdAt)}</div>}
      {news && <div className='day news'>{t('chat.news')}</div>}
      <div
        className={`message${own ? ' own' : ''}${again ? ' again' : ''}${wanted ? ' wanted' : ''}`}
        aria-current={wanted ? 'true' : undefined}>
        <span className={again ? 'hidden' : 'author'} title={entry.username}>{own ? t('chat.you') : author}</span>
        {entry.chatEntry !== '' && <p dir='auto'>{formatted(entry.chatEntry, mention)}</p>}
        {entry.attachments && <Attachments path={path} files={entry.attachments} />}
        <time dateTime={entry.createdAt} title={asUtc(entry.createdAt)}>
          {asClock(entry.createdAt)}
        </time>
        {own && read !== null && <span className='delivery'>{read ? t('chat.read') : t('chat.sent')}</span>}
        {!own && unread && (
          <Button kind='quiet' icon={Mail} tabIndex={stop ? 0 : -1} title={t('chat.markUnread')}
            aria-label={t('chat.markUnreadOf', { author, time: asTime(entry.createdAt) })}
            data-uuid={entry.uuid} onClick={() => unread(entry.uuid)} />
        )}
      </div>
    </>
  )
})

/* The arrow keys go from the button of a message to the button of the previous or the next message. */
function goOn (event: KeyboardEvent<HTMLElement>) {
  const step = { ArrowUp: -1, ArrowDown: 1 }[event.key]
  const buttons = [...event.currentTarget.querySelectorAll<HTMLElement>('[data-uuid]')]
  const at = buttons.findIndex((button) => button === event.target)
  const next = step === undefined || at < 0 ? undefined : buttons[at + step]

  if (!next) return
  event.preventDefault()
  next.focus()
}

/* A message that is being sent or waits. */
const Pending = ({ text, files, state, part }: Sending) => {
  const mention = mentionOf(useMe())

  return (
    <div className='message own'>
      <span className='author'>{t('chat.you')}</span>
      {text !== '' && <p dir='auto'>{formatted(text, mention)}</p>}
      {files.length > 0 && <p>{files.map(({ name }) => asFileName(name)).join(', ')}</p>}
      <span className={`delivery ${state}`}>
        {t(`outgoing.${state}`)}
        {state === 'sending' && files.length > 0 && <span aria-hidden='true'> {Math.round(part * 100)} %</span>}
      </span>
    </div>
  )
}

interface Props {
  entries: Entry[]
  path: string
  first: number
  place: number | null
  own: string
  authorOf: (email: string) => string
  unreadFrom: number
  firstNew: string | null
  pending: Sending[]
  fresh: number
  ended: (end: boolean) => void
  earlier: () => unknown
  unread: ((uuid: string) => unknown) | undefined
}

/*
 * `first`: the place of the first message in the chain; `earlier` reads the messages before it. `place`: the place of
 * the message that is shown first; null: the last one. `unreadFrom`: the number of messages before the first one that
 * the other participant has not read; Infinity: unknown. `firstNew`: the first message that the user had not read when
 * the conversation was opened. `pending`: the messages not sent yet. `fresh`: how many of the last messages have not
 * been seen. `ended` is called with whether the list is scrolled to its end. `unread` marks messages as unread;
 * undefined: the user does not take part.
 */
export const Messages = memo(function Messages (props: Props) {
  const { entries, path, first, place, own, authorOf, unreadFrom, firstNew, pending, fresh, ended, earlier, unread } = props
  const written = pending.at(-1)?.key
  const list = useRef<HTMLDivElement>(null)
  const stays = useRef(place === null) // at the end, when the window of the messages changes its height
  const [reached, reach] = useState(place === null)
  const [around, widen] = useState(FIRST_AROUND)
  const [used, use] = useState<string | undefined>() // the message whose button had the focus last
  const unknown = first > 1 && entries.length > 0 ? 1 : 0 // the first message is shown once its predecessor is known
  const wanted = place === null ? -1 : place - first - unknown
  const rows = useVirtualizer({
    count: entries.length - unknown + pending.length,
    getScrollElement: () => list.current,
    estimateSize: () => HEIGHT,
    initialOffset: () => // approximately the final offset, so that the messages at the beginning are not drawn first
      Math.max(0, wanted < 0 ? entries.length * HEIGHT - innerHeight : wanted * HEIGHT),
    measureElement: (item) => item.getBoundingClientRect().height, // also the part of a pixel
    getItemKey: (i) => entries[i + unknown]?.uuid ?? pending[i + unknown - entries.length]?.key ?? i,
    overscan: around,
    scrollEndThreshold: NEAR_END,
    anchorTo: 'end', // the text stays where it is while earlier messages are added
    followOnAppend: true
  })
  const items = rows.getVirtualItems()
  const atEnd = reached && rows.isAtEnd()
  const scrolled = () => {
    if ((list.current?.scrollTop ?? NEAR) < NEAR && first > 1 && !rows.isAtEnd()) earlier()
  }

  const bottom = rows.range?.endIndex ?? 0
  const others = items.map(({ index }) => ({ index, entry: entries[index + unknown] }))
    .filter(({ entry }) => entry !== undefined && entry.username !== own)
  const reachable = others.find(({ entry }) => entry?.uuid === used) ??
    others.filter(({ index }) => index <= bottom).at(-1) ?? others[0]

  const height = rows.scrollRect?.height ?? 0
  const top = (rows.range?.startIndex ?? 0) + unknown
  const above = entries[top] // its day is shown above the list, unless the message begins the day

  useLayoutEffect(() => {
    if (stays.current) rows.scrollToEnd()
    else if (!reached && height > 0) {
      reach(true)
      rows.scrollToIndex(wanted, { align: 'center' })
    }
  }, [rows, height, reached, wanted])
  useEffect(() => { if (written) rows.scrollToEnd() }, [rows, written])
  useEffect(() => {
    stays.current = atEnd
    ended(atEnd)
  }, [ended, atEnd])
  useEffect(() => {
    const timer = setTimeout(() => widen(AROUND), LATER_MS)
    return () => clearTimeout(timer)
  }, [])
  return (
    <div className='messages' ref={list} onScroll={scrolled} tabIndex={0} role='log' aria-label={t('chat.messages')}>
      {first > 1 && (
        <div className={items[0]?.index === 0 ? 'jump top' : 'jump above'}>
          <Button onClick={() => void earlier()}>{t('chat.earlier')}</Button>
        </div>
      )}
      {above && !isNewDay(entries[top - 1], above) && (
        <div className='jump now' aria-hidden='true'><span>{asDay(above.createdAt)}</span></div>
      )}
      <ol style={{ height: rows.getTotalSize(), paddingTop: items[0]?.start }} onKeyDown={goOn}
        onFocus={({ target }) => use(target.dataset.uuid)}>
        {items.map(({ index, key }) => {
          const at = index + unknown
          const entry = entries[at]
          const unsent = pending[at - entries.length]
          return (
            <li key={key} data-index={index} ref={rows.measureElement}>
              {entry ? (
                <Message
                  entry={entry}
                  path={path}
                  author={authorOf(entry.username)}
                  before={entries[at - 1]}
                  own={entry.username === own}
                  read={unreadFrom === Infinity ? null : at < unreadFrom}
                  wanted={first + at === place}
                  news={entry.uuid === firstNew}
                  unread={unread}
                  stop={entry === reachable?.entry}
                />
              ) : (
                unsent && <Pending {...unsent} />
              )}
            </li>
          )
        })}
      </ol>
      {!atEnd && (
        <div className='jump'>
          <Button kind={fresh > 0 ? 'main' : 'plain'} icon={ArrowDown} onClick={() => rows.scrollToEnd()}>
            {fresh > 0 ? t('chat.fresh', { n: fresh }) : t('chat.newest')}
          </Button>
        </div>
      )}
    </div>
  )
})
