/* The numbers of GET /metrics, looked at again and again: the text format of Prometheus. */
import { useQuery } from '@tanstack/react-query'
import { useEffect, useState } from 'react'

import { send } from '../api/client'

const EVERY_MS = 2000
const KEPT = 60

export interface Line { name: string, labels: Record<string, string>, value: number }
export interface Sample { at: number, lines: Line[], sums: Map<string, number> }

function lineOf (text: string): Line | null {
  const [, name, labels = '', value] = /^([a-z_]+)(?:\{(.*)\})? (\S+)$/.exec(text) ?? []
  if (!name) return null
  return { name, value: Number(value), labels: Object.fromEntries([...labels.matchAll(/(\w+)="([^"]*)"/g)].map(([, key, of]) => [key, of])) }
}

/* With the sum over the labels of each name; failures are counted beside all requests. */
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

/*
 * Several hosts behind one address answer in turn, each with its own numbers: a host is known by when its process
 * started, which it reckons anew for each answer. The list has those that have answered since the view was opened.
 */
export interface HostSamples { key: string, samples: Sample[] }

const RECKONED_S = 0.05

export const startedAt = ({ sums }: Sample) => sums.get('process_start_time_seconds') ?? 0

function withSample (hosts: HostSamples[], sample: Sample): HostSamples[] {
  const isOf = ({ samples }: HostSamples) => Math.abs(startedAt(samples[samples.length - 1]!) - startedAt(sample)) < RECKONED_S

  if (!hosts.some(isOf)) return [...hosts, { key: String(startedAt(sample)), samples: [sample] }]
  return hosts.map((host) => isOf(host) ? { ...host, samples: [...host.samples, sample].slice(-KEPT) } : host)
}

export function useHosts () {
  const metrics = useQuery({ queryKey: ['metrics'], queryFn: async () => parse(await (await send('GET', '/metrics')).text()), refetchInterval: EVERY_MS })
  const [hosts, setHosts] = useState<HostSamples[]>([])
  const [error, setError] = useState<Error | null>(null) // stays while the next try is under way

  useEffect(() => {
    if (metrics.data) setHosts((before) => withSample(before, { at: metrics.dataUpdatedAt, ...metrics.data }))
    setError(null)
  }, [metrics.data, metrics.dataUpdatedAt])
  useEffect(() => { if (metrics.error) setError(metrics.error) }, [metrics.error])
  return { hosts, error }
}

export const level = (samples: Sample[], name: string) => samples.map(({ sums }) => sums.get(name) ?? 0)

/* Of a counter how much it grew in a second. */
export const rate = (samples: Sample[], name: string) => samples.slice(1).map(({ at, sums }, i) => {
  const before = samples[i]!
  return Math.max(0, ((sums.get(name) ?? 0) - (before.sums.get(name) ?? 0)) * 1000 / Math.max(1, at - before.at))
})
