/* The log of issued energy, with a chart of the sum by day. */
import { useDeferredValue, useState } from 'react'

import { download, query } from '../api/client'
import type { Certificate } from '../api/types'
import { named, t } from '../texts/texts'
import { asDay, asEnergy, asNumber, way } from '../ui/format'
import { Button, Failed, Field } from '../ui/ui'
import { Bars } from '../ui/bars'
import { Entries, states, useLog } from './log'

const short = new Intl.DateTimeFormat(way, { day: 'numeric', month: 'short' })
const counted = ['Requested', 'Succeeded', 'Retry'] // issued, or to be issued

/* Sums energy by the day in which a period ends; a period that ends at midnight counts for the day before. */
function byDay (entries: Certificate[]) {
  const days = new Map<string, { at: number, value: number }>()
  for (const entry of entries.filter(({ status }) => counted.includes(status))) {
    const at = Date.parse(entry.certificate_issuance_end) - 1
    const label = asDay(new Date(at).toISOString())
    const before = days.get(label)
    days.set(label, { at: Math.min(at, before?.at ?? at), value: (before?.value ?? 0) + entry.readvalue_watthour })
  }
  return [...days].sort(([, a], [, b]) => a.at - b.at).map(([label, { at, value }]) => ({ label, short: short.format(at), value }))
}

export default function Certificates () {
  const [status, setStatus] = useState('')
  const [start, setStart] = useState('')
  const [end, setEnd] = useState('')
  const [typed, setExternalId] = useState('')
  const externalId = useDeferredValue(typed)
  const [error, setError] = useState<unknown>(null)
  const filter = { status, start, end, externalId: externalId.trim() }
  const log = useLog(filter, 200)
  const bars = byDay(log.all)
  const save = () => { setError(null); download(`/api/certificate-log/export.csv${query(filter)}`, 'certificates.csv').catch(setError) }

  return (
    <div className='page'>
      <header><h1>{t('certs.title')}</h1><Button onClick={save}>{t('certs.export')}</Button></header>
      {error !== null && <Failed error={error} />}
      <div className='filters'>
        <Field label={t('certs.from')}>{(props) => <input {...props} type='date' value={start} onChange={(e) => setStart(e.target.value)} />}</Field>
        <Field label={t('certs.to')}>{(props) => <input {...props} type='date' value={end} onChange={(e) => setEnd(e.target.value)} />}</Field>
        <Field label={t('certs.deviceId')}>{(props) => <input {...props} type='search' maxLength={255} value={typed} onChange={(e) => setExternalId(e.target.value)} />}</Field>
        <Field label={t('certs.status')}>
          {(props) => (
            <select {...props} value={status} onChange={(e) => setStatus(e.target.value)}>
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
      <Entries {...log} />
    </div>
  )
}
