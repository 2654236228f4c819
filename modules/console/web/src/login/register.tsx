/* Registration of an account, which an Admin then approves. */
import { call } from '../api/client'
import { t } from '../texts/texts'
import type { Key } from '../texts/en'
import { Input, Select, useSentForm } from '../ui/form'
import { Button, Failed } from '../ui/ui'

const fields = [
  { name: 'firstName', text: 'register.firstName', type: 'text', complete: 'given-name' },
  { name: 'lastName', text: 'register.lastName', type: 'text', complete: 'family-name' },
  { name: 'orgName', text: 'register.orgName', type: 'text', complete: 'organization' },
  { name: 'email', text: 'login.email', type: 'email', complete: 'username' },
  { name: 'password', text: 'register.password', type: 'password', complete: 'new-password' }
] as const
const types: { name: string; text: Key }[] = [
  { name: 'Developer', text: 'register.Developer' },
  { name: 'Buyer', text: 'register.Buyer' },
  { name: 'ApiUser', text: 'register.ApiUser' }
]

export function Register ({ back }: { back: () => void }) {
  const form = useSentForm({
    organizationType: 'Developer', firstName: '', lastName: '', orgName: '', email: '', password: ''
  }, { send: (values) => call('POST', '/api/user/register', values), done: () => {} })

  if (form.save.isSuccess) {
    return (
      <section className='login panel'>
        <h1>{t('register.title')}</h1>
        <p className='notice' role='status'>{t('register.done')}</p>
        <Button kind='main' autoFocus onClick={back}>{t('register.back')}</Button>
      </section>
    )
  }
  return (
    <form className='login panel' {...form.attributes}>
      <h1>{t('register.title')}</h1>
      {form.error !== null && <Failed error={form.error} />}
      <Select of={form} name='organizationType' label={t('register.as')} autoFocus>
        {types.map(({ name, text }) => <option key={name} value={name}>{t(text)}</option>)}
      </Select>
      {fields.map(({ name, text, type, complete }) => (
        <Input key={name} of={form} name={name} label={t(text)} type={type} autoComplete={complete} required />
      ))}
      <Button kind='main' type='submit' disabled={form.save.isPending}>{t('register.do')}</Button>
      <Button kind='link' onClick={back}>{t('register.back')}</Button>
    </form>
  )
}
