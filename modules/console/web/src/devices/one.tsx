/* One device: its fields, energy, documents and certificates. */
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useEffect, useState } from 'react'

import { get } from '../api/client'
import type { Device } from '../api/types'
import { Entries, useLog } from '../certificates/log'
import { Start } from '../chat/start'
import { useOrganizations } from '../organization'
import { goInstead, to } from '../router'
import { t } from '../texts/texts'
import { asDate, asNumber } from '../ui/format'
import { Button, Failed, Loading } from '../ui/ui'
import { Coverage } from './coverage'
import { Documents } from './documents'
import { State, titleOf } from './list'
import { Readings } from './readings'
import { Register } from './register'

function Log ({ device }: { device: Device }) {
  return (
    <section>
      <h2>{t('devices.log')}</h2>
      <Entries {...useLog({ deviceId: device.id }, 20)} ofOne />
    </section>
  )
}

export function One ({ name }: { name: string }) {
  const client = useQueryClient()
  const { several, nameOf } = useOrganizations()
  const [editing, setEditing] = useState(false)
  const [writing, setWriting] = useState(false)
  const device = useQuery({ queryKey: ['devices', 'one', name], queryFn: () => get<Device>(`/api/device/${encodeURIComponent(name)}`) })
  const { data } = device

  useEffect(() => { // after an edit of the key, an address by another key would be wrong
    if (!data || data.uuid === name) return
    client.setQueryData(['devices', 'one', data.uuid], data)
    goInstead('devices', data.uuid)
  }, [client, data, name])
  if (!data || data.uuid !== name) return <div className='page'><header><h1>{name}</h1></header>{device.isError ? <Failed error={device.error} again={() => void device.refetch()} /> : <Loading />}<a href={to('devices')}>{t('devices.back')}</a></div>
  const facts: [string, string | null][] = [
    [t('devices.id'), data.externalId], [t('devices.country'), data.countryCode],
    [t('devices.capacity'), data.capacity === null ? null : `${asNumber(Number(data.capacity))} kW`], [t('devices.since'), data.commissioningDate && asDate(data.commissioningDate)],
    [t('devices.serial'), data.serialNumber], [t('devices.fuel'), data.fuelCode], [t('devices.type'), data.deviceTypeCode], [t('devices.zone'), data.timezone],
    ...(several ? [[t('accounts.organization'), nameOf(data.organizationId)] as [string, string]] : [])
  ]
  return (
    <div className='page'>
      <header>
        <div><a href={to('devices')}>{t('devices.back')}</a><h1>{titleOf(data)}</h1></div>
        <div className='row'>
          <State of={data} />
          <Button onClick={() => setWriting(true)}>{t('devices.write')}</Button>
          <Button onClick={() => setEditing(true)}>{t('devices.edit')}</Button>
        </div>
      </header>
      {device.isError && <Failed error={device.error} again={() => void device.refetch()} />}
      <dl className='facts panel'>{facts.map(([label, value]) => <div key={label}><dt>{label}</dt><dd>{value ?? '–'}</dd></div>)}</dl>
      <Readings name={data.uuid} />
      <Coverage name={data.uuid} device={data.id} />
      <Documents name={data.uuid} />
      <Log device={data} />
      {writing && <Start about={titleOf(data)} organization={data.organizationId} close={() => setWriting(false)} />}
      {editing && <Register device={data} close={() => setEditing(false)} done={() => setEditing(false)} />}
    </div>
  )
}
