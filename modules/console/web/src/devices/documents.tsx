/* The documents of a device: links to download them, and a form to add one, with upload progress. */
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'

import { download, get, upload } from '../api/client'
import type { Document } from '../api/types'
import { named, t } from '../texts/texts'
import { asBytes } from '../ui/format'
import { Button, Empty, Failed, Field, Loading, Table, Time } from '../ui/ui'
import { isPicture, Picture } from './picture'

const kinds = ['FORM_SF_02', 'SF_02C', 'METERING_EVIDENCE', 'SINGLE_LINE_DIAGRAM', 'PROJECT_PHOTOS', 'COD_PROOF']

export function Documents ({ name }: { name: string }) {
  const client = useQueryClient()
  const [kind, setKind] = useState(kinds[0]!)
  const [part, setPart] = useState<number | null>(null)
  const [problem, setProblem] = useState<unknown>(null)
  const path = `/api/device/${encodeURIComponent(name)}`
  const list = useQuery({ queryKey: ['documents', name], queryFn: () => get<Document[]>(`${path}/documents`) })
  const add = (file: File | undefined) => {
    if (!file) return
    const form = new FormData()
    form.append(kind, file)
    setProblem(null)
    setPart(0)
    upload('PATCH', path, form, setPart)
      .then(() => client.invalidateQueries({ queryKey: ['documents', name] }), setProblem)
      .finally(() => setPart(null))
  }

  return (
    <section className='panel'>
      <h2>{t('devices.documents')}</h2>
      <div className='filters'>
        <Field label={t('devices.field')}>{(props) => <select {...props} value={kind} onChange={(e) => setKind(e.target.value)}>{kinds.map((each) => <option key={each} value={each}>{named('kind', each)}</option>)}</select>}</Field>
        <Field label={t('devices.upload')}>{(props) => <input {...props} type='file' disabled={part !== null} onChange={(e) => { add(e.target.files?.[0]); e.target.value = '' }} />}</Field>
      </div>
      {part !== null && <progress max={1} value={part} aria-label={t('devices.upload')} />}
      {problem !== null && <Failed error={problem} />}
      {list.isPending && <Loading />}
      {list.isError && <Failed error={list.error} again={() => void list.refetch()} />}
      {list.data?.length === 0 && <Empty>{t('devices.noDocuments')}</Empty>}
      {list.data && list.data.length > 0 && (
        <Table label={t('devices.documents')} head={[t('devices.file'), t('devices.field'), t('state.time'), '']}>
          {list.data.map((document) => (
            <tr key={document.id}>
              <td className='wide'>
                <div className='file'>
                  {isPicture(document) && <Picture path={path} document={document} />}
                  <div>{document.name}<br /><small>{document.type}, {asBytes(document.size)}</small></div>
                </div>
              </td>
              <td>{named('kind', document.field)}</td>
              <td><Time at={document.createdAt} /></td>
              <td><Button onClick={() => { setProblem(null); download(`${path}/documents/${document.id}`, document.name).catch(setProblem) }}>{t('do.download')}</Button></td>
            </tr>
          ))}
        </Table>
      )}
    </section>
  )
}
