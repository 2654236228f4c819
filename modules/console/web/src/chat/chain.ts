/*
 * The messages of a conversation. Each has a place: its number in the conversation, from 1. The latest page is read
 * first, or the messages from shortly before a wanted place to the end. Earlier pages are read when the user scrolls
 * up, and newer messages after the live stream was interrupted. A message that arrives live is appended once.
 */
import { startTransition, useCallback, useEffect, useRef, useState } from 'react'

import { page } from '../api/client'
import type { Entry } from '../api/types'

const LATEST = 100
const EARLIER = 200
const NEWER = 1000
const BEFORE = 50 // the messages that are read before a place

/*
 * `first`: the place of the first entry. `exact`: the number of entries, from the first one, that were read in pages;
 * they have no gaps and are in the host's order. The other entries arrived live.
 */
interface Chain {
  entries: Entry[]
  first: number
  exact: number
}

const NONE: Chain = { entries: [], first: 1, exact: 0 }

/* Inserts newer messages after the exact ones; known messages that are not in the page follow them. */
function placed ({ entries, first, exact }: Chain, part: Entry[]): Chain {
  const own = new Set(part.map(({ uuid }) => uuid))
  const rest = entries.slice(exact).filter(({ uuid }) => !own.has(uuid))
  return { entries: [...entries.slice(0, exact), ...part, ...rest], first, exact: exact + part.length }
}

/* The place of the last message of a page, which the link to the next page names; 1 without a link. */
const placeOf = (next: string | null) => Number(/before=(\d+)/.exec(next ?? '')?.[1] ?? 1)

/* `place`: the place of the wanted message. If it is null, or after the end, the latest messages are read. */
export function useChain (head: string, place: number | null) {
  const [chain, setChain] = useState(NONE)
  const [error, setError] = useState<unknown>(null)
  const [loading, setLoading] = useState(true)
  const latest = useRef(NONE)
  const reading = useRef<AbortController | null>(null)
  const earlier = useRef(false)
  const wanted = useRef(place)

  const change = useCallback((now: Chain) => {
    latest.current = now
    setChain(now)
  }, [])
  const add = useCallback(
    (entry: Entry) => {
      const { entries } = latest.current
      if (entries.some(({ uuid }) => uuid === entry.uuid)) return
      change({ ...latest.current, entries: [...entries, entry] })
    },
    [change]
  )

  /*
   * Reads the latest messages, or, if there are some or a place is wanted, the newer ones to the end. They are drawn in
   * a transition: React interrupts it when the user types, and no task of the browser takes long.
   */
  const read = useCallback(async () => {
    reading.current?.abort()
    const own = (reading.current = new AbortController())
    setLoading(true)
    setError(null)
    try {
      for (let more = true; more;) {
        const { first, exact } = latest.current
        const path = `/api/chat/chain/${head}?`
        if (exact === 0 && wanted.current === null) {
          const { items, next } = await page<Entry[]>(`${path}order=desc&limit=${LATEST}`)
          if (own.signal.aborted) return
          startTransition(() => change({ ...placed(latest.current, items.reverse()), first: placeOf(next) }))
          break
        }
        const { items, next } = await page<Entry[]>(`${path}limit=${NEWER}&after=${first + exact - 1}`)
        if (own.signal.aborted) return
        if (exact > 0 && items.length === 0) break
        if (exact === 0 && items.length === 0) {
          wanted.current = null
          change(NONE)
          continue
        }
        startTransition(() => change(placed(latest.current, items)))
        more = next !== null && items.length > 0
      }
    } catch (problem) {
      if (!own.signal.aborted) setError(problem)
    }
    if (!own.signal.aborted) startTransition(() => setLoading(false))
  }, [head, change])

  /* Reads the page before the first message that is known. */
  const readEarlier = useCallback(async () => {
    const { first } = latest.current
    if (earlier.current || first <= 1) return
    earlier.current = true
    try {
      const path = `/api/chat/chain/${head}?order=desc&limit=${EARLIER}&before=${first}`
      const { items, next } = await page<Entry[]>(path)
      const { entries, exact } = latest.current
      if (latest.current.first === first) {
        change({ entries: [...items.reverse(), ...entries], first: placeOf(next), exact: exact + items.length })
      }
    } catch (problem) {
      setError(problem)
    }
    earlier.current = false
  }, [head, change])

  useEffect(() => {
    change(place === null ? NONE : { ...NONE, first: Math.max(1, place - BEFORE) })
    void read()
    return () => reading.current?.abort()
  }, [read, change, place])
  /* Reads the newer messages first, because the places of messages that arrived live are unknown. null: not found. */
  const findPlace = useCallback(async (uuid: string) => {
    await read()
    const { entries, first, exact } = latest.current
    const at = entries.slice(0, exact).findIndex((entry) => entry.uuid === uuid)
    return at < 0 ? null : first + at
  }, [read])
  /* until the first page is read, all entries arrived live, and their places are unknown */
  const begun = chain.exact > 0
  return { entries: chain.entries, first: chain.first, begun, error, loading, add, read, readEarlier, findPlace }
}
