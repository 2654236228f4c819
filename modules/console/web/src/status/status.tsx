/* The status of the host, for Admins: its dependencies, live numbers, queues and modules. */
import { useQuery } from '@tanstack/react-query'
import { ChartLine } from 'lucide-react'
import { useState } from 'react'

import { get, getAnyway } from '../api/client'
import type { Health } from '../api/types'
import { named, t } from '../texts/texts'
import { asBytes, asNumber } from '../ui/format'
import { Badge, Failed, Loading } from '../ui/ui'
import { Host, Hosts, Jobs, Modules, Queues } from './host'
import { level, rate, useHosts } from './metrics'
import { Spark } from '../ui/chart'

const EVERY_MS = 2000

export default function Status () {
  const state = useQuery({
    queryKey: ['health'],
    queryFn: () => getAnyway<Health>('/api/health/status'),
    refetchInterval: EVERY_MS
  })
  const { hosts, error } = useHosts()
  const [chosen, choose] = useState('')
  const host = hosts.find(({ key }) => key === chosen) ?? hosts[0]
  const points = host?.points ?? []
  const last = host?.last
  const cpu = rate(points, 'process_cpu_seconds_total')
  const { data: settings } = useQuery({
    queryKey: ['settings'], queryFn: () => get<{ grafana: string }>('/console/settings'), staleTime: Infinity
  })
  const grafana = settings?.grafana

  return (
    <div className='page'>
      <header>
        <h1>{t('status.title')}</h1>
        {state.data && (
          <Badge tone={state.data.status === 'ok' ? 'good' : 'bad'}>
            {state.data.status === 'ok' ? t('status.well') : t('status.ill')}
          </Badge>
        )}
        {grafana && (
          <a className='button' href={grafana} target='_blank' rel='noreferrer'><ChartLine />{t('status.grafana')}</a>
        )}
      </header>
      {state.isPending && <Loading />}
      {state.isError && <Failed error={state.error} again={() => void state.refetch()} />}
      {state.data && (
        <dl className='facts panel'>
          {Object.entries(state.data.details).map(([name, { status, latencyMs }]) => (
            <div key={name}>
              <dt>{named('part', name)}</dt>
              <dd>
                <Badge tone={status === 'up' ? 'good' : 'bad'}>
                  {status === 'up' ? t('status.up') : t('status.down')}
                </Badge>
                {latencyMs !== undefined && ` ${t('status.ms', { ms: latencyMs })}`}
              </dd>
            </div>
          ))}
        </dl>
      )}
      {host && <><h2>{t('status.hosts')}</h2><Hosts hosts={hosts} shown={host.key} show={choose} /></>}
      {last && <><h2>{t('status.host')}</h2><Host sample={last} /></>}
      <h2>{t('status.metrics')}</h2>
      {error !== null && <Failed error={error} />}
      {last && (
        <div className='sparks'>
          <Spark title={t('status.requests')} {...rate(points, 'busbar_http_requests_total')} show={asNumber} />
          <Spark title={t('status.failures')} {...rate(points, 'failures')} show={asNumber} />
          <Spark title={t('status.connections')} {...level(points, 'busbar_http_connections')} show={asNumber} />
          <Spark title={t('queue.database')} {...level(points, 'busbar_database_waiting')} show={asNumber} />
          <Spark title={t('status.memory')} {...level(points, 'process_resident_memory_bytes')} show={asBytes} />
          <Spark title={t('status.cpu')} {...cpu} show={(n) => `${asNumber(n * 100)} %`} />
        </div>
      )}
      {last && (
        <>
          <h2>{t('status.queues')}</h2>
          <Queues sample={last} />
          <h2>{t('status.jobs')}</h2>
          <Jobs sample={last} />
        </>
      )}
      <h2>{t('status.modules')}</h2>
      <Modules />
    </div>
  )
}
