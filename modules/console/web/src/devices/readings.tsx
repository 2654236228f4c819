/* The energy of a device by days, months or years, with the plausible ceiling of each. */
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'

import { get, query } from '../api/client'
import type { Total } from '../api/types'
import { t } from '../texts/texts'
import { asEnergy, way } from '../ui/format'
import { Bars, type Bar } from '../ui/bars'
import { Empty, Failed, Field, Loading } from '../ui/ui'

type Span = 'day' | 'month' | 'year'

const DAYS = 92 // days shown
const DAY_MS = 86400000
const spans: Span[] = ['day', 'month', 'year']
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone
const written: Record<Span, Intl.DateTimeFormatOptions> = {
  day: { day: 'numeric', month: 'short' }, month: { month: 'short', year: 'numeric' }, year: { year: 'numeric' }
}

/* Days are counted back from the end of the last month that has a reading, or from now. */
async function totals (name: string, by: Span): Promise<Total[]> {
  const read = (span: Span, start?: string) =>
    get<Total[]>(`/api/meter-reads/new/${encodeURIComponent(name)}/totals${query({ by: span, timezone: zone, start, limit: 1000 })}`)
  if (by !== 'day') return read(by)
  const months = await read('month')
  const last = months[months.length - 1]
  if (!last) return []
  return read('day', new Date(Math.min(Date.parse(last.endDate), Date.now()) - DAYS * DAY_MS).toISOString())
}

function after (date: Date, by: Span) {
  return by === 'day' ? new Date(date.getFullYear(), date.getMonth(), date.getDate() + 1)
    : by === 'month' ? new Date(date.getFullYear(), date.getMonth() + 1, 1) : new Date(date.getFullYear() + 1, 0, 1)
}

/* Makes a bar for each span, because the list has no entries for spans without readings. */
function bars (list: Total[], by: Span): Bar[] {
  const format = new Intl.DateTimeFormat(way(), written[by])
  const known = new Map(list.map((total) => [Date.parse(total.startDate), total]))
  const last = Math.max(...known.keys())
  const all: Bar[] = []
  for (let at = new Date(Math.min(...known.keys())); at.getTime() <= last && all.length < 1000; at = after(at, by)) {
    const total = known.get(at.getTime())
    all.push({ label: format.format(at), value: total?.value ?? 0, limit: total?.ceiling ?? null })
  }
  return all
}

export function Readings ({ name }: { name: string }) {
  const [by, setBy] = useState<Span>('day')
  const list = useQuery({ queryKey: ['totals', name, by], queryFn: () => totals(name, by) })

  return (
    <section className='panel'>
      {list.isPending && <Loading />}
      {list.isError && <Failed error={list.error} again={() => void list.refetch()} />}
      {list.data?.length === 0 && <><h2>{t('devices.readings')}</h2><Empty>{t('devices.noReadings')}</Empty></>}
      {list.data && list.data.length > 0 && (
        <>
          <Bars title={t('devices.readings')} show={asEnergy} bars={bars(list.data, by)} note={asEnergy(list.data.reduce((sum, { value }) => sum + value, 0))} />
          <div className='row between foot'>
            {list.data.some(({ ceiling }) => ceiling !== null) ? <small className='legend'>{t('devices.ceilingIs')}</small> : <span />}
            <Field label={t('devices.by')}>
              {(props) => <select {...props} value={by} onChange={(e) => setBy(e.target.value as Span)}>{spans.map((span) => <option key={span} value={span}>{t(`devices.${span}`)}</option>)}</select>}
            </Field>
          </div>
        </>
      )}
    </section>
  )
}
