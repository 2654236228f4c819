/* Bulk uploads: the user's own ones, and a form for the next file. */
import { useQueryClient } from '@tanstack/react-query'
import { Download, FileUp } from 'lucide-react'
import { useState, type DragEvent } from 'react'

import { download, query, upload } from '../api/client'
import type { BulkUpload } from '../api/types'
import { Target, useOrganizations, useTarget } from '../organization'
import { go, to } from '../router'
import { isOne, useMe } from '../session'
import { named, t } from '../texts/texts'
import { Select, useSentForm } from '../ui/form'
import { asBytes } from '../ui/format'
import { usePages } from '../ui/pages'
import { Badge, Button, Empty, Failed, Loading, More, Table, Time } from '../ui/ui'
import { Job, LIST, progressOf, toneOf } from './job'

function Upload () {
  const me = useMe()
  const client = useQueryClient()
  const target = useTarget()
  const types = isOne(me, 'OrganizationAdmin', 'ApiUser') ? ['Devices', 'Reads'] : ['Reads']
  const [file, setFile] = useState<File | null>(null)
  const [over, setOver] = useState(false)
  const [problem, setProblem] = useState<unknown>(null)
  const [part, setPart] = useState(0)
  const form = useSentForm({ type: types[0]!, ...target.values }, {
    send: (values) => {
      const body = new FormData()
      const organizationId = target.idOf(values)
      if (file) body.append('file', file)
      setPart(0)
      return upload<BulkUpload>('POST', `/api/bulk-upload${query({ type: values.type, organizationId })}`, body, setPart)
    },
    done: () => { void client.invalidateQueries({ queryKey: ['bulk'] }) },
    leave: ({ bulkUploadId }) => go('bulk', bulkUploadId)
  })
  const choose = (chosen: File | undefined) => { // an error of the previous file would look like one of this file
    setFile(chosen ?? null)
    setProblem(null)
    form.save.reset()
  }
  const dropped = (event: DragEvent) => { event.preventDefault(); setOver(false); choose(event.dataTransfer.files[0]) }
  const template = () => {
    setProblem(null)
    const type = form.getValues('type')
    download(`/api/bulk-upload/template.csv?type=${type}`, `template-${type}.csv`).catch(setProblem)
  }

  return (
    <form className='panel' {...form.attributes}>
      <div className='filters'>
        <Select of={form} name='type' label={t('bulk.type')}>
          {types.map((name) => <option key={name} value={name}>{named('bulk', name)}</option>)}
        </Select>
        <Button icon={Download} onClick={template}>{t('bulk.template')}</Button>
        <Target of={form} name='organizationId' />
      </div>
      <label className={over ? 'drop over' : 'drop'} onDragOver={(event) => { event.preventDefault(); setOver(true) }}
        onDragLeave={() => setOver(false)} onDrop={dropped}>
        <FileUp />
        <span>{t('bulk.drop')}</span>
        {file && <strong>{file.name} <small>{asBytes(file.size)}</small></strong>}
        <input className='hidden' type='file' accept='.csv,text/csv'
          onChange={(e) => { choose(e.target.files?.[0]); e.target.value = '' }} />
      </label>
      {form.save.isPending && <progress max={1} value={part} aria-label={t('bulk.send')} />}
      {problem !== null && <Failed error={problem} />}
      {form.error !== null && <Failed error={form.error} />}
      <Button kind='main' type='submit' disabled={!file || form.save.isPending}>{t('bulk.send')}</Button>
    </form>
  )
}

export default function Bulk ({ rest }: { rest: string[] }) {
  const { several, chosen: organizationId, nameOf } = useOrganizations()
  const { list, all } = usePages<BulkUpload>(LIST, `/api/bulk-upload${query({ limit: 50, organizationId })}`)

  const organization = several ? [t('accounts.organization')] : []
  const head = [t('bulk.file'), ...organization, t('bulk.type'), t('hooks.state'), t('state.time')]

  if (rest[0] !== undefined) return <Job key={rest[0]} id={rest[0]} />
  return (
    <div className='page'>
      <header><h1>{t('bulk.title')}</h1></header>
      <Upload key={organizationId ?? ''} />
      {list.isPending && <Loading />}
      {list.isError && <Failed error={list.error} again={() => void list.refetch()} />}
      {list.isSuccess && all.length === 0 && <Empty>{t('bulk.empty')}</Empty>}
      {all.length > 0 && (
        <Table label={t('bulk.title')} head={head}>
          {all.map((job) => (
            <tr key={job.bulkUploadId}>
              <td className='wide'><a href={to('bulk', job.bulkUploadId)}>{job.fileName}</a></td>
              {several && <td className='wide'>{nameOf(job.organizationId)}</td>}
              <td>{named('bulk', job.type)}</td>
              <td><Badge tone={toneOf(job)}>{t(`job.${job.status}`)}</Badge> <small>{progressOf(job)}</small></td>
              <td><Time at={job.createdAt} /></td>
            </tr>
          ))}
        </Table>
      )}
      <More of={list} />
    </div>
  )
}
