/*
 * The order of a table that the host sorts: by one column, up or down; the host's default until the user
 * chooses one. It is kept in the address.
 */
import { useValues } from '../router'
import type { Head } from './ui'

/* `head` makes a column from a text and the API's name of its order; `query` is sent to the API. */
export function useOrder () {
  const [{ sort: by, order }, change] = useValues('sort', 'order')
  const down = order === 'desc'

  const head = (text: string, sort: string, number = false): Head => ({
    text,
    number,
    sorted: by !== sort ? 'none' : down ? 'descending' : 'ascending',
    sort: () => change({ sort, order: by === sort && !down ? 'desc' : '' })
  })
  return { head, query: by ? { sort: by, order: down ? 'desc' : 'asc' } : {} }
}
