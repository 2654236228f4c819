/* The entries of the certificate log that match a filter, by certificate, page by page. */
import { useState } from 'react'

import { query } from '../api/client'
import type { Certificate } from '../api/types'
import { useGroups } from '../groups/data'
import { to } from '../router'
import { isOne, useMe } from '../session'
import { named, t } from '../texts/texts'
import { asEnergy } from '../ui/format'
import { usePages } from '../ui/pages'
import { Badge, Button, Empty, Failed, Id, Loading, More, Period, Table } from '../ui/ui'

export type Filter = {
  status?: string, start?: string, end?: string, deviceId?: number, externalId?: string, groupId?: string,
  organizationId?: number
}

const WHOLE_WH = 1000

export const states = ['Requested', 'Succeeded', 'Failed', 'Retry', 'Cancelled', 'Carried']

export const tone = (status: string) =>
  status === 'Succeeded' ? 'good' : status === 'Failed' ? 'bad' : status === 'Cancelled' ? 'off' : 'wait'

export const useLog = (filter: Filter, limit: number, wanted = true) =>
  usePages<Certificate>('certificates', `/api/certificate-log${query({ limit, ...filter })}`, wanted)

/* Groups entries by certificate. Until then, an entry has the number of its group. */
function byCertificate (all: Certificate[]): Certificate[][] {
  const found = new Map<string, Certificate[]>()

  for (const entry of all) {
    const key = `${entry.certificateTransactionUID} ${entry.status === 'Carried'}`
    found.set(key, [...found.get(key) ?? [], entry])
  }
  return [...found.values()]
}

/* The API's externalId is the uuid of the device. */
function Whose ({ entry: { developerId, deviceId, externalId: uuid } }: { entry: Certificate }) {
  const name = developerId ?? String(deviceId)
  return isOne(useMe(), 'Buyer') || uuid === null ? <>{name}</> : <a href={to('devices', uuid)}>{name}</a>
}

/* Energy that was carried over keeps the period of its cycle, so the newest entry has the period of the certificate. */
const newestOf = (entries: Certificate[]) => entries.reduce((newest, entry) =>
  entry.certificate_issuance_end > newest.certificate_issuance_end ? entry : newest)

export function noteOf (entry: Certificate, latest: string): string {
  if (entry.readvalue_watthour < 0) return t('certs.rest')
  if (entry.status === 'Carried') return t('certs.waits')
  return entry.certificate_issuance_end < latest ? t('certs.earlier') : ''
}

const sumOf = (entries: Certificate[]) => entries.reduce((sum, { readvalue_watthour: wh }) => sum + wh, 0)

/*
 * Whether entries of a group's certificate may be on the next page: those after the last entry, and energy that was
 * carried over from earlier cycles. All entries of a certificate add up to whole kWh.
 */
function isCut (entries: Certificate[], last: Certificate | undefined, ofDevice: boolean): boolean {
  const [{ groupId, status }] = entries as [Certificate]
  if (groupId === null) return false
  return entries.some((entry) => entry === last) || (!ofDevice && status !== 'Carried' && sumOf(entries) % WHOLE_WH !== 0)
}

/* `cut`: more entries may be on the next page. */
function Rows ({ entries, group, ofOne, parts, cut }: {
  entries: Certificate[], group: string | null, ofOne: boolean, parts: boolean, cut: boolean
}) {
  const [open, setOpen] = useState(false)
  const [first] = entries as [Certificate]
  const { certificate_issuance_start: start, certificate_issuance_end: end } = newestOf(entries)
  const uid = first.certificateTransactionUID
  const devices = new Set(entries.map(({ deviceId }) => deviceId)).size
  const found = [...new Set(entries.map(({ status }) => status))]

  return (
    <>
      <tr>
        <td className='wide'>
          {first.status === 'Carried' ? <Period start={start} end={end} /> : (
            <a href={to('certificates', first.id)}><Period start={start} end={end} /></a>
          )}
        </td>
        {!ofOne && (
          <td className='wide'>
            {devices > 1 ? t('devices.count', { n: devices }) : <Whose entry={first} />}
            {group !== null && <><br /><small>{group}</small></>}
          </td>
        )}
        <td className='number'>
          {asEnergy(sumOf(entries))}
          {cut && <><br /><small>{t('certs.cut')}</small></>}
        </td>
        <td>{found.map((status) => <Badge key={status} tone={tone(status)}>{named('cert', status)}</Badge>)}</td>
        <td>{first.status !== 'Carried' && <Id id={uid} shown={`…${uid.slice(-8)}`} />}</td>
        {parts && (
          <td>
            {entries.length > 1 && (
              <Button kind='link' aria-expanded={open} onClick={() => setOpen(!open)}>
                {t('certs.entries', { n: entries.length })}
              </Button>
            )}
          </td>
        )}
      </tr>
      {open && entries.map((entry) => (
        <tr key={entry.id} className='part'>
          <td className='wide' data-label={t('certs.period')}>
            <Period start={entry.certificate_issuance_start} end={entry.certificate_issuance_end} />
          </td>
          {!ofOne && <td className='wide' data-label={t('certs.device')}><Whose entry={entry} /></td>}
          <td className='number' data-label={t('certs.energy')}>{asEnergy(entry.readvalue_watthour)}</td>
          <td colSpan={3}>{noteOf(entry, end)}</td>
        </tr>
      ))}
    </>
  )
}

/*
 * `ofOne`: all entries are of one device, so its name is not repeated. `ofDevice`: other devices are omitted.
 * `filtered`: a filter may hide further entries.
 */
export function Entries ({ list, all, ofOne = false, ofDevice = ofOne, filtered }: ReturnType<typeof useLog> & {
  ofOne?: boolean, ofDevice?: boolean, filtered?: boolean
}) {
  const { nameOf } = useGroups()
  const found = byCertificate(all)
  const parts = found.some(({ length }) => length > 1)
  const head = [
    t('certs.period'), ...(ofOne ? [] : [t('certs.device')]), { text: t('certs.energy'), number: true },
    t('certs.status'), t('certs.id'), ...(parts ? [t('certs.parts')] : [])
  ]

  if (list.isPending) return <Loading />
  return (
    <>
      {list.isError && <Failed error={list.error} again={() => void list.refetch()} />}
      {list.isSuccess && all.length === 0 && <Empty>{t(filtered ? 'certs.empty' : 'certs.none')}</Empty>}
      {all.length > 0 && (
        <Table label={t('certs.title')} head={head} busy={list.isPlaceholderData}>
          {found.map((entries) => (
            <Rows key={`${entries[0]!.certificateTransactionUID} ${entries[0]!.status}`} entries={entries} ofOne={ofOne}
              parts={parts} cut={list.hasNextPage && isCut(entries, all.at(-1), ofDevice)}
              group={entries[0]!.groupId === null ? null : nameOf(entries[0]!.groupId)} />
          ))}
        </Table>
      )}
      <More of={list} />
    </>
  )
}
