/*
 * Polls the numbers of GET /metrics, in the text format of Prometheus. After the view was opened once, they are also
 * polled, less often, while other views are shown, so that its charts have up to an hour when the user comes back.
 */
import { useQuery } from '@tanstack/react-query'
import { useEffect, useState, useSyncExternalStore } from 'react'

import { send, session } from '../api/client'

const EVERY_MS = 2000
const REST_MS = 30000 // while another view is shown, and between older points
const RECENT_MS = 120000 // all points are kept for this time
const KEPT_MS = 3600000

export interface Line { name: string, labels: Record<string, string>, value: number }
export interface Sample { at: number, lines: Line[], sums: Map<string, number> }

function lineOf (text: string): Line | null {
  const [, name, labels = '', value] = /^([a-z_]+)(?:\{(.*)\})? (\S+)$/.exec(text) ?? []
  if (!name) return null
  return { name, value: Number(value), labels: Object.fromEntries([...labels.matchAll(/(\w+)="([^"]*)"/g)].map(([, key, of]) => [key, of])) }
}

/*
 * The result includes the sum over the labels of each name; failures are counted in addition to all requests.
 */
function parse (text: string): Omit<Sample, 'at'> {
  const lines = text.split('\n').map(lineOf).filter((line) => line !== null)
  const sums = new Map<string, number>()
  const add = (name: string, value: number) => sums.set(name, (sums.get(name) ?? 0) + value)
  for (const { name, labels, value } of lines) {
    add(name, value)
    if (name === 'busbar_http_requests_total' && labels.code?.startsWith('5')) add('failures', value)
  }
  return { lines, sums }
}

/* The values that the charts show. Only these values are kept of older samples. */
const CHARTED = [
  'busbar_http_requests_total', 'failures', 'busbar_http_connections', 'busbar_database_waiting',
  'process_resident_memory_bytes', 'process_cpu_seconds_total'
] as const

export type Charted = typeof CHARTED[number]
export type Point = { at: number } & Record<Charted, number>

/*
 * Several hosts at one address respond in turn, each with its own values. A host is identified by the start time
 * of its process. The host computes this time again for each response, so it can differ by up to RECKONED_S.
 * The list has the hosts that have responded in the last hour to this tab.
 */
export interface HostSamples { key: string, last: Sample, points: Point[] }

const RECKONED_S = 0.05

export const startedAt = ({ sums }: Sample) => sums.get('process_start_time_seconds') ?? 0

const pointOf = ({ at, sums }: Sample) =>
  ({ at, ...Object.fromEntries(CHARTED.map((name) => [name, sums.get(name) ?? 0])) }) as Point

/* Removes points that are too old, and older points that are too close to the previous point. */
function thinned (points: Point[], now: number): Point[] {
  let before = 0
  return points.filter(({ at }) => {
    const kept = now - at < RECENT_MS || (now - at < KEPT_MS && at - before > REST_MS - EVERY_MS)
    if (kept) before = at
    return kept
  })
}

function withSample (hosts: HostSamples[], sample: Sample): HostSamples[] {
  const isOf = ({ last }: HostSamples) => Math.abs(startedAt(last) - startedAt(sample)) < RECKONED_S
  const point = pointOf(sample)
  const alive = hosts.filter(({ last }) => sample.at - last.at < KEPT_MS)

  if (!alive.some(isOf)) return [...alive, { key: String(startedAt(sample)), last: sample, points: [point] }]
  return alive.map((host) =>
    isOf(host) ? { ...host, last: sample, points: thinned([...host.points, point], sample.at) } : host)
}

/* ---- the hosts as this tab has seen them ---- */

let hosts: HostSamples[] = []
let account = '' // of the Admin who sees the hosts
let polling = 0
let shown = false
const listeners = new Set<() => void>()

function listen (changed: () => void) {
  listeners.add(changed)
  return () => { listeners.delete(changed) }
}

function put (all: HostSamples[]) {
  hosts = all
  for (const changed of [...listeners]) changed()
}

const fetchSample = async () => parse(await (await send('GET', '/metrics')).text())

/* Polls while other views are shown, until the session ends. */
async function poll () {
  if (session.account() !== account) {
    clearInterval(polling)
    polling = 0
  } else if (!shown) {
    const sample = await fetchSample().catch(() => null)
    if (sample && session.account() === account) put(withSample(hosts, { at: Date.now(), ...sample }))
  }
}

function begin () {
  if (account !== session.account()) put([])
  account = session.account()
  shown = true
  if (polling === 0) polling = window.setInterval(() => void poll(), REST_MS)
  return () => { shown = false }
}

export function useHosts () {
  const metrics = useQuery({ queryKey: ['metrics'], queryFn: fetchSample, refetchInterval: EVERY_MS })
  const all = useSyncExternalStore(listen, () => hosts)
  const [error, setError] = useState<Error | null>(null) // stays during the next attempt

  useEffect(begin, [])
  useEffect(() => {
    const isNew = hosts.every(({ last }) => last.at < metrics.dataUpdatedAt) // no sample is newer than the response
    if (metrics.data && isNew) put(withSample(hosts, { at: metrics.dataUpdatedAt, ...metrics.data }))
    setError(null)
  }, [metrics.data, metrics.dataUpdatedAt])
  useEffect(() => { if (metrics.error) setError(metrics.error) }, [metrics.error])
  return { hosts: all, error }
}

/* A line of a chart: times, and values at these times. */
export interface Series { times: number[], values: number[] }

export const level = (points: Point[], name: Charted): Series =>
  ({ times: points.map(({ at }) => at), values: points.map((point) => point[name]) })

/* The growth of a counter per second. */
export const rate = (points: Point[], name: Charted): Series => ({
  times: points.slice(1).map(({ at }) => at),
  values: points.slice(1).map((point, i) => {
    const before = points[i]!
    return Math.max(0, (point[name] - before[name]) * 1000 / Math.max(1, point.at - before.at))
  })
})
