/* The deliveries of a webhook, and their outcomes. */
import { useInfiniteQuery, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'

import { call, get, page, query, type Page } from '../api/client'
import type { Attempt, Delivery, Sent, Tested, Webhook } from '../api/types'
import { useValues } from '../router'
import { t } from '../texts/texts'
import { useAction } from '../ui/action'
import { asNumber } from '../ui/format'
import { Badge, Button, Confirm, Dialog, Empty, Failed, Loading, More, Table, Time } from '../ui/ui'

const DAY_MS = 86400000
const LOOK_AGAIN_MS = 1000 // while a delivery is waiting
const IDLE_MS = 5000
const COUNTED = 1000 // above this count the number is shown as "more than"

const tone = (status: string) => status === 'delivered' ? 'good' : status === 'abandoned' ? 'bad' : 'wait'

function Tried ({ attempt }: { attempt: Attempt }) {
  return (
    <li>
      <Time at={attempt.at} /> · {attempt.status ?? attempt.error} · {t('status.ms', { ms: asNumber(attempt.durationMs) })}
      {attempt.answer && <pre tabIndex={0}>{attempt.answer}</pre>}
    </li>
  )
}

/* The body as it was sent, with one member per line. */
function readable (body: string) {
  try { return JSON.stringify(JSON.parse(body), null, 2) } catch { return body }
}

function Body ({ hook, id }: { hook: Webhook, id: number }) {
  const sent = useQuery({ queryKey: ['delivery', hook.id, id], queryFn: () => get<Sent>(`/api/chat/webhooks/${hook.id}/deliveries/${id}`), staleTime: Infinity })

  if (sent.isPending) return <Loading />
  if (sent.isError) return <Failed error={sent.error} again={() => void sent.refetch()} />
  return <pre tabIndex={0}>{readable(sent.data.body)}</pre>
}

function Row ({ hook, delivery }: { hook: Webhook, delivery: Delivery }) {
  const client = useQueryClient()
  const [open, setOpen] = useState(false)
  const resend = useAction({
    mutationFn: () => call('POST', `/api/chat/webhooks/${hook.id}/deliveries/${delivery.id}/resend`),
    onSuccess: () => client.invalidateQueries({ queryKey: ['deliveries', hook.id] })
  })

  return (
    <tr>
      <td>{delivery.event}</td>
      <td><Time at={delivery.createdAt} /></td>
      <td>
        <Badge tone={tone(delivery.status)}>{t(`delivery.${delivery.status}`)}</Badge>
        {delivery.nextAttemptAt && <><br /><small>{t('hooks.next')} <Time at={delivery.nextAttemptAt} /></small></>}
      </td>
      <td className='wide'>
        <details onToggle={(event) => setOpen(event.currentTarget.open)}>
          <summary>{t('hooks.attempts')}: {delivery.attempts.length}</summary>
          <ol>{delivery.attempts.map((attempt) => <Tried key={attempt.number} attempt={attempt} />)}</ol>
          <strong>{t('hooks.body')}</strong>
          {open && <Body hook={hook} id={delivery.id} />}
        </details>
        {resend.isError && <Failed error={resend.error} />}
      </td>
      <td><Button disabled={resend.isPending} onClick={() => resend.mutate()}>{t('hooks.resend')}</Button></td>
    </tr>
  )
}

/* Counts the deliveries of the last day that were abandoned; null: more than are counted. */
async function countFailed (hook: Webhook, since: string): Promise<number | null> {
  let count = 0
  for (let next: string | null = `/api/chat/webhooks/${hook.id}/deliveries${query({ status: 'abandoned', limit: 200 })}`; next;) {
    const part: Page<Delivery[]> = await page<Delivery[]>(next)
    const recent = part.items.filter(({ createdAt }) => createdAt >= since)
    count += recent.length
    if (count > COUNTED) return null
    next = recent.length < part.items.length ? null : part.next
  }
  return count
}

/* Asks before many requests are sent to a receiver that has failed. */
function Recover ({ hook, close, done }: { hook: Webhook, close: () => void, done: (queued: number) => void }) {
  const [since] = useState(() => new Date(Date.now() - DAY_MS).toISOString())
  const failed = useQuery({ queryKey: ['failed', hook.id, since], queryFn: () => countFailed(hook, since) })

  if (failed.data === undefined || failed.data === 0) {
    return (
      <Dialog title={t('hooks.recover')} close={close}>
        {failed.isPending && <Loading />}
        {failed.isError && <Failed error={failed.error} again={() => void failed.refetch()} />}
        {failed.data === 0 && <p>{t('hooks.noneFailed')}</p>}
        <div className='actions'><Button onClick={close}>{t('do.close')}</Button></div>
      </Dialog>
    )
  }
  const text = failed.data === null ? t('hooks.recoverMany', { n: asNumber(COUNTED), url: hook.url }) : t('hooks.recoverAsk', { n: failed.data, url: hook.url })
  return <Confirm title={t('hooks.recover')} text={text} action={t('hooks.recoverDo')} mild close={close} done={() => {}}
    run={() => call<{ queued: number }>('POST', `/api/chat/webhooks/${hook.id}/recover`, { since }).then(({ queued }) => done(queued))} />
}

const states: Delivery['status'][] = ['queued', 'delivered', 'abandoned']

export function Deliveries ({ hook }: { hook: Webhook }) {
  const client = useQueryClient()
  const [told, tell] = useState<{ text: string, bad?: boolean } | null>(null)
  const [{ status }, change] = useValues('status')
  const [recovering, setRecovering] = useState(false)
  const refresh = () => {
    void client.invalidateQueries({ queryKey: ['statistics'] })
    return client.invalidateQueries({ queryKey: ['deliveries', hook.id] })
  }
  const list = useInfiniteQuery({
    queryKey: ['deliveries', hook.id, status],
    queryFn: ({ pageParam }) => page<Delivery[]>(pageParam),
    initialPageParam: `/api/chat/webhooks/${hook.id}/deliveries${query({ limit: 50, status })}`,
    getNextPageParam: (last) => last.next,
    refetchInterval: ({ state }) => state.data?.pages.some(({ items }) => items.some(({ status }) => status === 'queued')) ? LOOK_AGAIN_MS : IDLE_MS
  })
  const test = useAction({
    mutationFn: () => call<Tested>('POST', `/api/chat/webhooks/${hook.id}/test`),
    onSuccess: (result) => {
      tell(result.success ? { text: t('hooks.tested', { status: result.status ?? '', ms: result.durationMs }) }
        : { text: t('hooks.testFailed', { problem: result.error ?? t('hooks.answered', { status: result.status ?? '' }) }), bad: true })
      void refresh()
    }
  })
  const all = list.data?.pages.flatMap(({ items }) => items) ?? []

  return (
    <section>
      <div className='row between'>
        <h2>{t('hooks.deliveries')}</h2>
        <div className='row'>
          <select aria-label={t('hooks.state')} value={status} onChange={(e) => change({ status: e.target.value })}>
            <option value=''>{t('accounts.all')}</option>
            {states.map((name) => <option key={name} value={name}>{t(`delivery.${name}`)}</option>)}
          </select>
          <Button disabled={test.isPending} onClick={() => test.mutate()}>{t('hooks.test')}</Button>
          <Button onClick={() => setRecovering(true)}>{t('hooks.recover')}</Button>
        </div>
      </div>
      <div role='status'>{told && <p className={told.bad ? 'failed' : 'notice'}>{told.text}</p>}</div>
      {test.isError && <Failed error={test.error} />}
      {list.isPending && <Loading />}
      {list.isError && <Failed error={list.error} again={() => void list.refetch()} />}
      {list.isSuccess && all.length === 0 && <Empty>{status ? t('hooks.noneSuch') : t('hooks.noDeliveries')}</Empty>}
      {all.length > 0 && (
        <Table label={t('hooks.deliveries')} head={[t('hooks.event'), t('state.time'), t('hooks.state'), t('hooks.attempts'), '']}>
          {all.map((delivery) => <Row key={delivery.id} hook={hook} delivery={delivery} />)}
        </Table>
      )}
      <More of={list} />
      {recovering && <Recover hook={hook} close={() => setRecovering(false)}
        done={(queued) => { setRecovering(false); tell({ text: t('hooks.recovered', { n: asNumber(queued) }) }); void refresh() }} />}
    </section>
  )
}
