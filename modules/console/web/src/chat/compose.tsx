/*
 * The box for the next message. A sent message leaves the box at once and is shown below the others until the
 * host has stored it. A message that could not be sent returns to the box, before any text typed meanwhile.
 */
import { useRef, useState, type KeyboardEvent } from 'react'

import { call } from '../api/client'
import type { Entry } from '../api/types'
import { useMe } from '../session'
import { t } from '../texts/texts'
import { useAction } from '../ui/action'
import { Button, problemOf } from '../ui/ui'
import { drafts } from './drafts'

const ROWS = 12

/* 128 random bits; crypto.randomUUID() is not available on pages loaded without TLS. */
const makeKey = () => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('')

/* Keeps one key per text until it is sent, so that a lost response does not store the text twice. */
function useKey () {
  const last = useRef({ text: '', key: '' })
  return (text: string) => {
    if (last.current.text !== text) last.current = { text, key: makeKey() }
    return last.current.key
  }
}

const touch = matchMedia('(hover: none) and (pointer: coarse)') // its keyboard has no Shift+Enter

export function Compose ({ id, sending, sent }: { id: number, sending: (texts: string[]) => void, sent: (entry: Entry) => void }) {
  const me = useMe()
  const keyOf = useKey()
  const [text, setText] = useState(drafts.get(id) ?? '')
  const write = (value: string) => { drafts.set(id, value); setText(value) }
  const post = useAction({
    mutationFn: (chatEntry: string) =>
      call<Entry>('POST', `/api/chat/conversations/${id}/messages`, { username: me.email, chatEntry }, { 'Idempotency-Key': keyOf(chatEntry) }),
    onMutate: (chatEntry) => { write(''); sending([chatEntry]) },
    onSuccess: (entry) => { keyOf(''); sent(entry) },
    onError: (_, chatEntry) => write([chatEntry, drafts.get(id)].filter(Boolean).join('\n')),
    onSettled: () => sending([])
  })
  const send = () => { if (text.trim() && !post.isPending) post.mutate(text) }
  const keyed = (event: KeyboardEvent) => {
    if (event.key !== 'Enter' || event.shiftKey || event.nativeEvent.isComposing) return
    if (touch.matches && !event.ctrlKey && !event.metaKey) return
    event.preventDefault()
    send()
  }

  return (
    <form className='compose' onSubmit={(event) => { event.preventDefault(); send() }}>
      {post.isError && <p className='problem' role='alert'>{t('chat.notSent', { problem: problemOf(post.error) })}</p>}
      <label className='hidden' htmlFor='entry'>{t('chat.write')}</label>
      <textarea id='entry' rows={Math.min(ROWS, Math.max(2, text.split('\n').length))} placeholder={t('chat.write')} value={text} onChange={(e) => write(e.target.value)} onKeyDown={keyed} aria-describedby='keys' />
      <span id='keys' className='hint'>{!touch.matches && t('chat.keys')}</span>
      <Button kind='main' type='submit' disabled={post.isPending || !text.trim()}>{t('chat.send')}</Button>
    </form>
  )
}
