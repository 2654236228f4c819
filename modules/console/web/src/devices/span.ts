/* A chart of energy in a time zone: which time the chart shows, and the bar of each span of this time. */
import type { Total } from '../api/types'
import { beginOf, dayFrom, dayOf, way } from '../ui/format'
import type { Bar } from '../ui/chart'

export type Span = 'hour' | 'day' | 'month' | 'year'

export const spans: Span[] = ['hour', 'day', 'month', 'year']

export interface Time { start: Date, end: Date }

const MOST = 1000 // bars
const written: Record<Span, Intl.DateTimeFormatOptions> = {
  hour: { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' }, day: { day: 'numeric', month: 'short' },
  month: { month: 'short', year: 'numeric' }, year: { year: 'numeric' }
}

const next = (at: Date, by: Span, zone: string) =>
  by === 'hour' ? new Date(at.getTime() + 3600000) : dayFrom(at, { [`${by}s`]: 1 }, zone)

/* The time of one page of the chart, of which `last` is the last moment. */
export function timeOf (by: Span, last: Date, zone: string): Time {
  const from = (at: Date, shift: Parameters<typeof dayFrom>[1]) => dayFrom(at, shift, zone)
  const day = from(last, {})
  const midnight = day.getTime() === last.getTime() ? day : from(last, { days: 1 })
  if (by === 'hour') return { start: from(midnight, { days: -7 }), end: midnight }
  if (by === 'day') return { start: from(midnight, { days: -31 }), end: midnight }
  const [year, month] = dayOf(new Date(last.getTime() - 1).toISOString(), zone).split('-')
  const begin = new Date(beginOf(`${year}-${by === 'month' ? month : '01'}-01`, 0, zone))
  const end = next(begin, by, zone)
  return { start: from(end, by === 'month' ? { months: -24 } : { years: -30 }), end }
}

/* The end of the next page. Pages are days or months of a calendar, so they differ in milliseconds. */
export const laterThan = (end: Date, by: Span, zone: string) =>
  dayFrom(end, { hour: { days: 7 }, day: { days: 31 }, month: { months: 24 }, year: { years: 30 } }[by], zone)

/* The address has the last day of a page. */
export const lastDayOf = (end: Date, zone: string) => dayOf(dayFrom(end, { days: -1 }, zone).toISOString(), zone)
export const endOf = (day: string, zone: string): Date | null =>
  /^\d{4}-\d\d-\d\d$/.test(day) && beginOf(day) ? new Date(beginOf(day, 1, zone)) : null

/* Makes a bar for each span, because the list has no entries for spans without readings. */
export function barsOf (list: Total[], by: Span, ceiling: boolean, zone: string): Bar[] {
  const format = new Intl.DateTimeFormat(way(), { ...written[by], timeZone: zone })
  const known = new Map(list.map((total) => [Date.parse(total.startDate), total]))
  const last = Math.max(...known.keys())
  const all: Bar[] = []

  for (let at = new Date(Math.min(...known.keys())); at.getTime() <= last && all.length < MOST; at = next(at, by, zone)) {
    const total = known.get(at.getTime())
    all.push({ label: format.format(at), value: total?.value ?? 0, limit: ceiling ? total?.ceiling ?? null : null })
  }
  return all
}
