/* The filters of a list of devices. */
import { t } from '../texts/texts'
import { Field } from '../ui/ui'

export interface Filter { search: string, countryCode: string, status: string, fuelCode: string, capacityFrom: string, capacityTo: string, commissionedFrom: string, commissionedTo: string }

export const noFilter: Filter = { search: '', countryCode: '', status: '', fuelCode: '', capacityFrom: '', capacityTo: '', commissionedFrom: '', commissionedTo: '' }

/* Filters in the API's form; a country that is not fully typed is left out. */
export const queryOf = (filter: Filter) =>
  ({ ...filter, search: filter.search.trim(), fuelCode: filter.fuelCode.trim(), countryCode: /^[A-Za-z]{2,3}$/.test(filter.countryCode) ? filter.countryCode : '' })

export function Filters ({ filter, change }: { filter: Filter, change: (filter: Filter) => void }) {
  const input = (name: keyof Filter, label: string, more: Record<string, unknown> = {}) => (
    <Field label={label}>{(props) => <input {...props} {...more} value={filter[name]} onChange={(e) => change({ ...filter, [name]: e.target.value })} />}</Field>
  )

  return (
    <>
      <div className='filters'>
        {input('search', t('devices.search'), { type: 'search', maxLength: 255 })}
        {input('countryCode', t('devices.country'), { maxLength: 3 })}
        <Field label={t('devices.status')}>
          {(props) => (
            <select {...props} value={filter.status} onChange={(e) => change({ ...filter, status: e.target.value })}>
              <option value=''>{t('devices.active')}</option>
              <option value='Inactive'>{t('devices.inactive')}</option>
              <option value='All'>{t('devices.allStates')}</option>
            </select>
          )}
        </Field>
      </div>
      <details className='more'>
        <summary>{t('devices.filters')}</summary>
        <div className='filters'>
          {input('fuelCode', t('devices.fuel'), { maxLength: 64 })}
          {input('capacityFrom', t('devices.capacityFrom'), { type: 'number', min: 0, step: 'any' })}
          {input('capacityTo', t('devices.capacityTo'), { type: 'number', min: 0, step: 'any' })}
          {input('commissionedFrom', t('devices.sinceFrom'), { type: 'date' })}
          {input('commissionedTo', t('devices.sinceTo'), { type: 'date' })}
        </div>
      </details>
    </>
  )
}
