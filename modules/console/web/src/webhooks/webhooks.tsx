/* The panel of webhooks: an Admin sees the webhooks of all users, others their own. */
import { useInfiniteQuery, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'

import { call, everything, get, page } from '../api/client'
import type { Account, Statistics, Webhook } from '../api/types'
import { go, to } from '../router'
import { useMe } from '../session'
import { t } from '../texts/texts'
import { useAction } from '../ui/action'
import { asNumber } from '../ui/format'
import { Badge, Button, Confirm, Copy, Dialog, Empty, Failed, Loading, More, Table, Time } from '../ui/ui'
import { Deliveries } from './deliveries'
import { Edit } from './edit'
import { Verify } from './verify'

const STATISTICS_MS = 30000

type Asked = { kind: 'edit' | 'delete' | 'rotate', hook: Webhook } | { kind: 'new' } | { kind: 'secret', hook: Webhook }

const eventsOf = (hook: Webhook) => hook.events.length === 0 || hook.events.includes('*') ? t('hooks.all') : hook.events.join(', ')

function useWebhooks () {
  return useInfiniteQuery({
    queryKey: ['webhooks'],
    queryFn: ({ pageParam }) => page<Webhook[]>(pageParam),
    initialPageParam: '/api/chat/webhooks?limit=200',
    getNextPageParam: (last) => last.next
  })
}

function Switch ({ hook }: { hook: Webhook }) {
  const client = useQueryClient()
  const change = useAction({
    mutationFn: (active: boolean) => call('PATCH', `/api/chat/webhooks/${hook.id}`, { active }),
    onSettled: () => client.invalidateQueries({ queryKey: ['webhooks'] })
  })

  return (
    <>
      <Button disabled={change.isPending} onClick={() => change.mutate(!hook.active)}>{hook.active ? t('hooks.disable') : t('hooks.enable')}</Button>
      {change.isError && <Failed error={change.error} />}
    </>
  )
}

/* Shows the owner's e-mail if the user may know it. */
function Owner ({ id }: { id: number }) {
  const me = useMe()
  const account = useQuery({
    queryKey: ['account', id], queryFn: () => get<Account>(`/api/admin/users/${id}`), enabled: me.role === 'Admin' && me.id !== id, staleTime: Infinity
  })

  return <span>{me.id === id ? me.email : account.data?.email ?? id}</span>
}

/* The outcomes of the deliveries of the last 24 hours, by the webhook's id. */
function useStatistics (enabled: boolean) {
  return useQuery({
    queryKey: ['statistics'],
    queryFn: async () => new Map((await everything<Statistics>('/api/chat/webhooks/statistics')).map((each) => [each.id, each])),
    refetchInterval: STATISTICS_MS,
    enabled
  })
}

function Rate ({ of }: { of: Statistics | undefined }) {
  const ended = of ? of.delivered + of.abandoned : 0

  if (!of) return <>…</>
  if (ended === 0) return <small>{t(of.queued > 0 ? 'hooks.waiting' : 'hooks.quiet', { n: asNumber(of.queued) })}</small>
  return (
    <>
      <Badge tone={of.abandoned === 0 ? 'good' : of.delivered === 0 ? 'bad' : 'wait'}>{asNumber(Math.floor(of.delivered / ended * 1000) / 10)} %</Badge>
      <br /><small>{t('hooks.rate', { ok: asNumber(of.delivered), all: asNumber(ended) })}</small>
      {of.queued > 0 && <><br /><small>{t('hooks.waiting', { n: asNumber(of.queued) })}</small></>}
    </>
  )
}

function Row ({ hook, statistics }: { hook: Webhook, statistics: Statistics | undefined }) {
  return (
    <tr>
      <td className='wide'><a href={to('webhooks', hook.id)}>{hook.url}</a></td>
      <td className='wide'><Owner id={hook.userId} /></td>
      <td className='wide'>{eventsOf(hook)}</td>
      <td><Badge tone={hook.active ? 'good' : 'off'}>{hook.active ? t('hooks.active') : t('hooks.off')}</Badge></td>
      <td><Rate of={statistics} /></td>
      <td>{typeof statistics?.durationMs === 'number' ? t('status.ms', { ms: asNumber(statistics.durationMs) }) : '–'}</td>
      <td><Switch hook={hook} /></td>
    </tr>
  )
}

function One ({ hook, ask }: { hook: Webhook, ask: (what: Asked) => void }) {
  return (
    <div className='page'>
      <header>
        <div><a href={to('webhooks')}>{t('hooks.title')}</a><h1>{hook.url}</h1></div>
        <div className='row'>
          <Switch hook={hook} />
          <Button onClick={() => ask({ kind: 'edit', hook })}>{t('hooks.edit')}</Button>
          <Button onClick={() => ask({ kind: 'rotate', hook })}>{t('hooks.rotate')}</Button>
          <Button kind='risk' onClick={() => ask({ kind: 'delete', hook })}>{t('do.delete')}</Button>
        </div>
      </header>
      <dl className='facts panel'>
        <div><dt>{t('hooks.state')}</dt><dd><Badge tone={hook.active ? 'good' : 'off'}>{hook.active ? t('hooks.active') : t('hooks.off')}</Badge></dd></div>
        <div><dt>{t('hooks.events')}</dt><dd>{eventsOf(hook)}</dd></div>
        <div><dt>{t('hooks.owner')}</dt><dd><Owner id={hook.userId} /></dd></div>
        <div><dt>{t('hooks.secretTitle')}</dt><dd><code>{hook.secret}</code></dd></div>
        <div><dt>{t('state.since')}</dt><dd><Time at={hook.createdAt} /></dd></div>
      </dl>
      <Deliveries hook={hook} />
      <Verify />
    </div>
  )
}

function Asking ({ asked, ask }: { asked: Asked, ask: (what: Asked | null) => void }) {
  const client = useQueryClient()
  const changed = () => client.invalidateQueries({ queryKey: ['webhooks'] })
  const close = () => ask(null)

  if (asked.kind === 'new') return <Edit close={close} done={async (hook) => { await changed(); ask({ kind: 'secret', hook }) }} />
  if (asked.kind === 'edit') return <Edit hook={asked.hook} close={close} done={async () => { await changed(); close() }} />
  if (asked.kind === 'secret') {
    return (
      <Dialog title={t('hooks.secretTitle')} close={close}>
        <p>{t('hooks.secret')}</p>
        <Copy text={asked.hook.secret} />
        <div className='actions'><Button kind='main' onClick={close}>{t('do.close')}</Button></div>
      </Dialog>
    )
  }
  const { hook } = asked
  if (asked.kind === 'rotate') {
    return <Confirm title={t('hooks.rotate')} text={t('hooks.rotateAsk')} action={t('hooks.rotate')} mild close={close} done={() => {}}
      run={() => call<Webhook>('POST', `/api/chat/webhooks/${hook.id}/rotate-secret`, {}).then(async (made) => { await changed(); ask({ kind: 'secret', hook: made }) })} />
  }
  return <Confirm title={t('do.delete')} text={t('hooks.delete', { url: hook.url })} action={t('do.delete')} close={close}
    run={() => call('DELETE', `/api/chat/webhooks/${hook.id}`).then(() => { go('webhooks'); return client.invalidateQueries({ queryKey: ['webhooks'], exact: true }) })} />
}

export default function Webhooks ({ rest }: { rest: string[] }) {
  const list = useWebhooks()
  const statistics = useStatistics(rest[0] === undefined)
  const [asked, ask] = useState<Asked | null>(null)
  const all = list.data?.pages.flatMap(({ items }) => items) ?? []
  const single = useQuery({ queryKey: ['webhooks', rest[0]], queryFn: () => get<Webhook>(`/api/chat/webhooks/${rest[0]}`), enabled: rest[0] !== undefined })

  if (rest[0] !== undefined) {
    return (
      <>
        {single.isPending && <Loading />}
        {single.isError && <div className='page'><header><h1>{t('hooks.title')}</h1></header><Failed error={single.error} again={() => void single.refetch()} /><a href={to('webhooks')}>{t('hooks.title')}</a></div>}
        {single.data && <One hook={single.data} ask={ask} />}
        {asked && <Asking key={asked.kind} asked={asked} ask={ask} />}
      </>
    )
  }
  return (
    <div className='page'>
      <header><h1>{t('hooks.title')}</h1><Button kind='main' onClick={() => ask({ kind: 'new' })}>{t('hooks.new')}</Button></header>
      {list.isPending && <Loading />}
      {list.isError && <Failed error={list.error} again={() => void list.refetch()} />}
      {list.isSuccess && all.length === 0 && <Empty>{t('hooks.empty')}</Empty>}
      {all.length > 0 && (
        <Table label={t('hooks.title')} head={[t('hooks.url'), t('hooks.owner'), t('hooks.events'), t('hooks.state'), t('hooks.success'), t('hooks.latency'), '']}>
          {all.map((hook) => <Row key={hook.id} hook={hook} statistics={statistics.data?.get(hook.id)} />)}
        </Table>
      )}
      <More of={list} />
      {asked && <Asking key={asked.kind} asked={asked} ask={ask} />}
    </div>
  )
}
