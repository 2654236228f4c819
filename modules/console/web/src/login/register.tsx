/* Registration of an account, which an Admin then approves. */
import { useState, type FormEvent } from 'react'

import { ApiError, call } from '../api/client'
import { t } from '../texts/texts'
import type { Key } from '../texts/en'
import { Button, Failed, Field } from '../ui/ui'

const fields: { name: string, text: Key, type: string, complete: string }[] = [
  { name: 'firstName', text: 'register.firstName', type: 'text', complete: 'given-name' },
  { name: 'lastName', text: 'register.lastName', type: 'text', complete: 'family-name' },
  { name: 'orgName', text: 'register.orgName', type: 'text', complete: 'organization' },
  { name: 'email', text: 'login.email', type: 'email', complete: 'username' },
  { name: 'password', text: 'register.password', type: 'password', complete: 'new-password' }
]
const types: { name: string; text: Key }[] = [
  { name: 'Developer', text: 'register.Developer' },
  { name: 'Buyer', text: 'register.Buyer' },
  { name: 'ApiUser', text: 'register.ApiUser' }
]

export function Register ({ back }: { back: () => void }) {
  const [values, setValues] = useState<Record<string, string>>({ organizationType: 'Developer' })
  const [error, setError] = useState<unknown>(null)
  const [state, setState] = useState<'open' | 'busy' | 'done'>('open')
  const errors = error instanceof ApiError ? error.errors : []

  const submit = (event: FormEvent) => {
    event.preventDefault()
    setState('busy')
    call('POST', '/api/user/register', values).then(
      () => setState('done'),
      (problem) => {
        setError(problem)
        setState('open')
      }
    )
  }
  if (state === 'done') {
    return (
      <section className='login panel'>
        <h1>{t('register.title')}</h1>
        <p className='notice' role='status'>{t('register.done')}</p>
        <Button kind='main' onClick={back}>{t('register.back')}</Button>
      </section>
    )
  }
  return (
    <form className='login panel' onSubmit={submit}>
      <h1>{t('register.title')}</h1>
      {error !== null && errors.length === 0 && <Failed error={error} />}
      <Field label={t('register.as')}>
        {(props) => (
          <select
            {...props}
            value={values.organizationType}
            onChange={(e) => setValues({ ...values, organizationType: e.target.value })}>
            {types.map(({ name, text }) => (
              <option key={name} value={name}>
                {t(text)}
              </option>
            ))}
          </select>
        )}
      </Field>
      {fields.map(({ name, text, type, complete }) => (
        <Field key={name} label={t(text)} problem={errors.find(({ field }) => field === name)?.problem}>
          {(props) => (
            <input
              {...props}
              type={type}
              autoComplete={complete}
              required
              value={values[name] ?? ''}
              onChange={(e) => setValues({ ...values, [name]: e.target.value })}
            />
          )}
        </Field>
      ))}
      <Button kind='main' type='submit' disabled={state === 'busy'}>{t('register.do')}</Button>
      <Button kind='link' onClick={back}>{t('register.back')}</Button>
    </form>
  )
}
