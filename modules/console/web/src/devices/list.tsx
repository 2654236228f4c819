/* The list of devices. The host searches, filters and sorts, and returns it page by page. */
import { keepPreviousData, useInfiniteQuery } from '@tanstack/react-query'
import { useDeferredValue, useState } from 'react'

import { page, query } from '../api/client'
import type { Device } from '../api/types'
import { useOrganizations } from '../organization'
import { go, to, useValues } from '../router'
import { isOne, useMe } from '../session'
import { t } from '../texts/texts'
import { asDate, asNumber } from '../ui/format'
import { useOrder } from '../ui/sort'
import { Badge, Button, Empty, Failed, Loading, More, Table } from '../ui/ui'
import { Filters, filters, queryOf } from './filters'
import { Register } from './register'

const PAGE = 100

export const titleOf = (device: Device) => device.siteName ?? device.externalId ?? device.uuid

export const State = ({ of }: { of: Device }) =>
  <Badge tone={of.status === 'Active' ? 'good' : 'off'}>{t(of.status === 'Active' ? 'devices.active' : 'devices.inactive')}</Badge>

function Row ({ device, organization }: { device: Device, organization: string | null }) {
  return (
    <tr>
      <td className='wide'><a href={to('devices', device.uuid)}>{titleOf(device)}</a></td>
      <td className='wide'>{device.externalId}</td>
      {organization !== null && <td className='wide'>{organization}</td>}
      <td>{device.countryCode}</td>
      <td className='number'>{device.capacity !== null && `${asNumber(Number(device.capacity))} kW`}</td>
      <td>{device.commissioningDate && asDate(device.commissioningDate)}</td>
      <td><State of={device} /></td>
    </tr>
  )
}

export function List () {
  const me = useMe()
  const [filter, change] = useValues(...filters)
  const { several, chosen, nameOf } = useOrganizations()
  const [registering, setRegistering] = useState(false)
  const order = useOrder()
  const wanted = useDeferredValue(query({ limit: PAGE, count: true, organizationId: chosen, ...queryOf(filter), ...order.query }))
  const list = useInfiniteQuery({
    queryKey: ['devices', wanted],
    queryFn: ({ pageParam }) => page<Device[]>(pageParam),
    initialPageParam: `/api/device${wanted}`,
    getNextPageParam: (last) => last.next,
    placeholderData: keepPreviousData
  })
  const all = list.data?.pages.flatMap(({ items }) => items) ?? []
  const total = list.data?.pages[0]?.total
  const mayRegister = isOne(me, 'OrganizationAdmin', 'ApiUser')
  const head = [
    order.head(t('devices.name'), 'siteName'), order.head(t('devices.id'), 'externalId'), ...(several ? [t('accounts.organization')] : []), t('devices.country'),
    order.head(t('devices.capacity'), 'capacity', true), order.head(t('devices.since'), 'commissioningDate'), t('devices.status')
  ]

  return (
    <div className='page'>
      <header>
        <h1>{t('devices.title')}</h1>
        {typeof total === 'number' && <span>{t('devices.count', { n: asNumber(total) })}</span>}
        {mayRegister && <Button kind='main' onClick={() => setRegistering(true)}>{t('devices.new')}</Button>}
      </header>
      <Filters filter={filter} change={change} />
      {list.isPending && <Loading />}
      {list.isError && <Failed error={list.error} again={() => void list.refetch()} />}
      {list.isSuccess && all.length === 0 && <Empty>{t(Object.values(filter).some(Boolean) ? 'devices.noneSuch' : mayRegister ? 'devices.empty' : 'devices.none')}</Empty>}
      {all.length > 0 && (
        <Table label={t('devices.title')} head={head} busy={list.isPlaceholderData}>
          {all.map((device) => <Row key={device.uuid} device={device} organization={several ? nameOf(device.organizationId) : null} />)}
        </Table>
      )}
      <More of={list} shown={all.length} total={total} />
      {registering && <Register close={() => setRegistering(false)} done={(device) => { setRegistering(false); go('devices', device.uuid) }} />}
    </div>
  )
}
