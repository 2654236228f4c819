/* The own account: name, password, sessions, and how this browser shows the console. */
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Monitor } from 'lucide-react'
import { useContext, useState } from 'react'

import { ApiError, PASSWORD, call, everything, get, session } from '../api/client'
import type { Own, Session } from '../api/types'
import { createNotification } from '../chat/live'
import { prefer, preferences, type Preferences } from '../preferences'
import { SetMe, useMe } from '../session'
import { language, languages, redraw, speak, t } from '../texts/texts'
import { useAction } from '../ui/action'
import { toast } from '../ui/toast'
import { Badge, Button, Confirm, Failed, Field, Loading, Time } from '../ui/ui'

const empty = { current: '', new: '', again: '' }

const problemsOf = (error: unknown) => {
  const errors = error instanceof ApiError ? error.errors : []
  return { any: errors.length > 0, of: (name: string) => errors.find(({ field }) => field === name)?.problem }
}

function Name () {
  const changed = useContext(SetMe)
  const me = useMe()
  const [firstName, setFirst] = useState(me.firstName)
  const [lastName, setLast] = useState(me.lastName)
  const save = useAction({
    mutationFn: () => call<Own>('PATCH', '/api/auth/me', { firstName, lastName }),
    onSuccess: (own) => { changed(own); toast(t('own.saved')) }
  })
  const problems = problemsOf(save.error)

  return (
    <form className='panel narrow' onSubmit={(event) => { event.preventDefault(); save.mutate() }}>
      <h2>{t('accounts.name')}</h2>
      {save.isError && !problems.any && <Failed error={save.error} />}
      <Field label={t('register.firstName')} problem={problems.of('firstName')}>
        {(props) => (
          <input
            {...props}
            autoComplete='given-name'
            required
            value={firstName}
            onChange={(e) => setFirst(e.target.value)}
          />
        )}
      </Field>
      <Field label={t('register.lastName')} problem={problems.of('lastName')}>
        {(props) => (
          <input
            {...props}
            autoComplete='family-name'
            required
            value={lastName}
            onChange={(e) => setLast(e.target.value)}
          />
        )}
      </Field>
      <Button type='submit' disabled={save.isPending || (firstName === me.firstName && lastName === me.lastName)}>
        {t('do.save')}
      </Button>
    </form>
  )
}

function Password () {
  const { email } = useMe()
  const client = useQueryClient()
  const [values, setValues] = useState(empty)
  const change = useAction({
    mutationFn: () => call('PUT', PASSWORD, { current: values.current, new: values.new }),
    onSuccess: () => {
      setValues(empty)
      void client.invalidateQueries({ queryKey: ['sessions'] })
    },
    onError: (error) => {
      if (isWrong(error)) get('/api/auth/me').catch(() => {})
    } // asks for the login if the session has ended
  })
  const isWrong = (error: unknown) => error instanceof ApiError && error.status === 401
  const problems = problemsOf(change.error)
  const differ = values.again !== '' && values.again !== values.new
  const input = (name: keyof typeof empty, label: string, complete: string, problem?: string) => (
    <Field label={label} problem={problem}>
      {(props) => (
        <input {...props} type='password' autoComplete={complete} required value={values[name]}
          onChange={(e) => setValues({ ...values, [name]: e.target.value })} />
      )}
    </Field>
  )

  return (
    <form className='panel narrow' onSubmit={(event) => { event.preventDefault(); if (!differ) change.mutate() }}>
      <h2>{t('own.password')}</h2>
      {change.isError && !isWrong(change.error) && !problems.any && <Failed error={change.error} />}
      <div role='status'>{change.isSuccess && <p className='notice'>{t('own.done')}</p>}</div>
      <input className='hidden' tabIndex={-1} aria-hidden='true' autoComplete='username' value={email} readOnly />{' '}
      {/* for password managers */}
      {input(
        'current',
        t('own.current'),
        'current-password',
        isWrong(change.error) ? t('own.wrong') : problems.of('current')
      )}
      {input('new', t('own.new'), 'new-password', problems.of('new'))}
      {input('again', t('own.again'), 'new-password', differ ? t('own.differ') : undefined)}
      <Button kind='main' type='submit' disabled={change.isPending}>{t('own.password')}</Button>
    </form>
  )
}

/* The browser and the system in a User-Agent, or all of it if they are not known. */
function browserOf (agent: string): string {
  const browser = ['Edg', 'OPR', 'Firefox', 'Chrome', 'Safari'].find((name) => agent.includes(`${name}/`))
  const system = ['Android', 'iPhone', 'iPad', 'Windows', 'Mac OS X', 'Linux'].find((name) => agent.includes(name))
  const names: Record<string, string> = { Edg: 'Edge', OPR: 'Opera', 'Mac OS X': 'macOS' }
  return browser && system ? `${names[browser] ?? browser}, ${names[system] ?? system}` : agent.slice(0, 80)
}

const nameOf = ({ userAgent }: Session) => userAgent ? browserOf(userAgent) : t('own.program')

function Sessions () {
  const client = useQueryClient()
  const list = useQuery({ queryKey: ['sessions'], queryFn: () => everything<Session>('/api/auth/sessions') })
  const [ending, end] = useState<Session | null>(null)
  const run = async ({ id, current }: Session) => {
    await call('DELETE', `/api/auth/sessions/${id}`)
    if (current) return session.end()
    toast(t('own.ended'))
    await client.invalidateQueries({ queryKey: ['sessions'] })
  }

  return (
    <section className='panel' aria-labelledby='sessions'>
      <h2 id='sessions'>{t('own.sessions')}</h2>
      {list.isPending && <Loading lines={2} />}
      {list.isError && <Failed error={list.error} again={() => void list.refetch()} />}
      <ul className='sessions'>
        {list.data?.map((one) => (
          <li key={one.id}>
            <Monitor />
            <div>
              <strong>{nameOf(one)}</strong> {one.current && <Badge tone='good'>{t('own.here')}</Badge>}
              <small>
                {one.network && `${one.network} · `}
                {t('own.used')} <Time at={one.usedAt} /> · {t('own.expires')} <Time at={one.expiresAt} />
              </small>
            </div>
            <Button aria-label={`${t('own.end')}: ${nameOf(one)}`} onClick={() => end(one)}>{t('own.end')}</Button>
          </li>
        ))}
      </ul>
      {ending && (
        <Confirm
          title={t('own.end')}
          text={t(ending.current ? 'own.endOwn' : 'own.endAsk', { name: nameOf(ending) })}
          action={t('own.end')}
          close={() => end(null)}
          run={() => run(ending)}
        />
      )}
    </section>
  )
}

function Shown () {
  const change = (some: Preferences) => { prefer(some); redraw() }
  const here = Intl.DateTimeFormat().resolvedOptions().timeZone
  const { id } = useMe()
  const accounts = preferences.notify ?? []
  const notify = async (wanted: boolean) => {
    if (!wanted) return change({ notify: accounts.filter((one) => one !== id) })
    const tried = createNotification('') // a browser without permission does not show it
    tried?.close()
    if (!tried) toast(t('own.notifyUnsupported'))
    else if (await Notification.requestPermission() !== 'granted') toast(t('own.notifyRefused'))
    else change({ notify: [...accounts, id] })
  }

  return (
    <section className='panel narrow' aria-labelledby='shown'>
      <h2 id='shown'>{t('own.shown')}</h2>
      <Field label={t('own.language')}>
        {(props) => (
          <select {...props} value={language} onChange={(e) => speak(e.target.value)}>
            {languages.map(({ code, name }) => <option key={code} value={code} lang={code}>{name}</option>)}
          </select>
        )}
      </Field>
      <Field label={t('own.theme')}>
        {(props) => (
          <select
            {...props}
            value={preferences.theme ?? ''}
            onChange={(e) => change({ theme: (e.target.value || undefined) as Preferences['theme'] })}>
            <option value=''>{t('own.asSystem')}</option>
            <option value='light'>{t('own.light')}</option>
            <option value='dark'>{t('own.dark')}</option>
          </select>
        )}
      </Field>
      <Field label={t('devices.zone')}>
        {(props) => (
          <select
            {...props}
            value={preferences.zone ?? ''}
            onChange={(e) => change({ zone: e.target.value === 'UTC' ? 'UTC' : undefined })}>
            <option value=''>{t('own.zone', { zone: here })}</option>
            <option value='UTC'>{t('own.utc')}</option>
          </select>
        )}
      </Field>
      <Field label={t('own.times')}>
        {(props) => (
          <select {...props} value={preferences.times ?? ''}
            onChange={(e) => change({ times: e.target.value === 'relative' ? 'relative' : undefined })}>
            <option value=''>{t('own.absolute')}</option>
            <option value='relative'>{t('own.relative')}</option>
          </select>
        )}
      </Field>
      <Field label={t('own.enter')}>
        {(props) => (
          <select {...props} value={preferences.enter ?? ''}
            onChange={(e) => change({ enter: e.target.value === 'line' ? 'line' : undefined })}>
            <option value=''>{t('chat.keys')}</option>
            <option value='line'>{t('chat.keysLine')}</option>
          </select>
        )}
      </Field>
      {'Notification' in window && (
        <label className='check'>
          <input type='checkbox' role='switch' checked={accounts.includes(id)}
            onChange={(e) => void notify(e.target.checked)} />
          {t('own.notify')}
        </label>
      )}
    </section>
  )
}

export default function Account () {
  const me = useMe()
  const facts = [
    [t('login.email'), me.email],
    [t('accounts.name'), `${me.firstName} ${me.lastName}`.trim() || '–'],
    [t('accounts.role'), t(`role.${me.role}`)],
    [t('accounts.organization'), me.organizations.map((one) => one.name).join(', ') || '–']
  ]

  return (
    <div className='page'>
      <header>
        <h1>{t('nav.account')}</h1>
      </header>
      <dl className='facts panel'>
        {facts.map(([label, value]) => (
          <div key={label}>
            <dt>{label}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      <div className='columns'>
        <Name />
        <Password />
        <Shown />
      </div>
      <Sessions />
    </div>
  )
}
