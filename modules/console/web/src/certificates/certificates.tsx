/* The log of issued energy, with a chart of the sum by day. */
import { useDeferredValue, useState } from 'react'

import { download, query } from '../api/client'
import type { Certificate } from '../api/types'
import { useOrganizations } from '../organization'
import { useValues } from '../router'
import { named, t } from '../texts/texts'
import { asDay, asEnergy, asNumber, way } from '../ui/format'
import { Button, Failed, Field } from '../ui/ui'
import { Bars } from '../ui/bars'
import { Entries, states, useLog } from './log'

const counted = ['Requested', 'Succeeded', 'Retry'] // issued, or to be issued

/* Sums energy by the day in which a period ends; a period that ends at midnight counts for the day before. */
function byDay (entries: Certificate[]) {
  const short = new Intl.DateTimeFormat(way(), { day: 'numeric', month: 'short' })
  const days = new Map<string, { at: number, value: number }>()
  for (const entry of entries.filter(({ status }) => counted.includes(status))) {
    const at = Date.parse(entry.certificate_issuance_end) - 1
    const label = asDay(new Date(at).toISOString())
    const before = days.get(label)
    days.set(label, { at: Math.min(at, before?.at ?? at), value: (before?.value ?? 0) + entry.readvalue_watthour })
  }
  return [...days].sort(([, a], [, b]) => a.at - b.at).map(([label, { at, value }]) => ({ label, short: short.format(at), value }))
}

/*
 * Returns when a day begins in the viewer's zone, or a day that many days later; '' if the text is not a day.
 */
function beginOf (day: string, later = 0): string {
  const at = new Date(`${day}T00:00`)
  at.setDate(at.getDate() + later)
  return Number.isNaN(at.getTime()) ? '' : at.toISOString()
}

export default function Certificates () {
  const [{ status, start, end, externalId: typed }, change] = useValues('status', 'start', 'end', 'externalId')
  const { chosen } = useOrganizations()
  const externalId = useDeferredValue(typed)
  const [error, setError] = useState<unknown>(null)
  const filter = { status, start: beginOf(start), end: beginOf(end, 1), externalId: externalId.trim(), organizationId: chosen }
  const log = useLog(filter, 200)
  const bars = byDay(log.all)
  const save = () => { setError(null); download(`/api/certificate-log/export.csv${query(filter)}`, 'certificates.csv').catch(setError) }

  return (
    <div className='page'>
      <header><h1>{t('certs.title')}</h1><Button onClick={save}>{t('certs.export')}</Button></header>
      {error !== null && <Failed error={error} />}
      <div className='filters'>
        <Field label={t('certs.from')}>{(props) => <input {...props} type='date' value={start} onChange={(e) => change({ start: e.target.value })} />}</Field>
        <Field label={t('certs.to')} problem={start !== '' && end !== '' && start > end ? t('certs.reversed') : undefined}>{(props) => <input {...props} type='date' value={end} onChange={(e) => change({ end: e.target.value })} />}</Field>
        <Field label={t('certs.deviceId')}>{(props) => <input {...props} type='search' maxLength={255} value={typed} onChange={(e) => change({ externalId: e.target.value })} />}</Field>
        <Field label={t('certs.status')}>
          {(props) => (
            <select {...props} value={status} onChange={(e) => change({ status: e.target.value })}>
              <option value=''>{t('accounts.all')}</option>
              {states.map((name) => <option key={name} value={name}>{named('cert', name)}</option>)}
            </select>
          )}
        </Field>
      </div>
      {bars.length > 0 && (
        <section className='panel'>
          <Bars title={t('certs.byDay')} bars={bars} show={asEnergy}
            note={t(log.list.hasNextPage ? 'certs.ofShown' : 'certs.ofAll', { energy: asEnergy(bars.reduce((sum, { value }) => sum + value, 0)), n: asNumber(log.all.length) })} />
        </section>
      )}
      <Entries {...log} filtered={[status, start, end, typed].some(Boolean)} />
    </div>
  )
}
