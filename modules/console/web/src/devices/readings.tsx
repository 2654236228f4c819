/*
 * The energy of a device as a chart, and its readings: the stored ones, the refused ones with the reason, and the
 * voided ones. Their times are in the viewer's zone or in the device's. The address has the choice of the view and the
 * last day that is shown.
 */
import { useQuery } from '@tanstack/react-query'
import { ChevronLeft, ChevronRight, Download, Plus } from 'lucide-react'
import { useState } from 'react'

import { download, get, query } from '../api/client'
import type { Read, RefusedRead, Total } from '../api/types'
import { useValues } from '../router'
import { named, t } from '../texts/texts'
import { asEnergy, asPeriod, hasZone, zoneOf } from '../ui/format'
import { Bars, hasOwnScale } from '../ui/chart'
import { usePages } from '../ui/pages'
import { Button, Empty, Failed, Field, Loading, More, Period, Problems, Table, Time } from '../ui/ui'
import { Add, Void } from './reading'
import { barsOf, endOf, lastDayOf, laterThan, spans, timeOf, type Span, type Time as Window } from './span'

const views = ['chart', 'stored', 'refused', 'voided'] as const

const pathOf = (name: string) => `/api/meter-reads/new/${encodeURIComponent(name)}`

/* Returns when the last reading ends; null if there is none, for which the service has only an error. */
async function latest (name: string): Promise<string | null> {
  const any = await get<Total[]>(`${pathOf(name)}/totals?by=year&limit=1`)
  return any.length === 0 ? null : (await get<Read>(`/api/meter-reads/latestread/${encodeURIComponent(name)}`)).endDate
}

function Chart ({ name, by, time, zone }: { name: string, by: Span, time: Window, zone: string }) {
  const [shown, show] = useState(true)
  const [start, end] = [time.start.toISOString(), time.end.toISOString()]
  const values = query({ by, timezone: zone, start, end, limit: 1000 })
  const path = `${pathOf(name)}/totals${values}`
  const list = useQuery({
    queryKey: ['readings', path, by], queryFn: () => get<Total[]>(path),
    placeholderData: (before, query) => query?.queryKey[2] === by ? before : undefined // not the bars of another span
  })
  const sums = list.data ?? []
  const ceiling = Math.max(...sums.map((sum) => sum.ceiling ?? 0))

  if (list.isPending) return <Loading />
  if (list.isError) return <Failed error={list.error} again={() => void list.refetch()} />
  if (sums.length === 0) return <Empty>{t('readings.noneThen')}</Empty>

  const bars = barsOf(sums, by, shown, zone)
  return (
    <>
      <Bars title={t(`readings.by.${by}`)} show={asEnergy} bars={bars}
        note={t('readings.sum', { energy: asEnergy(sums.reduce((sum, { value }) => sum + value, 0)) })} />
      {ceiling > 0 && (
        <label className='check'>
          <input type='checkbox' checked={shown} onChange={(e) => show(e.target.checked)} />
          <small className='legend'>{t(hasOwnScale(bars) ? 'devices.ceilingRight' : 'devices.ceilingIs')}</small>
        </label>
      )}
    </>
  )
}

function Stored ({ name, time, zone }: { name: string, time: Window, zone: string }) {
  const values = query({ start: time.start.toISOString(), end: time.end.toISOString(), limit: 1000 })
  const { list, all } = usePages<Read>('readings', `${pathOf(name)}${values}`)
  const [voiding, setVoiding] = useState<Read | null>(null)
  const energy = { text: t('certs.energy'), number: true }
  const head = [t('certs.period'), energy, t('readings.type'), t('readings.received'), '']

  if (list.isPending) return <Loading />
  return (
    <>
      {list.isError && <Failed error={list.error} again={() => void list.refetch()} />}
      {list.isSuccess && all.length === 0 && <Empty>{t('readings.noneThen')}</Empty>}
      {all.length > 0 && (
        <Table label={t('devices.readings')} head={head}>
          {[...all].reverse().map((read) => (
            <tr key={read.id}>
              <td className='wide'><Period start={read.startDate} end={read.endDate} zone={zone} /></td>
              <td className='number'>{asEnergy(read.value)}</td>
              <td>{read.type}</td>
              <td><Time at={read.createdAt} /></td>
              <td><Button kind='quiet' onClick={() => setVoiding(read)}>{t('readings.void')}</Button></td>
            </tr>
          ))}
        </Table>
      )}
      <More of={list} />
      {voiding && <Void path={pathOf(name)} read={voiding} zone={zone} close={() => setVoiding(null)} />}
    </>
  )
}

/* Refused and voided readings, newest first, and why. */
function Discarded ({ name, what, zone }: { name: string, what: 'refused' | 'voided', zone: string }) {
  const refused = query({ externalId: name, limit: 100 })
  const path = what === 'refused' ? `/api/meter-reads/refused${refused}` : `${pathOf(name)}?voided=true&limit=100`
  const { list, all } = usePages<RefusedRead & Read>('readings', path)
  const energy = { text: t('certs.energy'), number: true }
  const head = [t('certs.period'), energy, t('readings.reason'), t(`readings.${what}At`)]

  if (list.isPending) return <Loading />
  return (
    <>
      {list.isError && <Failed error={list.error} again={() => void list.refetch()} />}
      {list.isSuccess && all.length === 0 && <Empty>{t(`readings.none.${what}`)}</Empty>}
      {all.length > 0 && (
        <Table label={t(`readings.${what}`)} head={head} busy={list.isPlaceholderData}>
          {all.map((read) => (
            <tr key={`${read.id} ${read.refusedAt ?? read.voidedAt}`}>
              <td>
                {read.startDate && read.endDate ? <Period start={read.startDate} end={read.endDate} zone={zone} /> : '–'}
              </td>
              <td className='number'>{read.value === null ? '–' : asEnergy(read.value)}</td>
              <td className='wide'>
                {read.voidedAt && <>{read.reason}<br /><small>{read.voidedBy}</small></>}
                {read.refusedAt && (read.errors?.length ? <Problems of={read.errors} /> : read.problem)}
              </td>
              <td><Time at={read.refusedAt ?? read.voidedAt!} /></td>
            </tr>
          ))}
        </Table>
      )}
      <More of={list} />
    </>
  )
}

/* Pages through time. The address has the last day of the page, unless it is the newest page. */
function Pager ({ by, time, newest, zone, turn }: {
  by: Span, time: Window, newest: Date, zone: string, turn: (until: string) => void
}) {
  const later = laterThan(time.end, by, zone)

  return (
    <div className='row'>
      <Button kind='quiet' icon={ChevronLeft} aria-label={t('readings.earlier')}
        onClick={() => turn(lastDayOf(time.start, zone))} />
      <span>{asPeriod(time.start.toISOString(), time.end.toISOString(), zone)}</span>
      <Button kind='quiet' icon={ChevronRight} aria-label={t('readings.later')} disabled={time.end >= newest}
        onClick={() => turn(later >= newest ? '' : lastDayOf(later, zone))} />
    </div>
  )
}

export function Readings ({ name, timezone }: { name: string, timezone: string | null }) {
  const [{ readings, by: chosen, until, times }, change] = useValues('readings', 'by', 'until', 'times')
  const other = timezone !== null && timezone !== zoneOf() && hasZone(timezone) ? timezone : null
  const zone = times === 'device' && other !== null ? other : zoneOf()
  const [adding, setAdding] = useState(false)
  const [problem, setProblem] = useState<unknown>(null)
  const last = useQuery({ queryKey: ['readings', 'latest', name], queryFn: () => latest(name) })
  const view = views.find((one) => one === readings) ?? 'chart'
  const by = spans.find((span) => span === chosen) ?? 'day'
  const newest = timeOf(by, new Date(last.data ?? 0), zone).end
  const time = timeOf(by, endOf(until, zone) ?? newest, zone)
  const save = () => { setProblem(null); download(`${pathOf(name)}/export.csv`, 'readings.csv').catch(setProblem) }
  const timed = last.data && (view === 'chart' || view === 'stored')

  return (
    <section className='panel'>
      <div className='row between'>
        <h2>{t('devices.readings')}</h2>
        <div className='row'>
          <Button icon={Plus} onClick={() => setAdding(true)}>{t('readings.add')}</Button>
          <Button icon={Download} disabled={!last.data} onClick={save}>{t('certs.export')}</Button>
        </div>
      </div>
      <div className='row between'>
        <div className='row' role='group' aria-label={t('devices.readings')}>
          {views.map((one) => (
            <Button key={one} kind='quiet' aria-pressed={one === view}
              onClick={() => change({ readings: one === 'chart' ? '' : one })}>
              {named('readings', one)}
            </Button>
          ))}
        </div>
        <div className='row foot'>
          {other !== null && (
            <Field label={t('devices.zone')}>
              {(props) => (
                <select {...props} value={times} onChange={(e) => change({ times: e.target.value })}>
                  <option value=''>{t('readings.zoneOwn', { zone: zoneOf() })}</option>
                  <option value='device'>{t('readings.zoneDevice', { zone: other })}</option>
                </select>
              )}
            </Field>
          )}
          {timed && (
            <>
              <Pager by={by} time={time} newest={newest} zone={zone} turn={(day) => change({ until: day })} />
              <Field label={t('devices.by')}>
                {(props) => (
                  <select {...props} value={by} onChange={(e) => change({ by: e.target.value, until: '' })}>
                    {spans.map((span) => <option key={span} value={span}>{t(`devices.${span}`)}</option>)}
                  </select>
                )}
              </Field>
            </>
          )}
        </div>
      </div>
      {problem !== null && <Failed error={problem} />}
      {last.isPending && <Loading />}
      {last.isError && <Failed error={last.error} again={() => void last.refetch()} />}
      {last.data === null && (view === 'chart' || view === 'stored') && <Empty>{t('devices.noReadings')}</Empty>}
      {timed && view === 'chart' && <Chart name={name} by={by} time={time} zone={zone} />}
      {timed && view === 'stored' && <Stored name={name} time={time} zone={zone} />}
      {(view === 'refused' || view === 'voided') && <Discarded name={name} what={view} zone={zone} />}
      {adding && <Add path={pathOf(name)} timezone={timezone} close={() => setAdding(false)} />}
    </section>
  )
}
