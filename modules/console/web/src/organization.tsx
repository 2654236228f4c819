/*
 * The organizations in which the account may act. If there are several, the header chooses one of them, or all;
 * whatever is made new asks for one.
 */
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'

import { everything, get } from './api/client'
import type { Organization, Own } from './api/types'
import { choose, useValues } from './router'
import { isOne, useMe } from './session'
import { t } from './texts/texts'
import { Field } from './ui/ui'

const FRESH_MS = 60000

type Named = Own['organizations'][number]

export function useOrganizations () {
  const me = useMe()
  const [{ org }] = useValues('org')
  const admin = isOne(me, 'Admin')
  const every = useQuery({
    queryKey: ['organizations'],
    queryFn: () => everything<Organization>('/api/admin/organizations?limit=200'),
    enabled: admin,
    staleTime: FRESH_MS
  })
  const own = useQuery({
    queryKey: ['own'],
    queryFn: () => get<Own>('/api/auth/me'),
    enabled: !admin,
    initialData: me,
    staleTime: FRESH_MS
  })
  const all: Named[] = (admin ? every.data : own.data.organizations) ?? []
  const waits = admin && every.isPending
  const chosen = all.find(({ id }) => String(id) === org)?.id ?? (waits && /^\d+$/.test(org) ? Number(org) : undefined)

  return {
    all,
    several: admin ? all.length > 0 : all.length > 1,
    chosen,
    nameOf: (id: number) => all.find((one) => one.id === id)?.name ?? String(id)
  }
}

const Options = ({ all }: { all: Named[] }) => all.map(({ id, name }) => <option key={id} value={id}>{name}</option>)

export function Switcher () {
  const { all, several, chosen } = useOrganizations()

  if (!several) return null
  return (
    <select
      className='organization'
      aria-label={t('accounts.organization')}
      value={chosen ?? ''}
      onChange={(e) => choose(e.target.value)}>
      <option value=''>{t('org.all')}</option>
      <Options all={all} />
    </select>
  )
}

/*
 * The organization of something new: `first`, or the one that the header has chosen, until the user picks
 * another. `id` is undefined if there is only one, or none is picked.
 */
export function useTarget (first?: number) {
  const { all, several, chosen } = useOrganizations()
  const [picked, pick] = useState<string | null>(null)
  const value = picked ?? String(first ?? chosen ?? '')

  return { all, several, value, pick, id: several && value !== '' ? Number(value) : undefined }
}

export function Target ({
  of,
  problem,
  optional = false
}: {
  of: ReturnType<typeof useTarget>
  problem?: string
  optional?: boolean
}) {
  if (!of.several) return null
  return (
    <Field label={t('accounts.organization')} problem={problem}>
      {(props) => (
        <select {...props} required={!optional} value={of.value} onChange={(e) => of.pick(e.target.value)}>
          <option value=''>{t(optional ? 'org.none' : 'org.choose')}</option>
          <Options all={of.all} />
        </select>
      )}
    </Field>
  )
}
