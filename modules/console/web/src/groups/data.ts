/* Groups of devices: the ones of the account's organizations, and the ones that others share with them. */
import { useQuery } from '@tanstack/react-query'

import { everything, query } from '../api/client'
import type { Group, SharedGroup } from '../api/types'
import { useOrganizations } from '../organization'
import { isOne, useMe } from '../session'
import { t } from '../texts/texts'

export function useGroups () {
  const me = useMe()
  const { chosen: organizationId } = useOrganizations()
  const values = query({ organizationId, limit: 1000 })
  const own = useQuery({
    queryKey: ['groups', values], enabled: !isOne(me, 'Buyer'),
    queryFn: () => everything<Group>(`/api/device-group${values}`)
  })
  const shared = useQuery({
    queryKey: ['groups', 'shared', values], enabled: !isOne(me, 'Admin'), // an Admin sees all groups anyway
    queryFn: () => everything<SharedGroup>(`/api/device-group/shared${values}`)
  })
  const all = [...own.data ?? [], ...shared.data ?? []]

  return {
    own,
    shared,
    all,
    nameOf: (id: number) => all.find((group) => group.id === id)?.name ?? t('groups.one', { id: String(id) })
  }
}
