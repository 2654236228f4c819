/* The pages for links that are sent by mail, which need no login: asking for a link, and using it. */
import { useState, type FormEvent } from 'react'

import { ApiError, PASSWORD, call } from '../api/client'
import { goHome } from '../router'
import { t } from '../texts/texts'
import { Button, Failed, Field } from '../ui/ui'

type Input = { name: string, label: string, type: string, complete: string }

/* A form with at most one input, which shows `done` after a success. */
function Form ({
  title,
  input,
  path,
  values,
  label,
  done,
  back,
  home = t('register.back')
}: {
  title: string
  input?: Input
  path: string
  values: Record<string, string>
  label: string
  done: string
  back: () => void
  home?: string
}) {
  const [value, setValue] = useState('')
  const [error, setError] = useState<unknown>(null)
  const [state, setState] = useState<'open' | 'busy' | 'done'>('open')
  const problem =
    error instanceof ApiError ? error.errors.find(({ field }) => field === input?.name)?.problem : undefined

  const submit = (event: FormEvent) => {
    event.preventDefault()
    setState('busy')
    call('POST', path, input ? { ...values, [input.name]: value } : values)
      .then(() => setState('done'), (failure) => { setError(failure); setState('open') })
  }
  return (
    <form className='login panel' onSubmit={submit}>
      <h1>{title}</h1>
      {error !== null && !problem && state !== 'done' && <Failed error={error} />}
      <div role='status'>{state === 'done' && <p className='notice'>{done}</p>}</div>
      {input && state !== 'done' && (
        <Field label={input.label} problem={problem}>
          {(props) => (
            <input
              {...props}
              type={input.type}
              autoComplete={input.complete}
              required
              autoFocus
              value={value}
              onChange={(e) => setValue(e.target.value)}
            />
          )}
        </Field>
      )}
      {state !== 'done' && <Button kind='main' type='submit' disabled={state === 'busy'}>{label}</Button>}
      <Button kind='link' onClick={back}>{home}</Button>
    </form>
  )
}

export function Forgot ({ back }: { back: () => void }) {
  const input = { name: 'email', label: t('login.email'), type: 'email', complete: 'username' }
  return (
    <Form
      title={t('link.forgot')}
      input={input}
      path={`${PASSWORD}/reset-request`}
      values={{}}
      label={t('link.ask')}
      done={t('link.sent')}
      back={back}
    />
  )
}

/*
 * #/link/PURPOSE?token=…: the token is after the '#', so that no server gets it in an address. `home`: the text of the
 * link that leaves the page.
 */
export function Link ({ purpose, home }: { purpose: string, home: string }) {
  const [token] = useState(() => new URLSearchParams(location.hash.split('?')[1] ?? '').get('token') ?? '')
  const input = { name: 'password', label: t('register.password'), type: 'password', complete: 'new-password' }

  if (purpose === 'confirm') {
    return (
      <Form
        title={t('link.confirm')}
        path='/api/user/email/confirm'
        values={{ token }}
        label={t('link.confirm')}
        done={t('link.confirmed')}
        back={goHome}
        home={home}
      />
    )
  }
  return (
    <Form
      title={t('link.choose')}
      input={input}
      path={`${PASSWORD}/reset`}
      values={{ token }}
      label={t('link.choose')}
      done={t('link.chosen')}
      back={goHome}
      home={home}
    />
  )
}
