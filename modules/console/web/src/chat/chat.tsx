/*
 * Chat: the conversations on the left and one of them on the right; on a narrow screen only one of the two.
 */
import { useInfiniteQuery } from '@tanstack/react-query'
import { useCallback, useState } from 'react'

import { page } from '../api/client'
import type { Conversation as Data } from '../api/types'
import { to } from '../router'
import { useMe } from '../session'
import { t } from '../texts/texts'
import type { Key } from '../texts/en'
import { asNumber } from '../ui/format'
import { useRest } from '../ui/rest'
import { Button, Empty, Failed, Loading, More } from '../ui/ui'
import { Conversation, othersOf, unreadBy } from './conversation'
import { useLive } from './live'
import { Start } from './start'

const LOOK_AGAIN_MS = 5000

function useConversations (email: string) {
  return useInfiniteQuery({
    queryKey: ['conversations', email],
    queryFn: ({ pageParam }) => page<Data[]>(pageParam),
    initialPageParam: `/api/chat/conversations/user/${encodeURIComponent(email)}?limit=200&unread=true`,
    getNextPageParam: (last) => last.next,
    refetchInterval: LOOK_AGAIN_MS // no event reports that the other participant has read
  })
}

function Item ({ data, email, current }: { data: Data, email: string, current: boolean }) {
  const unread = current ? 0 : unreadBy(data, email)

  return (
    <li>
      <a href={to('chat', data.id)} aria-current={current ? 'true' : undefined} className={unread > 0 ? 'unread' : ''}>
        <span>{othersOf(data, email)}</span>
        <small>{data.deviceProjectName}</small>
        {unread > 0 && <em>{asNumber(unread)}<span className='hidden'> {t('chat.unread')}</span></em>}
      </a>
    </li>
  )
}

/* Keeps the list up to date while no conversation is open; otherwise the conversation's stream does that. */
function Idle ({ text }: { text: Key | null }) {
  useLive(useCallback(() => {}, []))
  return <div className='nothing'>{text && <Empty>{t(text)}</Empty>}</div>
}

export default function Chat ({ rest }: { rest: string[] }) {
  const { email } = useMe()
  const [search, setSearch] = useState('')
  const [starting, setStarting] = useState(false)
  const list = useConversations(email)
  const all = list.data?.pages.flatMap(({ items }) => items) ?? []
  const wanted = search.trim().toLowerCase()
  const found = all.filter((data) => `${data.participant1} ${data.participant2} ${data.deviceProjectName ?? ''}`.toLowerCase().includes(wanted))
  const open = all.find(({ id }) => String(id) === rest[0])
  useRest(list, wanted !== '' || (rest[0] !== undefined && !open))

  return (
    <div className={open ? 'chat open' : 'chat'}>
      <section className='list' aria-label={t('chat.title')}>
        <header>
          {open ? <h2>{t('chat.title')}</h2> : <h1>{t('chat.title')}</h1>}
          <Button kind='main' onClick={() => setStarting(true)}>{t('chat.start')}</Button>
        </header>
        <label className='hidden' htmlFor='search'>{t('chat.search')}</label>
        <input id='search' type='search' placeholder={t('chat.search')} value={search} onChange={(e) => setSearch(e.target.value)} />
        {list.isPending && <Loading />}
        {list.isError && <Failed error={list.error} again={() => void list.refetch()} />}
        {list.isSuccess && all.length === 0 && <Empty>{t('chat.empty')}</Empty>}
        {all.length > 0 && found.length === 0 && !list.hasNextPage && <Empty>{t('chat.nothing')}</Empty>}
        <ul>
          {found.map((data) => <Item key={data.id} data={data} email={email} current={data === open} />)}
        </ul>
        <More of={list} />
      </section>
      {open ? <Conversation key={open.id} conversation={open} /> : <Idle text={all.length === 0 ? null : rest[0] === undefined ? 'chat.none' : list.hasNextPage ? 'state.loading' : 'chat.missing'} />}
      {starting && <Start known={[...new Set(all.map((data) => othersOf(data, email)))]} close={() => setStarting(false)} />}
    </div>
  )
}
