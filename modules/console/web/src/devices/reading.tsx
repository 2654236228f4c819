/* Forms that add a reading, and void one. */
import { useQueryClient } from '@tanstack/react-query'

import { ApiError, call, create } from '../api/client'
import type { Read } from '../api/types'
import { t } from '../texts/texts'
import { FormDialog, Input, Select, problemsIn, useSentForm } from '../ui/form'
import { asEnergy, asPeriod, zoneOf } from '../ui/format'
import { toast } from '../ui/toast'

const units = ['Wh', 'kWh', 'MWh', 'GWh']

/* Reads everything again that depends on readings. */
function useRefresh () {
  const client = useQueryClient()
  const keys = ['readings', 'coverage', 'certificates']
  return () => Promise.all(keys.map((key) => client.invalidateQueries({ queryKey: [key] })))
}

export function Add ({ path, timezone, close }: { path: string, timezone: string | null, close: () => void }) {
  const refresh = useRefresh()
  const form = useSentForm({ type: 'History', startDate: '', endDate: '', value: '', unit: 'kWh' }, {
    send: ({ type, unit, value, startDate, endDate }) => {
      const read = { value, ...(startDate && { startDate }), ...(endDate && { endDate }) }
      return create(path, { type, unit, timezone: timezone ?? zoneOf(), reads: [read] })
    },
    done: async () => { await refresh(); toast(t('readings.added')); close() },
    failed: () => refresh(), // it is among the refused readings now
    problemsOf: (error) => problemsIn(error).map(({ field, problem }) => ({ field: field.replace('reads[0].', ''), problem }))
  })
  const start = form.watch('type') === 'Delta' ? 'readings.startDelta' : 'readings.start'

  return (
    <FormDialog title={t('readings.add')} of={form} close={close} noValidate>
      <Select of={form} name='type' label={t('readings.type')}>
        <option value='History'>{t('readings.History')}</option>
        <option value='Delta'>{t('readings.Delta')}</option>
      </Select>
      <div className='pairs'>
        <Input of={form} name='startDate' label={t(start)} type='datetime-local' />
        <Input of={form} name='endDate' label={t('readings.end')} type='datetime-local' />
        <Input of={form} name='value' label={t('certs.energy')} type='number' step='any' min={0} />
        <Select of={form} name='unit' label={t('readings.unit')}>
          {units.map((unit) => <option key={unit}>{unit}</option>)}
        </Select>
      </div>
      <p><small>{timezone ? t('readings.zone', { zone: timezone }) : t('readings.ownZone')}</small></p>
    </FormDialog>
  )
}

export function Void ({ path, read, zone, close }: { path: string, read: Read, zone: string, close: () => void }) {
  const refresh = useRefresh()
  const form = useSentForm({ reason: '' }, {
    send: (values) => call('DELETE', `${path}/${read.id}`, values),
    done: async () => { await refresh(); toast(t('readings.isVoided')); close() }
  })
  const certified = form.error instanceof ApiError && form.error.status === 403

  return (
    <FormDialog title={t('readings.void')} of={form} close={close} noValidate action={t('readings.void')} kind='danger'
      error={certified ? t('readings.certified') : form.error}>
      <p>
        {t('readings.voidAsk', { energy: asEnergy(read.value), period: asPeriod(read.startDate, read.endDate, zone) })}
      </p>
      <Input of={form} name='reason' label={t('readings.reason')} maxLength={1000} />
    </FormDialog>
  )
}
