/* The box for the next message. It grows with the text. */
import { SendHorizontal } from 'lucide-react'
import { useRef, type KeyboardEvent } from 'react'

import { send as request } from '../api/client'
import { preferences } from '../preferences'
import { useMe } from '../session'
import { t } from '../texts/texts'
import { Button, problemOf } from '../ui/ui'
import { drafts, send, useDraft } from './drafts'

const ROWS = 12
const TYPING_MS = 4000 // between two requests that say so

const touch = matchMedia('(hover: none) and (pointer: coarse)') // its keyboard has no Shift+Enter

/* `after`: the last message of the conversation. */
export function Compose ({ id, after }: { id: number; after: string | undefined }) {
  const me = useMe()
  const { text, pending, problem } = useDraft(id)
  const box = useRef<HTMLTextAreaElement>(null)
  const post = () => {
    box.current?.focus() // the button is disabled now, and the next message is typed here
    if (text.trim()) void send(id, me.email, text, after)
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
        </p>
      )}
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
        aria-describedby='keys'
      />
      <span id='keys' className='hint'>
        {!touch.matches && t(byEnter ? 'chat.keys' : 'chat.keysLine')}
      </span>
      <Button kind='main' icon={SendHorizontal} type='submit' disabled={pending !== null || !text.trim()}>
        {t('chat.send')}
      </Button>
    </form>
  )
}
