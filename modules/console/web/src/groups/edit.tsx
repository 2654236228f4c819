/* Forms for a new group, for changes to one, and for more devices in it. */
import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { useController, type Control, type FieldValues, type Path } from 'react-hook-form'

import { call, create, query } from '../api/client'
import type { Device, Group } from '../api/types'
import { titleOf } from '../devices/data'
import { Target, useTarget } from '../organization'
import { named, t } from '../texts/texts'
import { FormDialog, Input, Select, useSentForm } from '../ui/form'
import { asNumber, asPower, beginOf, dayOf } from '../ui/format'
import { usePages } from '../ui/pages'
import { Typed } from '../ui/typed'
import { Failed, Field, Loading, More } from '../ui/ui'

const frequencies = ['hourly', 'daily', 'weekly', 'monthly', 'quarterly', 'yearly']

/* A day as the time at which it begins in the viewer's zone. */
const timeOf = (day: string) => beginOf(day) || null

/* A form whose answer is the group. */
function useGroupForm<Values extends FieldValues> (
  values: Values, send: (values: Values) => Promise<Group>, leave: (group: Group) => void
) {
  const client = useQueryClient()
  return useSentForm(values, {
    send,
    leave,
    done: () => {
      void client.invalidateQueries({ queryKey: ['devices'] }) // which of them are in a group
      return client.invalidateQueries({ queryKey: ['groups'] })
    }
  })
}

/* The devices of an organization that are in no group, with a search. */
function Picker<Values extends { deviceIds: number[] }> ({ of, organizationId }: {
  of: { control: Control<Values> }, organizationId?: number
}) {
  const { field, fieldState } = useController({ control: of.control, name: 'deviceIds' as Path<Values> })
  const picked = field.value as number[]
  const [search, setSearch] = useState('')
  const path = `/api/device${query({ inGroup: false, limit: 50, search: search.trim(), organizationId })}`
  const { list, all } = usePages<Device>('devices', path)
  const toggle = (id: number) => field.onChange(picked.includes(id) ? picked.filter((each) => each !== id) : [...picked, id])

  return (
    <fieldset className='choices picker'>
      <legend>{t('groups.pick', { n: asNumber(picked.length) })}</legend>
      <Field label={t('devices.search')} problem={fieldState.error?.message}>
        {(props) => (
          <Typed {...props} type='search' maxLength={255} value={search} change={setSearch} />
        )}
      </Field>
      {list.isPending && <Loading lines={3} />}
      {list.isError && <Failed error={list.error} again={() => void list.refetch()} />}
      {list.isSuccess && all.length === 0 && <p>{t('groups.noneFree')}</p>}
      {all.map((device) => (
        <label key={device.id} className='check'>
          <input type='checkbox' checked={picked.includes(device.id)} onChange={() => toggle(device.id)} />
          <span>{titleOf(device)} {device.capacity !== null && <small>{asPower(device.capacity)}</small>}</span>
        </label>
      ))}
      <More of={list} />
    </fieldset>
  )
}

export function Make ({ close, done }: { close: () => void, done: (group: Group) => void }) {
  const target = useTarget()
  const january = `${dayOf(new Date().toISOString()).slice(0, 4)}-01-01`
  const form = useGroupForm({
    ...target.values, name: '', frequency: 'monthly', start: january, end: '', deviceIds: [] as number[]
  }, (values) => create<Group>('/api/device-group', {
    ...values, start: timeOf(values.start), end: timeOf(values.end), organizationId: target.idOf(values)
  }), done)
  const organizationId = target.idOf({ organizationId: form.watch('organizationId') })

  return (
    <FormDialog title={t('groups.new')} of={form} close={close} noValidate>
      <Target of={form} name='organizationId' />
      <Input of={form} name='name' label={t('groups.name')} maxLength={255} />
      <Select of={form} name='frequency' label={t('groups.frequency')}>
        {frequencies.map((name) => <option key={name} value={name}>{named('cycle', name)}</option>)}
      </Select>
      <div className='pairs'>
        <Input of={form} name='start' label={t('groups.start')} type='date' />
        <Input of={form} name='end' label={t('groups.endOptional')} type='date' />
      </div>
      <Picker of={form} organizationId={organizationId} />
    </FormDialog>
  )
}

export function Change ({ group, close }: { group: Group, close: () => void }) {
  const before = dayOf(group.end ?? '')
  const form = useGroupForm({ name: group.name, end: before }, ({ name, end }) =>
    call<Group>('PATCH', `/api/device-group/${group.id}`, end === before ? { name } : { name, end: timeOf(end) }), close)

  return (
    <FormDialog title={t('groups.edit')} of={form} close={close} noValidate>
      <Input of={form} name='name' label={t('groups.name')} maxLength={255} />
      <Input of={form} name='end' label={t('groups.endOptional')} type='date' />
    </FormDialog>
  )
}

export function Add ({ group, close }: { group: Group, close: () => void }) {
  const form = useGroupForm({ deviceIds: [] as number[] }, (values) =>
    call<Group>('POST', `/api/device-group/${group.id}/devices`, values), close)

  return (
    <FormDialog title={t('groups.add')} of={form} close={close} noValidate>
      <p>{t('groups.joins')}</p>
      <Picker of={form} organizationId={group.organizationId} />
    </FormDialog>
  )
}
