/* The own account: name, password, sessions, and how this browser shows the console. */
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Monitor, UserPlus } from 'lucide-react'
import { useContext, useState, type ReactNode } from 'react'

import { Invite, tones } from '../accounts/invite'
import { ApiError, PASSWORD, call, everything, get, session } from '../api/client'
import type { Account, Own, Role, Session } from '../api/types'
import { createNotification, playSound } from '../chat/live'
import { prefer, preferences, type Preferences } from '../preferences'
import { SetMe, isOne, useMe } from '../session'
import { language, languages, redraw, speak, t } from '../texts/texts'
import { Input, problemsIn, useSentForm } from '../ui/form'
import { refuse, toast } from '../ui/toast'
import { Badge, Button, Confirm, Failed, Field, Loading, Mail, Table, Time } from '../ui/ui'

function Name () {
  const changed = useContext(SetMe)
  const me = useMe()
  const form = useSentForm({ firstName: me.firstName, lastName: me.lastName }, {
    send: (values) => call<Own>('PATCH', '/api/auth/me', values),
    done: (own) => {
      changed(own)
      form.reset({ firstName: own.firstName, lastName: own.lastName })
      toast(t('own.saved'))
    }
  })

  return (
    <form className='panel narrow' {...form.attributes}>
      <h2>{t('accounts.name')}</h2>
      {form.error !== null && <Failed error={form.error} />}
      <Input of={form} name='firstName' label={t('register.firstName')} autoComplete='given-name' required />
      <Input of={form} name='lastName' label={t('register.lastName')} autoComplete='family-name' required />
      <Button type='submit' disabled={form.save.isPending || !form.formState.isDirty}>{t('do.save')}</Button>
    </form>
  )
}

const isWrong = (error: unknown) => error instanceof ApiError && error.status === 401

function Password () {
  const { email } = useMe()
  const client = useQueryClient()
  const form = useSentForm({ current: '', new: '', again: '' }, {
    send: (values) => call('PUT', PASSWORD, { current: values.current, new: values.new }),
    done: () => {
      form.reset()
      void client.invalidateQueries({ queryKey: ['sessions'] })
    },
    failed: (error) => {
      if (isWrong(error)) get('/api/auth/me').catch(() => {}) // asks for the login if the session has ended
    },
    problemsOf: (error) => isWrong(error) ? [{ field: 'current', problem: t('own.wrong') }] : problemsIn(error)
  })
  const { isSuccess, isPending } = form.save

  return (
    <form className='panel narrow' {...form.attributes}>
      <h2>{t('own.password')}</h2>
      {form.error !== null && <Failed error={form.error} />}
      <div role='status'>{isSuccess && <p className='notice'>{t('own.done')}</p>}</div>
      <input className='hidden' tabIndex={-1} aria-hidden='true' autoComplete='username' value={email} readOnly />{' '}
      {/* for password managers */}
      <Input of={form} name='current' label={t('own.current')} type='password' autoComplete='current-password' required />
      <Input of={form} name='new' label={t('own.new')} type='password' autoComplete='new-password' required
        rules={{ deps: 'again' }} />
      <Input of={form} name='again' label={t('own.again')} type='password' autoComplete='new-password' required
        rules={{ validate: (again, values) => again === values.new || t('own.differ') }} />
      <Button kind='main' type='submit' disabled={isPending}>{t('own.password')}</Button>
    </form>
  )
}

/* Returns the browser and the system of a User-Agent, or the whole text if they are unknown. */
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
    const tried = createNotification('') // without permission, the browser does not show this notification
    tried?.close()
    if (!tried) refuse(t('own.notifyUnsupported'))
    else if (await Notification.requestPermission() !== 'granted') refuse(t('own.notifyRefused'))
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
      <Field label={t('own.density')}>
        {(props) => (
          <select {...props} value={preferences.density ?? ''}
            onChange={(e) => change({ density: e.target.value === 'compact' ? 'compact' : undefined })}>
            <option value=''>{t('own.comfortable')}</option>
            <option value='compact'>{t('own.compact')}</option>
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
            <option value=''>{t('own.enterSends')}</option>
            <option value='line'>{t('own.enterBreaks')}</option>
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
      <label className='check'>
        <input type='checkbox' role='switch' checked={preferences.sound ?? false}
          onChange={(e) => {
            change({ sound: e.target.checked || undefined })
            if (e.target.checked) void playSound()
          }} />
        {t('own.sound')}
      </label>
    </section>
  )
}

const colleagues: Role[] = ['OrganizationAdmin', 'DeviceOwner', 'Buyer', 'User'] // those that the service allows

function Colleagues () {
  const [inviting, invite] = useState(false)
  const list = useQuery({
    queryKey: ['accounts', 'own'], queryFn: () => everything<Account>('/api/organization/members')
  })

  return (
    <section className='panel' aria-labelledby='colleagues'>
      <h2 id='colleagues'>{t('own.colleagues')}</h2>
      <p>{t('own.colleaguesAre')}</p>
      {list.isPending && <Loading lines={2} />}
      {list.isError && <Failed error={list.error} again={() => void list.refetch()} />}
      {list.data && (
        <Table label={t('nav.accounts')}
          head={[t('login.email'), t('accounts.name'), t('accounts.role'), t('accounts.status')]}>
          {list.data.map(({ id, email, firstName, lastName, role, status }) => (
            <tr key={id}>
              <td className='wide'><Mail of={email} /></td>
              <td>{`${firstName} ${lastName}`.trim() || '–'}</td>
              <td>{t(`role.${role}`)}</td>
              <td><Badge tone={tones[status]}>{t(`account.${status}`)}</Badge></td>
            </tr>
          ))}
        </Table>
      )}
      <Button icon={UserPlus} onClick={() => invite(true)}>{t('accounts.invite')}</Button>
      {inviting && <Invite own roles={colleagues} close={() => invite(false)} />}
    </section>
  )
}

export default function OwnAccount () {
  const me = useMe()
  const facts: [string, ReactNode][] = [
    [t('login.email'), <Mail key='email' of={me.email} />],
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
      {isOne(me, 'OrganizationAdmin') && <Colleagues />}
      <Sessions />
    </div>
  )
}
