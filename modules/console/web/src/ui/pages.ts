/* The pages of a list, and a typed text after a pause. */
import { keepPreviousData, useInfiniteQuery } from '@tanstack/react-query'
import { useEffect, useRef, useState } from 'react'

import { page, type Page } from '../api/client'

const PAUSE_MS = 250
const MANY = 10 // pages; longer lists are not read again each time somebody comes back to the window

/*
 * After an error the last good pages stay, so that a wrong filter does not empty the list. `again`: after how many
 * milliseconds the pages are read again.
 */
export function usePages<T> (
  key: string | (string | number)[], path: string, enabled = true, again?: (pages: Page<T[]>[]) => number | false
) {
  const list = useInfiniteQuery({
    queryKey: [key, path].flat(),
    queryFn: ({ pageParam }) => page<T[]>(pageParam),
    initialPageParam: path,
    getNextPageParam: (last) => last.next,
    placeholderData: keepPreviousData,
    refetchOnWindowFocus: ({ state: { data } }) => (data?.pages.length ?? 0) < MANY,
    refetchInterval: ({ state: { data } }) => again?.(data?.pages ?? []) ?? false,
    enabled
  })
  const last = useRef(list.data)
  if (list.data) last.current = list.data
  const pages = last.current?.pages ?? []

  return { list, pages, all: pages.flatMap(({ items }) => items), total: pages[0]?.total }
}

/* Returns a value once it has not changed for a moment, so that not every typed character sends a request. */
export function useSettled<T> (value: T): T {
  const [settled, settle] = useState(value)

  useEffect(() => {
    const timer = setTimeout(() => settle(value), PAUSE_MS)
    return () => clearTimeout(timer)
  }, [value])
  return settled
}
