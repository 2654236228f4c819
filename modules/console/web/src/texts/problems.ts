/* Problems with requests and their fields, in the language of the page. */
import { asDate, asTime } from '../ui/format'
import type { Key } from './en'
import { has, t } from './texts'

/* As in `errors` of a response. `code` and `params` are absent if only the English text describes the problem. */
export interface FieldError { field: string, problem: string, code?: string, params?: Record<string, unknown> }

const labels: Record<string, Key> = {
  externalId: 'devices.id', siteName: 'devices.name', serialNumber: 'devices.serial', countryCode: 'devices.country',
  address: 'devices.address', timezone: 'devices.zone', latitude: 'devices.latitude', longitude: 'devices.longitude',
  capacity: 'devices.capacity', yieldValue: 'devices.yield', commissioningDate: 'devices.since', fuelCode: 'devices.fuel',
  deviceTypeCode: 'devices.type', status: 'devices.status', deviceIds: 'devices.title',
  startDate: 'readings.start', endDate: 'readings.end', value: 'certs.energy', unit: 'readings.unit',
  type: 'readings.type', reason: 'readings.reason', start: 'groups.start', end: 'groups.end',
  frequency: 'groups.frequency', name: 'accounts.name', role: 'accounts.role', organizationId: 'accounts.organization',
  firstName: 'register.firstName', lastName: 'register.lastName', orgName: 'register.orgName', email: 'login.email',
  username: 'login.email', password: 'login.password', participant2: 'chat.with', deviceProjectName: 'chat.device',
  chatEntry: 'chat.first', q: 'chat.words', url: 'hooks.url', events: 'hooks.events',
  capacityFrom: 'devices.capacityFrom', capacityTo: 'devices.capacityTo', commissionedFrom: 'devices.sinceFrom',
  commissionedTo: 'devices.sinceTo', since: 'hooks.from', until: 'hooks.to', event: 'hooks.event', eventId: 'hooks.id', code: 'hooks.code',
  description: 'hooks.description', filter: 'hooks.filter', retryPolicy: 'hooks.retries', rateLimit: 'hooks.rateLimit',
  disablePolicy: 'hooks.disabling', ordering: 'hooks.ordering', headers: 'hooks.headers', signature: 'hooks.signature',
  authentication: 'hooks.login', secret: 'hooks.secretTitle', starttimestamp: 'readings.start', endtimestamp: 'readings.end'
}

/*
 * Returns the label of a field, also of one of several readings, such as reads[0].value, and '' for a whole reading. A
 * field without a label is returned unchanged.
 */
export function labelOf (field: string): string {
  if (/^reads\[\d+\]$/.test(field)) return ''
  const name = /^(?:reads\[\d+\]\.)?(\w+)$/.exec(field)?.[1] ?? ''
  return Object.hasOwn(labels, name) ? t(labels[name]!) : field
}

function asValue (name: string, value: unknown): string | number {
  if (Array.isArray(value)) return value.join(', ')
  if (typeof value === 'number') return name === 'organization' || name === 'asked' ? String(value) : value
  const text = String(value)
  if (name === 'letters') return t(`letters.${/^(Greek|Cyrillic|Armenian|Cherokee)/.exec(text)?.[0] ?? 'alike'}` as Key)
  if (name === 'field') return labelOf(text)
  if (name === 'date') return asDate(text)
  return name === 'start' || name === 'end' ? asTime(text) : text
}

export function asProblem ({ problem, code, params = {} }: Omit<FieldError, 'field'>): string {
  if (!has(`problem.${code}`)) return problem
  return t(`problem.${code}` as Key, Object.fromEntries(Object.entries(params).map(([name, value]) => [name, asValue(name, value)])))
}

export const NO_ROUTE = 'Path not found' // the service's message: the module of the route is not loaded

/* The message of a response with a status; English messages without a code follow what the status means. */
export function asMessage (status: number, message: string, code?: string, params?: Record<string, unknown>): string {
  if (message === NO_ROUTE) return t('state.noRoute')
  return code === undefined && has(`failure.${status}`)
    ? t(`failure.${status}` as Key, { problem: message })
    : asProblem({ problem: message, code, params })
}
