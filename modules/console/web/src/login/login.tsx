import { useState, type FormEvent } from 'react'

import { ApiError, call, get, session, type Access } from '../api/client'
import type { Own } from '../api/types'
import { linkTo, useAbout } from '../help/about'
import { language, languages, t } from '../texts/texts'
import { Button, Failed, Field, Logo } from '../ui/ui'
import { Forgot } from './link'
import { Register } from './register'

/* The service returns the same response for a wrong password and for an unknown account. */
function Refused ({ error }: { error: unknown }) {
  if (!(error instanceof ApiError) || error.status !== 401) return <Failed error={error} />
  return <div className='failed' role='alert'><p>{t('login.wrong')}</p></div>
}

/* Where people find help who cannot log in. */
function Help () {
  const about = useAbout()

  if (!about) return null
  return (
    <p className='languages'>
      {about.help && <a {...linkTo(about.help)}>{t('help.docs')}</a>}
      {about.contact && <a {...linkTo(about.contact)}>{t('login.contact')}</a>}
      <small>{t('login.version', { version: about.version })}</small>
    </p>
  )
}

/* `again`: the e-mail of the account whose session has ended. */
export function Login ({ again, done }: { again?: string, done: (me: Own) => void }) {
  const [email, setEmail] = useState(again ?? '')
  const [password, setPassword] = useState('')
  const [error, setError] = useState<unknown>(null)
  const [busy, setBusy] = useState(false)
  const [instead, setInstead] = useState<'register' | 'forgot' | null>(null)

  const submit = async (event: FormEvent) => {
    event.preventDefault()
    setBusy(true)
    setError(null)
    try {
      session.begin(await call<Access>('POST', '/api/auth/login', { username: email, password, remember: true }))
      setPassword('')
      done(await get<Own>('/api/auth/me'))
    } catch (problem) {
      setError(problem)
    }
    setBusy(false)
  }
  if (instead === 'register') return <Register back={() => setInstead(null)} />
  if (instead === 'forgot') return <Forgot back={() => setInstead(null)} />
  return (
    <form className='login panel' onSubmit={submit}>
      {!again && <strong className='brand'><Logo />busbar</strong>}
      <h1>{t('login.title')}</h1>
      {again && <p className='notice'>{t('login.again')}</p>}
      {error !== null && <Refused error={error} />}
      <Field label={t('login.email')}>
        {(props) => (
          <input
            {...props}
            type='email'
            autoComplete='username'
            required
            autoFocus={!again}
            value={email}
            onChange={(e) => setEmail(e.target.value)}
          />
        )}
      </Field>
      <Field label={t('login.password')}>
        {(props) => (
          <input
            {...props}
            type='password'
            autoComplete='current-password'
            required
            autoFocus={Boolean(again)}
            value={password}
            onChange={(e) => setPassword(e.target.value)}
          />
        )}
      </Field>
      <Button kind='main' type='submit' disabled={busy}>{t('login.do')}</Button>
      {!again && <Button kind='link' onClick={() => setInstead('register')}>{t('register.title')}</Button>}
      {!again && <Button kind='link' onClick={() => setInstead('forgot')}>{t('link.forgot')}</Button>}
      {!again && (
        <p className='languages'>
          {languages.filter(({ code }) => code !== language).map(({ code, name }) => (
            <a key={code} lang={code} href={`?lang=${code}${location.hash}`}>{name}</a>
          ))}
        </p>
      )}
      <Help />
    </form>
  )
}
