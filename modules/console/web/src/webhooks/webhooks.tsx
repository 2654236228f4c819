/*
 * The webhooks: an Admin sees the webhooks of all users, others their own. Each page has an address: the list, a new
 * webhook, the events, one webhook with its tabs, its form, and each delivery.
 */
import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { Plus, Webhook as WebhookIcon } from 'lucide-react'
import { useState } from 'react'

import { ApiError, everything, get, page } from '../api/client'
import type { Statistics, Webhook } from '../api/types'
import { Word } from '../help/word'
import { go, to } from '../router'
import { isOne, useMe } from '../session'
import { t } from '../texts/texts'
import { asNumber } from '../ui/format'
import { Badge, Button, Empty, Failed, Loading, More, Table } from '../ui/ui'
import { Catalogue } from './catalogue'
import { DeliveryPage } from './delivery'
import { Edit } from './edit'
import { One } from './one'
import { eventsOf, IDLE_MS, Milliseconds, nameOf, Owner, pathOf, Secret, State, urlOf } from './parts'

const STATISTICS_MS = 30000
const COUNTED = 1000 // the statistics cover the latest deliveries up to this number

function useWebhooks () {
  return useInfiniteQuery({
    queryKey: ['webhooks'],
    queryFn: ({ pageParam }) => page<Webhook[]>(pageParam),
    initialPageParam: '/api/chat/webhooks?limit=200',
    getNextPageParam: (last) => last.next
  })
}

/* The outcomes of the deliveries of the last 24 hours, by the webhook's id. */
function useStatistics () {
  return useQuery({
    queryKey: ['statistics'],
    queryFn: async () =>
      new Map((await everything<Statistics>('/api/chat/webhooks/statistics')).map((each) => [each.id, each])),
    refetchInterval: STATISTICS_MS
  })
}

function Rate ({ of }: { of: Statistics | undefined }) {
  if (!of) return <>…</>
  const ended = of.delivered + of.abandoned
  const waiting =
    of.queued >= COUNTED
      ? t('hooks.waitingMany', { n: asNumber(COUNTED) })
      : t('hooks.waiting', { n: asNumber(of.queued) })

  return (
    <div className='rate'>
      {ended > 0 && (
        <>
          <Badge tone={of.abandoned === 0 ? 'good' : of.delivered === 0 ? 'bad' : 'wait'}>
            {asNumber(Math.floor((of.delivered / ended) * 1000) / 10)} %
          </Badge>
          <small>{t('hooks.rate', { ok: asNumber(of.delivered), all: asNumber(ended) })}</small>
        </>
      )}
      {of.queued > 0 && <small>{waiting}</small>}
      {ended + of.queued === 0 && <small>{t('hooks.quiet')}</small>}
    </div>
  )
}

function Row ({ hook, statistics, owner }: { hook: Webhook; statistics: Statistics | undefined; owner: boolean }) {
  return (
    <tr>
      <td className='wide first'>
        <a className='name' href={to('webhooks', hook.id)}>
          {nameOf(hook)}
        </a>
        {hook.name && <small className='under'>{urlOf(hook)}</small>}
      </td>
      {owner && (
        <td className='wide'>
          <Owner id={hook.userId} />
        </td>
      )}
      <td>{eventsOf(hook)}</td>
      <td>
        <State hook={hook} />
      </td>
      <td>
        {hook.kind === 'poll' ? '–' : <Rate of={statistics} />}
      </td>
      <td className='number'>
        <Milliseconds of={statistics?.durationMs} />
      </td>
    </tr>
  )
}

function List () {
  const me = useMe()
  const list = useWebhooks()
  const statistics = useStatistics()
  const all = list.data?.pages.flatMap(({ items }) => items) ?? []
  const owner = isOne(me, 'Admin')
  const add = (
    <Button kind='main' icon={Plus} onClick={() => go('webhooks', 'new')}>
      {t('hooks.new')}
    </Button>
  )
  const head = [
    t('hooks.name'),
    ...(owner ? [t('hooks.owner')] : []),
    t('hooks.events'),
    t('hooks.state'),
    t('hooks.success'),
    { text: t('hooks.latency'), number: true }
  ]

  return (
    <div className='page'>
      <header>
        <h1>{t('hooks.title')}</h1>
        <span><Word of='webhook' /></span>
        <div className='row'>
          <a className='button' href={to('webhooks', 'events')}>{t('hooks.events')}</a>
          {all.length > 0 && add}
        </div>
      </header>
      {list.isPending && <Loading />}
      {list.isError && <Failed error={list.error} again={() => void list.refetch()} />}
      {list.isSuccess && all.length === 0 && (
        <Empty icon={WebhookIcon} action={add}>
          {t('hooks.empty')}
        </Empty>
      )}
      {all.length > 0 && (
        <Table label={t('hooks.title')} head={head}>
          {all.map((hook) => (
            <Row key={hook.id} hook={hook} statistics={statistics.data?.get(hook.id)} owner={owner} />
          ))}
        </Table>
      )}
      <More of={list} />
    </div>
  )
}

/* One webhook, below the address of its id. A webhook that is gone shows nothing that could be clicked. */
function ById ({ id, rest, show }: { id: string; rest: string[]; show: (made: Webhook) => void }) {
  const single = useQuery({
    queryKey: ['webhooks', id],
    queryFn: () => get<Webhook>(pathOf(Number(id))),
    refetchInterval: rest[0] === 'edit' ? false : IDLE_MS
  })
  const gone = single.error instanceof ApiError && single.error.status === 404

  if (single.isPending) return <Loading />
  if (!single.data || gone) {
    return (
      <div className='page'>
        <header>
          <h1>{t('hooks.title')}</h1>
        </header>
        {gone ? (
          <Empty>{t('hooks.gone')}</Empty>
        ) : (
          <Failed error={single.error} again={() => void single.refetch()} />
        )}
        <a href={to('webhooks')}>{t('hooks.back')}</a>
      </div>
    )
  }
  if (rest[0] === 'edit') return <Edit hook={single.data} leave={() => go('webhooks', id)} />
  if (rest[0] === 'deliveries') return <DeliveryPage hook={single.data} id={rest[1] ?? ''} />
  return <One hook={single.data} tab={rest[0] ?? ''} show={show} error={single.error} />
}

export default function Webhooks ({ rest: [id, ...rest] }: { rest: string[] }) {
  const [made, show] = useState<Webhook | null>(null)
  const added = (hook: Webhook) => { if (hook.kind !== 'poll') show(hook) } // nothing is signed, so no secret is shown

  return (
    <>
      {id === undefined ? (
        <List />
      ) : id === 'new' ? (
        <Edit made={added} leave={({ id: added }) => go('webhooks', added)} />
      ) : id === 'events' ? (
        <Catalogue name={rest[0]} />
      ) : (
        <ById key={id} id={id} rest={rest} show={show} />
      )}
      {made && <Secret hook={made} close={() => show(null)} />}
    </>
  )
}
