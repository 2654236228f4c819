/* A form for a new device, or for changes to one; each error is shown at its field. */
import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'

import { ApiError, call } from '../api/client'
import type { Device } from '../api/types'
import { Target, useTarget } from '../organization'
import { t } from '../texts/texts'
import type { Key } from '../texts/en'
import { useAction } from '../ui/action'
import { Button, Dialog, Failed, Field } from '../ui/ui'

const fields: { name: keyof Device & string, text: Key, type?: string, example?: string }[] = [
  { name: 'externalId', text: 'devices.id' }, { name: 'siteName', text: 'devices.name' },
  { name: 'countryCode', text: 'devices.country', example: 'DE' }, { name: 'capacity', text: 'devices.capacity', type: 'number' },
  { name: 'commissioningDate', text: 'devices.since', type: 'date' }, { name: 'serialNumber', text: 'devices.serial' },
  { name: 'fuelCode', text: 'devices.fuel', example: 'ES100' }, { name: 'deviceTypeCode', text: 'devices.type', example: 'TC110' },
  { name: 'timezone', text: 'devices.zone', example: 'Europe/Berlin' }
]

export function Register ({ device, close, done }: { device?: Device, close: () => void, done: (device: Device) => void }) {
  const client = useQueryClient()
  const target = useTarget()
  const [values, setValues] = useState<Record<string, string>>(() => Object.fromEntries(fields.map(({ name }) => [name, String(device?.[name] ?? '')])))
  const save = useAction({
    mutationFn: () => {
      const changed = fields.map(({ name }) => name).filter((name) => values[name] !== String(device?.[name] ?? ''))
      const body = Object.fromEntries(changed.map((name) => [name, values[name]?.trim() ? values[name] : null])) // null clears a field
      return device ? call<Device>('PATCH', `/api/device/${device.uuid}`, body) : call<Device>('POST', '/api/device', { ...body, organizationId: target.id })
    },
    onSuccess: async (saved) => { await client.invalidateQueries({ queryKey: ['devices'] }); done(saved) },
    onError: () => client.invalidateQueries({ queryKey: ['devices', 'one'] }) // it may have been changed or deleted meanwhile
  })
  const errors = save.error instanceof ApiError ? save.error.errors : []
  const shown = [...fields.map(({ name }) => name as string), ...(!device && target.several ? ['organizationId'] : [])]
  const others = errors.length === 0 || errors.some(({ field }) => !shown.includes(field))

  return (
    <Dialog title={t(device ? 'devices.editOne' : 'devices.new')} close={close}>
      <form noValidate onSubmit={(event) => { event.preventDefault(); save.mutate() }}>
        {save.isError && others && <Failed error={save.error} />}
        {!device && <Target of={target} problem={errors.find(({ field }) => field === 'organizationId')?.problem} />}
        <div className='pairs'>
        {fields.map(({ name, text, type = 'text', example }) => (
          <Field key={name} label={name === 'capacity' ? `${t(text)} (kW)` : t(text)} problem={errors.find(({ field }) => field === name)?.problem}>
            {(props) => <input {...props} type={type} step='any' placeholder={example} value={values[name]} onChange={(e) => setValues({ ...values, [name]: e.target.value })} />}
          </Field>
        ))}
        </div>
        <div className='actions'>
          <Button onClick={close}>{t('do.cancel')}</Button>
          <Button kind='main' type='submit' disabled={save.isPending}>{t('do.save')}</Button>
        </div>
      </form>
    </Dialog>
  )
}
