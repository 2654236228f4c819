/* Forms for a new group, for changes to one, and for more devices in it. */
import { useQueryClient } from '@tanstack/react-query'
import { useState, type ReactNode } from 'react'

import { ApiError, call, query } from '../api/client'
import type { Device, Group } from '../api/types'
import { titleOf } from '../devices/data'
import { Target, useTarget } from '../organization'
import { named, t } from '../texts/texts'
import { useAction } from '../ui/action'
import { asNumber, asPower, beginOf, dayOf } from '../ui/format'
import { usePages, useSettled } from '../ui/pages'
import { Button, Dialog, Failed, Field, Loading, More } from '../ui/ui'

const frequencies = ['hourly', 'daily', 'weekly', 'monthly', 'quarterly', 'yearly']

/* A day as the time at which it begins in the viewer's zone. */
const timeOf = (day: string) => beginOf(day) || null

/* A dialog whose fields get their errors from the service; others are shown above the fields. */
function Form ({ title, shown, close, send, done, children }: {
  title: string, shown: string[], close: () => void, send: () => Promise<Group>, done: (group: Group) => void,
  children: (problemOf: (field: string) => string | undefined) => ReactNode
}) {
  const client = useQueryClient()
  const save = useAction({
    mutationFn: send,
    onSuccess: async (group) => {
      void client.invalidateQueries({ queryKey: ['devices'] }) // which of them are in a group
      await client.invalidateQueries({ queryKey: ['groups'] })
      done(group)
    }
  })
  const errors = save.error instanceof ApiError ? save.error.errors : []
  const others = errors.length === 0 || errors.some(({ field }) => !shown.includes(field))

  return (
    <Dialog title={title} close={close}>
      <form noValidate onSubmit={(event) => { event.preventDefault(); save.mutate() }}>
        {save.isError && others && <Failed error={save.error} />}
        {children((name) => errors.find(({ field }) => field === name)?.problem)}
        <div className='actions'>
          <Button onClick={close}>{t('do.cancel')}</Button>
          <Button kind='main' type='submit' disabled={save.isPending}>{t('do.save')}</Button>
        </div>
      </form>
    </Dialog>
  )
}

/* The devices of an organization that are in no group, with a search. */
function Picker ({ organizationId, picked, pick, problem }: {
  organizationId?: number, picked: number[], pick: (ids: number[]) => void, problem?: string
}) {
  const [search, setSearch] = useState('')
  const typed = useSettled(search).trim()
  const path = `/api/device${query({ inGroup: false, limit: 50, search: typed, organizationId })}`
  const { list, all } = usePages<Device>('devices', path)
  const toggle = (id: number) => pick(picked.includes(id) ? picked.filter((each) => each !== id) : [...picked, id])

  return (
    <fieldset className='choices picker'>
      <legend>{t('groups.pick', { n: asNumber(picked.length) })}</legend>
      <Field label={t('devices.search')} problem={problem}>
        {(props) => (
          <input {...props} type='search' maxLength={255} value={search} onChange={(e) => setSearch(e.target.value)} />
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
  const [values, setValues] = useState({ name: '', frequency: 'monthly', start: january, end: '' })
  const [deviceIds, pick] = useState<number[]>([])
  const change = (some: Partial<typeof values>) => setValues({ ...values, ...some })
  const send = () => {
    const { name, frequency, start, end } = values
    return call<Group>('POST', '/api/device-group', {
      name, frequency, start: timeOf(start), end: timeOf(end), deviceIds, organizationId: target.id
    })
  }

  return (
    <Form title={t('groups.new')} shown={['name', 'start', 'end', 'deviceIds', 'organizationId']} close={close}
      send={send} done={done}>
      {(problemOf) => (
        <>
          <Target of={target} problem={problemOf('organizationId')} />
          <Field label={t('groups.name')} problem={problemOf('name')}>
            {(props) => (
              <input {...props} maxLength={255} value={values.name}
                onChange={(e) => change({ name: e.target.value })} />
            )}
          </Field>
          <Field label={t('groups.frequency')}>
            {(props) => (
              <select {...props} value={values.frequency} onChange={(e) => change({ frequency: e.target.value })}>
                {frequencies.map((name) => <option key={name} value={name}>{named('cycle', name)}</option>)}
              </select>
            )}
          </Field>
          <div className='pairs'>
            <Field label={t('groups.start')} problem={problemOf('start')}>
              {(props) => (
                <input {...props} type='date' value={values.start}
                  onChange={(e) => change({ start: e.target.value })} />
              )}
            </Field>
            <Field label={t('groups.endOptional')} problem={problemOf('end')}>
              {(props) => (
                <input {...props} type='date' value={values.end} onChange={(e) => change({ end: e.target.value })} />
              )}
            </Field>
          </div>
          <Picker organizationId={target.id} picked={deviceIds} pick={pick} problem={problemOf('deviceIds')} />
        </>
      )}
    </Form>
  )
}

export function Change ({ group, close }: { group: Group, close: () => void }) {
  const [name, setName] = useState(group.name)
  const [end, setEnd] = useState(dayOf(group.end ?? ''))
  const send = () => {
    const changed = end === dayOf(group.end ?? '') ? { name } : { name, end: timeOf(end) }
    return call<Group>('PATCH', `/api/device-group/${group.id}`, changed)
  }

  return (
    <Form title={t('groups.edit')} shown={['name', 'end']} close={close} send={send} done={close}>
      {(problemOf) => (
        <>
          <Field label={t('groups.name')} problem={problemOf('name')}>
            {(props) => <input {...props} maxLength={255} value={name} onChange={(e) => setName(e.target.value)} />}
          </Field>
          <Field label={t('groups.endOptional')} problem={problemOf('end')}>
            {(props) => <input {...props} type='date' value={end} onChange={(e) => setEnd(e.target.value)} />}
          </Field>
        </>
      )}
    </Form>
  )
}

export function Add ({ group, close }: { group: Group, close: () => void }) {
  const [deviceIds, pick] = useState<number[]>([])
  const send = () => call<Group>('POST', `/api/device-group/${group.id}/devices`, { deviceIds })

  return (
    <Form title={t('groups.add')} shown={['deviceIds']} close={close} send={send} done={close}>
      {(problemOf) => (
        <>
          <p>{t('groups.joins')}</p>
          <Picker organizationId={group.organizationId} picked={deviceIds} pick={pick}
            problem={problemOf('deviceIds')} />
        </>
      )}
    </Form>
  )
}
