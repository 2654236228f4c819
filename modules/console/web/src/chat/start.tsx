import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'

import { call } from '../api/client'
import type { Started } from '../api/types'
import { Target, useTarget } from '../organization'
import { go } from '../router'
import { isOne, useMe } from '../session'
import { t } from '../texts/texts'
import { useAction } from '../ui/action'
import { Button, Dialog, Failed, Field } from '../ui/ui'

/* `known`: e-mails of earlier conversations, offered by the field. */
export function Start ({
  close,
  about = '',
  organization,
  known = []
}: {
  close: () => void
  about?: string
  organization?: number
  known?: string[]
}) {
  const me = useMe()
  const target = useTarget(organization)
  const client = useQueryClient()
  const [other, setOther] = useState('')
  const [device, setDevice] = useState(about)
  const [text, setText] = useState('')
  const start = useAction({
    mutationFn: () =>
      call<{ conversation: Started }>('POST', '/api/chat/conversations/start', {
        participant1: me.email,
        participant2: other,
        username: me.email,
        chatEntry: text,
        deviceProjectName: device || null,
        organizationId: target.id
      }),
    onSuccess: async ({ conversation }) => {
      await client.invalidateQueries({ queryKey: ['conversations'] })
      close()
      go('chat', conversation.id)
    }
  })

  return (
    <Dialog title={t('chat.start')} close={close}>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          start.mutate()
        }}
      >
        {start.isError && <Failed error={start.error} />}
        <Field label={t('chat.with')}>
          {(props) => (
            <input
              {...props}
              type='email'
              required
              list='known'
              value={other}
              onChange={(e) => setOther(e.target.value)}
            />
          )}
        </Field>
        <datalist id='known'>
          {known.map((email) => (
            <option key={email} value={email} />
          ))}
        </datalist>
        <Field label={t('chat.device')}>
          {(props) => <input {...props} maxLength={255} value={device} onChange={(e) => setDevice(e.target.value)} />}
        </Field>
        <Target of={target} optional={isOne(me, 'Admin')} />
        <Field label={t('chat.first')}>
          {(props) => (
            <textarea {...props} rows={4} required value={text} onChange={(e) => setText(e.target.value)} />
          )}
        </Field>
        <div className='actions'>
          <Button onClick={close}>{t('do.cancel')}</Button>
          <Button kind='main' type='submit' disabled={start.isPending}>
            {t('chat.send')}
          </Button>
        </div>
      </form>
    </Dialog>
  )
}
