/* The list of devices. The host searches, filters and sorts, and returns it page by page. */
import { useQueries, useQueryClient } from '@tanstack/react-query'
import { Download, Plus, SunMedium } from 'lucide-react'
import { useState, type ReactNode } from 'react'

import { call, everything, get, query, type Page } from '../api/client'
import type { Device, LatestRead } from '../api/types'
import { useOrganizations } from '../organization'
import { go, to, useValues } from '../router'
import { isOne, useMe } from '../session'
import { t } from '../texts/texts'
import { useAction } from '../ui/action'
import { saveCsv } from '../ui/csv'
import { asDate, asPower } from '../ui/format'
import { usePages } from '../ui/pages'
import { SelectionBar, useSelection, type Action } from '../ui/select'
import { useOrder } from '../ui/sort'
import { Badge, Button, Empty, Failed, Loading, More, Table, Time } from '../ui/ui'
import { Tabs, titleOf } from './data'
import { Filters, filters, queryOf } from './filters'
import { Register } from './register'

const PAGE = 100
const FRESH_MS = 60000
const EXPORTED = 1000 // in a page of the export

export const State = ({ of }: { of: Device }) =>
  of.status === 'Active'
    ? <Badge tone='good'>{t('devices.active')}</Badge> : <Badge tone='off'>{t('devices.inactive')}</Badge>

const columns = [
  'uuid', 'externalId', 'siteName', 'serialNumber', 'organizationId', 'status', 'countryCode', 'address', 'latitude',
  'longitude', 'timezone', 'capacity', 'yieldValue', 'commissioningDate', 'fuelCode', 'deviceTypeCode', 'createdAt',
  'updatedAt'
] as const

/* The actions for several devices. */
function actionsOf (): Action<Device>[] {
  const put = (status: Device['status']) => ({ uuid }: Device) => call('PATCH', `/api/device/${uuid}`, { status })
  const is = (status: Device['status']) => (device: Device) => device.status === status

  return [
    { text: t('devices.activate'), fits: is('Inactive'), run: put('Active'),
      ask: (n) => t('devices.activateMany', { n }), done: (n) => t('devices.activatedMany', { n }) },
    { text: t('devices.deactivate'), kind: 'danger', fits: is('Active'), run: put('Inactive'),
      ask: (n) => t('devices.deactivateMany', { n }), done: (n) => t('devices.deactivatedMany', { n }) },
    { text: t('do.delete'), kind: 'danger', final: true, fits: () => true,
      run: ({ uuid }) => call('DELETE', `/api/device/${uuid}`),
      ask: (n) => t('devices.deleteMany', { n }), done: (n) => t('devices.deletedMany', { n }) }
  ]
}

/*
 * Returns when the last reading of each device ends, by the id of the device. Sends one request for each page of the
 * list. `failed`: a request that failed.
 */
function useLatest (pages: Page<Device[]>[]) {
  const reads = useQueries({
    queries: pages.filter(({ items }) => items.length > 0).map(({ items }) => {
      const path = `/api/meter-reads/latestread${query({ deviceIds: items.map(({ id }) => id).join() })}`
      return { queryKey: ['readings', 'latest', path], queryFn: () => get<LatestRead[]>(path), staleTime: FRESH_MS }
    })
  })
  return {
    latest: new Map(reads.flatMap(({ data = [] }) => data.map(({ deviceId, endDate }) => [deviceId, endDate]))),
    failed: reads.find(({ isLoadingError }) => isLoadingError)
  }
}

function Row ({ device, organization, latest, state, box }: {
  device: Device, organization: string | null, latest: string | undefined, state: boolean, box: ReactNode
}) {
  return (
    <tr>
      {box}
      <td className='wide'><a href={to('devices', device.uuid)}>{titleOf(device)}</a></td>
      <td className='wide'>{device.externalId}</td>
      {organization !== null && <td className='wide'>{organization}</td>}
      <td>{device.countryCode}</td>
      <td className='number'>{device.capacity !== null && asPower(device.capacity)}</td>
      <td>{device.commissioningDate && asDate(device.commissioningDate)}</td>
      <td>{latest && <Time at={latest} />}</td>
      {state && <td><State of={device} /></td>}
    </tr>
  )
}

export function List () {
  const me = useMe()
  const [filter, change] = useValues(...filters)
  const { several, chosen, nameOf } = useOrganizations()
  const [registering, setRegistering] = useState(false)
  const order = useOrder()
  const client = useQueryClient()
  const wanted = query({ ...queryOf(filter), ...order.query }).slice(1)
  const path = `/api/device${query({ limit: PAGE, count: true, organizationId: chosen })}&${wanted}`
  const { list, pages, all, total } = usePages<Device>('devices', path)
  const { latest, failed } = useLatest(pages)
  const selection = useSelection(all, ({ uuid }) => uuid)
  const every = `/api/device${query({ limit: EXPORTED, organizationId: chosen })}&${wanted}`
  const csv = useAction({
    mutationFn: async () => saveCsv('devices.csv', await everything<Device>(every),
      columns.map((name) => [name, (device) => device[name]]))
  })
  const mayRegister = isOne(me, 'OrganizationAdmin', 'ApiUser')
  const register = <Button kind='main' icon={Plus} onClick={() => setRegistering(true)}>{t('devices.new')}</Button>
  const filtered = Object.values(filter).some(Boolean)
  const head = [
    selection.head,
    order.head(t('devices.name'), 'siteName'), order.head(t('devices.id'), 'externalId'),
    ...(several ? [t('accounts.organization')] : []), t('devices.country'),
    order.head(t('devices.capacity'), 'capacity', true), order.head(t('devices.since'), 'commissioningDate'),
    t('overview.latest'),
    ...(filter.status === 'All' ? [t('devices.status')] : [])
  ]

  return (
    <div className='page'>
      <header>
        <h1>{t('devices.title')}</h1>
        {typeof total === 'number' && <span>{t('devices.count', { n: total })}</span>}
        <div className='row'>
          {all.length > 0 && (
            <Button icon={Download} disabled={csv.isPending} onClick={() => csv.mutate()}>{t('hooks.export')}</Button>
          )}
          {mayRegister && (filtered || all.length > 0) && register}
        </div>
      </header>
      <Tabs at='list' />
      {csv.isError && <Failed error={csv.error} />}
      <Filters filter={filter} change={change} />
      <SelectionBar selection={selection} actions={actionsOf()} nameOf={titleOf}
        changed={() => client.invalidateQueries({ queryKey: ['devices'] })} />
      {list.isPending && <Loading />}
      {list.isError && <Failed error={list.error} again={() => void list.refetch()} />}
      {failed && <Failed error={failed.error} again={() => void failed.refetch()} />}
      {list.isSuccess && all.length === 0 && (
        <Empty icon={SunMedium} action={mayRegister && !filtered && register}>
          {t(filtered ? 'devices.noneSuch' : mayRegister ? 'devices.empty' : 'devices.none')}
        </Empty>
      )}
      {all.length > 0 && (
        <Table label={t('devices.title')} head={head} busy={list.isPlaceholderData}>
          {all.map((device) => (
            <Row key={device.uuid} device={device} latest={latest.get(device.id)} state={filter.status === 'All'}
              box={selection.cell(device, titleOf(device))}
              organization={several ? nameOf(device.organizationId) : null} />
          ))}
        </Table>
      )}
      <More of={list} shown={all.length} total={total} />
      {registering && (
        <Register close={() => setRegistering(false)} done={(device) => go('devices', device.uuid)} />
      )}
    </div>
  )
}
