/* One certificate, which can be printed or stored as a PDF: the rules for print are in app.css and views.css. */
import { useQuery } from '@tanstack/react-query'
import { Printer } from 'lucide-react'
import type { ReactNode } from 'react'

import { get } from '../api/client'
import type { IssuedCertificate } from '../api/types'
import { useGroups } from '../groups/data'
import { useOrganizations } from '../organization'
import { to } from '../router'
import { named, t } from '../texts/texts'
import { asEnergy, asNumber, asTime, asUtc, zoneOf } from '../ui/format'
import { Badge, Button, Failed, Loading, Logo, Table } from '../ui/ui'
import { noteOf, tone } from './log'

type Fact = [string, ReactNode]

const periodOf = (start: string, end: string, as: (iso: string) => string) => `${as(start)} – ${as(end)}`

const when = (holds: boolean, label: string, value: ReactNode): Fact[] => holds ? [[label, value]] : []

function Paper ({ of: certificate }: { of: IssuedCertificate }) {
  const { nameOf: groupOf } = useGroups()
  const { nameOf } = useOrganizations()
  const {
    certificate_issuance_start: start, certificate_issuance_end: end, certificateTransactionUID: uid, issued_watthour: wh,
    groupId, organizationId, createdAt, entries: count, perDeviceCertificateLog: entries
  } = certificate
  const [first] = entries
  const states = [...new Set(entries.map(({ status }) => status))]
  const more = count - entries.length
  const final = more === 0 && states.every((status) => status === 'Succeeded' || status === 'Cancelled')
  const facts: Fact[] = [
    [t('certs.id'), <code key=''>{uid}</code>],
    [t('certs.energy'), `${asEnergy(wh)} (${asNumber(wh)} Wh)`],
    ...[...new Set([zoneOf(), 'UTC'])].map((zone): Fact =>
      [t('certs.inZone', { zone }), periodOf(start, end, zone === 'UTC' ? asUtc : asTime)]),
    groupId === null
      ? [t('certs.device'), first?.developerId ?? String(first?.deviceId)] : [t('groups.group'), groupOf(groupId)],
    [t('accounts.organization'), nameOf(organizationId)],
    ...when(final, t('certs.issuedAt'), `${asTime(createdAt)} (${asUtc(createdAt)})`),
    ...when(more === 0, t('certs.status'),
      states.map((status) => <Badge key={status} tone={tone(status)}>{named('cert', status)}</Badge>))
  ]

  return (
    <article className='paper panel'>
      <dl className='facts'>
        {facts.map(([label, value]) => <div key={label}><dt>{label}</dt><dd>{value}</dd></div>)}
      </dl>
      <Table label={t('certs.parts')}
        head={[t('certs.device'), 'UUID', t('certs.period'), { text: t('certs.energy'), number: true }, '']}>
        {entries.map((entry) => (
          <tr key={entry.id}>
            <td className='wide'>
              {entry.developerId ?? entry.deviceId}
              {entry.serialNumber !== null && <><br /><small>{t('devices.serial')}: {entry.serialNumber}</small></>}
            </td>
            <td className='wide'>{entry.externalId}</td>
            <td>{periodOf(entry.certificate_issuance_start, entry.certificate_issuance_end, asTime)}</td>
            <td className='number'>{asEnergy(entry.readvalue_watthour)}</td>
            <td>{groupId !== null && noteOf(entry, end)}</td>
          </tr>
        ))}
      </Table>
      {more > 0 && <p>{t('certs.others', { n: more })}</p>}
    </article>
  )
}

/* `id`: one of its entries, because the log lists entries. */
export function One ({ id }: { id: string }) {
  const path = `/api/certificate-log/${encodeURIComponent(id)}/certificate`
  const one = useQuery({ queryKey: ['certificates', 'one', id], queryFn: () => get<IssuedCertificate>(path) })

  return (
    <div className='page'>
      <header>
        <div><a href={to('certificates')}>{t('certs.back')}</a><h1>{t('certs.heading')}</h1></div>
        <div className='brand printed'><Logo />busbar</div>
        {one.data && <Button kind='main' icon={Printer} onClick={() => print()}>{t('certs.print')}</Button>}
      </header>
      {one.isPending && <Loading />}
      {one.isError && <Failed error={one.error} again={() => void one.refetch()} />}
      {one.data && <Paper of={one.data} />}
    </div>
  )
}
