import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'

import { ApiError, call, get } from '../api/client'
import type { Webhook } from '../api/types'
import { t } from '../texts/texts'
import { useAction } from '../ui/action'
import { Button, Dialog, Failed, Field } from '../ui/ui'

const problemWith = (error: unknown, field: string) =>
  error instanceof ApiError ? error.errors.find((problem) => problem.field === field)?.problem : undefined

/* A form for a new webhook, or for changes to one. */
export function Edit ({ hook, close, done }: { hook?: Webhook, close: () => void, done: (hook: Webhook) => void }) {
  const [url, setUrl] = useState(hook?.url ?? 'https://')
  const [events, setEvents] = useState(hook?.events.filter((name) => name !== '*') ?? [])
  const [all, setAll] = useState(!hook || hook.events.length === 0 || hook.events.includes('*'))
  const [secret, setSecret] = useState('')
  const chosen = all ? [] : events
  const names = useQuery({ queryKey: ['events'], queryFn: () => get<string[]>('/api/chat/webhooks/events') })
  const save = useAction({
    mutationFn: () => hook
      ? call<Webhook>('PATCH', `/api/chat/webhooks/${hook.id}`, { url, events: chosen })
      : call<Webhook>('POST', '/api/chat/webhooks', { url, events: chosen, ...(secret && { secret }) }),
    onSuccess: done
  })
  const toggle = (name: string) => setEvents((before) => before.includes(name) ? before.filter((other) => other !== name) : [...before, name])

  return (
    <Dialog title={t(hook ? 'hooks.editOne' : 'hooks.new')} close={close}>
      <form onSubmit={(event) => { event.preventDefault(); save.mutate() }}>
        {save.isError && <Failed error={save.error} />}
        <Field label={t('hooks.url')} problem={problemWith(save.error, 'url')}>
          {(props) => <input {...props} type='url' required maxLength={2048} value={url} onChange={(e) => setUrl(e.target.value)} />}
        </Field>
        <fieldset className='field choices'>
          <legend>{t('hooks.events')}</legend>
          <label className='check'><input type='checkbox' checked={all} onChange={() => setAll(!all)} />{t('hooks.all')}</label>
          {!all && names.data?.filter((name) => name !== 'ping').map((name) => (
            <label key={name} className='check'><input type='checkbox' checked={events.includes(name)} onChange={() => toggle(name)} />{name}</label>
          ))}
          {!all && events.length === 0 && <p className='problem'>{t('hooks.choose')}</p>}
        </fieldset>
        {!hook && (
          <Field label={t('hooks.ownSecret')} problem={problemWith(save.error, 'secret')}>
            {(props) => <input {...props} type='password' autoComplete='off' maxLength={256} value={secret} onChange={(e) => setSecret(e.target.value)} />}
          </Field>
        )}
        <div className='actions'>
          <Button onClick={close}>{t('do.cancel')}</Button>
          <Button kind='main' type='submit' disabled={save.isPending || (!all && events.length === 0)}>{t('do.save')}</Button>
        </div>
      </form>
    </Dialog>
  )
}
