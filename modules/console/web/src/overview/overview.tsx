/* The front page: things that need attention, and figures, as far as the role can see them. */
import { keepPreviousData, useQueries, useQuery, type UseQueryResult } from '@tanstack/react-query'
import {
  Award, Bell, KeyRound, MessagesSquare, SunMedium, Upload, UserCheck, Webhook as WebhookIcon, type LucideIcon
} from 'lucide-react'
import { Fragment, type ReactNode } from 'react'

import { everything, get, page, query } from '../api/client'
import type {
  Account, BulkUpload, CertificateTotal, Client, Device, RefusedRead, SharedGroup, Statistics, Total
} from '../api/types'
import { useUnread } from '../chat/unread'
import { titleOf } from '../devices/data'
import { useOrganizations } from '../organization'
import { to, toWith } from '../router'
import { isOne, useMe } from '../session'
import { t } from '../texts/texts'
import { Bars } from '../ui/chart'
import { asDay, asEnergy, asNumber, way } from '../ui/format'
import { Badge, Empty, Failed, Loading, Table } from '../ui/ui'
import { useHealth } from '../webhooks/health'

const AGAIN_MS = 30000
const SLOW_MS = 120000 // for figures that change slowly and take several requests
const MONTHS = 12
const DAYS = 30
const SHOWN = 8
const LOOKED = 200 // devices that are looked at for problems
const MANY = 1000
const DAY_MS = 86400000

const monthsAgo = (n: number) => {
  const now = new Date()
  return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - n))
}

/*
 * The sums of each month since `start`. A Buyer sees certificates only by group: `groups` are those shared with it.
 */
async function monthsOf (start: string, organizationId: number | undefined, groups: (number | undefined)[]) {
  const sums = new Map<string, CertificateTotal>()

  for (const groupId of groups) {
    const values = query({ by: 'month', start, organizationId, groupId })
    for (const each of await everything<CertificateTotal>(`/api/certificate-log/totals${values}`)) {
      const sum = sums.get(each.month ?? '')
      sums.set(each.month ?? '', sum ? {
        ...sum, entries: sum.entries + each.entries, succeeded_watthour: sum.succeeded_watthour + each.succeeded_watthour
      } : each)
    }
  }
  return [...sums.values()]
}

const daysAgo = (n: number) => new Date(Math.floor(Date.now() / DAY_MS - n) * DAY_MS).toISOString()

/*
 * Devices that may have a problem, and how many readings of each were refused. In the orders by capacity and
 * by date, the service lists devices without a value first. It has no list of devices without readings. But a
 * device that is missing in the sums of certificates by device may have sent none.
 */
async function doubtfulOf (organizationId: number | undefined) {
  const start = daysAgo(DAYS)
  const list = (limit: number, sort = '') => get<Device[]>(`/api/device${query({ limit, sort, organizationId })}`)
  const [reads, sums, all, ...unknown] = await Promise.all([
    get<RefusedRead[]>(`/api/meter-reads/refused${query({ start, limit: MANY, organizationId })}`),
    page<CertificateTotal[]>(`/api/certificate-log/totals${query({ by: 'device', start, limit: MANY, organizationId })}`),
    list(LOOKED), list(SHOWN, 'capacity'), list(SHOWN, 'commissioningDate')
  ])
  const refused = new Map<number, number>()
  const certified = new Set(sums.items.map(({ deviceId }) => deviceId))

  for (const { deviceId } of reads) refused.set(deviceId, (refused.get(deviceId) ?? 0) + 1)
  const known = new Map([...all, ...unknown.flat()].map((device) => [device.id, device]))
  const missing = all.length < LOOKED ? [] : [...refused.keys()].filter((id) => !known.has(id)).slice(0, SHOWN)
  const others = await Promise.all(missing.map((id) => get<Device>(`/api/device/${id}`).catch(() => null))) // or deleted
  return {
    refused,
    devices: [
      ...others.filter((device) => device?.status === 'Active').map((device) => device!),
      ...[...refused.keys()].flatMap((id) => known.get(id) ?? []).slice(0, SHOWN),
      ...unknown.flat().filter(({ capacity, commissioningDate }) => capacity === null || commissioningDate === null),
      ...(sums.next === null ? all.filter(({ id }) => !certified.has(id)).slice(0, SHOWN) : [])
    ]
  }
}

/* All queries of the page. Only the queries of views that the role has are sent. */
function useFigures () {
  const me = useMe()
  const { chosen: organizationId } = useOrganizations()
  const owner = isOne(me, 'Admin', 'OrganizationAdmin', 'DeviceOwner', 'ApiUser')
  const buyer = isOne(me, 'Buyer')
  const first = monthsAgo(MONTHS - 1).toISOString()
  const use = <Data,>(name: string, enabled: boolean, queryFn: () => Promise<Data>, of?: unknown[], every = AGAIN_MS) =>
    useQuery({
      queryKey: [name, 'overview', organizationId, of],
      queryFn,
      enabled,
      refetchInterval: every,
      placeholderData: keepPreviousData
    })

  const shared = use('groups', buyer, () =>
    everything<SharedGroup>(`/api/device-group/shared${query({ organizationId, limit: 1000 })}`)
  )
  const groups = buyer ? shared.data?.map(({ id }) => id) : [undefined]

  return {
    owner,
    shared,
    devices: use('devices', owner, () =>
      page<Device[]>(
        `/api/device${query({ limit: SHOWN, count: true, sort: 'updatedAt', order: 'desc', organizationId })}`
      )
    ),
    doubtful: use('devices', owner, () => doubtfulOf(organizationId), ['doubtful'], SLOW_MS),
    months: use(
      'certificates',
      owner || (buyer && groups !== undefined),
      () => monthsOf(first, organizationId, groups ?? []),
      groups
    ),
    unread: useUnread(me),
    hooks: use('statistics', true, () => everything<Statistics>('/api/chat/webhooks/statistics')),
    receivers: useHealth().all,
    uploads: use('bulk', owner, () => page<BulkUpload[]>(`/api/bulk-upload${query({ limit: 20, organizationId })}`)),
    pending: use('accounts', me.role === 'Admin', () =>
      everything<Account>('/api/admin/users?limit=200&status=Pending')
    ),
    clients: use('clients', me.role === 'ApiUser', () => page<Client[]>('/api/auth/clients?limit=1'))
  }
}

type Figures = ReturnType<typeof useFigures>

interface Task { icon: LucideIcon, text: string, address: string, tone: 'bad' | 'wait' | 'off' }

/* Things that need attention, the most important first; then the first steps of a new account. */
function tasksOf ({ devices, unread, receivers, uploads, pending, clients }: Figures): Task[] {
  const waiting = pending.data?.length ?? 0
  const failing = receivers.data?.filter(({ health }) => health !== 'ok') ?? []
  const checked = uploads.data?.items.filter(({ status }) => status === 'created') ?? []
  const failed = uploads.data?.items.filter(({ status, progress }) => status !== 'created' && progress.failed > 0) ?? []
  const messages = unread.data?.count ?? 0
  const all: (Task | false)[] = [
    failing.length > 0 && {
      icon: WebhookIcon,
      text: t('todo.hooks', { n: failing.length }),
      tone: 'bad',
      address: failing.length === 1 ? to('webhooks', failing[0]!.id) : to('webhooks')
    },
    waiting > 0 && {
      icon: UserCheck,
      text: t('todo.pending', { n: waiting }),
      tone: 'wait',
      address: toWith({ org: '' }, 'accounts') // of all organizations
    },
    messages > 0 && {
      icon: MessagesSquare,
      text: t('todo.unread', { n: messages }),
      tone: 'wait',
      address: to('chat')
    },
    ...checked.slice(0, 3).map(({ bulkUploadId, fileName }) => ({
      icon: Upload,
      text: t('todo.checked', { file: fileName }),
      tone: 'wait' as const,
      address: to('bulk', bulkUploadId)
    })),
    ...failed
      .slice(0, 3)
      .map(({ bulkUploadId, fileName, progress }) => ({
        icon: Upload,
        text: t('todo.failed', { n: progress.failed, file: fileName }),
        tone: 'bad' as const,
        address: to('bulk', bulkUploadId)
      })),
    clients.data?.items.length === 0 && { icon: KeyRound, text: t('todo.client'), tone: 'off', address: to('clients') },
    devices.data?.total === 0 && { icon: SunMedium, text: t('todo.device'), tone: 'off', address: to('devices') },
    devices.data?.total === 0 && { icon: Upload, text: t('todo.bulk'), tone: 'off', address: to('bulk') },
    receivers.data?.length === 0 && { icon: Bell, text: t('todo.hook'), tone: 'off', address: to('webhooks') }
  ]
  return all.filter((task) => task !== false)
}

function Tile ({
  icon: Icon,
  title,
  address,
  note,
  of,
  children
}: {
  icon: LucideIcon
  title: string
  address: string
  note?: string
  of: UseQueryResult
  children: ReactNode
}) {
  return (
    <a className='tile panel' href={address}>
      <span><Icon />{title}</span>
      <strong>{of.isPending ? '…' : of.data === undefined ? '–' : children}</strong>
      <small>{note}</small>
    </a>
  )
}

function Tiles ({ owner, devices, months, unread, hooks }: Figures) {
  const now = months.data?.find(({ month }) => month !== undefined && Date.parse(month) === monthsAgo(0).getTime())
  const delivered = hooks.data?.reduce((sum, each) => sum + each.delivered, 0) ?? 0
  const ended = hooks.data?.reduce((sum, each) => sum + each.delivered + each.abandoned, 0) ?? 0

  return (
    <div className='tiles'>
      {owner && (
        <Tile
          icon={SunMedium}
          title={t('nav.devices')}
          address={to('devices')}
          of={devices}
          note={t('overview.active')}>
          {asNumber(devices.data?.total ?? 0)}
        </Tile>
      )}
      {months.fetchStatus !== 'idle' || months.data ? (
        <Tile
          icon={Award}
          title={t('overview.certified')}
          address={to('certificates')}
          of={months}
          note={t('overview.entries', { n: now?.entries ?? 0 })}>
          {asEnergy(now?.succeeded_watthour ?? 0)}
        </Tile>
      ) : null}
      <Tile icon={MessagesSquare} title={t('overview.unread')} address={to('chat')} of={unread}>
        {asNumber(unread.data?.count ?? 0)}
      </Tile>
      <Tile
        icon={WebhookIcon}
        title={t('overview.delivered')}
        address={to('webhooks')}
        of={hooks}
        note={ended > 0 ? t('hooks.rate', { ok: asNumber(delivered), all: asNumber(ended) }) : t('hooks.quiet')}>
        {ended > 0 ? `${asNumber(Math.floor((delivered / ended) * 1000) / 10)} %` : '–'}
      </Tile>
    </div>
  )
}

/* Energy by month; a month without certificates is an empty bar. */
function Chart ({ months }: { months: CertificateTotal[] }) {
  const at = Array.from({ length: MONTHS }, (_, i) => monthsAgo(MONTHS - 1 - i))
  const long = new Intl.DateTimeFormat(way(), { month: 'long', year: 'numeric', timeZone: 'UTC' })
  const short = new Intl.DateTimeFormat(way(), { month: 'short', timeZone: 'UTC' })
  const bars = at.map((begin) => ({
    label: long.format(begin),
    short: short.format(begin),
    value:
      months.find(({ month }) => month !== undefined && Date.parse(month) === begin.getTime())?.succeeded_watthour ?? 0
  }))

  return (
    <section className='panel'>
      <Bars
        title={t('overview.chart')}
        note={t('overview.sum', { energy: asEnergy(bars.reduce((sum, { value }) => sum + value, 0)) })}
        bars={bars}
        show={asEnergy}
      />
    </section>
  )
}

interface State { device: Device, energy: number | undefined, latest: string | undefined, problems: string[], silent: boolean }

/* The devices with the most problems, then those that were changed last; undefined until the problems are known. */
function useDevices ({ devices, doubtful }: Figures): State[] | undefined {
  const { devices: some = [], refused = new Map<number, number>() } = doubtful.data ?? {}
  const all = [...new Map([...devices.data?.items ?? [], ...some].map((device) => [device.id, device])).values()]
  const start = daysAgo(DAYS)
  const totals = useQueries({
    queries: all.map(({ uuid }) => ({
      queryKey: ['readings', 'overview', uuid],
      queryFn: () => everything<Total>(`/api/meter-reads/new/${uuid}/totals${query({ by: 'day', start })}`),
      refetchInterval: SLOW_MS
    }))
  })
  const states = all.map((device, i) => {
    const days = totals[i]?.data
    const n = refused.get(device.id) ?? 0
    return {
      device,
      energy: days?.reduce((sum, { value }) => sum + value, 0),
      latest: days?.map(({ endDate }) => endDate).sort().at(-1),
      silent: days?.length === 0,
      problems: [
        ...(n > 0 ? [t('overview.refused', { n })] : []),
        ...(device.capacity === null ? [t('overview.noCapacity')] : []),
        ...(device.commissioningDate === null ? [t('overview.noDate')] : [])
      ]
    }
  })

  if (devices.isPending || doubtful.isPending || totals.some(({ isPending }) => isPending)) return undefined
  const score = ({ problems, silent }: State) => problems.length + Number(silent)
  return states.sort((a, b) => score(b) - score(a)).slice(0, SHOWN)
}

function DeviceRow ({ of: { device, energy, latest, problems, silent } }: { of: State }) {
  return (
    <tr>
      <td className='wide'><a href={to('devices', device.uuid)}>{titleOf(device)}</a></td>
      <td className='number'>{energy !== undefined && asEnergy(energy)}</td>
      <td>
        {silent && <Badge tone='wait'>{t('overview.silent', { n: DAYS })}</Badge>}
        {latest ? asDay(new Date(Date.parse(latest) - 1).toISOString()) : !silent && '–'}
      </td>
      <td className='wide'>
        {problems.map((problem) => <Fragment key={problem}><Badge tone='bad'>{problem}</Badge> </Fragment>)}
      </td>
    </tr>
  )
}

function Devices ({ figures }: { figures: Figures }) {
  const states = useDevices(figures)
  const total = figures.devices.data?.total ?? 0
  const head = [
    t('devices.name'), { text: t('overview.energy', { n: DAYS }), number: true }, t('overview.latest'), t('overview.problems')
  ]

  if (states?.length === 0) return null
  return (
    <section>
      <h2>{t('overview.readings')}</h2>
      {states ? (
        <Table label={t('overview.readings')} head={head}>
          {states.map((state) => <DeviceRow key={state.device.uuid} of={state} />)}
        </Table>
      ) : <Loading />}
      {total > SHOWN && <a href={to('devices')}>{t('overview.all', { n: total })}</a>}
    </section>
  )
}

export default function Overview () {
  const me = useMe()
  const figures = useFigures()
  const { devices, months, shared } = figures
  const broken = Object.values(figures).filter((each) => typeof each === 'object' && each.isError)
  const tasks = tasksOf(figures)
  const first = broken[0]

  return (
    <div className='page'>
      <header>
        <h1>{me.firstName ? t('overview.hello', { name: me.firstName }) : t('nav.overview')}</h1>
      </header>
      {typeof first === 'object' && (
        <Failed
          error={first.error}
          again={() => {
            for (const each of broken) if (typeof each === 'object') void each.refetch()
          }}
        />
      )}
      <Tiles {...figures} />
      {tasks.length > 0 && (
        <section className='panel' aria-labelledby='tasks'>
          <h2 id='tasks'>{t('overview.next')}</h2>
          <ul className='tasks'>
            {tasks.map(({ icon: Icon, text, address, tone }) => (
              <li key={address + text}>
                <a href={address}>
                  <span className={`badge ${tone}`}>
                    <Icon />
                  </span>
                  {text}
                </a>
              </li>
            ))}
          </ul>
        </section>
      )}
      {months.data && months.data.length > 0 && <Chart months={months.data} />}
      {figures.owner && devices.isPending && <Loading />}
      {shared.data?.length === 0 && (
        <Empty icon={Award} action={<a href={to('chat')}>{t('overview.ask')}</a>}>
          {t('overview.buyer')}
        </Empty>
      )}
      {figures.owner && devices.data && <Devices figures={figures} />}
    </div>
  )
}
