/* Times in the zone that the viewer prefers, with UTC as a tooltip; energy with its unit. */
import { useSyncExternalStore } from 'react'

import { preferences } from '../preferences'
import { language, way } from '../texts/texts'

export { way }

const DAY_MS = 86400000

const make = (zone = preferences.zone) => ({
  language,
  zone,
  day: new Intl.DateTimeFormat(way(), { dateStyle: 'medium', timeZone: zone }),
  date: new Intl.DateTimeFormat(way(), { dateStyle: 'medium', timeZone: 'UTC' }),
  minute: new Intl.DateTimeFormat(way(), { dateStyle: 'medium', timeStyle: 'short', timeZone: zone }),
  second: new Intl.DateTimeFormat(way(), { dateStyle: 'medium', timeStyle: 'medium', timeZone: zone }),
  exact: new Intl.DateTimeFormat(way(), { timeStyle: 'medium', timeZone: zone }),
  clock: new Intl.DateTimeFormat(way(), { timeStyle: 'short', timeZone: zone }),
  time: new Intl.DateTimeFormat('en-GB', { timeStyle: 'medium', timeZone: zone }),
  ago: new Intl.RelativeTimeFormat(way(), { numeric: 'auto' }),
  number: new Intl.NumberFormat(way(), { maximumFractionDigits: 2 })
})
let made = make()

function formats () {
  if (made.language !== language || made.zone !== preferences.zone) made = make()
  return made
}

export const asDay = (iso: string) => formats().day.format(new Date(iso))
export const asDate = (calendar: string) => formats().date.format(new Date(calendar)) // a calendar day, the same in all zones
export const asTime = (iso: string) => formats().minute.format(new Date(iso))
export const asMoment = (iso: string) => formats().second.format(new Date(iso))
export const asExactTime = (ms: number) => formats().exact.format(ms)
export const asClock = (iso: string) => formats().clock.format(new Date(iso))

const UNITS: [Intl.RelativeTimeFormatUnit, number][] = [
  ['year', 31557600], ['month', 2629800], ['day', 86400], ['hour', 3600], ['minute', 60], ['second', 1]
]

/* The time that has passed, or that remains, in its largest unit. */
export function asAgo (iso: string): string {
  const seconds = (Date.parse(iso) - Date.now()) / 1000
  const [unit, by] = UNITS.find(([, each]) => Math.abs(seconds) >= each) ?? ['second', 1]
  return formats().ago.format(unit === 'second' ? Math.min(0, Math.trunc(seconds)) : Math.trunc(seconds / by), unit)
}

const TICK_MS = 15000
const watching = new Set<() => void>()
let ticks = 0

setInterval(() => { ticks++; for (const changed of [...watching]) changed() }, TICK_MS)

function watch (changed: () => void) {
  watching.add(changed)
  return () => { watching.delete(changed) }
}

/* Draws the component again as time passes. */
export const useMinutes = (wanted: boolean) => useSyncExternalStore(watch, () => wanted ? ticks : 0)

/* A period as days if it begins and ends at midnight in the viewer's zone or in UTC, otherwise with the times. */
export function asPeriod (start: string, end: string): string {
  const [from, to] = [new Date(start), new Date(end)]
  const days = from < to && [from, to].every((at) => formats().time.format(at) === '00:00:00')
  const daysOfUtc = from < to && [from, to].every((at) => at.getTime() % DAY_MS === 0)
  const last = new Date(to.getTime() - 1)
  if (days) return formats().day.formatRange(from, last)
  return daysOfUtc ? `${formats().date.formatRange(from, last)} UTC` : formats().minute.formatRange(from, to)
}

/* The viewer's zone, by its name. */
export const zoneOf = () => preferences.zone ?? Intl.DateTimeFormat().resolvedOptions().timeZone

/* A time as it is typed in the viewer's zone, such as 2026-04-01T12:00, and back; '' if the text is not a time. */
export function asLocal (iso: string): string {
  const at = new Date(iso)
  if (Number.isNaN(at.getTime())) return ''
  const offset = preferences.zone ? 0 : at.getTimezoneOffset()
  return new Date(at.getTime() - offset * 60000).toISOString().slice(0, 16)
}
export function asIso (local: string): string {
  const at = new Date(`${local}${preferences.zone ? 'Z' : ''}`)
  return Number.isNaN(at.getTime()) ? '' : at.toISOString()
}

/* The beginning of a time's day in the viewer's zone, or of the day that many years, months and days later. */
export const dayFrom = (at: Date, { years = 0, months = 0, days = 0 }) => preferences.zone
  ? new Date(Date.UTC(at.getUTCFullYear() + years, at.getUTCMonth() + months, at.getUTCDate() + days))
  : new Date(at.getFullYear() + years, at.getMonth() + months, at.getDate() + days)

/* The day of a time in the viewer's zone, such as 2026-04-01. */
export const dayOf = (iso: string) => asLocal(iso).slice(0, 10)

/* When a day begins, or a day that many days later; '' if the text is not a day. */
export function beginOf (day: string, later = 0): string {
  const begin = asIso(`${day}T00:00`)
  return begin && dayFrom(new Date(begin), { days: later }).toISOString()
}
export const asUtc = (iso: string) => new Date(iso).toISOString().replace('T', ' ').replace(/\.\d+Z$/, ' UTC')
export const asNumber = (value: number) => formats().number.format(value)
export const asPower = (kilowatts: number | string) => `${asNumber(Number(kilowatts))} kW`
export const asBytes = (value: number) =>
  value < 1024 ? `${value} B` : value < 1048576 ? `${asNumber(value / 1024)} KiB` : `${asNumber(value / 1048576)} MiB`

export function asEnergy (wattHours: number): string {
  const steps: [number, string][] = [[1e9, 'GWh'], [1e6, 'MWh'], [1e3, 'kWh']]
  const [by, unit] = steps.find(([from]) => Math.abs(wattHours) >= from) ?? [1, 'Wh']
  return `${asNumber(wattHours / by)} ${unit}`
}
