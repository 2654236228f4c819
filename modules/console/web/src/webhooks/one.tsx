/* One webhook: its health, the chart of the last day, and the tabs. */
import { useQuery } from '@tanstack/react-query'
import { Pencil, Send } from 'lucide-react'
import { useState } from 'react'

import { get, page, query } from '../api/client'
import type { Delivery, Webhook } from '../api/types'
import { go, to } from '../router'
import { t } from '../texts/texts'
import type { Key } from '../texts/en'
import { asNumber } from '../ui/format'
import { Button, Failed } from '../ui/ui'
import { Consumers } from './consumers'
import { Deliveries } from './deliveries'
import { Hours } from './hours'
import { IDLE_MS, Milliseconds, Moment, nameOf, pathOf, Result, State, urlOf, useSwitch, useHours, useMedian } from './parts'
import { ReplayTab } from './replay'
import { Settings } from './settings'
import { Test } from './test'
import { Verify } from './verify'

const tabs: { name: string; text: Key }[] = [
  { name: '', text: 'hooks.deliveries' },
  { name: 'replay', text: 'hooks.replay' },
  { name: 'settings', text: 'hooks.settings' },
  { name: 'verify', text: 'hooks.verify' }
]
const polledTabs: typeof tabs = [
  { name: '', text: 'hooks.deliveries' },
  { name: 'consumers', text: 'hooks.consumers' },
  { name: 'settings', text: 'hooks.settings' }
]

/* The latest failed attempt of a failing webhook. */
function LastError ({ hook }: { hook: Webhook }) {
  const latest = useQuery({
    queryKey: ['deliveries', hook.id, 'latest'],
    queryFn: () => page<Delivery[]>(pathOf(hook, `deliveries${query({ limit: 20 })}`)),
    refetchInterval: IDLE_MS
  })
  const failed = (latest.data?.items ?? [])
    .map((delivery) => ({ delivery, attempt: delivery.attempts[delivery.attempts.length - 1] }))
    .filter(({ delivery, attempt }) => attempt && delivery.status !== 'delivered')
    .sort((one, other) => (other.attempt?.at ?? '').localeCompare(one.attempt?.at ?? ''))[0]

  if (!failed?.attempt) return null
  return (
    <p>
      {t('hooks.lastError')}:{' '}
      <a href={to('webhooks', hook.id, 'deliveries', failed.delivery.id)}>
        <Result of={failed.attempt} />
      </a>
      , <Moment at={failed.attempt.at} />
    </p>
  )
}

/* Shown while the webhook fails or is off: the reason, the time, and the button that helps. */
function Trouble ({ hook }: { hook: Webhook }) {
  const change = useSwitch(hook)
  const enable = (
    <Button kind='main' disabled={change.isPending} onClick={() => change.mutate(true)}>
      {t('hooks.enable')}
    </Button>
  )

  if (hook.health === 'ok' && hook.active) return null
  return (
    <section
      className={hook.active || hook.health === 'disabled' ? 'trouble bad' : 'trouble'}
      aria-label={t('hooks.health')}
    >
      <div>
        {hook.health === 'disabled' && (
          <p>
            <strong>{t(hook.disabledReason ? `hooks.reason.${hook.disabledReason}` : 'hooks.disabled')}</strong>
            {hook.disabledAt && (
              <>
                {' '}
                <Moment at={hook.disabledAt} />
              </>
            )}
          </p>
        )}
        {!hook.active && hook.health !== 'disabled' && (
          <p>
            <strong>{t('hooks.isOff')}</strong>
          </p>
        )}
        {!hook.active && <p>{t('hooks.isOffWaits')}</p>}
        {hook.active && hook.failingSince && (
          <p>
            <strong>
              {t('hooks.failingSince')} <Moment at={hook.failingSince} />.
            </strong>
          </p>
        )}
        {hook.health !== 'ok' && <LastError hook={hook} />}
        {change.isError && <Failed error={change.error} />}
      </div>
      {hook.active ? (
        <a className='button' href={to('webhooks', hook.id, 'replay')}>
          {t('hooks.replay')}
        </a>
      ) : (
        enable
      )}
    </section>
  )
}

/* Also looks at the newest successful delivery, because the service updates lastSuccessAt only every five minutes. */
function LastSuccess ({ hook }: { hook: Webhook }) {
  const { data } = useQuery({
    queryKey: ['deliveries', hook.id, 'success'],
    queryFn: () => get<Delivery[]>(pathOf(hook, `deliveries${query({ status: 'delivered', limit: 1 })}`)),
    refetchInterval: IDLE_MS
  })
  const at = [hook.lastSuccessAt ?? '', data?.[0]?.attempts.at(-1)?.at ?? ''].sort()[1]!

  return <dd className='time'>{at ? <Moment at={at} /> : '–'}</dd>
}

/* The counts of the last 24 hours, and their chart. */
function Figures ({ hook }: { hook: Webhook }) {
  const hours = useHours(hook)
  const median = useMedian(hook)
  const sum = (name: 'delivered' | 'abandoned' | 'queued') => hours.data?.reduce((all, hour) => all + hour[name], 0)
  const count = (value: number | undefined) => (value === undefined ? '…' : asNumber(value))
  const delivered = sum('delivered')
  const ended = (delivered ?? 0) + (sum('abandoned') ?? 0)

  return (
    <section className='panel figures' aria-label={t('hooks.lastDay')}>
      <dl>
        <div>
          <dt>{t('hooks.successRate')}</dt>
          <dd>{ended > 0 ? `${asNumber(Math.floor(((delivered ?? 0) / ended) * 1000) / 10)} %` : '–'}</dd>
        </div>
        <div>
          <dt>
            <i className='delivered' />
            {t('delivery.delivered')}
          </dt>
          <dd>{count(delivered)}</dd>
        </div>
        <div>
          <dt>
            <i className='abandoned' />
            {t('delivery.abandoned')}
          </dt>
          <dd>{count(sum('abandoned'))}</dd>
        </div>
        <div>
          <dt>
            <i className='queued' />
            {t('delivery.queued')}
          </dt>
          <dd>{count(sum('queued'))}</dd>
        </div>
        <div>
          <dt>{t('hooks.latency')}</dt>
          <dd>
            <Milliseconds of={median.data} />
          </dd>
        </div>
        <div>
          <dt>{t('hooks.lastSuccess')}</dt>
          <LastSuccess hook={hook} />
        </div>
      </dl>
      {hours.data && <Hours hook={hook} hours={hours.data} />}
      {hours.isError && <Failed error={hours.error} again={() => void hours.refetch()} />}
    </section>
  )
}

export function One ({
  hook,
  tab,
  show,
  error
}: {
  hook: Webhook
  tab: string
  show: (made: Webhook) => void
  error: unknown
}) {
  const [testing, setTesting] = useState(false)
  const polled = hook.kind === 'poll'

  return (
    <div className='page hook'>
      <header>
        <div>
          <a href={to('webhooks')}>{t('hooks.title')}</a>
          <h1>
            {nameOf(hook)} <State hook={hook} />
          </h1>
          {hook.name && <code className='under'>{urlOf(hook)}</code>}
          {hook.description && <p className='under'>{hook.description}</p>}
        </div>
        <div className='row'>
          <Button icon={Pencil} onClick={() => go('webhooks', hook.id, 'edit')}>
            {t('hooks.edit')}
          </Button>
          <Button kind='main' icon={Send} onClick={() => setTesting(true)}>
            {t('hooks.test')}
          </Button>
        </div>
      </header>
      {error !== null && <Failed error={error} />}
      <Trouble hook={hook} />
      {!polled && <Figures hook={hook} />}
      <nav className='tabs' aria-label={t('hooks.views')}>
        {(polled ? polledTabs : tabs).map(({ name, text }) => (
          <a
            key={name}
            href={name === '' ? to('webhooks', hook.id) : to('webhooks', hook.id, name)}
            aria-current={name === tab ? 'page' : undefined}
          >
            {t(text)}
          </a>
        ))}
      </nav>
      {tab === 'settings' ? (
        <Settings hook={hook} show={show} />
      ) : polled && tab === 'consumers' ? (
        <Consumers hook={hook} />
      ) : !polled && tab === 'verify' ? (
        <Verify hook={hook} />
      ) : !polled && tab === 'replay' ? (
        <ReplayTab hook={hook} />
      ) : (
        <Deliveries hook={hook} test={() => setTesting(true)} />
      )}
      {testing && <Test hook={hook} close={() => setTesting(false)} />}
    </div>
  )
}
