/*
 * Chat: the conversations on the left and one of them on the right; on a narrow screen only one of the two. People
 * who act for an organization also see the conversations of others. The search and the choice are in the address.
 */
import { keepPreviousData, useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { MessagesSquare, Plus } from 'lucide-react'
import { useCallback, useState } from 'react'

import { get, page, query } from '../api/client'
import type { Conversation as Data } from '../api/types'
import { useOrganizations } from '../organization'
import { toWith, useValues } from '../router'
import { isOne, useMe } from '../session'
import { t } from '../texts/texts'
import type { Key } from '../texts/en'
import { asClock, asDay, asNumber, asUtc } from '../ui/format'
import { useSettled } from '../ui/pages'
import { Button, Empty, Failed, Loading, More } from '../ui/ui'
import { Conversation, othersOf, unreadBy } from './conversation'
import { useLive } from './live'
import { Start } from './start'

const LOOK_AGAIN_MS = 5000
const HUES = 360

function useConversations (mine: boolean, search: string, organizationId: number | undefined) {
  return useInfiniteQuery({
    queryKey: ['conversations', mine, search, organizationId],
    queryFn: ({ pageParam }) => page<Data[]>(pageParam),
    initialPageParam: `/api/chat/conversations${query({ limit: 50, mine: mine || undefined, search, organizationId })}`,
    getNextPageParam: (last) => last.next,
    placeholderData: keepPreviousData,
    refetchInterval: LOOK_AGAIN_MS // no event reports that the other participant has read
  })
}

/* The open conversation, which need not be in the list. */
function useOpen (id: string | undefined, listed: Data | undefined) {
  const single = useQuery({
    queryKey: ['conversations', 'one', id],
    queryFn: async () => (await get<Data[]>(`/api/chat/conversations${query({ id })}`))[0] ?? null,
    enabled: id !== undefined && !listed && /^\d+$/.test(id),
    refetchInterval: LOOK_AGAIN_MS
  })
  return { data: listed ?? single.data ?? undefined, waits: single.isLoading }
}

const hueOf = (email: string) => [...email].reduce((sum, each) => (sum * 31 + each.charCodeAt(0)) % HUES, 7)

/* The first letters of an e-mail, in a color that depends on it. */
function Avatar ({ email }: { email: string }) {
  const initials = email
    .split('@')[0]
    ?.split(/[._+-]/)
    .map((part) => part.charAt(0))
    .join('')
    .slice(0, 2)
  return (
    <span className='avatar' aria-hidden='true' style={{ backgroundColor: `hsl(${hueOf(email)} 45% 30%)` }}>
      {initials}
    </span>
  )
}

/* The time of today, otherwise the day. */
function When ({ at }: { at: string }) {
  const today = new Date(at).toDateString() === new Date().toDateString()
  return (
    <time dateTime={at} title={asUtc(at)}>
      {today ? asClock(at) : asDay(at)}
    </time>
  )
}

function Item ({ data, email, current, href }: { data: Data; email: string; current: boolean; href: string }) {
  const unread = current ? 0 : unreadBy(data, email)
  const { username, chatEntry, createdAt } = data.lastMessage
  const others = othersOf(data, email)

  return (
    <li>
      <a href={href} aria-current={current ? 'true' : undefined} className={unread > 0 ? 'unread' : ''}>
        <Avatar email={data.participant1 === email ? data.participant2 : data.participant1} />
        <span className='with'>{others}</span> {data.deviceProjectName && <small>{data.deviceProjectName}</small>}{' '}
        <When at={createdAt} />{' '}
        <span className='last'>{username === email ? t('chat.youSaid', { text: chatEntry }) : chatEntry}</span>{' '}
        {unread > 0 && (
          <em>
            {asNumber(unread)}
            <span className='hidden'> {t('chat.unread')}</span>
          </em>
        )}
      </a>
    </li>
  )
}

/* Keeps the list up to date while no conversation is open; otherwise the conversation's stream does that. */
function Idle ({ text }: { text: Key | null }) {
  useLive(useCallback(() => {}, []))
  return <div className='nothing'>{text && <Empty icon={MessagesSquare}>{t(text)}</Empty>}</div>
}

export default function Chat ({ rest: [id] }: { rest: string[] }) {
  const me = useMe()
  const { chosen } = useOrganizations()
  const [{ all: every, search }, change] = useValues('all', 'search')
  const kept = { all: every, search }
  const [starting, setStarting] = useState(false)
  const acts = isOne(me, 'Admin', 'OrganizationAdmin', 'ApiUser')
  const mine = !acts || every === ''
  const settled = useSettled(search.trim())
  const list = useConversations(mine, settled, chosen)
  const all = list.data?.pages.flatMap(({ items }) => items) ?? []
  const { data: open, waits } = useOpen(
    id,
    all.find((data) => String(data.id) === id)
  )
  const text = open
    ? null
    : waits || (id !== undefined && list.isPending)
      ? 'state.loading'
      : id !== undefined
        ? 'chat.missing'
        : all.length > 0
          ? 'chat.none'
          : null

  return (
    <div className={open ? 'chat open' : 'chat'}>
      <section className='list' aria-label={t('chat.title')}>
        <header>
          {open ? <h2>{t('chat.title')}</h2> : <h1>{t('chat.title')}</h1>}
          <Button kind='main' icon={Plus} onClick={() => setStarting(true)}>
            {t('chat.start')}
          </Button>
        </header>
        {acts && (
          <div className='row choice' role='group' aria-label={t('chat.which')}>
            <Button aria-pressed={mine} onClick={() => change({ all: '' })}>
              {t('chat.mine')}
            </Button>
            <Button aria-pressed={!mine} onClick={() => change({ all: '1' })}>
              {t(isOne(me, 'Admin') ? 'chat.everyone' : 'chat.organization')}
            </Button>
          </div>
        )}
        <label className='hidden' htmlFor='search'>
          {t('chat.search')}
        </label>
        <input
          id='search'
          type='search'
          placeholder={t('chat.search')}
          maxLength={100}
          value={search}
          onChange={(e) => change({ search: e.target.value })}
        />
        {list.isPending && <Loading />}
        {list.isError && <Failed error={list.error} again={() => void list.refetch()} />}
        {list.isSuccess && all.length === 0 && (
          <Empty>{t(settled !== '' || chosen !== undefined ? 'chat.nothing' : 'chat.empty')}</Empty>
        )}
        <ul>
          {all.map((data) => (
            <Item
              key={data.id}
              data={data}
              email={me.email}
              current={data.id === open?.id}
              href={toWith(kept, 'chat', data.id)}
            />
          ))}
        </ul>
        <More of={list} />
      </section>
      {open ? <Conversation key={open.id} conversation={open} back={toWith(kept, 'chat')} /> : <Idle text={text} />}
      {starting && (
        <Start known={[...new Set(all.map((data) => othersOf(data, me.email)))]} close={() => setStarting(false)} />
      )}
    </div>
  )
}
