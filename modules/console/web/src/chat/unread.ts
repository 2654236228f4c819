/* The number of the user's unread messages. The navigation reads it again and again; other views have the same number. */
import { useQuery } from '@tanstack/react-query'

import { get } from '../api/client'
import type { Own, Unread } from '../api/types'

export function useUnread ({ email }: Own, every: number | false = false) {
  return useQuery({
    queryKey: ['conversations', 'unread', email],
    queryFn: () => get<Unread>(`/api/chat/unread-count/${encodeURIComponent(email)}`),
    refetchInterval: every
  })
}
