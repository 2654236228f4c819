/* Times in the viewer's zone, with UTC as a tooltip; energy with its unit. */
import { language } from '../texts/texts'

/* The viewer's regional format: en-GB and de-AT differ from the plain languages of the catalog. */
export const way = () => navigator.languages.find((name) => name.startsWith(language)) ?? language

const make = () => ({
  language,
  day: new Intl.DateTimeFormat(way(), { dateStyle: 'medium' }),
  date: new Intl.DateTimeFormat(way(), { dateStyle: 'medium', timeZone: 'UTC' }),
  minute: new Intl.DateTimeFormat(way(), { dateStyle: 'medium', timeStyle: 'short' }),
  second: new Intl.DateTimeFormat(way(), { dateStyle: 'medium', timeStyle: 'medium' }),
  clock: new Intl.DateTimeFormat(way(), { timeStyle: 'short' }),
  number: new Intl.NumberFormat(way(), { maximumFractionDigits: 2 })
})
let made = make()

function formats () {
  if (made.language !== language) made = make()
  return made
}

export const asDay = (iso: string) => formats().day.format(new Date(iso))
export const asDate = (calendar: string) => formats().date.format(new Date(calendar)) // a calendar day, the same in all zones
export const asTime = (iso: string) => formats().minute.format(new Date(iso))
export const asMoment = (iso: string) => formats().second.format(new Date(iso))
export const asClock = (iso: string) => formats().clock.format(new Date(iso))
/* A period as days if it begins and ends at midnight, otherwise with the times. */
export function asPeriod (start: string, end: string): string {
  const [from, to] = [new Date(start), new Date(end)]
  const days = from < to && [from, to].every((at) => at.getHours() + at.getMinutes() + at.getSeconds() === 0)
  return days ? formats().day.formatRange(from, new Date(to.getTime() - 1)) : formats().minute.formatRange(from, to)
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
