/* The own account: who it is, its password, and the language of the console. */
import { useState } from 'react'

import { ApiError, PASSWORD, call, get } from '../api/client'
import { useMe } from '../session'
import { language, languages, speak, t } from '../texts/texts'
import { useAction } from '../ui/action'
import { Button, Failed, Field } from '../ui/ui'

const empty = { current: '', new: '', again: '' }

function Password () {
  const { email } = useMe()
  const [values, setValues] = useState(empty)
  const change = useAction({
    mutationFn: () => call('PUT', PASSWORD, { current: values.current, new: values.new }),
    onSuccess: () => setValues(empty),
    onError: (error) => { if (isWrong(error)) get('/api/auth/me').catch(() => {}) } // asks for the login if the session has ended
  })
  const isWrong = (error: unknown) => error instanceof ApiError && error.status === 401
  const problems = change.error instanceof ApiError ? change.error.errors : []
  const problemOf = (name: string) => problems.find(({ field }) => field === name)?.problem
  const differ = values.again !== '' && values.again !== values.new
  const input = (name: keyof typeof empty, label: string, complete: string, problem?: string) => (
    <Field label={label} problem={problem}>
      {(props) => <input {...props} type='password' autoComplete={complete} required value={values[name]} onChange={(e) => setValues({ ...values, [name]: e.target.value })} />}
    </Field>
  )

  return (
    <form className='panel narrow' onSubmit={(event) => { event.preventDefault(); if (!differ) change.mutate() }}>
      <h2>{t('own.password')}</h2>
      {change.isError && !isWrong(change.error) && problems.length === 0 && <Failed error={change.error} />}
      <div role='status'>{change.isSuccess && <p className='notice'>{t('own.done')}</p>}</div>
      <input className='hidden' tabIndex={-1} aria-hidden='true' autoComplete='username' value={email} readOnly /> {/* for password managers */}
      {input('current', t('own.current'), 'current-password', isWrong(change.error) ? t('own.wrong') : problemOf('current'))}
      {input('new', t('own.new'), 'new-password', problemOf('new'))}
      {input('again', t('own.again'), 'new-password', differ ? t('own.differ') : undefined)}
      <Button kind='main' type='submit' disabled={change.isPending}>{t('own.password')}</Button>
    </form>
  )
}

export default function Own () {
  const me = useMe()
  const name = `${me.firstName} ${me.lastName}`.trim()
  const facts = [
    [t('login.email'), me.email], [t('accounts.name'), name || '–'], [t('accounts.role'), t(`role.${me.role}`)],
    [t('accounts.organization'), me.organizations.map((one) => one.name).join(', ') || '–']
  ]

  return (
    <div className='page'>
      <header><h1>{t('nav.account')}</h1></header>
      <dl className='facts panel'>{facts.map(([label, value]) => <div key={label}><dt>{label}</dt><dd>{value}</dd></div>)}</dl>
      <Password />
      <section className='panel narrow'>
        <Field label={t('own.language')}>
          {(props) => <select {...props} value={language} onChange={(e) => speak(e.target.value)}>{languages.map(({ code, name }) => <option key={code} value={code} lang={code}>{name}</option>)}</select>}
        </Field>
      </section>
    </div>
  )
}
