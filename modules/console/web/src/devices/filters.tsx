/* The filters of a list of devices, which are in the address. */
import { t } from '../texts/texts'
import { FilterRow } from '../ui/filters'
import { Typed } from '../ui/typed'
import { Field } from '../ui/ui'
import { Options, useChoices } from './data'

const more = ['fuelCode', 'deviceTypeCode', 'capacityFrom', 'capacityTo', 'commissionedFrom', 'commissionedTo'] as const

export const filters = ['search', 'countryCode', 'status', ...more] as const

export type Filter = Record<typeof filters[number], string>

/* Filters in the API's form. */
export const queryOf = (filter: Filter) => ({ ...filter, search: filter.search.trim() })

export function Filters ({ filter, change }: { filter: Filter, change: (some: Partial<Filter>) => void }) {
  const lists = {
    countryCode: useChoices('countries'), fuelCode: useChoices('fuel-codes'), deviceTypeCode: useChoices('device-types')
  }
  const filtered = filters.some((name) => filter[name] !== '')
  const clear = () => change(Object.fromEntries(filters.map((name) => [name, ''])))
  const input = (name: keyof Filter, label: string, extra: Record<string, unknown> = {}) => (
    <Field label={label} date={extra.type === 'date' ? filter[name] : undefined}>
      {(props) => (
        <Typed {...props} {...extra} value={filter[name]} change={(text) => change({ [name]: text })} />
      )}
    </Field>
  )
  const select = (name: keyof typeof lists, label: string) => (
    <Field label={label}>
      {(props) => (
        <select {...props} value={filter[name]} onChange={(e) => change({ [name]: e.target.value })}>
          <Options of={lists[name]} none={t('accounts.all')} value={filter[name]} />
        </select>
      )}
    </Field>
  )

  return (
    <FilterRow
      used={more.some((name) => filter[name] !== '')}
      clear={filtered ? clear : null}
      more={(
        <>
          {select('fuelCode', t('devices.fuel'))}
          {select('deviceTypeCode', t('devices.type'))}
          {input('capacityFrom', t('devices.capacityFrom'), { type: 'number', min: 0, step: 'any' })}
          {input('capacityTo', t('devices.capacityTo'), { type: 'number', min: 0, step: 'any' })}
          {input('commissionedFrom', t('devices.sinceFrom'), { type: 'date' })}
          {input('commissionedTo', t('devices.sinceTo'), { type: 'date' })}
        </>
      )}
    >
      {input('search', t('devices.search'), { type: 'search', maxLength: 255 })}
      {select('countryCode', t('devices.country'))}
      <Field label={t('devices.status')}>
        {(props) => (
          <select {...props} value={filter.status} onChange={(e) => change({ status: e.target.value })}>
            <option value=''>{t('devices.active')}</option>
            <option value='Inactive'>{t('devices.inactive')}</option>
            <option value='All'>{t('devices.allStates')}</option>
          </select>
        )}
      </Field>
    </FilterRow>
  )
}
