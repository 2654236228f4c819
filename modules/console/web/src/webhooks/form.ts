/* The form of a webhook: its fields, mostly texts, and the members of the request that they make. */
import type { Webhook } from '../api/types'
import { problemsIn } from '../ui/form'

export type Authentication = 'keep' | 'none' | 'basic' | 'bearer' | 'oauth2' | 'mtls'

/* `keepsHeaders`, and authentication: 'keep': the webhook keeps its values, which cannot be shown. */
export interface Form {
  kind: 'send' | 'poll' // if its events are polled, it has no URL
  url: string
  name: string
  description: string
  scope: 'all' | 'some'
  events: string[]
  filter: string
  retry: 'default' | 'standard' | 'own'
  delays: string
  disable: boolean
  after: string
  unit: string
  ordered: boolean
  limited: boolean
  limit: string
  per: 'second' | 'minute'
  signature: 'hmac' | 'ed25519' | 'both'
  headers: { name: string; value: string }[]
  keepsHeaders: boolean
  authentication: Authentication
  credentials: Record<string, string>
  secret: string
}

/* The members of each kind of authentication. The form begins with all of them: a field without text has ''. */
export const MEMBERS = {
  basic: ['username', 'password'],
  bearer: ['token'],
  oauth2: ['tokenUrl', 'clientId', 'clientSecret', 'scope', 'audience'],
  mtls: ['certificate', 'key']
} as const

const DELAYS = 16
const DELAY_S = 86400
const SUM_S = 7 * DELAY_S
const UNITS: [string, number][] = [
  ['h', 3600],
  ['m', 60],
  ['s', 1]
]

/* Writes seconds as they are typed: 10s, 5m, 2h. */
export function written (delays: number[]): string {
  return delays
    .map((delay) => {
      const [unit, by] = UNITS.find(([, each]) => delay % each === 0) ?? ['s', 1]
      return `${delay / by}${unit}`
    })
    .join(', ')
}

/* Reads "10s, 5m, 2h" as seconds; null if the text is invalid. */
export function readDelays (text: string): number[] | null {
  const delays = text
    .split(/[\s,;]+/)
    .filter(Boolean)
    .map((part) => {
      const [, digits, unit = 's'] = /^(\d{1,5})\s*([smh])?$/.exec(part) ?? []
      return digits === undefined ? NaN : Number(digits) * (UNITS.find(([name]) => name === unit)?.[1] ?? NaN)
    })
  const good =
    delays.every((delay) => delay >= 1 && delay <= DELAY_S) && delays.reduce((sum, delay) => sum + delay, 0) <= SUM_S
  return good && delays.length > 0 && delays.length <= DELAYS ? delays : null
}

/* Reads a filter; undefined if the text is not a JSON object, null if it is empty. */
export function readFilter (text: string): Record<string, unknown> | null | undefined {
  if (text.trim() === '') return null
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined
  } catch {
    return undefined
  }
}

export const isAll = ({ events }: Webhook) => events.length === 0 || events.includes('*')

export function formOf (hook?: Webhook): Form {
  const retry = hook?.retryPolicy
  const [, after = '5', unit = 'd'] = /^(\d+)(\w)$/.exec(hook?.disablePolicy?.after ?? '') ?? []

  return {
    kind: hook?.kind === 'poll' ? 'poll' : 'send',
    url: hook?.url ?? 'https://',
    name: hook?.name ?? '',
    description: hook?.description ?? '',
    scope: !hook || isAll(hook) ? 'all' : 'some',
    events: hook?.events.filter((name) => name !== '*') ?? [],
    filter: hook?.filter ? JSON.stringify(hook.filter, null, 2) : '',
    retry: typeof retry === 'object' ? 'own' : (retry ?? 'default'),
    delays: typeof retry === 'object' ? written(retry.delays) : '10s, 10m, 1h',
    disable: hook?.disablePolicy !== undefined,
    after,
    unit,
    ordered: hook?.ordering === 'key',
    limited: hook?.rateLimit !== undefined,
    limit: String(hook?.rateLimit?.limit ?? 10),
    per: hook?.rateLimit?.per ?? 'second',
    signature: hook?.signature ?? 'hmac',
    headers: [],
    keepsHeaders: hook?.headers !== undefined,
    authentication: hook?.authentication ? 'keep' : 'none',
    credentials: Object.fromEntries(Object.values(MEMBERS).flat().map((name) => [name, ''])),
    secret: ''
  }
}

function authenticationOf ({ authentication, credentials }: Form) {
  if (authentication === 'keep' || authentication === 'none') return null
  const given = MEMBERS[authentication]
    .map((name) => [name, credentials[name] ?? ''])
    .filter(([, value]) => value !== '')
  return { type: authentication, ...Object.fromEntries(given) }
}

/* A value as JSON whose members are in the order of their names. */
function sorted (value: unknown): string {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return JSON.stringify(value)
  return `{${Object.entries(value)
    .map(([name, each]) => `${name}:${sorted(each)}`)
    .sort()
    .join()}}`
}

/* The names of members that differ between two states of a webhook. */
export const changedIn = (one: Webhook, other: Partial<Webhook>, names: string[]) =>
  names.filter((name) => sorted((one as Record<string, unknown>)[name] ?? null) !==
    sorted((other as Record<string, unknown>)[name] ?? null))

/* The members of a new webhook, or those that differ from the webhook's; null clears a member. */
export function bodyOf (form: Form, hook?: Webhook): Record<string, unknown> {
  const headers = form.headers.filter(({ name }) => name !== '').map(({ name, value }) => [name, value])
  const own = readDelays(form.delays)
  const sending = { // not possible if the events are polled
    url: form.url,
    retryPolicy: form.retry === 'own' ? { delays: own } : form.retry === 'standard' ? 'standard' : null,
    disablePolicy: form.disable ? { after: `${form.after}${form.unit}` } : null,
    ordering: form.ordered ? 'key' : null,
    rateLimit: form.limited ? { limit: Number(form.limit), per: form.per } : null,
    signature: form.signature === 'hmac' ? null : form.signature,
    ...(!form.keepsHeaders && { headers: headers.length > 0 ? Object.fromEntries(headers) : null }),
    ...(form.authentication !== 'keep' && { authentication: authenticationOf(form) }),
    ...(form.secret && { secret: form.secret })
  }
  const members: Record<string, unknown> = {
    ...(form.kind === 'poll' ? { kind: 'poll' } : sending),
    events: form.scope === 'all' ? [] : form.events,
    name: form.name.trim() || null,
    description: form.description.trim() || null,
    filter: readFilter(form.filter) ?? null
  }
  const before: Record<string, unknown> = hook ? { ...hook, events: isAll(hook) ? [] : hook.events } : {}
  const differs = ([name, value]: [string, unknown]) => sorted(before[name] ?? null) !== sorted(value)

  return Object.fromEntries(Object.entries(members).filter(differs))
}

/* The field that shows the problem of a member, if the field has another name. */
const FIELDS: Record<string, keyof Form> = {
  retryPolicy: 'delays', disablePolicy: 'after', rateLimit: 'limit', ordering: 'ordered'
}
const CREDENTIALS: string[] = Object.values(MEMBERS).flat()

/* Returns the problems of an error by the form's fields. The text of a part's problem begins with the part's path. */
export function problemsOf (error: unknown) {
  const texts = new Map<string, string[]>()
  for (const { field, problem } of problemsIn(error)) {
    const [, member = field, part = ''] = /^(\w+)\.?(.*)$/.exec(field) ?? []
    const own = member === 'authentication' && CREDENTIALS.includes(part)
    const name = own ? `credentials.${part}` : FIELDS[member] ?? member
    texts.set(name, [...texts.get(name) ?? [], part === '' || own ? problem : `${part}: ${problem}`])
  }
  return [...texts].map(([field, all]) => ({ field, problem: all.join('; ') }))
}
