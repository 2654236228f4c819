/* Bulk uploads: the user's own ones, and a form for the next file. */
import { useInfiniteQuery, useQueryClient } from '@tanstack/react-query'
import { useState, type DragEvent } from 'react'

import { call, download, page, query } from '../api/client'
import type { BulkUpload } from '../api/types'
import { Target, useOrganizations, useTarget } from '../organization'
import { go, to } from '../router'
import { isOne, useMe } from '../session'
import { named, t } from '../texts/texts'
import { useAction } from '../ui/action'
import { asNumber } from '../ui/format'
import { Badge, Button, Empty, Failed, Field, Loading, More, Table, Time } from '../ui/ui'
import { Job, toneOf } from './job'

function Upload () {
  const me = useMe()
  const client = useQueryClient()
  const target = useTarget()
  const types = isOne(me, 'OrganizationAdmin', 'ApiUser') ? ['Devices', 'Reads'] : ['Reads']
  const [type, setType] = useState(types[0]!)
  const [file, setFile] = useState<File | null>(null)
  const [over, setOver] = useState(false)
  const [problem, setProblem] = useState<unknown>(null)
  const send = useAction({
    mutationFn: () => {
      const form = new FormData()
      if (file) form.append('file', file)
      return call<BulkUpload>('POST', `/api/bulk-upload${query({ type, organizationId: target.id })}`, form)
    },
    onSuccess: ({ bulkUploadId }) => { void client.invalidateQueries({ queryKey: ['bulk'] }); go('bulk', bulkUploadId) }
  })
  const dropped = (event: DragEvent) => { event.preventDefault(); setOver(false); setFile(event.dataTransfer.files[0] ?? null) }
  const template = () => { setProblem(null); download(`/api/bulk-upload/template.csv?type=${type}`, `template-${type}.csv`).catch(setProblem) }

  return (
    <form className='panel' onSubmit={(event) => { event.preventDefault(); send.mutate() }}>
      <div className='filters'>
        <Field label={t('bulk.type')}>
          {(props) => <select {...props} value={type} onChange={(e) => setType(e.target.value)}>{types.map((name) => <option key={name} value={name}>{named('bulk', name)}</option>)}</select>}
        </Field>
        <Target of={target} />
        <Button onClick={template}>{t('bulk.template')}</Button>
      </div>
      <div className={over ? 'drop over' : 'drop'} onDragOver={(event) => { event.preventDefault(); setOver(true) }} onDragLeave={() => setOver(false)} onDrop={dropped}>
        <Field label={t('bulk.drop')}>{(props) => <input {...props} type='file' accept='.csv,text/csv' onChange={(e) => setFile(e.target.files?.[0] ?? null)} />}</Field>
        {file && <strong>{file.name}</strong>}
      </div>
      {problem !== null && <Failed error={problem} />}
      {send.isError && <Failed error={send.error} />}
      <Button kind='main' type='submit' disabled={!file || send.isPending}>{t('bulk.send')}</Button>
    </form>
  )
}

export default function Bulk ({ rest }: { rest: string[] }) {
  const list = useInfiniteQuery({
    queryKey: ['bulk'],
    queryFn: ({ pageParam }) => page<BulkUpload[]>(pageParam),
    initialPageParam: '/api/bulk-upload?limit=50',
    getNextPageParam: (last) => last.next
  })
  const { several, nameOf } = useOrganizations()
  const all = list.data?.pages.flatMap(({ items }) => items) ?? []

  if (rest[0] !== undefined) return <Job key={rest[0]} id={rest[0]} />
  return (
    <div className='page'>
      <header><h1>{t('bulk.title')}</h1></header>
      <Upload />
      {list.isPending && <Loading />}
      {list.isError && <Failed error={list.error} again={() => void list.refetch()} />}
      {list.isSuccess && all.length === 0 && <Empty>{t('bulk.empty')}</Empty>}
      {all.length > 0 && (
        <Table label={t('bulk.title')} head={[t('bulk.file'), ...(several ? [t('accounts.organization')] : []), t('bulk.type'), t('hooks.state'), t('state.time')]}>
          {all.map((job) => (
            <tr key={job.bulkUploadId}>
              <td className='wide'><a href={to('bulk', job.bulkUploadId)}>{job.fileName}</a></td>
              {several && <td className='wide'>{nameOf(job.organizationId)}</td>}
              <td>{named('bulk', job.type)}</td>
              <td><Badge tone={toneOf(job)}>{t(`job.${job.status}`)}</Badge> <small>{t('bulk.progress', { done: asNumber(job.progress.done), total: asNumber(job.progress.total) })}{job.progress.failed > 0 && `; ${t('bulk.done', { ok: asNumber(job.progress.succeeded), failed: asNumber(job.progress.failed) })}`}</small></td>
              <td><Time at={job.createdAt} /></td>
            </tr>
          ))}
        </Table>
      )}
      <More of={list} />
    </div>
  )
}
