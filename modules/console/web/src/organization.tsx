/*
 * The organizations in which the account may act. If there are several, the user chooses one of them, or all, in the
 * header of the page. Forms that create an object ask for its organization.
 */
import { useQuery } from '@tanstack/react-query'
import type { Control, FieldValues, Path } from 'react-hook-form'

import { everything, get } from './api/client'
import type { Organization, Own } from './api/types'
import { choose, useValues } from './router'
import { isOne, useMe } from './session'
import { t } from './texts/texts'
import { Select } from './ui/form'

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

  const knownAs = (id: number | null) => all.find((one) => one.id === id)?.name

  return {
    all,
    several: admin ? all.length > 0 : all.length > 1,
    chosen,
    waits,
    knownAs,
    nameOf: (id: number) => knownAs(id) ?? t('org.unknown', { id: String(id) })
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

interface Values { organizationId?: string }

/*
 * For a form that creates an object. Add `values` to the form's initial values: they select the organization `first`,
 * or else the one chosen in the header when the form is first drawn. `values` is empty if there is nothing to select.
 * `idOf` returns the selected organization. If the header can be used while the form is shown, set the form's `key` to
 * the organization chosen in the header, so that another choice resets the form.
 */
export function useTarget (first?: number) {
  const { several, chosen, waits } = useOrganizations()
  const values: Values = several || waits ? { organizationId: String(first ?? chosen ?? '') } : {}

  return { values, idOf: ({ organizationId }: Values) => organizationId ? Number(organizationId) : undefined }
}

export function Target<All extends FieldValues> ({
  of,
  name,
  optional = false
}: {
  of: { control: Control<All> }
  name: Path<All>
  optional?: boolean
}) {
  const { all, several } = useOrganizations()

  if (!several) return null
  return (
    <Select of={of} name={name} label={t('accounts.organization')} required={!optional}>
      <option value=''>{t(optional ? 'org.none' : 'org.choose')}</option>
      <Options all={all} />
    </Select>
  )
}
