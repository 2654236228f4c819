/*
 * The messages of a conversation, from the first one on. A chain is read page by page to its end. A message
 * that arrives live is appended once, and stays after pages that are read later.
 */
import { useCallback, useEffect, useRef, useState } from 'react'

import { page } from '../api/client'
import type { Entry } from '../api/types'

const PAGE = 1000

/* Inserts a page at its place in the chain; known messages that are not in the page follow it. */
function placed (before: Entry[], from: number, part: Entry[]) {
  const own = new Set(part.map(({ uuid }) => uuid))
  return [...before.slice(0, from), ...part, ...before.slice(from).filter(({ uuid }) => !own.has(uuid))]
}

export function useChain (head: string) {
  const [entries, setEntries] = useState<Entry[]>([])
  const [error, setError] = useState<unknown>(null)
  const [loading, setLoading] = useState(true)
  const latest = useRef<Entry[]>([])
  const exact = useRef(0) // messages in the host's order; later ones arrived live
  const reading = useRef<AbortController | null>(null)

  const change = useCallback((now: Entry[]) => { latest.current = now; setEntries(now) }, [])
  const add = useCallback((entry: Entry) => {
    if (!latest.current.some(({ uuid }) => uuid === entry.uuid)) change([...latest.current, entry])
  }, [change])

  /* Reads the unread rest, to the end. */
  const read = useCallback(async () => {
    reading.current?.abort()
    const own = reading.current = new AbortController()
    setLoading(true)
    setError(null)
    try {
      for (let more = true; more;) {
        const { items, next } = await page<Entry[]>(`/api/chat/chain/${head}?limit=${PAGE}&after=${exact.current}`)
        if (own.signal.aborted) return
        change(placed(latest.current, exact.current, items))
        exact.current += items.length
        more = next !== null && items.length > 0
      }
    } catch (problem) {
      if (!own.signal.aborted) setError(problem)
    }
    if (!own.signal.aborted) setLoading(false)
  }, [head, change])

  useEffect(() => {
    exact.current = 0
    change([])
    void read()
    return () => reading.current?.abort()
  }, [read, change])
  return { entries, error, loading, add, read }
}
