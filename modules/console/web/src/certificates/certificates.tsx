/* The log of issued energy, with a chart of its months, or one certificate. */
import { useQuery } from '@tanstack/react-query'
import { Award, Download } from 'lucide-react'
import { useState } from 'react'

import { download, get, query } from '../api/client'
import type { CertificateTotal } from '../api/types'
import { useGroups } from '../groups/data'
import { Word } from '../help/word'
import { useOrganizations } from '../organization'
import { to, useValues } from '../router'
import { isOne, useMe } from '../session'
import { named, t } from '../texts/texts'
import { asEnergy, beginOf, way } from '../ui/format'
import { Typed } from '../ui/typed'
import { Button, Empty, Failed, Field, Loading } from '../ui/ui'
import { Bars } from '../ui/chart'
import { Entries, states, useLog, type Filter } from './log'
import { One } from './one'

/* A chart of sums by the service, which do not depend on how much of the list is shown. */
function Chart ({ filter }: { filter: Filter }) {
  const path = `/api/certificate-log/totals${query({ by: 'month', limit: 1000, ...filter })}`
  const { data } = useQuery({
    queryKey: ['certificates', path], queryFn: () => get<CertificateTotal[]>(path), placeholderData: (last) => last
  })
  const format = new Intl.DateTimeFormat(way(), { month: 'short', year: 'numeric', timeZone: 'UTC' })
  const bars = (data ?? []).map(({ month, succeeded_watthour: value }) =>
    ({ label: format.format(new Date(month!)), value }))

  if (!bars.some(({ value }) => value > 0)) return null
  return (
    <section className='panel'>
      <Bars title={t('certs.byMonth')} bars={bars} show={asEnergy}
        note={t('certs.issued', { energy: asEnergy(bars.reduce((sum, { value }) => sum + value, 0)) })} />
    </section>
  )
}

/* A Buyer sees the certificates of one shared group at a time. */
function GroupField ({ value, pick }: { value: string, pick: (id: string) => void }) {
  const buyer = isOne(useMe(), 'Buyer')
  const { own, shared, all } = useGroups()
  const options = (groups: { id: number, name: string }[] | undefined) =>
    groups?.map(({ id, name }) => <option key={id} value={id}>{name}</option>)

  if (all.length === 0) return null
  return (
    <Field label={t('groups.group')}>
      {(props) => (
        <select {...props} value={value} onChange={(e) => pick(e.target.value)}>
          {!buyer && <option value=''>{t('accounts.all')}</option>}
          {options(own.data)}
          {shared.data && shared.data.length > 0 && (
            <optgroup label={t('groups.shared')}>{options(shared.data)}</optgroup>
          )}
        </select>
      )}
    </Field>
  )
}

/* To share a group, its owner needs the number of the other organization. */
function NothingShared () {
  const { organizations } = useMe()
  return (
    <Empty icon={Award} action={<a href={to('chat')}>{t('overview.ask')}</a>}>
      {organizations.map(({ id, name }) => <span key={id}>{t('groups.notShared', { name, id: String(id) })} </span>)}
    </Empty>
  )
}

function List () {
  const me = useMe()
  const buyer = isOne(me, 'Buyer')
  const [{ status, start, end, externalId, groupId: picked }, change] =
    useValues('status', 'start', 'end', 'externalId', 'groupId')
  const { chosen } = useOrganizations()
  const { own, shared, all: groups } = useGroups()
  const unknown = [own, shared].every(({ isLoading, isError }) => !isLoading && !isError) &&
    !groups.some(({ id }) => String(id) === picked) // of another organization
  const groupId = (unknown ? '' : picked) || (buyer ? String(shared.data?.[0]?.id ?? '') : '')
  const [error, setError] = useState<unknown>(null)
  const typed = externalId.trim()
  const filter = {
    status, start: beginOf(start), end: beginOf(end, 1), externalId: typed, groupId, organizationId: chosen
  }
  const log = useLog(filter, 200, !buyer || groupId !== '')
  const save = () => {
    setError(null)
    download(`/api/certificate-log/export.csv${query(filter)}`, 'certificates.csv').catch(setError)
  }
  const reversed = start !== '' && end !== '' && start > end ? t('certs.reversed') : undefined

  if (buyer && groupId === '') {
    return (
      <div className='page'>
        <header><h1>{t('certs.title')}</h1></header>
        {shared.isPending && <Loading />}
        {shared.isError && <Failed error={shared.error} again={() => void shared.refetch()} />}
        {shared.isSuccess && <NothingShared />}
      </div>
    )
  }
  return (
    <div className='page'>
      <header>
        <h1>{t('certs.title')}</h1>
        <span><Word of='certificate' /></span>
        {buyer && me.organizations.map(({ id }) => <span key={id}>{t('groups.ownNumber', { id: String(id) })}</span>)}
        <Button icon={Download} onClick={save}>{t('certs.export')}</Button>
      </header>
      {error !== null && <Failed error={error} />}
      <div className='filters'>
        <GroupField value={groupId} pick={(id) => change({ groupId: id })} />
        <Field label={t('certs.deviceId')}>
          {(props) => (
            <Typed {...props} type='search' maxLength={255} value={externalId}
              change={(text) => change({ externalId: text })} />
          )}
        </Field>
        <Field label={t('certs.status')}>
          {(props) => (
            <select {...props} value={status} onChange={(e) => change({ status: e.target.value })}>
              <option value=''>{t('accounts.all')}</option>
              {states.map((name) => <option key={name} value={name}>{named('cert', name)}</option>)}
            </select>
          )}
        </Field>
        <div className='period'>
          <Field label={t('certs.from')} date={start}>
            {(props) => (
              <input {...props} type='date' value={start} onChange={(e) => change({ start: e.target.value })} />
            )}
          </Field>
          <Field label={t('certs.to')} problem={reversed} date={end}>
            {(props) => <input {...props} type='date' value={end} onChange={(e) => change({ end: e.target.value })} />}
          </Field>
        </div>
      </div>
      <Chart filter={filter} />
      <Entries {...log} ofDevice={typed !== ''} filtered={[status, start, end, externalId, !buyer && groupId].some(Boolean)} />
    </div>
  )
}

export default function Certificates ({ rest }: { rest: string[] }) {
  return rest[0] === undefined ? <List /> : <One key={rest[0]} id={rest[0]} />
}
