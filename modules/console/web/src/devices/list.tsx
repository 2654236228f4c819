/* The list of devices. The host searches, filters and sorts, and returns it page by page. */
import { Plus, SunMedium } from 'lucide-react'
import { useState } from 'react'

import { query } from '../api/client'
import type { Device } from '../api/types'
import { useOrganizations } from '../organization'
import { go, to, useValues } from '../router'
import { isOne, useMe } from '../session'
import { t } from '../texts/texts'
import { asDate, asNumber, asPower } from '../ui/format'
import { usePages, useSettled } from '../ui/pages'
import { useOrder } from '../ui/sort'
import { Badge, Button, Empty, Failed, Loading, More, Table } from '../ui/ui'
import { titleOf } from './data'
import { Filters, filters, queryOf } from './filters'
import { Register } from './register'

const PAGE = 100

export const State = ({ of }: { of: Device }) =>
  of.status === 'Active'
    ? <Badge tone='good'>{t('devices.active')}</Badge> : <Badge tone='off'>{t('devices.inactive')}</Badge>

function Row ({ device, organization, state }: { device: Device, organization: string | null, state: boolean }) {
  return (
    <tr>
      <td className='wide'><a href={to('devices', device.uuid)}>{titleOf(device)}</a></td>
      <td className='wide'>{device.externalId}</td>
      {organization !== null && <td className='wide'>{organization}</td>}
      <td>{device.countryCode}</td>
      <td className='number'>{device.capacity !== null && asPower(device.capacity)}</td>
      <td>{device.commissioningDate && asDate(device.commissioningDate)}</td>
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
  const wanted = useSettled(query({ ...queryOf(filter), ...order.query }).slice(1))
  const path = `/api/device${query({ limit: PAGE, count: true, organizationId: chosen })}&${wanted}`
  const { list, all, total } = usePages<Device>('devices', path)
  const mayRegister = isOne(me, 'OrganizationAdmin', 'ApiUser')
  const register = <Button kind='main' icon={Plus} onClick={() => setRegistering(true)}>{t('devices.new')}</Button>
  const filtered = Object.values(filter).some(Boolean)
  const head = [
    order.head(t('devices.name'), 'siteName'), order.head(t('devices.id'), 'externalId'),
    ...(several ? [t('accounts.organization')] : []), t('devices.country'),
    order.head(t('devices.capacity'), 'capacity', true), order.head(t('devices.since'), 'commissioningDate'),
    ...(filter.status === 'All' ? [t('devices.status')] : [])
  ]

  return (
    <div className='page'>
      <header>
        <h1>{t('devices.title')}</h1>
        {typeof total === 'number' && <span>{t('devices.count', { n: asNumber(total) })}</span>}
        {mayRegister && (filtered || all.length > 0) && register}
      </header>
      <Filters filter={filter} change={change} />
      {list.isPending && <Loading />}
      {list.isError && <Failed error={list.error} again={() => void list.refetch()} />}
      {list.isSuccess && all.length === 0 && (
        <Empty icon={SunMedium} action={mayRegister && !filtered && register}>
          {t(filtered ? 'devices.noneSuch' : mayRegister ? 'devices.empty' : 'devices.none')}
        </Empty>
      )}
      {all.length > 0 && (
        <Table label={t('devices.title')} head={head} busy={list.isPlaceholderData}>
          {all.map((device) => (
            <Row key={device.uuid} device={device} state={filter.status === 'All'}
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
