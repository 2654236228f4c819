/* Invites a person: creates an account, whose owner gets a mail with a link to choose its password. */
import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'

import { ApiError, call } from '../api/client'
import type { Account, Role } from '../api/types'
import { language, t } from '../texts/texts'
import type { Key } from '../texts/en'
import { useAction } from '../ui/action'
import { toast } from '../ui/toast'
import { Button, Dialog, Failed, Field } from '../ui/ui'

const fields: { name: string, text: Key, type?: string, required?: boolean }[] = [
  { name: 'email', text: 'login.email', type: 'email', required: true },
  { name: 'firstName', text: 'register.firstName' },
  { name: 'lastName', text: 'register.lastName' },
  { name: 'orgName', text: 'accounts.organization' }
]

export function Invite ({ roles, close }: { roles: Role[], close: () => void }) {
  const client = useQueryClient()
  const [values, setValues] = useState<Record<string, string>>({ role: 'OrganizationAdmin' })
  const invite = useAction({
    mutationFn: () => call<Account>('POST', '/api/admin/users', { ...values, language }),
    onSuccess: async ({ email }) => {
      await client.invalidateQueries({ queryKey: ['accounts'] })
      close()
      toast(t('accounts.invited', { email }))
    }
  })
  const problems = invite.error instanceof ApiError ? invite.error.errors : []

  return (
    <Dialog title={t('accounts.invite')} close={close}>
      <form onSubmit={(event) => { event.preventDefault(); invite.mutate() }}>
        {invite.isError && problems.length === 0 && <Failed error={invite.error} />}
        <p>{t('accounts.inviteText')}</p>
        {fields.map(({ name, text, type = 'text', required }) => (
          <Field key={name} label={t(text)} problem={problems.find(({ field }) => field === name)?.problem}>
            {(props) => (
              <input {...props} type={type} required={required} value={values[name] ?? ''}
                onChange={(e) => setValues({ ...values, [name]: e.target.value })} />
            )}
          </Field>
        ))}
        <Field label={t('accounts.role')}>
          {(props) => (
            <select {...props} value={values.role} onChange={(e) => setValues({ ...values, role: e.target.value })}>
              {roles.map((role) => <option key={role} value={role}>{t(`role.${role}`)}</option>)}
            </select>
          )}
        </Field>
        <div className='actions'>
          <Button onClick={close}>{t('do.cancel')}</Button>
          <Button kind='main' type='submit' disabled={invite.isPending}>{t('accounts.invite')}</Button>
        </div>
      </form>
    </Dialog>
  )
}
