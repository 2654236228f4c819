/* Live events of the user's conversations; they update the cached lists and chains. */
import { useQueryClient } from '@tanstack/react-query'
import { useEffect, useState } from 'react'

import { follow } from '../api/stream'
import type { Entry } from '../api/types'

export type Arrival = { conversationId: number; message: Entry }

/* Calls `heard` with each new message. Returns true while the stream is open. */
export function useLive (heard: (arrival: Arrival) => void): boolean {
  const client = useQueryClient()
  const [open, setOpen] = useState(false)

  useEffect(() => {
    const control = new AbortController()
    const hear = ({ event, data }: { event?: string; data: string }) => {
      if (event === 'message.new') heard(JSON.parse(data) as Arrival)
      void client.invalidateQueries({ queryKey: ['conversations'] })
    }
    void follow('/api/chat/stream', hear, setOpen, control.signal)
    return () => control.abort()
  }, [client, heard])
  return open
}
