/* The health of all webhooks that the account can see. The overview and the navigation show it. */
import { useQuery } from '@tanstack/react-query'

import { everything } from '../api/client'
import type { Webhook } from '../api/types'

const AGAIN_MS = 60000

export function useHealth () {
  const all = useQuery({
    queryKey: ['webhooks', 'health', 'all'],
    queryFn: async () => (await everything<Webhook>('/api/chat/webhooks?limit=1000'))
      .map(({ id, health = 'ok' }) => ({ id, health })),
    refetchInterval: AGAIN_MS
  })

  return { all, failing: all.data?.filter(({ health }) => health !== 'ok') ?? [] }
}
