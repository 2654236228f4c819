/* One device: its fields, readings, documents and certificates. */
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { MessageSquare, Pencil, Trash2 } from 'lucide-react'
import { useEffect, useState } from 'react'

import { call, get, query } from '../api/client'
import type { Device } from '../api/types'
import { Entries, useLog } from '../certificates/log'
import { Start } from '../chat/start'
import { useOrganizations } from '../organization'
import { goInstead, to, useValues, whileHere } from '../router'
import { t } from '../texts/texts'
import { asDate, asNumber, asPower } from '../ui/format'
import { refuse, toast } from '../ui/toast'
import { Button, Confirm, Failed, Id, Loading, problemOf, Time } from '../ui/ui'
import { Coverage } from './coverage'
import { titleOf, useChoices } from './data'
import { Documents } from './documents'
import { State } from './list'
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

function Facts ({ of: device }: { of: Device }) {
  const { several, nameOf } = useOrganizations()
  const countries = useChoices('countries')
  const fuels = useChoices('fuel-codes')
  const types = useChoices('device-types')
  const textOf = (list: ReturnType<typeof useChoices>, value: string | null) =>
    list.find((one) => one.value === value)?.text ?? value
  const { latitude, longitude, capacity, yieldValue, commissioningDate } = device
  const facts = [
    [t('devices.id'), device.externalId && <Id key='' id={device.externalId} />], [t('devices.serial'), device.serialNumber],
    [t('devices.capacity'), capacity === null ? null : asPower(capacity)],
    [t('devices.since'), commissioningDate && asDate(commissioningDate)],
    [t('devices.fuel'), textOf(fuels, device.fuelCode)], [t('devices.type'), textOf(types, device.deviceTypeCode)],
    [t('devices.yield'), yieldValue === null ? null : t('devices.yieldOf', { n: asNumber(yieldValue) })],
    [t('devices.country'), textOf(countries, device.countryCode)], [t('devices.address'), device.address],
    [t('devices.place'), latitude === null || longitude === null ? null : `${latitude}, ${longitude}`],
    [t('devices.zone'), device.timezone],
    ...(several ? [[t('accounts.organization'), nameOf(device.organizationId)]] : []),
    ['UUID', <Id key='' id={device.uuid} />],
    [t('devices.created'), <Time key='' at={device.createdAt} />],
    [t('devices.updated'), <Time key='' at={device.updatedAt} />]
  ] as const

  return (
    <dl className='facts panel'>
      {facts.map(([label, value]) => <div key={label}><dt>{label}</dt><dd>{value ?? '–'}</dd></div>)}
    </dl>
  )
}

/* Asks before it deactivates or deletes a device. */
function Ask ({ what, device, close }: { what: 'deactivate' | 'delete', device: Device, close: () => void }) {
  const client = useQueryClient()
  const path = `/api/device/${device.uuid}`
  const name = titleOf(device)
  const put = (status: Device['status']) =>
    call('PATCH', path, { status }).then(() => client.invalidateQueries({ queryKey: ['devices'] }))
  const deactivate = async () => {
    await put('Inactive')
    toast(t('devices.deactivated', { name }), () => { put('Active').catch((problem) => refuse(problemOf(problem))) })
  }
  const remove = async () => {
    const leave = whileHere()
    await call('DELETE', path)
    leave('devices')
    toast(t('state.deleted', { name }))
    void client.invalidateQueries({ queryKey: ['devices'], refetchType: 'none' })
  }

  return what === 'delete' ? (
    <Confirm title={t('devices.delete')} text={t('devices.deleteAsk', { name })} action={t('do.delete')} name={name}
      run={remove} close={close} done={() => {}} />
  ) : (
    <Confirm title={t('devices.deactivate')} text={t('devices.deactivateAsk', { name })}
      action={t('devices.deactivate')} mild run={deactivate} close={close} />
  )
}

export function One ({ name }: { name: string }) {
  const client = useQueryClient()
  const [open, setOpen] = useState<'edit' | 'write' | 'deactivate' | 'delete' | null>(null)
  const [error, setError] = useState<unknown>(null)
  const [{ of }] = useValues('of') // the organization, if the name is an external id
  const device = useQuery({
    queryKey: ['devices', 'one', name, ...(of ? [of] : [])],
    queryFn: () => get<Device>(`/api/device/${encodeURIComponent(name)}${query({ organizationId: of })}`)
  })
  const { data } = device
  const close = () => setOpen(null)
  const activate = () => {
    setError(null)
    call('PATCH', `/api/device/${name}`, { status: 'Active' })
      .then(() => client.invalidateQueries({ queryKey: ['devices'] }), setError)
  }

  useEffect(() => { // the address may have a key that was changed, or another key of the device
    if (!data || data.uuid === name) return
    client.setQueryData(['devices', 'one', data.uuid], data)
    goInstead('devices', data.uuid)
  }, [client, data, name])
  if (!data || data.uuid !== name) {
    return (
      <div className='page'>
        <header><h1>{name}</h1></header>
        {device.isError ? <Failed error={device.error} again={() => void device.refetch()} /> : <Loading />}
        <a href={to('devices')}>{t('devices.back')}</a>
      </div>
    )
  }
  return (
    <div className='page'>
      <header>
        <div><a href={to('devices')}>{t('devices.back')}</a><h1>{titleOf(data)} <State of={data} /></h1></div>
        <div className='row'>
          <Button icon={MessageSquare} onClick={() => setOpen('write')}>{t('devices.write')}</Button>
          <Button icon={Pencil} onClick={() => setOpen('edit')}>{t('devices.edit')}</Button>
          {data.status === 'Active'
            ? <Button onClick={() => setOpen('deactivate')}>{t('devices.deactivate')}</Button>
            : <Button onClick={activate}>{t('devices.activate')}</Button>}
          <Button kind='risk' icon={Trash2} onClick={() => setOpen('delete')}>{t('do.delete')}</Button>
        </div>
      </header>
      {device.isError && <Failed error={device.error} again={() => void device.refetch()} />}
      {error !== null && <Failed error={error} />}
      <Facts of={data} />
      <Readings name={data.uuid} timezone={data.timezone} />
      <Coverage name={data.uuid} device={data.id} />
      <Documents name={data.uuid} />
      <Log device={data} />
      {open === 'write' && <Start about={titleOf(data)} organization={data.organizationId} close={close} />}
      {open === 'edit' && <Register device={data} close={close} done={close} />}
      {(open === 'deactivate' || open === 'delete') && <Ask what={open} device={data} close={close} />}
    </div>
  )
}
