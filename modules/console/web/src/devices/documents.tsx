/* The documents of a device, newest first: looked at, downloaded, renamed and deleted, and a form that adds one of a kind. */
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Download, Eye, Pencil, Trash2, Upload } from 'lucide-react'
import { useRef, useState, type FormEvent } from 'react'

import { call, download, get, send, upload } from '../api/client'
import type { Document } from '../api/types'
import { named, t } from '../texts/texts'
import { FormDialog, Input, useSentForm } from '../ui/form'
import { asBytes, asFileName } from '../ui/format'
import { toast } from '../ui/toast'
import { Button, Confirm, Empty, Failed, Field, Loading, Table, Time } from '../ui/ui'
import { isPicture, Picture } from './picture'

const kinds = ['FORM_SF_02', 'SF_02C', 'METERING_EVIDENCE', 'SINGLE_LINE_DIAGRAM', 'PROJECT_PHOTOS', 'COD_PROOF']
const PDF = 'application/pdf'
const SHOWN_MS = 60000
const PROGRAM = /\.(exe|msi|com|scr|dll|bat|cmd|ps1|sh|js|vbs|jar|apk|app|dmg)$/i

/*
 * Opens a PDF in the browser's own viewer, in a new tab. The bytes always have the type of a PDF there, so nothing
 * in them is interpreted as a page.
 */
async function look (path: string) {
  const tab = window.open('', '_blank') // before the request, because browsers allow it only during a click
  try {
    const bytes = await (await send('GET', path)).arrayBuffer()
    const url = URL.createObjectURL(new Blob([bytes], { type: PDF }))
    if (tab) tab.location.href = url
    setTimeout(() => URL.revokeObjectURL(url), SHOWN_MS)
  } catch (error) {
    tab?.close()
    throw error
  }
}

function Add ({ path, done }: { path: string, done: () => void }) {
  const [kind, setKind] = useState('')
  const [file, setFile] = useState<File | null>(null)
  const [part, setPart] = useState<number | null>(null)
  const [problem, setProblem] = useState<unknown>(null)
  const [round, setRound] = useState(0) // empties the file field
  const fields = useRef<HTMLFormElement>(null)
  const program = file && PROGRAM.test(file.name) ? t('devices.program') : undefined
  const add = (event: FormEvent) => {
    event.preventDefault()
    if (!file || program || kind === '') return
    const form = new FormData()
    form.append(kind, file)
    setProblem(null)
    setPart(0)
    upload('PATCH', path, form, setPart)
      .then(() => {
        setFile(null)
        setRound(round + 1)
        fields.current?.querySelector('select')?.focus() // the kind of the next document
        done()
      }, setProblem)
      .finally(() => setPart(null))
  }

  return (
    <form ref={fields} onSubmit={add}>
      <div className='filters'>
        <Field label={t('devices.field')}>
          {(props) => (
            <select {...props} value={kind} onChange={(e) => setKind(e.target.value)}>
              <option value=''>{t('devices.chooseKind')}</option>
              {kinds.map((each) => <option key={each} value={each}>{named('kind', each)}</option>)}
            </select>
          )}
        </Field>
        <Field label={t('devices.upload')} problem={program}>
          {(props) => (
            <input key={round} {...props} type='file'
              onChange={(e) => { setProblem(null); setFile(e.target.files?.[0] ?? null) }} />
          )}
        </Field>
        <Button type='submit' icon={Upload} disabled={!file || program !== undefined || kind === '' || part !== null}>
          {t('devices.uploadDo')}
        </Button>
      </div>
      {part !== null && <progress max={1} value={part} aria-label={t('devices.upload')} />}
      {problem !== null && <Failed error={problem} />}
    </form>
  )
}

function Rename ({ path, document, close, done }: {
  path: string, document: Document, close: () => void, done: () => unknown
}) {
  const form = useSentForm({ name: document.name }, {
    send: (values) => call('PATCH', `${path}/documents/${document.id}`, values), done, leave: close
  })

  return (
    <FormDialog title={t('devices.rename', { name: document.name })} of={form} close={close}>
      <Input of={form} name='name' label={t('accounts.name')} required maxLength={255} />
    </FormDialog>
  )
}

function Row ({ path, document, fail, rename, ask }: {
  path: string, document: Document, fail: (error: unknown) => void, rename: () => void, ask: () => void
}) {
  const { id, type, size, field, createdAt } = document
  const name = asFileName(document.name)
  const at = `${path}/documents/${id}`
  const run = (action: Promise<void>) => { fail(null); action.catch(fail) }

  return (
    <tr>
      <td className='wide'>
        <div className='file'>
          {isPicture(type) && <Picture path={at} document={document} />}
          <div>{name}<br /><small>{type}, {asBytes(size)}</small></div>
        </div>
      </td>
      <td>{named('kind', field)}</td>
      <td><Time at={createdAt} /></td>
      <td>
        <div className='row'>
          {type === PDF && (
            <Button kind='quiet' icon={Eye} aria-label={t('devices.look', { name })} onClick={() => run(look(at))} />
          )}
          <Button kind='quiet' icon={Download} aria-label={t('devices.download', { name })}
            onClick={() => run(download(at, name))} />
          <Button kind='quiet' icon={Pencil} aria-label={t('devices.rename', { name })} onClick={rename} />
          <Button kind='quiet' icon={Trash2} aria-label={t('devices.deleteDocument', { name })} onClick={ask} />
        </div>
      </td>
    </tr>
  )
}

export function Documents ({ name }: { name: string }) {
  const client = useQueryClient()
  const [problem, setProblem] = useState<unknown>(null)
  const [renamed, rename] = useState<Document | null>(null)
  const [leaving, leave] = useState<Document | null>(null)
  const path = `/api/device/${encodeURIComponent(name)}`
  const list = useQuery({ queryKey: ['documents', name], queryFn: () => get<Document[]>(`${path}/documents`) })
  const refresh = () => client.invalidateQueries({ queryKey: ['documents', name] })
  const remove = async ({ id, name }: Document) => {
    await call('DELETE', `${path}/documents/${id}`)
    await refresh()
    toast(t('state.deleted', { name }))
  }
  const all = [...list.data ?? []].sort((a, b) => b.createdAt.localeCompare(a.createdAt))

  return (
    <section className='panel'>
      <h2>{t('devices.documents')}</h2>
      <Add path={path} done={() => void refresh()} />
      {problem !== null && <Failed error={problem} />}
      {list.isPending && <Loading />}
      {list.isError && <Failed error={list.error} again={() => void list.refetch()} />}
      {list.isSuccess && all.length === 0 && <Empty>{t('devices.noDocuments')}</Empty>}
      {all.length > 0 && (
        <Table label={t('devices.documents')} head={[t('devices.file'), t('devices.field'), t('state.time'), '']}>
          {all.map((document) => (
            <Row key={document.id} path={path} document={document} fail={setProblem}
              rename={() => rename(document)} ask={() => leave(document)} />
          ))}
        </Table>
      )}
      {renamed && <Rename path={path} document={renamed} close={() => rename(null)} done={refresh} />}
      {leaving && (
        <Confirm title={t('devices.deleteDocument', { name: leaving.name })} text={t('devices.deleteDocumentAsk')}
          action={t('do.delete')} run={() => remove(leaving)} close={() => leave(null)} />
      )}
    </section>
  )
}
