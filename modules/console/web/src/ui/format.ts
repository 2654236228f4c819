/*
 * Times in the zone that the viewer prefers, or in the zone of a device, with UTC as a tooltip; energy with its unit.
 * Zones have the names of IANA.
 */
import { useSyncExternalStore } from 'react'

import { preferences } from '../preferences'
import { language, way } from '../texts/texts'

export { way }

const DAY_MS = 86400000

const HERE = Intl.DateTimeFormat().resolvedOptions().timeZone

/* The viewer's zone. */
export const zoneOf = () => preferences.zone ?? HERE

const make = (zone: string) => ({
  day: new Intl.DateTimeFormat(way(), { dateStyle: 'medium', timeZone: zone }),
  date: new Intl.DateTimeFormat(way(), { dateStyle: 'medium', timeZone: 'UTC' }),
  minute: new Intl.DateTimeFormat(way(), { dateStyle: 'medium', timeStyle: 'short', timeZone: zone }),
  second: new Intl.DateTimeFormat(way(), { dateStyle: 'medium', timeStyle: 'medium', timeZone: zone }),
  exact: new Intl.DateTimeFormat(way(), { timeStyle: 'medium', timeZone: zone }),
  clock: new Intl.DateTimeFormat(way(), { timeStyle: 'short', timeZone: zone }),
  parts: new Intl.DateTimeFormat('en-US', {
    timeZone: zone, hourCycle: 'h23', year: 'numeric', month: 'numeric', day: 'numeric', hour: 'numeric',
    minute: 'numeric', second: 'numeric'
  }),
  ago: new Intl.RelativeTimeFormat(way(), { numeric: 'auto' }),
  number: new Intl.NumberFormat(way(), { maximumFractionDigits: 2 })
})
const made = new Map<string, ReturnType<typeof make>>()

function formats (zone = zoneOf()) {
  const key = `${language} ${zone}`
  const known = made.get(key)
  if (known) return known
  const fresh = make(zone)
  made.set(key, fresh)
  return fresh
}

/* Whether the browser knows a zone. */
export function hasZone (zone: string): boolean {
  try {
    return Boolean(formats(zone))
  } catch {
    return false
  }
}

/* The beginning of a day in UTC. Unlike Date.UTC, it does not read the years 0 to 99 as 1900 to 1999. */
const utcOf = (year: number, month: number, day: number) => new Date(0).setUTCFullYear(year, month, day)

/* By how many milliseconds the clocks of a zone are ahead of UTC. */
function offsetOf (at: number, zone: string): number {
  const of = Object.fromEntries(formats(zone).parts.formatToParts(at).map(({ type, value }) => [type, Number(value)]))
  const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = of
  const time = (hour * 60 + minute) * 60 + second
  return utcOf(year, month - 1, day) + (time - Math.floor(at / 1000)) * 1000
}

/*
 * Returns when the clocks of a zone show a time, which is given in milliseconds as if it were UTC. As with Date, a
 * skipped time is read as if the clocks had not been put forward, and a repeated time as the first of the two.
 */
function atOf (local: number, zone: string): number {
  const offsets = [-DAY_MS, DAY_MS].map((by) => offsetOf(local + by, zone))
  const [first, second] = [local - Math.max(...offsets), local - Math.min(...offsets)]
  return [first, second].find((at) => at + offsetOf(at, zone) === local) ?? second
}

export const asDay = (iso: string) => formats().day.format(new Date(iso))
export const asDate = (calendar: string) => formats().date.format(new Date(calendar)) // a calendar day, the same in all zones

const written = (withTime: boolean) =>
  new Intl.DateTimeFormat(way(), { dateStyle: 'medium', timeStyle: withTime ? 'short' : undefined, timeZone: 'UTC' })

/*
 * The value of a field for a date, or a date and a time, in the language of the page; undefined if the field shows it
 * in that language itself. Browsers show such a field in their own language, and ignore the language of the page.
 * Nevertheless the console uses these fields, because they have a calendar, can be typed into, and work on phones.
 */
export function asWritten (value: string): string | undefined {
  const at = Date.parse(value.length > 10 ? `${value}Z` : value)
  if (navigator.language.toLowerCase().startsWith(language) || !/^\d{4}-/.test(value) || Number.isNaN(at)) return undefined
  return written(value.length > 10).format(at)
}

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

/* The day of today. Draws the component again when another day begins. */
export const useToday = () => useSyncExternalStore(watch, () => asDay(new Date().toISOString()))

/*
 * A period as days if it begins and ends at midnight in the zone or in UTC, otherwise with the times. German has "Uhr"
 * only within a day; it is left out, so that all rows look the same.
 */
export function asPeriod (start: string, end: string, zone = zoneOf()): string {
  const [from, to] = [new Date(start), new Date(end)]
  const days = from < to && [from, to].every((at) => (at.getTime() + offsetOf(at.getTime(), zone)) % DAY_MS === 0)
  const daysOfUtc = from < to && [from, to].every((at) => at.getTime() % DAY_MS === 0)
  const last = new Date(to.getTime() - 1)
  if (days) return formats(zone).day.formatRange(from, last)
  if (daysOfUtc) return `${formats().date.formatRange(from, last)} UTC`
  return formats(zone).minute.formatRange(from, to).replace(/ Uhr$/, '')
}

/* Convert an ISO time to the local time of a zone, such as 2026-04-01T12:00, and back; '' if the text is not a time. */
export function asLocal (iso: string, zone = zoneOf()): string {
  const at = Date.parse(iso)
  return Number.isNaN(at) ? '' : new Date(at + offsetOf(at, zone)).toISOString().slice(0, 16)
}
export function asIso (local: string, zone = zoneOf()): string {
  const at = Date.parse(`${local}Z`)
  return Number.isNaN(at) ? '' : new Date(atOf(at, zone)).toISOString()
}

/* The beginning of a time's day in a zone, or of the day that many years, months and days later. */
export function dayFrom (at: Date, { years = 0, months = 0, days = 0 }, zone = zoneOf()): Date {
  const local = new Date(at.getTime() + offsetOf(at.getTime(), zone))
  const [year, month, day] = [local.getUTCFullYear(), local.getUTCMonth(), local.getUTCDate()]
  return new Date(atOf(utcOf(year + years, month + months, day + days), zone))
}

/* The day of a time in a zone, such as 2026-04-01. */
export const dayOf = (iso: string, zone = zoneOf()) => asLocal(iso, zone).slice(0, 10)

/* When a day begins, or a day that many days later; '' if the text is not a day. */
export function beginOf (day: string, later = 0, zone = zoneOf()): string {
  const begin = asIso(`${day}T00:00`, zone)
  return begin && dayFrom(new Date(begin), { days: later }, zone).toISOString()
}
export const asUtc = (iso: string) => new Date(iso).toISOString().replace('T', ' ').replace(/\.\d+Z$/, ' UTC')
export const asNumber = (value: number) => formats().number.format(value)
export const asPower = (kilowatts: number | string) => `${asNumber(Number(kilowatts))} kW`
/* Without characters that change the direction: with them `exe.png` may be shown for a file with another ending. */
export const asFileName = (name: string) => name.replace(/[\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, '')
export const asBytes = (value: number) =>
  value < 1024 ? `${value} B` : value < 1048576 ? `${asNumber(value / 1024)} KiB` : `${asNumber(value / 1048576)} MiB`

export function asEnergy (wattHours: number): string {
  const steps: [number, string][] = [[1e9, 'GWh'], [1e6, 'MWh'], [1e3, 'kWh']]
  const [by, unit] = steps.find(([from]) => Math.abs(wattHours) >= from) ?? [1, 'Wh']
  return `${asNumber(wattHours / by)} ${unit}`
}
