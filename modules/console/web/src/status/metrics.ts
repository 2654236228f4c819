/* Polls the numbers of GET /metrics, in the text format of Prometheus. */
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

/*
 * Several hosts at one address respond in turn, each with its own numbers. A host is identified by the start
 * time of its process, which it computes again for each response. The list has the hosts that have responded
 * since the view was opened.
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
  const [error, setError] = useState<Error | null>(null) // stays during the next attempt

  useEffect(() => {
    if (metrics.data) setHosts((before) => withSample(before, { at: metrics.dataUpdatedAt, ...metrics.data }))
    setError(null)
  }, [metrics.data, metrics.dataUpdatedAt])
  useEffect(() => { if (metrics.error) setError(metrics.error) }, [metrics.error])
  return { hosts, error }
}

export const level = (samples: Sample[], name: string) => samples.map(({ sums }) => sums.get(name) ?? 0)

/* The growth of a counter per second. */
export const rate = (samples: Sample[], name: string) => samples.slice(1).map(({ at, sums }, i) => {
  const before = samples[i]!
  return Math.max(0, ((sums.get(name) ?? 0) - (before.sums.get(name) ?? 0)) * 1000 / Math.max(1, at - before.at))
})
