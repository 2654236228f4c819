/* The spans of a chart of energy: which time it shows, and the bar of each span in it. */
import type { Total } from '../api/types'
import { beginOf, dayFrom, dayOf, way, zoneOf } from '../ui/format'
import type { Bar } from '../ui/chart'

export type Span = 'hour' | 'day' | 'month' | 'year'

export const spans: Span[] = ['hour', 'day', 'month', 'year']

export interface Time { start: Date, end: Date }

const MOST = 1000 // bars
const written: Record<Span, Intl.DateTimeFormatOptions> = {
  hour: { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' }, day: { day: 'numeric', month: 'short' },
  month: { month: 'short', year: 'numeric' }, year: { year: 'numeric' }
}

const next = (at: Date, by: Span) =>
  by === 'hour' ? new Date(at.getTime() + 3600000) : dayFrom(at, { [`${by}s`]: 1 })

/* The time of one page of the chart, of which `last` is the last moment. */
export function timeOf (by: Span, last: Date): Time {
  const day = dayFrom(last, {})
  const midnight = day.getTime() === last.getTime() ? day : dayFrom(last, { days: 1 })
  if (by === 'hour') return { start: dayFrom(midnight, { days: -7 }), end: midnight }
  if (by === 'day') return { start: dayFrom(midnight, { days: -31 }), end: midnight }
  const [year, month] = dayOf(new Date(last.getTime() - 1).toISOString()).split('-')
  const begin = new Date(beginOf(`${year}-${by === 'month' ? month : '01'}-01`))
  const end = next(begin, by)
  return { start: dayFrom(end, by === 'month' ? { months: -24 } : { years: -30 }), end }
}

/* The address has the last day of a page. */
export const lastDayOf = (end: Date) => dayOf(dayFrom(end, { days: -1 }).toISOString())
export const endOf = (day: string): Date | null =>
  /^\d{4}-\d\d-\d\d$/.test(day) && beginOf(day) ? new Date(beginOf(day, 1)) : null

/* Makes a bar for each span, because the list has no entries for spans without readings. */
export function barsOf (list: Total[], by: Span, ceiling: boolean): Bar[] {
  const format = new Intl.DateTimeFormat(way(), { ...written[by], timeZone: zoneOf() })
  const known = new Map(list.map((total) => [Date.parse(total.startDate), total]))
  const last = Math.max(...known.keys())
  const all: Bar[] = []

  for (let at = new Date(Math.min(...known.keys())); at.getTime() <= last && all.length < MOST; at = next(at, by)) {
    const total = known.get(at.getTime())
    all.push({ label: format.format(at), value: total?.value ?? 0, limit: ceiling ? total?.ceiling ?? null : null })
  }
  return all
}
