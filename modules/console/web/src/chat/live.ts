/* Live events of the user's conversations: they update the cached lists and chains, and can notify of messages. */
import { useQueryClient } from '@tanstack/react-query'
import { useCallback, useEffect, useState } from 'react'

import { get, query } from '../api/client'
import { follow } from '../api/stream'
import type { Conversation, Entry, Own } from '../api/types'
import { preferences } from '../preferences'
import { go } from '../router'

export type Arrival = { conversationId: number; message: Entry }

/* Calls `heard` with each new message, if it is `wanted`. Returns true while the stream is open. */
export function useLive (heard: (arrival: Arrival) => unknown, wanted = true): boolean {
  const client = useQueryClient()
  const [open, setOpen] = useState(false)

  useEffect(() => {
    if (!wanted) return
    const control = new AbortController()
    const hear = ({ event, data }: { event?: string; data: string }) => {
      if (event === 'message.new') heard(JSON.parse(data) as Arrival)
      void client.invalidateQueries({ queryKey: ['conversations'] })
    }
    void follow('/api/chat/stream', hear, setOpen, control.signal)
    return () => control.abort()
  }, [client, heard, wanted])
  return open
}

/* Returns whether the user takes part in a conversation, because an Admin's stream has all conversations. */
const isOwn = (id: number) => get<Conversation[]>(`/api/chat/conversations${query({ id, mine: true })}`).then(
  (found) => found.length > 0,
  () => false
)

/*
 * If the user has chosen it, the browser notifies of each message that arrives while the page is hidden. A click on the
 * notification opens the conversation.
 */
export function useNotifications ({ email }: Own) {
  const heard = useCallback(async ({ conversationId, message: { username, chatEntry } }: Arrival) => {
    if (!document.hidden || username === email || !(await isOwn(conversationId))) return
    const shown = new Notification(username, { body: chatEntry, tag: `busbar ${conversationId}` })
    shown.onclick = () => {
      shown.close()
      window.focus()
      go('chat', conversationId)
    }
  }, [email])
  useLive(heard, preferences.notify && Notification.permission === 'granted')
}
