/* The entries of the certificate log that match a filter, page by page. */
import { keepPreviousData, useInfiniteQuery } from '@tanstack/react-query'

import { page, query } from '../api/client'
import type { Certificate } from '../api/types'
import { to } from '../router'
import { isOne, useMe } from '../session'
import { named, t } from '../texts/texts'
import { asEnergy } from '../ui/format'
import { Badge, Empty, Failed, Loading, More, Table, Time } from '../ui/ui'

export type Filter = { status?: string, start?: string, end?: string, deviceId?: number, externalId?: string, organizationId?: number }

export const states = ['Requested', 'Succeeded', 'Failed', 'Retry', 'Cancelled', 'Carried']

const tone = (status: string) => status === 'Succeeded' ? 'good' : status === 'Failed' ? 'bad' : status === 'Cancelled' ? 'off' : 'wait'

export function useLog (filter: Filter, limit: number) {
  const list = useInfiniteQuery({
    queryKey: ['certificates', filter, limit],
    queryFn: ({ pageParam }) => page<Certificate[]>(pageParam),
    initialPageParam: `/api/certificate-log${query({ limit, ...filter })}`,
    getNextPageParam: (last) => last.next,
    placeholderData: keepPreviousData
  })
  return { list, all: list.data?.pages.flatMap(({ items }) => items) ?? [] }
}

function Whose ({ entry }: { entry: Certificate }) {
  const name = entry.developerId ?? String(entry.deviceId)
  return isOne(useMe(), 'Buyer') ? <>{name}</> : <a href={to('devices', entry.externalId ?? name)}>{name}</a>
}

/*
 * `ofOne`: all entries are of one device, so its name is not repeated. `filtered`: there may be others.
 */
export function Entries ({ list, all, ofOne, filtered }: ReturnType<typeof useLog> & { ofOne?: boolean, filtered?: boolean }) {
  const head = [t('certs.period'), ...(ofOne ? [] : [t('certs.device')]), { text: t('certs.energy'), number: true }, t('certs.status'), t('certs.id')]

  if (list.isPending) return <Loading />
  if (list.isError) return <Failed error={list.error} again={() => void list.refetch()} />
  if (all.length === 0) return <Empty>{t(filtered ? 'certs.empty' : 'certs.none')}</Empty>
  return (
    <>
      <Table label={t('certs.title')} head={head} busy={list.isPlaceholderData}>
        {all.map((entry) => (
          <tr key={entry.id}>
            <td><span className='period'><Time at={entry.certificate_issuance_start} /> – <Time at={entry.certificate_issuance_end} /></span></td>
            {!ofOne && <td className='wide'><Whose entry={entry} /></td>}
            <td className='number'>{asEnergy(entry.readvalue_watthour)}</td>
            <td><Badge tone={tone(entry.status)}>{named('cert', entry.status)}</Badge></td>
            <td className='wide'><code>{entry.certificateTransactionUID}</code></td>
          </tr>
        ))}
      </Table>
      <More of={list} />
    </>
  )
}
