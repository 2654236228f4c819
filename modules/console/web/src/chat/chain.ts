/*
 * The messages of a conversation, from the first one on. A chain is read page by page to its end; what
 * arrives live is put behind it, once. Only the last ones are shown until earlier ones are asked for.
 */
import { useCallback, useEffect, useRef, useState } from 'react'

import { page } from '../api/client'
import type { Entry } from '../api/types'

const PAGE = 1000

export function useChain (head: string) {
  const [entries, setEntries] = useState<Entry[]>([])
  const [error, setError] = useState<unknown>(null)
  const [loading, setLoading] = useState(true)
  const [round, setRound] = useState(0)
  const known = useRef(new Set<string>())

  const add = useCallback((more: Entry[]) => {
    const fresh = more.filter(({ uuid }) => !known.current.has(uuid))
    fresh.forEach(({ uuid }) => known.current.add(uuid))
    if (fresh.length > 0) setEntries((before) => [...before, ...fresh])
  }, [])

  useEffect(() => {
    let wanted = true
    const read = async () => {
      let path: string | null = `/api/chat/chain/${head}?limit=${PAGE}`
      known.current = new Set()
      setEntries([])
      setLoading(true)
      setError(null)
      try {
        while (path && wanted) {
          const part: { items: Entry[], next: string | null } = await page<Entry[]>(path)
          if (wanted) add(part.items)
          path = part.next
        }
      } catch (problem) {
        if (wanted) setError(problem)
      }
      if (wanted) setLoading(false)
    }
    void read()
    return () => { wanted = false }
  }, [head, round, add])
  return { entries, error, loading, add, again: () => setRound((n) => n + 1) }
}
