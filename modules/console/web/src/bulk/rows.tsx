/* The rows of a bulk upload: before it is confirmed the findings of the check, later their outcomes. */
import { useInfiniteQuery } from '@tanstack/react-query'

import { page, query } from '../api/client'
import type { BulkLog } from '../api/types'
import { toWith, useValues } from '../router'
import { t } from '../texts/texts'
import { Badge, Empty, Failed, Field, Loading, More, Problems, Table } from '../ui/ui'

const outcomes = ['failed', 'success', 'pending', 'cancelled'] as const
const ALL = 'all'
const tones = { failed: 'bad', success: 'good', pending: 'wait', cancelled: 'off' } as const

function useRows (id: string, status: string) {
  return useInfiniteQuery({
    queryKey: ['bulkRows', id, status],
    queryFn: ({ pageParam }) => page<BulkLog>(pageParam),
    initialPageParam: `/api/bulk-upload/bulk-upload-log/${id}${query({ status, limit: 100 })}`,
    getNextPageParam: (last) => last.next
  })
}

function List ({ id, organization, status }: { id: string, organization: number, status: string }) {
  const list = useRows(id, status)
  const rows = list.data?.pages.flatMap(({ items }) => items.rows) ?? []

  if (list.isPending) return <Loading />
  if (list.isError) return <Failed error={list.error} again={() => void list.refetch()} />
  if (rows.length === 0) return <Empty>{t(status === 'failed' ? 'bulk.noProblems' : 'bulk.noRows')}</Empty>
  return (
    <>
      <Table label={t('bulk.rows')} head={[t('bulk.row'), t('devices.id'), t('bulk.outcome'), t('bulk.problem')]}>
        {rows.map((row) => (
          <tr key={row.rowNumber}>
            <td>{row.rowNumber}</td>
            <td className='wide'>
              {row.status === 'success' && row.externalId
                ? <a href={toWith({ of: String(organization) }, 'devices', row.externalId)}>{row.externalId}</a>
                : row.externalId}
            </td>
            <td><Badge tone={tones[row.status]}>{t(`bulk.${row.status}`)}</Badge></td>
            <td className='wide'>
              {row.errors.length + row.warnings.length === 0 && '–'}
              <Problems of={[...row.errors, ...row.warnings]} />
            </td>
          </tr>
        ))}
      </Table>
      <More of={list} />
    </>
  )
}

/*
 * `first`: the rows that are shown until the user chooses. An external id is unique only in its `organization`.
 */
export function Rows ({ id, organization, first }: { id: string, organization: number, first: string }) {
  const [{ rows }, change] = useValues('rows')
  const chosen = rows || first
  const status = chosen === ALL ? '' : chosen

  return (
    <section>
      <div className='filters'>
        <Field label={t('bulk.show')}>
          {(props) => (
            <select {...props} value={chosen} onChange={(e) => change({ rows: e.target.value })}>
              {outcomes.map((name) => <option key={name} value={name}>{t(`bulk.${name}`)}</option>)}
              <option value={ALL}>{t('accounts.all')}</option>
            </select>
          )}
        </Field>
      </div>
      <List id={id} organization={organization} status={status} />
    </section>
  )
}
