/* For Admins: pairs of devices of different organizations that look like the same plant. */
import { CopyCheck } from 'lucide-react'

import type { Duplicate } from '../api/types'
import { useOrganizations } from '../organization'
import { to } from '../router'
import { t } from '../texts/texts'
import { asNumber, asPower } from '../ui/format'
import { usePages } from '../ui/pages'
import { Empty, Failed, Loading, More, Table, Time } from '../ui/ui'
import { Tabs } from './data'

type Facts = Duplicate['devices'][number]

function Plant ({ of }: { of: Facts }) {
  const { nameOf } = useOrganizations()
  const more = [nameOf(of.organizationId), of.serialNumber, of.capacity !== null && asPower(of.capacity)]

  return (
    <>
      <a href={to('devices', of.uuid)}>{of.siteName ?? of.externalId ?? of.uuid}</a>
      <br />
      <small>{more.filter(Boolean).join(' · ')}</small>
    </>
  )
}

function whyOf ({ sameSerialNumber, samePlace, metres }: Duplicate): string {
  const place = metres === null ? t('duplicates.place') : t('duplicates.near', { n: asNumber(metres) })
  return [sameSerialNumber && t('duplicates.serial'), samePlace && place].filter(Boolean).join('; ')
}

export function Duplicates () {
  const { list, all } = usePages<Duplicate>('devices', '/api/admin/device-duplicates?limit=100')

  return (
    <div className='page'>
      <header><h1>{t('duplicates.title')}</h1></header>
      <Tabs at='duplicates' />
      <p>{t('duplicates.are')}</p>
      {list.isPending && <Loading />}
      {list.isError && <Failed error={list.error} again={() => void list.refetch()} />}
      {list.isSuccess && all.length === 0 && <Empty icon={CopyCheck}>{t('duplicates.none')}</Empty>}
      {all.length > 0 && (
        <Table label={t('duplicates.title')}
          head={[t('duplicates.one'), t('duplicates.other'), t('duplicates.why'), t('duplicates.found')]}>
          {all.map((pair) => (
            <tr key={pair.id}>
              {pair.devices.map((device) => <td key={device.id} className='wide'><Plant of={device} /></td>)}
              <td>{whyOf(pair)}</td>
              <td><Time at={pair.foundAt} /></td>
            </tr>
          ))}
        </Table>
      )}
      <More of={list} />
    </div>
  )
}
