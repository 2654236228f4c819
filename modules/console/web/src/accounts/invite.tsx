/*
 * Invites a person: creates an account, whose owner gets a mail with a link to choose its password. `own`: into the
 * caller's organization.
 */
import { useQueryClient } from '@tanstack/react-query'

import { create } from '../api/client'
import type { Account, Role } from '../api/types'
import { language, t } from '../texts/texts'
import { FormDialog, Input, Select, useSentForm } from '../ui/form'
import { toast } from '../ui/toast'

export const tones = { Pending: 'wait', Active: 'good', Suspended: 'bad', Deleted: 'off' } as const // colors of states

export function Invite ({ roles, own = false, close }: { roles: Role[], own?: boolean, close: () => void }) {
  const client = useQueryClient()
  const role = own ? 'User' : 'OrganizationAdmin'
  const form = useSentForm({ email: '', firstName: '', lastName: '', orgName: '', role }, {
    send: (values) => { // the service warns of empty members
      const given = Object.fromEntries(Object.entries(values).filter(([, value]) => value.trim() !== ''))
      return create<Account>(own ? '/api/organization/invitations' : '/api/admin/users', { ...given, language })
    },
    done: async ({ email }) => {
      await client.invalidateQueries({ queryKey: ['accounts'] })
      await client.invalidateQueries({ queryKey: ['organizations'] }) // the account may be the first of a new one
      close()
      toast(t('accounts.invited', { email }))
    }
  })

  return (
    <FormDialog title={t('accounts.invite')} of={form} close={close} action={t('accounts.invite')}>
      <p>{t(own ? 'own.inviteText' : 'accounts.inviteText')}</p>
      <Input of={form} name='email' label={t('login.email')} type='email' required />
      <Input of={form} name='firstName' label={t('register.firstName')} />
      <Input of={form} name='lastName' label={t('register.lastName')} />
      {!own && <Input of={form} name='orgName' label={t('accounts.organization')} />}
      <Select of={form} name='role' label={t('accounts.role')}>
        {roles.map((role) => <option key={role} value={role}>{t(`role.${role}`)}</option>)}
      </Select>
    </FormDialog>
  )
}
