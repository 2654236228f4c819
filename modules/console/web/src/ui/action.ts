/*
 * A mutation that does not start again while it is in progress: two clicks can arrive before a button is
 * disabled.
 */
import { useMutation, type UseMutationOptions } from '@tanstack/react-query'
import { useRef } from 'react'

export function useAction<Data, Values = void, Context = unknown> (
  options: UseMutationOptions<Data, Error, Values, Context>
) {
  const busy = useRef(false)
  const mutation = useMutation<Data, Error, Values, Context>({
    ...options,
    onSettled: (...all) => { busy.current = false; return options.onSettled?.(...all) }
  })
  const mutate = (values: Values) => {
    if (busy.current) return
    busy.current = true
    mutation.mutate(values)
  }

  return { ...mutation, mutate }
}
