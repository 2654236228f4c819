/* How programs fetch the events of a webhook of kind poll, and the offset that each has committed. */
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'

import { call, get } from '../api/client'
import type { Consumer, Webhook } from '../api/types'
import { t } from '../texts/texts'
import { Button, Confirm, Copy, Empty, Failed, Loading, Table } from '../ui/ui'
import { IDLE_MS, Moment, pathOf } from './parts'

const OFFSET = '<offset>'
const TOKEN = '-H "Authorization: Bearer $token"'

export function Consumers ({ hook }: { hook: Webhook }) {
  const client = useQueryClient()
  const [leaving, leave] = useState<string | null>(null)
  const list = useQuery({
    queryKey: ['consumers', hook.id],
    queryFn: () => get<Consumer[]>(pathOf(hook, 'consumers')),
    refetchInterval: IDLE_MS
  })
  const address = location.origin + pathOf(hook)
  const remove = (name: string) =>
    call('DELETE', pathOf(hook, 'consumers', encodeURIComponent(name))).then(() =>
      client.invalidateQueries({ queryKey: ['consumers', hook.id] })
    )

  return (
    <>
      <section className='panel'>
        <h2>{t('hooks.fetch')}</h2>
        <Copy text={`curl ${TOKEN} '${address}/events?wait=25'`} />
        <p>{t('hooks.commit')}</p>
        <Copy text={`curl ${TOKEN} ${address}/commit --json '{"offset": ${OFFSET}}'`} />
      </section>
      <p className='soft'>{t('hooks.consumersAre')}</p>
      {list.isPending && <Loading />}
      {list.isError && <Failed error={list.error} again={() => void list.refetch()} />}
      {list.data?.length === 0 && <Empty>{t('hooks.noConsumers')}</Empty>}
      {list.data && list.data.length > 0 && (
        <Table label={t('hooks.consumers')} head={[t('hooks.consumer'), t('hooks.offset'), t('hooks.committed'), '']}>
          {list.data.map(({ consumer, offset, committedAt }) => (
            <tr key={consumer}>
              <td className='wide'>{consumer}</td>
              <td>{offset}</td>
              <td>
                <Moment at={committedAt} />
              </td>
              <td>
                <Button kind='quiet' onClick={() => leave(consumer)}>
                  {t('do.delete')}
                </Button>
              </td>
            </tr>
          ))}
        </Table>
      )}
      {leaving !== null && (
        <Confirm
          title={t('do.delete')}
          text={t('hooks.consumerDelete', { name: leaving })}
          action={t('do.delete')}
          close={() => leave(null)}
          run={() => remove(leaving)}
        />
      )}
    </>
  )
}
