/*
 * Reads the pages of a list to its end, one after the other, while `wanted` is true, for example during a
 * search.
 */
import { useEffect } from 'react'

export interface Pages {
  hasNextPage: boolean, isFetching: boolean, isFetchingNextPage: boolean, isError: boolean, fetchNextPage: () => unknown
}

export function useRest ({ hasNextPage, isFetching, isError, fetchNextPage }: Pages, wanted: boolean) {
  useEffect(() => {
    if (wanted && hasNextPage && !isFetching && !isError) fetchNextPage()
  }, [wanted, hasNextPage, isFetching, isError, fetchNextPage])
}
