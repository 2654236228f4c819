/*
 * Sends the deliveries of a period again, after counting them. The service sends new events first. The progress stays
 * on this page, and the filters are in the address.
 */
import { keepPreviousData, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'

import { ApiError, call, get } from '../api/client'
import type { Delivery, Replay, Webhook } from '../api/types'
import { useValues } from '../router'
import { t } from '../texts/texts'
import { useAction } from '../ui/action'
import { asNumber } from '../ui/format'
import { useSettled } from '../ui/pages'
import { Button, Confirm, Failed, problemOf } from '../ui/ui'
import { EventSelect, Period, StatusSelect } from './deliveries'
import { LOOK_AGAIN_MS, Moment, pathOf, urlOf } from './parts'

const DAY_MS = 86400000
const NONE = 'none' // in the address: the user has removed the initial value
const ended: Delivery['status'][] = ['delivered', 'abandoned']
const periods = [
  ['hooks.hour', DAY_MS / 24],
  ['hooks.day', DAY_MS],
  ['hooks.week', 7 * DAY_MS]
] as const

const before = (ms: number) => new Date(Date.now() - ms).toISOString()

/* The latest replay; null: there was none. */
function useReplay (hook: Webhook) {
  return useQuery({
    queryKey: ['replay', hook.id],
    queryFn: async () => {
      try {
        return await get<Replay>(pathOf(hook, 'replay'))
      } catch (error) {
        if (error instanceof ApiError && error.status === 404) return null
        throw error
      }
    },
    refetchInterval: ({ state: { data } }) =>
      data?.state === 'running' || (data?.waiting ?? 0) > 0 ? LOOK_AGAIN_MS : false
  })
}

function Progress ({ hook, replay }: { hook: Webhook; replay: Replay }) {
  const client = useQueryClient()
  const cancel = useAction({
    mutationFn: () => call<Replay>('DELETE', pathOf(hook, 'replay')),
    onSuccess: (canceled) => {
      client.setQueryData(['replay', hook.id], canceled)
    }
  })
  const waiting = replay.waiting ?? 0
  const sent = (replay.queued ?? 0) - waiting
  const state =
    replay.state === 'canceled' ? 'canceled' : replay.state === 'running' || waiting > 0 ? 'running' : 'done'

  return (
    <section className='panel' aria-label={t('hooks.replayLatest')}>
      <div className='row between'>
        <h2>{t(`hooks.replay.${state}`)}</h2>
        {replay.state === 'running' && (
          <Button kind='risk' disabled={cancel.isPending} onClick={() => cancel.mutate()}>
            {t('hooks.replayCancel')}
          </Button>
        )}
      </div>
      <progress aria-label={t('hooks.replayLatest')} max={Math.max(1, replay.matched)} value={sent} />
      <p className='soft' role='status'>
        {t('hooks.replaySent', { n: asNumber(sent), all: asNumber(replay.matched) })}
        {replay.since && (
          <>
            {' '}
            · {t('hooks.from')} <Moment at={replay.since} />
          </>
        )}
        {replay.until && (
          <>
            {' '}
            {t('hooks.to')} <Moment at={replay.until} />
          </>
        )}
      </p>
      {cancel.isError && <Failed error={cancel.error} />}
    </section>
  )
}

export function ReplayTab ({ hook }: { hook: Webhook }) {
  const client = useQueryClient()
  const replay = useReplay(hook)
  const [chosen, change] = useValues('since', 'until', 'status', 'event')
  const [first] = useState(() => ({ since: before(DAY_MS), status: 'abandoned' }))
  const valueOf = (name: 'since' | 'status') => chosen[name] === NONE ? '' : chosen[name] || first[name]
  const [since, status] = [valueOf('since'), valueOf('status')]
  const { until, event } = chosen
  const [asking, setAsking] = useState(false)
  const body = {
    since,
    ...(until && { until }),
    ...(status && { status }),
    ...(event && { events: [event] })
  }
  const good = since !== '' && (until === '' || since < until)
  const wanted = good ? JSON.stringify(body) : ''
  const asked = useSettled(wanted)
  const count = useQuery({
    queryKey: ['replay', hook.id, 'count', asked],
    queryFn: () =>
      call<Replay>('POST', pathOf(hook, 'replay'), { ...(JSON.parse(asked) as typeof body), dryRun: true }),
    enabled: asked !== '',
    refetchOnWindowFocus: false, // counting millions of deliveries takes long
    placeholderData: keepPreviousData
  })
  const matched = good ? count.data?.matched : undefined
  const running = replay.data?.state === 'running'
  const start = () =>
    call<Replay>('POST', pathOf(hook, 'replay'), body).then((started) => {
      client.setQueryData(['replay', hook.id], started)
      setAsking(false)
      return client.invalidateQueries({ queryKey: ['replay', hook.id], exact: true })
    })

  return (
    <>
      {replay.data && <Progress hook={hook} replay={replay.data} />}
      {replay.isError && <Failed error={replay.error} again={() => void replay.refetch()} />}
      <section className='panel'>
        <h2>{t('hooks.replayNew')}</h2>
        <p className='soft'>{t('hooks.replayIs')}</p>
        <div className='row presets' role='group' aria-label={t('hooks.period')}>
          {periods.map(([text, ms]) => (
            <Button key={text} onClick={() => change({ since: before(ms), until: '' })}>
              {t(text)}
            </Button>
          ))}
        </div>
        <div className='filters'>
          <Period
            since={since}
            until={until}
            change={({ since: from, until: to }) =>
              change(from === undefined ? { until: to ?? '' } : { since: from || NONE })}
          />
          <StatusSelect value={status} of={ended} change={(to) => change({ status: to || NONE })} />
          <EventSelect value={event} change={(to) => change({ event: to })} all={t('hooks.any')} />
        </div>
        <div className='row between last'>
          <p role='status'>
            {since === ''
              ? t('hooks.replaySince')
              : count.isError
                ? problemOf(count.error)
                : matched === undefined
                  ? '…'
                  : t('hooks.replayCount', { n: matched })}
          </p>
          <Button
            kind='main'
            disabled={!matched || running || count.isPlaceholderData || asked !== wanted}
            onClick={() => setAsking(true)}
          >
            {t('hooks.replayDo')}
          </Button>
        </div>
      </section>
      {asking && matched !== undefined && (
        <Confirm
          title={t('hooks.replayDo')}
          text={t('hooks.replayAsk', { n: matched, url: urlOf(hook) })}
          action={t('hooks.replayDo')}
          mild
          close={() => setAsking(false)}
          done={() => {}}
          run={start}
        />
      )}
    </>
  )
}
