/*
 * Server-Sent Events by fetch(), for EventSource sends no token. Ends with the signal; comes again after a
 * break, from behind the last event where the host gives ids.
 */
import { session } from './client'

export interface StreamEvent { name: string, data: string }

type Hear = (event: StreamEvent) => void

const AGAIN_MS = [1000, 2000, 5000, 10000]

const wait = (ms: number, signal: AbortSignal) => new Promise<void>((resolve) => {
  const timer = setTimeout(resolve, ms)
  signal.addEventListener('abort', () => { clearTimeout(timer); resolve() }, { once: true })
})

class Parser {
  id = ''
  private rest = ''

  take (text: string, hear: Hear) {
    const blocks = (this.rest + text).split('\n\n')
    this.rest = blocks.pop() ?? ''
    for (const block of blocks) this.block(block, hear)
  }

  private block (block: string, hear: Hear) {
    let name = 'message'
    const data: string[] = []
    for (const line of block.split('\n')) {
      const [, field, value = ''] = /^([^:]*):? ?(.*)$/.exec(line) ?? []
      if (field === 'event') name = value
      else if (field === 'data') data.push(value)
      else if (field === 'id') this.id = value
    }
    if (data.length > 0) hear({ name, data: data.join('\n') })
  }
}

/* One connection, to its end; the status of its answer, 0: it could not be made. */
async function listen (path: string, parser: Parser, hear: Hear, open: (is: boolean) => void, signal: AbortSignal) {
  const headers: Record<string, string> = { ...session.header(), Accept: 'text/event-stream' }
  if (parser.id) headers['Last-Event-ID'] = parser.id
  try {
    const answer = await fetch(path, { headers, signal })
    if (!answer.ok || !answer.body) return answer.status
    open(true)
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader()
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return answer.status
      parser.take(value, hear)
    }
  } catch {
    return 0
  } finally {
    open(false)
  }
}

export async function follow (path: string, hear: Hear, open: (is: boolean) => void, signal: AbortSignal) {
  const parser = new Parser()
  for (let failures = 0; !signal.aborted;) {
    const status = await listen(path, parser, hear, open, signal)
    if (status === 401) session.end()
    if (status === 401 || status === 403 || status === 404) return
    failures = status === 200 ? 0 : failures + 1
    await wait(AGAIN_MS[Math.min(failures, AGAIN_MS.length - 1)] ?? 1000, signal)
  }
}
