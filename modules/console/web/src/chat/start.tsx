import { useQueryClient } from '@tanstack/react-query'

import { create } from '../api/client'
import type { Started } from '../api/types'
import { Target, useTarget } from '../organization'
import { go } from '../router'
import { isOne, useMe } from '../session'
import { t } from '../texts/texts'
import { FormDialog, Input, TextArea, useSentForm } from '../ui/form'

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
  const form = useSentForm({ participant2: '', deviceProjectName: about, ...target.values, chatEntry: '' }, {
    send: ({ participant2, deviceProjectName, chatEntry, ...rest }) =>
      create<{ conversation: Started }>('/api/chat/conversations/start', {
        participant1: me.email,
        participant2,
        username: me.email,
        chatEntry,
        deviceProjectName: deviceProjectName || null,
        organizationId: target.idOf(rest)
      }),
    done: () => client.invalidateQueries({ queryKey: ['conversations'] }),
    leave: ({ conversation }) => { close(); go('chat', conversation.id) }
  })

  return (
    <FormDialog title={t('chat.start')} of={form} close={close} action={t('chat.send')}>
      <Input of={form} name='participant2' label={t('chat.with')} type='email' required list='known' />
      <datalist id='known'>
        {known.map((email) => (
          <option key={email} value={email} />
        ))}
      </datalist>
      <Input of={form} name='deviceProjectName' label={t('chat.device')} maxLength={255} />
      <Target of={form} name='organizationId' optional={isOne(me, 'Admin')} />
      <TextArea of={form} name='chatEntry' label={t('chat.first')} rows={4} required />
    </FormDialog>
  )
}
