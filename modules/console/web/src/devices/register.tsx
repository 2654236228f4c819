/* A form for a new device, or for changes to one; each error is shown at its field. */
import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'

import { change, create } from '../api/client'
import type { Device } from '../api/types'
import { Target, useTarget } from '../organization'
import { t } from '../texts/texts'
import type { Key } from '../texts/en'
import { FormDialog, Input, Select, useSentForm } from '../ui/form'
import { Options, useChoices } from './data'

type List = Parameters<typeof useChoices>[0]

const fields: { name: keyof Device, text: Key, type?: string, list?: List }[] = [
  { name: 'externalId', text: 'devices.id' }, { name: 'siteName', text: 'devices.name' },
  { name: 'serialNumber', text: 'devices.serial' },
  { name: 'countryCode', text: 'devices.country', list: 'countries' }, { name: 'address', text: 'devices.address' },
  { name: 'timezone', text: 'devices.zone', list: 'time-zones' },
  { name: 'latitude', text: 'devices.latitude', type: 'number' },
  { name: 'longitude', text: 'devices.longitude', type: 'number' },
  { name: 'capacity', text: 'devices.capacityIn', type: 'number' },
  { name: 'yieldValue', text: 'devices.yieldIn', type: 'number' },
  { name: 'commissioningDate', text: 'devices.since', type: 'date' },
  { name: 'fuelCode', text: 'devices.fuel', list: 'fuel-codes' },
  { name: 'deviceTypeCode', text: 'devices.type', list: 'device-types' }
]

const writtenOf = (device: Device | undefined, name: keyof Device) => String(device?.[name] ?? '')

/* Somebody else has changed the same fields since the form was opened. The form then shows the new values and asks. */
class Conflict extends Error {
  constructor (readonly now: Device, readonly names: string[]) { super('') }
}

function Changed ({ of: { now, names } }: { of: Conflict }) {
  return (
    <div className='failed' role='alert'>
      <p>{t('devices.conflict')}</p>
      <ul>
        {fields.filter(({ name }) => names.includes(name)).map(({ name, text }) => (
          <li key={name}>{t(text)}: {writtenOf(now, name) || '–'}</li>
        ))}
      </ul>
    </div>
  )
}

export function Register ({ device, close, done }: {
  device?: Device, close: () => void, done: (device: Device) => void
}) {
  const client = useQueryClient()
  const target = useTarget()
  const lists: Record<List, ReturnType<typeof useChoices>> = {
    countries: useChoices('countries'), 'fuel-codes': useChoices('fuel-codes'),
    'device-types': useChoices('device-types'), 'time-zones': useChoices('time-zones')
  }
  const [first] = useState(device) // as it was when the form was opened: only fields that differ are sent
  const [known, know] = useState(device) // as it was when the user last saw its values
  const written = Object.fromEntries(fields.map(({ name }) => [name, writtenOf(device, name)]))
  const form = useSentForm<Record<string, string>, Device>({ ...(device ? {} : target.values), ...written }, {
    send: async (values) => {
      const changed = fields.map(({ name }) => name).filter((name) => values[name] !== writtenOf(first, name))
      // null clears a field
      const body = Object.fromEntries(changed.map((name) => [name, values[name]?.trim() ? values[name] : null]))
      if (!device) return create<Device>('/api/device', { ...body, organizationId: target.idOf(values) })
      return change<Device>(`/api/device/${device.uuid}`, body, (now) => {
        const names = changed.filter((name) => ![writtenOf(known, name), values[name]].includes(writtenOf(now, name)))
        if (names.length > 0) throw new Conflict(now, names)
      })
    },
    done: () => client.invalidateQueries({ queryKey: ['devices'] }),
    leave: done,
    failed: (error) => {
      if (error instanceof Conflict) know(error.now)
      void client.invalidateQueries({ queryKey: ['devices', 'one'] }) // somebody may have changed or deleted the device
    }
  })
  const conflict = form.save.error instanceof Conflict ? form.save.error : null

  return (
    <FormDialog title={t(device ? 'devices.editOne' : 'devices.new')} of={form} close={close} noValidate
      action={t(conflict ? 'devices.saveAnyway' : 'do.save')} error={conflict ? null : form.error}>
      {conflict && <Changed of={conflict} />}
      {!device && <Target of={form} name='organizationId' />}
      <div className='pairs'>
        {fields.map(({ name, text, type = 'text', list }) => list ? (
          <Select key={name} of={form} name={name} label={t(text)}>
            <Options of={lists[list]} none='–' value={writtenOf(first, name)} />
          </Select>
        ) : <Input key={name} of={form} name={name} label={t(text)} type={type} step='any' />)}
      </div>
    </FormDialog>
  )
}
