/* The spans of a chart of energy: which time it shows, and the bar of each span in it. */
import type { Total } from '../api/types'
import { way } from '../ui/format'
import type { Bar } from '../ui/chart'

export type Span = 'hour' | 'day' | 'month' | 'year'

export const spans: Span[] = ['hour', 'day', 'month', 'year']

export interface Time { start: Date, end: Date }

const MOST = 1000 // bars
const written: Record<Span, Intl.DateTimeFormatOptions> = {
  hour: { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' }, day: { day: 'numeric', month: 'short' },
  month: { month: 'short', year: 'numeric' }, year: { year: 'numeric' }
}

const later = (at: Date, { years = 0, months = 0, days = 0, hours = 0 }) => hours > 0
  ? new Date(at.getTime() + hours * 3600000)
  : new Date(at.getFullYear() + years, at.getMonth() + months, at.getDate() + days)

const next = (at: Date, by: Span) => later(at, { [`${by}s`]: 1 })

/* The time of one page of the chart, of which `last` is the last moment. */
export function timeOf (by: Span, last: Date): Time {
  const day = later(last, {})
  const midnight = day.getTime() === last.getTime() ? day : later(last, { days: 1 })
  if (by === 'hour') return { start: later(midnight, { days: -7 }), end: midnight }
  if (by === 'day') return { start: later(midnight, { days: -31 }), end: midnight }
  const before = new Date(last.getTime() - 1)
  const [year, month] = [before.getFullYear(), before.getMonth()]
  const end = by === 'month' ? new Date(year, month + 1, 1) : new Date(year + 1, 0, 1)
  return { start: later(end, by === 'month' ? { months: -24 } : { years: -30 }), end }
}

/* The address has the last day of a page. */
export const dayOf = (end: Date) => later(end, { days: -1 }).toLocaleDateString('sv') // YYYY-MM-DD
export const endOf = (day: string): Date | null =>
  /^\d{4}-\d\d-\d\d$/.test(day) ? later(new Date(`${day}T00:00`), { days: 1 }) : null

/* Makes a bar for each span, because the list has no entries for spans without readings. */
export function barsOf (list: Total[], by: Span, ceiling: boolean): Bar[] {
  const format = new Intl.DateTimeFormat(way(), written[by])
  const known = new Map(list.map((total) => [Date.parse(total.startDate), total]))
  const last = Math.max(...known.keys())
  const all: Bar[] = []

  for (let at = new Date(Math.min(...known.keys())); at.getTime() <= last && all.length < MOST; at = next(at, by)) {
    const total = known.get(at.getTime())
    all.push({ label: format.format(at), value: total?.value ?? 0, limit: ceiling ? total?.ceiling ?? null : null })
  }
  return all
}
