/*
 * Server-Sent Events over fetch(), because EventSource cannot send a token. Stops with the signal. Reconnects
 * after a break, and continues after the last event if the host sends ids. If the session has ended, waits
 * for the next one.
 */
import { createParser, type EventSourceMessage } from 'eventsource-parser'

import { session, watchHost } from './client'

type Hear = (event: EventSourceMessage) => void

const AGAIN_MS = [1000, 2000, 5000, 10000]

/* Waits for `ms`, or less if the network is back or the signal aborts. */
export const wait = (ms: number, signal: AbortSignal) => new Promise<void>((resolve) => {
  const done = () => {
    clearTimeout(timer)
    signal.removeEventListener('abort', done)
    removeEventListener('online', done)
    resolve()
  }
  const timer = setTimeout(done, ms)
  signal.addEventListener('abort', done)
  addEventListener('online', done)
})

/* Aborts a connection on which nothing arrives any more, or whose network is gone: neither is reported to fetch(). */
function watched (signal: AbortSignal) {
  const { heard, stop, signal: silence } = watchHost()
  const gone = new AbortController()
  const offline = () => gone.abort()

  addEventListener('offline', offline)
  return {
    heard, stop: () => { stop(); removeEventListener('offline', offline) },
    signal: AbortSignal.any([signal, silence, gone.signal, session.reads.signal])
  }
}

/*
 * Reads one connection to its end, and keeps the id of the last event in `last`. Returns the status of the
 * response; 0: it could not connect, or the connection broke.
 */
async function listen (
  path: string, last: { id: string }, hear: Hear, open: (is: boolean) => void, signal: AbortSignal
) {
  const headers: Record<string, string> = { ...session.header(), Accept: 'text/event-stream' }
  const watch = watched(signal)
  const parser = createParser({ onEvent: hear, onId: (id) => { last.id = id } })

  if (last.id) headers['Last-Event-ID'] = last.id
  try {
    const answer = await fetch(path, { headers, signal: watch.signal })
    if (answer.status === 401) await session.refused(headers.Authorization)
    if (!answer.ok || !answer.body) return answer.status
    open(true)
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader()
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return answer.status
      watch.heard()
      parser.feed(value)
    }
  } catch {
    return 0
  } finally {
    watch.stop()
    open(false)
  }
}

export async function follow (path: string, hear: Hear, open: (is: boolean) => void, signal: AbortSignal) {
  const last = { id: '' }
  for (let failures = 0; !signal.aborted;) {
    const status = await listen(path, last, hear, open, signal)
    await session.present(signal)
    if (status === 401) continue
    if (status === 400) last.id = '' // for example, an id of another database
    if (status === 403 || status === 404) return
    failures = status === 200 ? 0 : failures + 1
    await wait(AGAIN_MS[Math.min(failures, AGAIN_MS.length - 1)] ?? 1000, signal)
  }
}
