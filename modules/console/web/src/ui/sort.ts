/*
 * The order of a table that the host sorts: by one column, up or down; the host's default until the user
 * chooses one.
 */
import { useState } from 'react'

import type { Head } from './ui'

/* `head` makes a column from a text and the API's name of its order; `query` is sent to the API. */
export function useOrder () {
  const [by, setBy] = useState<{ sort: string, down: boolean } | null>(null)

  const head = (text: string, sort: string, number = false): Head => ({
    text,
    number,
    sorted: by?.sort !== sort ? 'none' : by.down ? 'descending' : 'ascending',
    sort: () => setBy((before) => ({ sort, down: before?.sort === sort && !before.down }))
  })
  return { head, query: by ? { sort: by.sort, order: by.down ? 'desc' : 'asc' } : {} }
}
