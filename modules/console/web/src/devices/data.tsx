/* Titles of devices, and the lists for forms. */
import { useQuery } from '@tanstack/react-query'
import { memo, useDeferredValue, useMemo } from 'react'

import { get } from '../api/client'
import type { Device } from '../api/types'
import { to, toWith } from '../router'
import { isOne, useMe } from '../session'
import { language, t } from '../texts/texts'
import { way } from '../ui/format'

export const titleOf = (device: Device) => device.siteName ?? device.externalId ?? device.uuid

/* The pages of an Admin; others have only the list. */
export function Tabs ({ at }: { at: 'list' | 'duplicates' }) {
  if (!isOne(useMe(), 'Admin')) return null
  return (
    <nav className='tabs' aria-label={t('devices.title')}>
      <a href={to('devices')} aria-current={at === 'list' ? 'page' : undefined}>{t('devices.title')}</a>
      <a href={toWith({ show: 'duplicates' }, 'devices')} aria-current={at === 'duplicates' ? 'page' : undefined}>
        {t('duplicates.title')}
      </a>
    </nav>
  )
}

type Entry = { alpha2?: string, code?: string, name: string }

export interface Choice { value: string, text: string }

/* Countries have their names in the user's language; the other lists have only the names of the service. */
function choicesOf (entries: Entry[], countries: boolean): Choice[] {
  const names = new Intl.DisplayNames(way(), { type: 'region' })
  const { compare } = new Intl.Collator(way())
  const all = entries.map(({ alpha2, code, name }) => alpha2
    ? { value: alpha2, text: names.of(alpha2) ?? name }
    : code ? { value: code, text: `${code} – ${name}` } : { value: name, text: name })

  return countries ? all.sort((a, b) => compare(a.text, b.text)) : all
}

export function useChoices (list: 'countries' | 'fuel-codes' | 'device-types' | 'time-zones'): Choice[] {
  const latest = useQuery({
    queryKey: ['reference', list], queryFn: () => get<Entry[]>(`/api/reference/${list}`), staleTime: Infinity
  })
  const data = useDeferredValue(latest.data) // a long list is drawn while the user is not typing

  return useMemo(() => choicesOf(data ?? [], list === 'countries'), [data, list, language])
}

/* A value that is not in the list keeps its own option. */
export const Options = memo(function Options ({ of, none, value }: { of: Choice[], none: string, value: string }) {
  return (
    <>
      <option value=''>{none}</option>
      {value !== '' && !of.some((one) => one.value === value) && <option value={value}>{value}</option>}
      {of.map((one) => <option key={one.value} value={one.value}>{one.text}</option>)}
    </>
  )
})
