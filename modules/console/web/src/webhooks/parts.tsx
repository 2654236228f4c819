/* Parts of several views of webhooks: states, times, the secret, and shared queries. */
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Download } from 'lucide-react'
import { useState } from 'react'

import { call, get, query } from '../api/client'
import type { Account, Attempt, Delivery, Hour, Statistics, Webhook } from '../api/types'
import { useGuard } from '../router'
import { useMe } from '../session'
import { t } from '../texts/texts'
import { useAction } from '../ui/action'
import { asNumber } from '../ui/format'
import { usePages } from '../ui/pages'
import { toast } from '../ui/toast'
import { Badge, Button, Copy, Mail, Modal, Time } from '../ui/ui'
import { isAll } from './form'

export const LOOK_AGAIN_MS = 1000 // while a delivery is waiting
export const IDLE_MS = 5000
const SHOWN = 2 // events by name in a line

export const pathOf = (hook: Webhook | number, ...rest: (string | number)[]) =>
  ['/api/chat/webhooks', typeof hook === 'number' ? hook : hook.id, ...rest].join('/')

/* A webhook whose events are polled has no URL. */
export const urlOf = (hook: Webhook) => hook.url ?? t('hooks.polled', { id: String(hook.id) })

export const nameOf = (hook: Webhook) => hook.name ?? urlOf(hook)

/* The names of the events, in a line that stays short. */
export function eventsOf (hook: Webhook): string {
  const names = hook.events.slice(0, SHOWN).join(', ')
  const more = hook.events.length - SHOWN
  return isAll(hook) ? t('hooks.all') : more > 0 ? t('hooks.andMore', { names, n: more }) : names
}

export function State ({ hook }: { hook: Webhook }) {
  const failing = hook.active && hook.health === 'failing'
  const state = hook.health === 'disabled' ? 'disabled' : !hook.active ? 'off' : failing ? 'failing' : 'active'
  const tone = state === 'active' ? 'good' : state === 'off' ? 'off' : 'bad'
  return <Badge tone={tone}>{t(`hooks.${state}`)}</Badge>
}

const tones = { delivered: 'good', abandoned: 'bad', queued: 'wait' } as const

export function Outcome ({ of }: { of: Delivery['status'] }) {
  return <Badge tone={tones[of]}>{t(`delivery.${of}`)}</Badge>
}

/* A time with its seconds: deliveries follow each other closely. */
export const Moment = ({ at }: { at: string }) => <Time at={at} seconds />

export function Milliseconds ({ of }: { of: number | null | undefined }) {
  return <>{typeof of === 'number' ? t('status.ms', { ms: asNumber(of) }) : '–'}</>
}

export function useEvents () {
  return useQuery({
    queryKey: ['events'],
    queryFn: () => get<string[]>('/api/chat/webhooks/events'),
    staleTime: Infinity
  })
}

export interface Search {
  status: string
  event: string
  eventId: string
  code: string
  error: string
  since: string
  until: string
}

/* The deliveries that match a filter, newest first; looks again while it shows the newest ones. */
export const useDeliveries = (hook: Webhook, filter: string) =>
  usePages<Delivery>(['deliveries', hook.id], pathOf(hook, `deliveries?limit=50&${filter}`), true, (pages) => {
    if (pages.length > 1) return false
    const waits = hook.kind !== 'poll' && pages.some(({ items }) => items.some(({ status }) => status === 'queued'))
    return waits ? LOOK_AGAIN_MS : IDLE_MS
  })

export function useHours (hook: Webhook) {
  return useQuery({
    queryKey: ['statistics', hook.id, 'hours'],
    queryFn: () => get<Hour[]>(pathOf(hook, 'statistics')),
    refetchInterval: IDLE_MS
  })
}

/* The list of statistics begins after an id, so a page of one line has the statistics of one webhook. */
export function useMedian (hook: Webhook) {
  return useQuery({
    queryKey: ['statistics', hook.id],
    queryFn: async () => {
      const [line] = await get<Statistics[]>(
        `/api/chat/webhooks/statistics${query({ limit: 1, after: hook.id - 1 })}`
      )
      return line?.id === hook.id ? line.durationMs : null
    },
    refetchInterval: IDLE_MS
  })
}

/* Enables or disables the webhook, which is shown at once, and offers to undo it. */
export function useSwitch (hook: Webhook) {
  const client = useQueryClient()
  const key = ['webhooks', String(hook.id)]
  const change = useAction({
    mutationFn: (active: boolean) => call<Webhook>('PATCH', pathOf(hook), { active }),
    onMutate: async (active: boolean) => {
      await client.cancelQueries({ queryKey: key }) // a response in flight may be older
      client.setQueryData(key, { ...hook, active, health: active ? 'ok' : hook.health })
      return hook
    },
    onError: (_, __, before) => client.setQueryData(key, before),
    onSuccess: (changed) => {
      client.setQueryData(key, changed)
      toast(t(changed.active ? 'hooks.enabled' : 'hooks.wasDisabled'), () => change.mutate(!changed.active))
    },
    onSettled: () => client.invalidateQueries({ queryKey: ['webhooks'] })
  })
  return change
}

/* The status of the response, or the reason why there is none. */
export function Result ({ of }: { of: Attempt }) {
  return <>{of.status !== null ? t('hooks.status', { status: of.status }) : of.error}</>
}

/* Shows the owner's e-mail if the user may know it. */
export function Owner ({ id }: { id: number }) {
  const me = useMe()
  const account = useQuery({
    queryKey: ['account', id],
    queryFn: () => get<Account>(`/api/admin/users/${id}`),
    enabled: me.role === 'Admin' && me.id !== id,
    staleTime: Infinity
  })

  return <span><Mail of={me.id === id ? me.email : (account.data?.email ?? String(id))} /></span>
}

/*
 * The secret, which the service never shows again. So Escape, a click or Back do not close this dialog. It closes only
 * after the user has confirmed that the secret is stored.
 */
export function Secret ({ hook, close }: { hook: Webhook; close: () => void }) {
  const [kept, setKept] = useState(false)
  useGuard(!kept)
  const line = `WEBHOOK_SECRET=${hook.secret}`
  const save = () => {
    const link = document.createElement('a')
    link.href = URL.createObjectURL(new Blob([`${line}\n`], { type: 'text/plain' }))
    link.download = 'webhook.env'
    link.click()
    URL.revokeObjectURL(link.href)
  }

  return (
    <Modal title={t('hooks.secretTitle')}>
      <h2>{t('hooks.secretTitle')}</h2>
      <p>{t('hooks.secret')}</p>
      <Copy text={hook.secret} />
      <p>{t('hooks.secretTry')}</p>
      <pre className='block' tabIndex={0}>{`${line} \\\n  node examples/receiver/receiver.js 9000`}</pre>
      <label className='check'>
        <input type='checkbox' checked={kept} onChange={() => setKept(!kept)} />
        {t('hooks.secretKept')}
      </label>
      <div className='actions'>
        <Button icon={Download} onClick={save}>
          {t('hooks.secretFile')}
        </Button>
        <Button kind='main' disabled={!kept} onClick={close}>
          {t('do.close')}
        </Button>
      </div>
    </Modal>
  )
}
