/* One bulk upload: the findings of the check, its progress, and the rows that failed. */
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Download, Trash2 } from 'lucide-react'
import { useEffect, useState } from 'react'

import { call, download, get } from '../api/client'
import { follow } from '../api/stream'
import type { BulkLog, BulkUpload } from '../api/types'
import { to, whileHere } from '../router'
import { t } from '../texts/texts'
import { useAction } from '../ui/action'
import { toast } from '../ui/toast'
import { Badge, Button, Confirm, Failed, Loading } from '../ui/ui'
import { Rows } from './rows'

const tones = { created: 'wait', confirmed: 'wait', finished: 'good', cancelled: 'off' } as const

/* An upload that has ended is good only if all its rows are stored. */
export const toneOf = ({ status, progress }: Progress) =>
  status === 'finished' && progress.failed > 0 ? progress.succeeded > 0 ? 'wait' : 'bad' : tones[status]

type Progress = Pick<BulkUpload, 'status' | 'progress'>

/* The progress as text. Rows of a cancelled upload that were not stored do not count as failures. */
export function progressOf ({ status, progress: { done, total, succeeded, failed } }: Progress): string {
  const left = total - succeeded - failed
  const parts = [t('bulk.progress', { done, total })]
  if (status === 'cancelled') parts.push(t('bulk.left', { ok: succeeded, left: left + failed }))
  else if (status !== 'created') parts.push(t('bulk.done', { ok: succeeded, failed }))
  return parts.join('; ')
}

export const LIST = ['bulk', 'list'] // the key of the list of uploads

const log = (id: string) => `/api/bulk-upload/bulk-upload-log/${id}`

/* The job, updated by its progress stream until it has ended. */
function useJob (id: string) {
  const client = useQueryClient()
  const job = useQuery({ queryKey: ['bulk', id], queryFn: () => get<BulkLog>(`${log(id)}?limit=1`) })
  const known = job.isSuccess
  const status = job.data?.status
  const done = job.data?.progress.done
  const over = status === 'finished' || status === 'cancelled'

  useEffect(() => {
    if (!known || over) return
    const control = new AbortController()
    const hear = ({ data }: { data: string }) => {
      void client.cancelQueries({ queryKey: ['bulk', id] }) // a response in flight may be older
      client.setQueryData<BulkLog>(['bulk', id], (before) =>
        before && { ...before, ...JSON.parse(data), rows: before.rows })
    }
    void follow(`/api/bulk-upload/${id}/stream`, hear, () => {}, control.signal)
    return () => control.abort()
  }, [client, id, known, over])

  /*
   * When the job changes, from the stream or a response, its rows and the list of uploads have changed too.
   */
  useEffect(() => {
    if (!known) return
    void client.invalidateQueries({ queryKey: ['bulkRows', id] })
    void client.invalidateQueries({ queryKey: LIST })
  }, [client, id, known, status, done])
  return job
}

export function Job ({ id }: { id: string }) {
  const client = useQueryClient()
  const job = useJob(id)
  const [problem, setProblem] = useState<unknown>(null)
  const [deleting, setDeleting] = useState(false)
  const act = useAction({
    mutationFn: (what: 'confirm' | 'cancel') => call('POST', `/api/bulk-upload/${id}/${what}`),
    onSettled: () => client.invalidateQueries({ queryKey: ['bulk'] })
  })
  const { data } = job
  const allStored = data?.check.failed === 0 && data.progress.failed === 0 &&
    (data.status !== 'cancelled' || data.progress.done === data.progress.total)
  const over = data?.status === 'finished' || data?.status === 'cancelled'
  const remove = async () => {
    const leave = whileHere()
    await call('DELETE', `/api/bulk-upload/${id}`)
    leave('bulk')
    toast(t('state.deleted', { name: data?.fileName ?? '' }))
    void client.invalidateQueries({ queryKey: LIST })
  }
  const save = () => { setProblem(null); download(`/api/bulk-upload/${id}/failed.csv`, 'failed.csv').catch(setProblem) }

  return (
    <div className='page'>
      <header>
        <div><a href={to('bulk')}>{t('bulk.back')}</a><h1>{data?.fileName ?? t('bulk.title')}</h1></div>
        {data && <Badge tone={toneOf(data)}>{t(`job.${data.status}`)}</Badge>}
      </header>
      {job.isPending && <Loading />}
      {job.isError && <Failed error={job.error} again={() => void job.refetch()} />}
      {act.isError && <Failed error={act.error} />}
      {problem !== null && <Failed error={problem} />}
      {data && (
        <>
          <section className='panel'>
            {data.status === 'created' && (
              <p>{t('bulk.checked', { passed: data.check.passed, failed: data.check.failed })}</p>
            )}
            {data.reason !== null && <p>{data.reasonCode ? t(`lapse.${data.reasonCode}`) : data.reason}</p>}
            {data.status !== 'created' && (
              <div role='status'>
                <progress max={Math.max(1, data.progress.total)} value={data.progress.done}
                  aria-label={t('bulk.title')} />
                <p>{progressOf(data)}</p>
              </div>
            )}
            <div className='row'>
              {data.status === 'created' && (
                <Button kind='main' disabled={act.isPending || data.check.passed === 0}
                  onClick={() => act.mutate('confirm')}>
                  {t('bulk.confirm', { n: data.check.passed })}
                </Button>
              )}
              {!over && (
                <Button disabled={act.isPending} onClick={() => act.mutate('cancel')}>{t('bulk.cancel')}</Button>
              )}
              {data.status === 'finished' && data.progress.succeeded > 0 && (
                <a className='button main' href={to('devices')}>{t('bulk.next')}</a>
              )}
              {!allStored && (
                <Button icon={Download} onClick={save}>
                  {t(data.status === 'cancelled' ? 'bulk.leftCsv' : 'bulk.failedCsv')}
                </Button>
              )}
              {over && <Button kind='risk' icon={Trash2} onClick={() => setDeleting(true)}>{t('do.delete')}</Button>}
            </div>
          </section>
          <Rows id={id} organization={data.organizationId} first={data.status === 'cancelled' ? 'cancelled' : 'failed'} />
          {deleting && (
            <Confirm title={t('bulk.delete')} text={t('bulk.deleteAsk', { name: data.fileName })}
              action={t('do.delete')} run={remove} close={() => setDeleting(false)} done={() => {}} />
          )}
        </>
      )}
    </div>
  )
}
