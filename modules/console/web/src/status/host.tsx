/* The responding host: its generation, its modules, and its queues. */
import { useQuery } from '@tanstack/react-query'

import { get } from '../api/client'
import type { Key } from '../texts/en'
import { translated } from '../texts/service'
import { named, t } from '../texts/texts'
import { asBytes, asNumber, asTime } from '../ui/format'
import { Badge, Button, Failed, Loading, Table, Time } from '../ui/ui'
import type { HostSamples, Line, Sample } from './metrics'

const versionOf = (lines: Line[]) => lines.find(({ name }) => name === 'busbar_build_info')?.labels.version ?? '–'
const since = (seconds: number) => asTime(new Date(seconds * 1000).toISOString())

const SILENT_MS = 30000 // while other hosts respond

/* A line for each host; if there are several, the user chooses the host whose numbers are shown below. */
export function Hosts ({ hosts, shown, show }: { hosts: HostSamples[], shown: string, show: (key: string) => void }) {
  const newest = Math.max(...hosts.map(({ last }) => last.at))
  const head = [
    t('status.started'),
    t('status.version'),
    { text: t('status.generation'), number: true },
    { text: t('status.generations'), number: true },
    { text: t('status.memory'), number: true },
    t('status.answered'),
    ...(hosts.length > 1 ? [''] : [])
  ]

  return (
    <>
      <Table label={t('status.hosts')} head={head}>
        {hosts.map((host) => {
          const { at, sums, lines } = host.last
          return (
            <tr key={host.key} aria-current={host.key === shown ? 'true' : undefined}>
              <td><Time at={new Date(Number(host.key) * 1000).toISOString()} /></td>
              <td>{versionOf(lines)}</td>
              <td className='number'>{asNumber(sums.get('busbar_generation') ?? 0)}</td>
              <td className='number'>{asNumber(sums.get('busbar_generations') ?? 0)}</td>
              <td className='number'>{asBytes(sums.get('process_resident_memory_bytes') ?? 0)}</td>
              <td>
                {newest - at > SILENT_MS ? (
                  <Badge tone='bad'>
                    <Time at={new Date(at).toISOString()} />
                  </Badge>
                ) : (
                  <Badge tone='good'>{t('status.now')}</Badge>
                )}
              </td>
              {hosts.length > 1 && (
                <td>
                  <Button aria-pressed={host.key === shown} onClick={() => show(host.key)}>
                    {t('status.show')}
                  </Button>
                </td>
              )}
            </tr>
          )
        })}
      </Table>
      {hosts.length > 1 && <p><small>{t('status.hostsAre')}</small></p>}
    </>
  )
}

export function Host ({ sample }: { sample: Sample }) {
  const { sums, at } = sample
  const of = (name: string) => sums.get(name) ?? 0
  const facts: [Key, string][] = [
    ['status.live', since(at / 1000 - of('busbar_generation_age_seconds'))],
    ['status.streams', asNumber(of('busbar_streams'))],
    ['status.files', t('status.of', { n: asNumber(of('process_open_fds')), most: asNumber(of('process_max_fds')) })],
    ['status.bodies', asBytes(of('busbar_body_bytes') + of('busbar_answer_bytes'))]
  ]

  return (
    <dl className='facts panel'>
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{t(name)}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  )
}

/* Queues with known names; the queues of pools follow them. */
const known: { name: string, state?: string, text: Key }[] = [
  { name: 'busbar_database_waiting', text: 'queue.database' },
  { name: 'busbar_webhook_deliveries', state: 'waiting', text: 'queue.webhook' },
  { name: 'busbar_webhook_deliveries', state: 'in_flight', text: 'queue.flight' },
  { name: 'busbar_webhook_events_to_expand', text: 'queue.expand' },
  { name: 'busbar_bulk_rows_waiting', text: 'queue.bulk' }
]

export function Queues ({ sample }: { sample: Sample }) {
  const sum = (name: string, state?: string) => {
    const found = sample.lines.filter((line) => line.name === name && (!state || line.labels.state === state))
    return found.length > 0 ? found.reduce((all, { value }) => all + value, 0) : null
  }
  const rows = known.map(({ name, state, text }) => ({ text: t(text), waits: sum(name, state), busy: '–' }))
  for (const { labels, value } of sample.lines.filter(({ name }) => name === 'busbar_pool_waiting')) {
    const one = (name: string) =>
      sample.lines.find(
        (line) => line.name === name && line.labels.module === labels.module && line.labels.pool === labels.pool
      )?.value ?? 0
    const { module = '', pool = '' } = labels
    const id = `${module}_${pool}`.replace(/\W+/g, '_')
    const text = named('pool', id)
    rows.push({
      text: text === id ? t('queue.pool', { module, pool }) : text, // a module that is not part of busbar has its own pools
      waits: value,
      busy: t('status.of', { n: asNumber(one('busbar_pool_busy')), most: asNumber(one('busbar_pool_threads')) })
    })
  }
  return (
    <Table small label={t('status.queues')} head={[
      t('status.queue'), { text: t('status.waits'), number: true }, { text: t('status.busy'), number: true }
    ]}>
      {rows
        .filter(({ waits }) => waits !== null)
        .map(({ text, waits, busy }) => (
          <tr key={text}>
            <td className='wide'>{text}</td>
            <td className='number'>{asNumber(waits ?? 0)}</td>
            <td className='number'>{busy}</td>
          </tr>
        ))}
    </Table>
  )
}

interface Job { name: string, done: number, failed: number, skipped: number, at: number }

/* Background jobs since the start of the host: those with failed runs first. */
export function Jobs ({ sample }: { sample: Sample }) {
  const jobs = new Map<string, Job>()
  const of = (name: string) => {
    const job = jobs.get(name) ?? { name, done: 0, failed: 0, skipped: 0, at: 0 }
    jobs.set(name, job)
    return job
  }

  for (const { name, labels, value } of sample.lines) {
    const outcome = labels.outcome as 'done' | 'failed' | 'skipped'
    if (name === 'busbar_job_runs_total' && labels.job) of(labels.job)[outcome] = value
    if (name === 'busbar_job_last_done_timestamp_seconds' && labels.job) of(labels.job).at = value
  }
  return (
    <Table label={t('status.jobs')} head={[
      t('status.job'), { text: t('status.done'), number: true }, { text: t('status.failed'), number: true },
      { text: t('status.skipped'), number: true }, t('status.lastDone')
    ]}>
      {[...jobs.values()].sort((a, b) => b.failed - a.failed || a.name.localeCompare(b.name)).map((job) => (
        <tr key={job.name}>
          <td className='wide'><code>{job.name}</code></td>
          <td className='number'>{asNumber(job.done)}</td>
          <td className='number'>
            {job.failed > 0 ? <Badge tone='bad'>{asNumber(job.failed)}</Badge> : asNumber(job.failed)}
          </td>
          <td className='number'>{asNumber(job.skipped)}</td>
          <td>{job.at > 0 ? <Time at={new Date(job.at * 1000).toISOString()} /> : '–'}</td>
        </tr>
      ))}
    </Table>
  )
}

interface Reference { tags: { 'x-module': string, description: string, 'x-version': string }[] }

/* The loaded modules, from the API's reference, which is built from them. */
export function Modules () {
  const reference = useQuery({ queryKey: ['reference'], queryFn: () => get<Reference>('/openapi.json') })

  if (reference.isPending) return <Loading />
  if (reference.isError) return <Failed error={reference.error} again={() => void reference.refetch()} />
  return (
    <Table label={t('status.modules')} head={[t('status.module'), t('status.version'), t('status.does')]}>
      {reference.data.tags.map(({ 'x-module': module, description, 'x-version': version }) => (
        <tr key={module}><td><code>{module}</code></td><td>{version}</td><td className='wide'>{translated(description)}</td></tr>
      ))}
    </Table>
  )
}
