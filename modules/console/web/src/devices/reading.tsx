/* Forms that add a reading, and void one. */
import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'

import { ApiError, call } from '../api/client'
import type { Read } from '../api/types'
import { t } from '../texts/texts'
import { useAction } from '../ui/action'
import { asEnergy, asPeriod, zoneOf } from '../ui/format'
import { toast } from '../ui/toast'
import { Button, Dialog, Failed, Field } from '../ui/ui'

const units = ['Wh', 'kWh', 'MWh', 'GWh']

/* Reads everything again that depends on readings. */
function useRefresh () {
  const client = useQueryClient()
  const keys = ['readings', 'coverage', 'certificates']
  return () => Promise.all(keys.map((key) => client.invalidateQueries({ queryKey: [key] })))
}

export function Add ({ path, timezone, close }: { path: string, timezone: string | null, close: () => void }) {
  const refresh = useRefresh()
  const [values, setValues] = useState({ type: 'History', startDate: '', endDate: '', value: '', unit: 'kWh' })
  const change = (some: Partial<typeof values>) => setValues({ ...values, ...some })
  const add = useAction({
    mutationFn: () => {
      const { type, unit, value, startDate, endDate } = values
      const read = { value, ...(startDate && { startDate }), ...(endDate && { endDate }) }
      const zone = timezone ?? zoneOf()
      return call('POST', path, { type, unit, timezone: zone, reads: [read] })
    },
    onSuccess: async () => { await refresh(); toast(t('readings.added')); close() },
    onError: () => refresh() // it is among the refused readings now
  })
  const errors = add.error instanceof ApiError ? add.error.errors : []
  const problemOf = (name: string) => errors.find(({ field }) => field === `reads[0].${name}`)?.problem
  const fields = Object.keys(values).map((name) => `reads[0].${name}`)
  const shown = errors.length > 0 && errors.every(({ field }) => fields.includes(field))
  const date = (name: 'startDate' | 'endDate', label: string) => (
    <Field label={label} problem={problemOf(name)}>
      {(props) => (
        <input {...props} type='datetime-local' value={values[name]}
          onChange={(e) => change({ [name]: e.target.value })} />
      )}
    </Field>
  )

  return (
    <Dialog title={t('readings.add')} close={close}>
      <form noValidate onSubmit={(event) => { event.preventDefault(); add.mutate() }}>
        {add.isError && !shown && <Failed error={add.error} />}
        <Field label={t('readings.type')}>
          {(props) => (
            <select {...props} value={values.type} onChange={(e) => change({ type: e.target.value })}>
              <option value='History'>{t('readings.History')}</option>
              <option value='Delta'>{t('readings.Delta')}</option>
            </select>
          )}
        </Field>
        <div className='pairs'>
          {date('startDate', t(values.type === 'Delta' ? 'readings.startDelta' : 'readings.start'))}
          {date('endDate', t('readings.end'))}
          <Field label={t('certs.energy')} problem={problemOf('value')}>
            {(props) => (
              <input {...props} type='number' step='any' min={0} value={values.value}
                onChange={(e) => change({ value: e.target.value })} />
            )}
          </Field>
          <Field label={t('readings.unit')}>
            {(props) => (
              <select {...props} value={values.unit} onChange={(e) => change({ unit: e.target.value })}>
                {units.map((unit) => <option key={unit}>{unit}</option>)}
              </select>
            )}
          </Field>
        </div>
        <p><small>{timezone ? t('readings.zone', { zone: timezone }) : t('readings.ownZone')}</small></p>
        <div className='actions'>
          <Button onClick={close}>{t('do.cancel')}</Button>
          <Button kind='main' type='submit' disabled={add.isPending}>{t('do.save')}</Button>
        </div>
      </form>
    </Dialog>
  )
}

export function Void ({ path, read, close }: { path: string, read: Read, close: () => void }) {
  const refresh = useRefresh()
  const [reason, setReason] = useState('')
  const run = useAction({
    mutationFn: () => call('DELETE', `${path}/${read.id}`, { reason }),
    onSuccess: async () => { await refresh(); toast(t('readings.isVoided')); close() }
  })
  const errors = run.error instanceof ApiError ? run.error.errors : []
  const problem = errors.find(({ field }) => field === 'reason')?.problem
  const certified = run.error instanceof ApiError && run.error.status === 403

  return (
    <Dialog title={t('readings.void')} close={close}>
      <form noValidate onSubmit={(event) => { event.preventDefault(); run.mutate() }}>
        {run.isError && !problem && (
          <Failed error={certified ? t('readings.certified') : run.error} />
        )}
        <p>{t('readings.voidAsk', { energy: asEnergy(read.value), period: asPeriod(read.startDate, read.endDate) })}</p>
        <Field label={t('readings.reason')} problem={problem}>
          {(props) => <input {...props} maxLength={1000} value={reason} onChange={(e) => setReason(e.target.value)} />}
        </Field>
        <div className='actions'>
          <Button onClick={close}>{t('do.cancel')}</Button>
          <Button kind='danger' type='submit' disabled={run.isPending}>{t('readings.void')}</Button>
        </div>
      </form>
    </Dialog>
  )
}
