/*
 * Chat: the conversations on the left and one of them on the right; on a narrow screen only one of the two. People
 * who act for an organization also see the conversations of others. A search in messages shows the found ones in place
 * of the conversations. The searches and the choice are in the address; #/chat/7/55 is message 55 of conversation 7.
 */
import { keepPreviousData, useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { MessagesSquare, Plus } from 'lucide-react'
import { useRef, useState } from 'react'

import { get, page, query } from '../api/client'
import type { Conversation as Data } from '../api/types'
import { useOrganizations } from '../organization'
import { toWith, useValues } from '../router'
import { isOne, useMe } from '../session'
import { t } from '../texts/texts'
import { Typed } from '../ui/typed'
import { Button, Empty, Failed, Loading, More } from '../ui/ui'
import { Conversation, otherOf, othersOf, unreadBy } from './conversation'
import { Found } from './found'
import { Item } from './items'
import { useLive } from './live'
import { Start } from './start'

const LOOK_AGAIN_MS = 5000
const IDLE_MS = 60000 // the stream reports new messages; nothing reports what the user has read on another device
const ignore = () => {}

/*
 * How soon a list of conversations is read again. No event reports that the other participant of the open conversation
 * has read the user's messages.
 */
function pauseOf (live: boolean, open: Data | null | undefined, email: string): number {
  const mine = open && [open.participant1, open.participant2].includes(email)
  const awaits = mine && unreadBy(open, otherOf(open, email)) > 0
  return live && !awaits ? IDLE_MS : LOOK_AGAIN_MS
}

function useConversations (
  filters: { mine?: true, search: string, organizationId?: number, closed?: boolean }, pause: (all: Data[]) => number
) {
  return useInfiniteQuery({
    queryKey: ['conversations', filters],
    queryFn: ({ pageParam }) => page<Data[]>(pageParam),
    initialPageParam: `/api/chat/conversations${query({ limit: 50, ...filters })}`,
    getNextPageParam: (last) => last.next,
    placeholderData: keepPreviousData,
    refetchInterval: ({ state: { data } }) => pause(data?.pages.flatMap(({ items }) => items) ?? [])
  })
}

/* The open conversation, which need not be in the list, for example after it was closed. */
function useOpen (id: string | undefined, listed: Data | undefined, pause: (open: Data | null | undefined) => number) {
  const known = useRef(listed)
  if (listed) known.current = listed
  const single = useQuery({
    queryKey: ['conversations', 'one', id],
    queryFn: async () => (await get<Data[]>(`/api/chat/conversations${query({ id })}`))[0] ?? null,
    enabled: id !== undefined && !listed && /^\d+$/.test(id),
    refetchInterval: ({ state: { data } }) => pause(data)
  })
  const last = String(known.current?.id) === id ? known.current : undefined // until it is read, or if that fails
  return { data: listed ?? (single.data === undefined ? last : single.data ?? undefined), waits: single.isLoading }
}

export default function Chat ({ rest: [id, place] }: { rest: string[] }) {
  const me = useMe()
  const { several, chosen, knownAs } = useOrganizations()
  const [kept, change] = useValues('all', 'state', 'search', 'q')
  const { all: every, search, q } = kept
  const [starting, setStarting] = useState(false)
  const acts = isOne(me, 'Admin', 'OrganizationAdmin', 'ApiUser')
  const state = acts && ['open', 'closed'].includes(kept.state) ? kept.state : ''
  const mine = !acts || every === ''
  const live = useLive(ignore) // keeps the list up to date
  const isOpen = (data: Data) => String(data.id) === id
  const pause = (data: Data | null | undefined) => pauseOf(live, data, me.email)
  const list = useConversations({
    mine: mine || undefined, search: search.trim(), organizationId: chosen, closed: state === '' ? undefined : state === 'closed'
  }, (all) => pause(all.find(isOpen)))
  const all = list.data?.pages.flatMap(({ items }) => items) ?? []
  const { data: open, waits } = useOpen(id, all.find(isOpen), pause)
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
          <>
            <div className='row choice' role='group' aria-label={t('chat.which')}>
              <Button aria-pressed={mine} onClick={() => change({ all: '' })}>
                {t('chat.mine')}
              </Button>
              <Button aria-pressed={!mine} onClick={() => change({ all: '1' })}>
                {t(isOne(me, 'Admin') ? 'chat.everyone' : 'chat.organization')}
              </Button>
            </div>
            {q.trim() === '' && (
              <select aria-label={t('chat.state')} value={state} onChange={(e) => change({ state: e.target.value })}>
                <option value=''>{t('chat.anyState')}</option>
                <option value='open'>{t('chat.open')}</option>
                <option value='closed'>{t('chat.closed')}</option>
              </select>
            )}
          </>
        )}
        {([['search', 'chat.search', search], ['q', 'chat.words', q]] as const).map(([name, label, value]) => (
          <Typed key={name} type='search' aria-label={t(label)} placeholder={t(label)} maxLength={100} value={value}
            change={(text) => change({ [name]: text })} />
        ))}
        {q.trim() === '' ? (
          <>
            {list.isPending && <Loading />}
            {list.isError && <Failed error={list.error} again={() => void list.refetch()} />}
            {list.isSuccess && all.length === 0 && (
              <Empty>{t(search !== '' || state !== '' || chosen !== undefined ? 'chat.nothing' : 'chat.empty')}</Empty>
            )}
            <ul>
              {all.map((data) => (
                <Item
                  key={data.id}
                  data={data}
                  email={me.email}
                  organization={several && knownAs(data.organizationId)}
                  current={data.id === open?.id}
                  href={toWith(kept, 'chat', data.id)}
                />
              ))}
            </ul>
            <More of={list} whole={false} />
          </>
        ) : (
          <Found
            words={q.trim()}
            mine={mine}
            organizationId={chosen}
            email={me.email}
            organizationOf={(id) => several && knownAs(id)}
            isOpen={(data) => data.conversationId === open?.id && String(data.place) === place}
            hrefOf={(data) => toWith(kept, 'chat', data.conversationId, data.place)}
          />
        )}
      </section>
      {open ? (
        <Conversation
          key={`${open.id}/${place ?? ''}`}
          conversation={open}
          place={/^[1-9]\d{0,14}$/.test(place ?? '') ? Number(place) : null}
          back={toWith(kept, 'chat')}
        />
      ) : (
        <div className='nothing'>{text && <Empty icon={MessagesSquare}>{t(text)}</Empty>}</div>
      )}
      {starting && (
        <Start known={[...new Set(all.map((data) => othersOf(data, me.email)))]} close={() => setStarting(false)} />
      )}
    </div>
  )
}
