/* The events of the own conversations, as they happen: what is in memory of lists and chains follows them. */
import { useQueryClient } from '@tanstack/react-query'
import { useEffect, useState } from 'react'

import { follow } from '../api/stream'
import type { Entry } from '../api/types'

export type Arrival = { conversationId: number, message: Entry }

/* `heard` is called with each new message; true while the stream is open. */
export function useLive (heard: (arrival: Arrival) => void): boolean {
  const client = useQueryClient()
  const [open, setOpen] = useState(false)

  useEffect(() => {
    const control = new AbortController()
    const hear = ({ name, data }: { name: string, data: string }) => {
      if (name === 'message.new') heard(JSON.parse(data) as Arrival)
      void client.invalidateQueries({ queryKey: ['conversations'] })
    }
    void follow('/api/chat/stream', hear, setOpen, control.signal)
    return () => control.abort()
  }, [client, heard])
  return open
}
