/* One conversation: its messages, and the box for the next one. */
import { useQueryClient } from '@tanstack/react-query'
import { Archive, ArchiveRestore, Share2 } from 'lucide-react'
import { useCallback, useEffect, useMemo, useRef, useState, useSyncExternalStore } from 'react'

import { call, session, type ApiError } from '../api/client'
import { wait } from '../api/stream'
import type { Conversation as Data, Entry } from '../api/types'
import { useOrganizations } from '../organization'
import { visit } from '../router'
import { isOne, useMe } from '../session'
import { t } from '../texts/texts'
import { useAction } from '../ui/action'
import { refuse, toast } from '../ui/toast'
import { Badge, Button, Confirm, Failed, Loading, problemOf } from '../ui/ui'
import { useChain } from './chain'
import { attach, Compose, filesIn } from './compose'
import { onSent, useQueue, type Sending } from './drafts'
import { readAgain, useLive, type Arrival, type Typing } from './live'
import { Messages } from './messages'

const AGAIN_MS = 5000
const TYPING_MS = 6000

export const othersOf = (conversation: Pick<Data, 'participant1' | 'participant2'>, email: string) =>
  conversation.participant1 === email
    ? conversation.participant2
    : conversation.participant2 === email
      ? conversation.participant1
      : `${conversation.participant1}, ${conversation.participant2}`

export type Named = Pick<Data, 'participant1' | 'participant2' | 'name1' | 'name2'>

/* The name of a participant; null if the response has none, and for other people. */
export const nameOf = ({ participant1, participant2, name1, name2 }: Named, email: string) =>
  email === participant1 ? name1 : email === participant2 ? name2 : null

/* The names of the other participants, and their e-mails, which are '' if there are no names. */
export function titleOf (conversation: Named, email: string) {
  const others = [conversation.participant1, conversation.participant2].filter((one) => one !== email)
  const named = others.some((one) => nameOf(conversation, one) !== null)
  const emails = others.join(', ')
  return { title: others.map((one) => nameOf(conversation, one) ?? one).join(', '), emails: named ? emails : '' }
}

/* The number of messages that a participant has not read: the latest messages of the other participant. */
export const unreadBy = (conversation: Data, email: string) =>
  (conversation.participant1 === email
    ? conversation.unread1
    : conversation.participant2 === email
      ? conversation.unread2
      : 0) ?? 0

export const otherOf = ({ participant1, participant2 }: Data, email: string) =>
  participant1 === email ? participant2 : participant1

/*
 * The index in `entries` of the first message that a participant has not read. Messages after the last one
 * that the list of conversations has are newer than the list's count.
 */
function unreadFrom (conversation: Data, entries: Entry[], reader: string): number {
  let left = unreadBy(conversation, reader)
  let at = entries.length
  while (at > 0 && entries[at - 1]!.uuid !== conversation.lastEntryUuid) at--
  if (at === 0) at = entries.length
  for (; at > 0 && left > 0; at--) if (entries[at - 1]!.username !== reader) left--
  return at
}

/*
 * The first message that the user had not read when the conversation was opened. null if there is none, or if
 * it is not in the first page of messages. `begun`: the first page was read.
 */
function useFirstNew (conversation: Data, entries: Entry[], begun: boolean, email: string): string | null {
  const [opened] = useState(conversation)

  return useMemo(() => {
    const ends = entries.some(({ uuid }) => uuid === opened.lastEntryUuid)
    const at = ends && unreadBy(opened, email) > 0 ? unreadFrom(opened, entries, email) : 0
    return at > 0 ? entries[at]?.uuid ?? null : null
  }, [begun])
}

const isVisible = () => !document.hidden

function listen (changed: () => void) {
  document.addEventListener('visibilitychange', changed)
  return () => document.removeEventListener('visibilitychange', changed)
}

/* The number of messages by others after the last one that was seen; 0 if none has been seen yet. */
function countFresh (entries: Entry[], seen: string | null, email: string): number {
  let count = 0
  if (seen === null) return 0
  for (let at = entries.length - 1; at >= 0 && entries[at]!.uuid !== seen; at--)
    if (entries[at]!.username !== email) count++
  return count
}

/* Whether a message that is being sent is in the chain already: the stream can be faster than the response. */
const hasArrived = (entries: Entry[], { text, files, state, after }: Sending, email: string) =>
  state !== 'waiting' && entries.slice(entries.findIndex(({ uuid }) => uuid === after) + 1)
    .some(({ username, chatEntry, attachments }) =>
      username === email && chatEntry === text && (attachments?.length ?? 0) === files.length)

/*
 * Reports to the service that the user has read the conversation. Tries again while the service cannot be reached or
 * does not serve, and after another login of the same account. Returns whether the service has accepted it.
 */
async function markRead (id: number, email: string, signal: AbortSignal): Promise<boolean> {
  const account = session.account()

  while (!signal.aborted && session.account() === account) {
    try {
      await call('PATCH', `/api/chat/conversations/${id}/read`, { email })
      return true
    } catch (error) {
      const { status } = error as ApiError
      if (status >= 400 && status < 500 && status !== 401 && status !== 429) return false
    }
    await wait(AGAIN_MS, signal)
    await session.present(signal)
  }
  return false
}

/* The people who are typing: each for TYPING_MS, or until `stop` because of a message of this person. */
function useTyping (conversation: number, own: string) {
  const [people, setPeople] = useState<string[]>([])
  const timers = useRef(new Map<string, number>())
  const stop = useCallback((email: string) => setPeople((all) => all.filter((one) => one !== email)), [])
  const start = useCallback(({ conversationId, username }: Typing) => {
    if (conversationId !== conversation || username === own) return
    clearTimeout(timers.current.get(username))
    timers.current.set(username, window.setTimeout(() => stop(username), TYPING_MS))
    setPeople((all) => all.includes(username) ? all : [...all, username])
  }, [conversation, own, stop])

  return { people, start, stop }
}

/* Shows the conversation to accounts of its participants that were approved after it began. */
function Share ({ conversation }: { conversation: Data }) {
  const [asking, ask] = useState(false)
  const { id, participant1, participant2 } = conversation
  const share = () => call('POST', `/api/chat/conversations/${id}/share`).then(() => toast(t('chat.shared')))

  return (
    <>
      <Button kind='quiet' icon={Share2} onClick={() => ask(true)}>
        {t('chat.share')}
      </Button>
      {asking && (
        <Confirm
          title={t('chat.share')}
          text={t('chat.shareAsk', { one: participant1, other: participant2 })}
          mild
          action={t('chat.share')}
          run={share}
          close={() => ask(false)}
        />
      )}
    </>
  )
}

/* Closes the conversation or reopens it, for everybody, and offers to undo it. */
function Close ({ conversation: { id, closed } }: { conversation: Data }) {
  const client = useQueryClient()
  const change = useAction({
    mutationFn: (close: boolean) => call('POST', `/api/chat/conversations/${id}/${close ? 'close' : 'reopen'}`),
    onSuccess: (_, close) => {
      toast(t(close ? 'chat.isClosed' : 'chat.isOpen'), () => change.mutate(!close))
      void readAgain(client)
    },
    onError: (problem) => refuse(problemOf(problem))
  })

  return (
    <Button kind='quiet' icon={closed ? ArchiveRestore : Archive} disabled={change.isPending}
      onClick={() => change.mutate(!closed)}>
      {t(closed ? 'chat.reopen' : 'chat.close')}
    </Button>
  )
}

/* `place`: the message that is shown first; null: the latest ones. */
export function Conversation ({ conversation, place, back }: {
  conversation: Data, place: number | null, back: string
}) {
  const me = useMe()
  const client = useQueryClient()
  const { entries, first, begun, error, loading, add, read, readEarlier, findPlace } = useChain(conversation.headUuid, place)
  const { id, participant1, participant2, name1, name2 } = conversation
  const mine = participant1 === me.email || participant2 === me.email
  const typing = useTyping(id, me.email)
  const heard = useCallback(
    (arrival: Arrival) => {
      if (arrival.conversationId !== id) return
      add(arrival.message)
      typing.stop(arrival.message.username)
    },
    [id, add, typing.stop]
  )
  const live = useLive(heard, typing.start)
  const last = entries[entries.length - 1]
  const opened = useRef(false)
  const queue = useQueue(id)
  const writes = mine || isOne(me, 'Admin')
  const [dropping, setDropping] = useState(false)
  const [atEnd, setAtEnd] = useState(place === null)
  const [seen, setSeen] = useState<string | null>(null)
  const visible = useSyncExternalStore(listen, isVisible)
  const sees = atEnd && visible && !loading && error === null // the last message is seen, and with it all earlier ones
  const fresh = sees ? 0 : countFresh(entries, seen, me.email)
  const { several, knownAs } = useOrganizations()
  const { title, emails } = titleOf(conversation, me.email)
  const organization = several && knownAs(conversation.organizationId)
  const owns = isOne(me, 'Admin') || knownAs(conversation.organizationId) !== undefined
  const firstNew = useFirstNew(conversation, entries, begun, me.email)
  const authorOf = useCallback( // the same function as long as possible, so that the messages are not drawn again
    (email: string) => nameOf({ participant1, participant2, name1, name2 }, email) ?? email,
    [participant1, participant2, name1, name2]
  )
  const about = [emails, conversation.deviceProjectName, organization].filter(Boolean).join(' · ')

  /* Marking messages as unread leaves the conversation, because it counts as read while it is shown. */
  const leaving = useRef(false)
  useEffect(() => () => { leaving.current = false }, [])
  const markUnread = useCallback((uuid: string) => {
    const mark = async () => {
      const before = await findPlace(uuid)
      if (before === null) return
      await call('PATCH', `/api/chat/conversations/${id}/read`, { email: me.email, before })
      await readAgain(client)
      if (leaving.current) visit(back)
    }
    leaving.current = true
    mark().catch((error) => refuse(problemOf(error))).finally(() => { leaving.current = false })
  }, [id, me.email, client, back, findPlace])

  useEffect(
    () =>
      onSent((conversationId, entry) => {
        if (conversationId === id) add(entry)
        void client.invalidateQueries({ queryKey: ['conversations'] })
      }),
    [id, add, client]
  )
  useEffect(() => {
    // once the stream is open, read the messages written while it was not
    if (!live) opened.current = false
    else if (!loading && !opened.current) {
      opened.current = true
      void read()
    }
  }, [live, loading, read])
  useEffect(() => {
    if (!last || !sees || leaving.current) return
    setSeen(last.uuid)
    if (!mine) return
    const stop = new AbortController()
    void markRead(id, me.email, stop.signal).then((accepted) => {
      if (accepted) void readAgain(client)
    })
    return () => stop.abort()
  }, [id, last, sees, mine, me.email, client])
  return (
    <section className={`conversation${dropping ? ' dropping' : ''}`} aria-label={othersOf(conversation, me.email)}
      onDragOver={(event) => {
        if (!writes || !event.dataTransfer.types.includes('Files')) return
        event.preventDefault()
        setDropping(true)
      }}
      onDragLeave={(event) => { if (!event.currentTarget.contains(event.relatedTarget as Node | null)) setDropping(false) }}
      onDrop={(event) => {
        if (!writes || !event.dataTransfer.types.includes('Files')) return
        event.preventDefault()
        setDropping(false)
        attach(id, filesIn(event.dataTransfer))
        document.getElementById('entry')?.focus()
      }}>
      <header>
        <a className='back' href={back}>
          {t('chat.back')}
        </a>
        <div>
          <h1>{title}</h1>
          {about !== '' && <span className='about'>{about}</span>}
        </div>
        {conversation.closed && <Badge tone='off'>{t('chat.closed')}</Badge>}
        {isOne(me, 'Admin', 'OrganizationAdmin', 'ApiUser') && (
          <>
            <Close conversation={conversation} />
            {owns && <Share conversation={conversation} />}
          </>
        )}
        <span className={live ? 'live on' : 'live'} role='status'>
          {live ? t('chat.live') : t('chat.notLive')}
        </span>
      </header>
      {error !== null && <Failed error={error} again={() => void read()} />}
      {loading && !begun ? (
        <Loading />
      ) : (
        <Messages
          entries={entries}
          first={first}
          place={place}
          own={me.email}
          authorOf={authorOf}
          pending={queue[0] && hasArrived(entries, queue[0], me.email) ? queue.slice(1) : queue}
          path={`/api/chat/conversations/${id}/attachments`}
          fresh={fresh}
          ended={setAtEnd}
          earlier={readEarlier}
          unreadFrom={mine ? unreadFrom(conversation, entries, otherOf(conversation, me.email)) : Infinity}
          firstNew={firstNew}
          unread={mine ? markUnread : undefined}
        />
      )}
      <p className='typing' role='status'>
        {typing.people.map((one) => <span key={one}>{t('chat.typing', { who: authorOf(one) })} </span>)}
      </p>
      {writes ? <Compose key={id} id={id} after={last?.uuid} /> : <p className='readonly'>{t('chat.readOnly')}</p>}
    </section>
  )
}
