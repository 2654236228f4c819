/* The box for the next message, which grows with the text, and the files of the message. */
import { Paperclip, SendHorizontal, X } from 'lucide-react'
import { useRef, type KeyboardEvent } from 'react'

import { send as request } from '../api/client'
import { preferences } from '../preferences'
import { useMe } from '../session'
import { t } from '../texts/texts'
import { asBytes, asFileName } from '../ui/format'
import { refuse } from '../ui/toast'
import { Button, problemOf } from '../ui/ui'
import { drafts, filesOf, send, useDraft } from './drafts'

const ROWS = 12
const TYPING_MS = 4000 // between two reports that the user is typing
const FILES_MOST = 10
const FILE_BYTES = 10 * 1048576

/* Returns the dropped or pasted files, without folders. */
export function filesIn ({ items }: DataTransfer): File[] {
  const all = [...items].filter(({ kind }) => kind === 'file')
  const files = all.filter((item) => !item.webkitGetAsEntry()?.isDirectory)
  if (files.length < all.length) refuse(t('chat.noFolder'))
  return files.map((item) => item.getAsFile()).filter((file) => file !== null)
}

/* Adds files to the next message of a conversation, as far as the service accepts them. */
export function attach (id: number, all: File[]) {
  const files = filesOf(id)
  const small = all.filter(({ size }) => size <= FILE_BYTES)
  const large = all.find(({ size }) => size > FILE_BYTES)
  if (large) refuse(t('chat.fileLarge', { name: asFileName(large.name) }))
  if (files.length + small.length > FILES_MOST) refuse(t('chat.filesMost'))
  drafts.attach(id, [...files, ...small].slice(0, FILES_MOST))
}

const touch = matchMedia('(hover: none) and (pointer: coarse)') // its keyboard has no Shift+Enter

/* `after`: the last message of the conversation. */
export function Compose ({ id, after }: { id: number; after: string | undefined }) {
  const me = useMe()
  const { text, files, queue, problem, returned } = useDraft(id)
  const chooser = useRef<HTMLInputElement>(null)
  const stopped = problem !== null && queue.length > 0
  const sends = stopped || text.trim() !== '' || files.length > 0
  const box = useRef<HTMLTextAreaElement>(null)
  const post = () => {
    box.current?.focus() // the button is disabled now, and the next message is typed here
    if (sends) send(id, me.email, after)
  }
  const byEnter = !touch.matches && preferences.enter !== 'line'
  const typedAt = useRef(-Infinity)
  const write = (text: string) => {
    drafts.write(id, text)
    if (!text || performance.now() < typedAt.current + TYPING_MS) return
    typedAt.current = performance.now()
    request('POST', `/api/chat/conversations/${id}/typing`, { username: me.email }).catch(() => {})
  }
  const keyed = (event: KeyboardEvent) => {
    if (event.key !== 'Enter' || event.shiftKey || event.nativeEvent.isComposing) return
    if (!byEnter && !event.ctrlKey && !event.metaKey) return
    event.preventDefault()
    post()
  }

  return (
    <form
      className='compose'
      onSubmit={(event) => {
        event.preventDefault()
        post()
      }}
    >
      {problem !== null && (
        <p className='problem' role='alert'>
          {t('chat.notSent', { problem: problemOf(problem) })}
          {stopped && ` ${t(returned ? 'chat.sentBefore' : 'chat.sentAgain', { n: queue.length })}`}
        </p>
      )}
      {files.length > 0 && (
        <ul id='files' className='files' aria-label={t('chat.files')}>
          {files.map((file, i) => (
            <li key={i}>
              <span className='name' title={asFileName(file.name)}>{asFileName(file.name)}</span>
              <small>{asBytes(file.size)}</small>
              <Button kind='quiet' icon={X} aria-label={t('chat.detach', { name: asFileName(file.name) })}
                onClick={() => { drafts.attach(id, files.filter((one) => one !== file)); box.current?.focus() }} />
            </li>
          ))}
        </ul>
      )}
      <input ref={chooser} type='file' multiple hidden
        onChange={(e) => { attach(id, [...e.target.files ?? []]); e.target.value = ''; box.current?.focus() }} />
      <Button icon={Paperclip} title={t('chat.attach')} aria-label={t('chat.attach')}
        onClick={() => chooser.current?.click()} />
      <label className='hidden' htmlFor='entry'>
        {t('chat.write')}
      </label>
      <textarea
        ref={box}
        id='entry'
        rows={Math.min(ROWS, Math.max(2, text.split('\n').length))}
        placeholder={t('chat.write')}
        value={text}
        onChange={(e) => write(e.target.value)}
        onKeyDown={keyed}
        onPaste={(event) => {
          const { types } = event.clipboardData
          // office programs add a picture of the text that they copy
          if (!types.includes('Files') || (types.includes('text/html') && types.includes('text/plain'))) return
          event.preventDefault()
          attach(id, filesIn(event.clipboardData))
        }}
        aria-describedby={files.length > 0 ? 'files keys' : 'keys'}
      />
      <Button kind='main' icon={SendHorizontal} type='submit' disabled={!sends}>
        {t('chat.send')}
      </Button>
      <span id='keys' className='hint'>
        {!touch.matches && t(byEnter ? 'chat.keys' : 'chat.keysLine')}
      </span>
    </form>
  )
}
