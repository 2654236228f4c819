/* A form for a new device, or for changes to one; each error is shown at its field. */
import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'

import { ApiError, call, change } from '../api/client'
import type { Device } from '../api/types'
import { Target, useTarget } from '../organization'
import { t } from '../texts/texts'
import type { Key } from '../texts/en'
import { useAction } from '../ui/action'
import { Button, Dialog, Failed, Field } from '../ui/ui'
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

const written = (device: Device | undefined, name: keyof Device) => String(device?.[name] ?? '')

/* Somebody else has changed the same fields since the form was opened; it shows their new values and asks. */
class Conflict extends Error {
  constructor (readonly now: Device, readonly names: string[]) { super('') }
}

function Changed ({ of: { now, names } }: { of: Conflict }) {
  return (
    <div className='failed' role='alert'>
      <p>{t('devices.conflict')}</p>
      <ul>
        {fields.filter(({ name }) => names.includes(name)).map(({ name, text }) => (
          <li key={name}>{t(text)}: {written(now, name) || '–'}</li>
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
  const [values, setValues] = useState<Record<string, string>>(() =>
    Object.fromEntries(fields.map(({ name }) => [name, written(device, name)])))
  const [first] = useState(device) // as it was when the form was opened: only fields that differ are sent
  const [known, know] = useState(device) // as it was when the user last saw its values
  const save = useAction({
    mutationFn: async () => {
      const changed = fields.map(({ name }) => name).filter((name) => values[name] !== written(first, name))
      // null clears a field
      const body = Object.fromEntries(changed.map((name) => [name, values[name]?.trim() ? values[name] : null]))
      if (!device) return call<Device>('POST', '/api/device', { ...body, organizationId: target.id })
      return change<Device>(`/api/device/${device.uuid}`, body, (now) => {
        const names = changed.filter((name) => ![written(known, name), values[name]].includes(written(now, name)))
        if (names.length > 0) throw new Conflict(now, names)
      })
    },
    onSuccess: async (saved) => { await client.invalidateQueries({ queryKey: ['devices'] }); done(saved) },
    onError: (error) => {
      if (error instanceof Conflict) know(error.now)
      void client.invalidateQueries({ queryKey: ['devices', 'one'] }) // it may have been changed or deleted meanwhile
    }
  })
  const errors = save.error instanceof ApiError ? save.error.errors : []
  const shown = [...fields.map(({ name }) => name as string), ...(!device && target.several ? ['organizationId'] : [])]
  const others = errors.length === 0 || errors.some(({ field }) => !shown.includes(field))
  const conflict = save.error instanceof Conflict ? save.error : null

  return (
    <Dialog title={t(device ? 'devices.editOne' : 'devices.new')} close={close}>
      <form noValidate onSubmit={(event) => { event.preventDefault(); save.mutate() }}>
        {conflict && <Changed of={conflict} />}
        {save.isError && !conflict && others && <Failed error={save.error} />}
        {!device && <Target of={target} problem={errors.find(({ field }) => field === 'organizationId')?.problem} />}
        <div className='pairs'>
          {fields.map(({ name, text, type = 'text', list }) => (
            <Field key={name} label={t(text)} problem={errors.find(({ field }) => field === name)?.problem}>
              {(props) => {
                const onChange = (e: { target: { value: string } }) => setValues({ ...values, [name]: e.target.value })
                const all = { ...props, value: values[name], onChange }
                return list
                  ? <select {...all}><Options of={lists[list]} none='–' value={values[name] ?? ''} /></select>
                  : <input {...all} type={type} step='any' />
              }}
            </Field>
          ))}
        </div>
        <div className='actions'>
          <Button onClick={close}>{t('do.cancel')}</Button>
          <Button kind='main' type='submit' disabled={save.isPending}>
            {t(conflict ? 'devices.saveAnyway' : 'do.save')}
          </Button>
        </div>
      </form>
    </Dialog>
  )
}
