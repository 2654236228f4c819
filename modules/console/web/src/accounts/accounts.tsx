/* Accounts, for Admins, with accounts that wait for approval first; and organizations. */
import { useInfiniteQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'

import { call, page, query, session } from '../api/client'
import type { Account, Role } from '../api/types'
import { to, useValues } from '../router'
import { useMe } from '../session'
import { t } from '../texts/texts'
import type { Key } from '../texts/en'
import { useAction } from '../ui/action'
import { Badge, Button, Confirm, Empty, Failed, Field, Loading, More, Table, Time } from '../ui/ui'
import { useRest } from '../ui/rest'
import { Organizations, useNames } from './organizations'

const states = ['Pending', 'Active', 'Suspended', 'Deleted'] as const
const roles: Role[] = ['Admin', 'OrganizationAdmin', 'DeviceOwner', 'Buyer', 'User', 'ApiUser']
const tones = { Pending: 'wait', Active: 'good', Suspended: 'bad', Deleted: 'off' } as const

const actions: Partial<Record<Account['status'], { text: Key, status: Account['status'] }>> = {
  Pending: { text: 'accounts.approve', status: 'Active' },
  Active: { text: 'accounts.suspend', status: 'Suspended' },
  Suspended: { text: 'accounts.activate', status: 'Active' }
}

interface Asked { account: Account, title: string, text: string, action: string, body: Partial<Account> }

type Ask = (asked: Asked) => void

function Row ({ account, organization, ask }: { account: Account, organization: string, ask: Ask }) {
  const me = useMe()
  const client = useQueryClient()
  const change = useAction({
    mutationFn: (body: Partial<Account>) => call('PUT', `/api/admin/users/${account.id}`, body),
    onSuccess: () => client.invalidateQueries({ queryKey: ['accounts'] })
  })
  const action = account.id === me.id ? undefined : actions[account.status]
  const name = `${account.firstName} ${account.lastName}`.trim()
  const { email } = account
  const refuse = () => ask({ account, title: t('accounts.refuse'), text: t('accounts.refuseAsk', { email }), action: t('accounts.refuse'), body: { status: 'Deleted' } })
  const suspend = () => ask({ account, title: t('accounts.suspend'), text: t('accounts.suspendAsk', { email }), action: t('accounts.suspend'), body: { status: 'Suspended' } })
  const give = (role: Role) => ask({
    account, title: t('accounts.newRole'), text: t('accounts.roleAsk', { email, before: t(`role.${account.role}`), role: t(`role.${role}`) }), action: t('accounts.newRole'), body: { role }
  })

  return (
    <tr>
      <td className='wide'>{account.email}{name && <><br /><small>{name}</small></>}{change.isError && <Failed error={change.error} />}</td>
      <td>
        {account.id === me.id ? t(`role.${account.role}`) : (
          <select aria-label={`${t('accounts.role')}: ${account.email}`} value={account.role} disabled={change.isPending || account.status === 'Deleted'}
            onChange={(e) => give(e.target.value as Role)}>
            {roles.map((role) => <option key={role} value={role}>{t(`role.${role}`)}</option>)}
          </select>
        )}
      </td>
      <td className='wide'>{organization}</td>
      <td><Badge tone={tones[account.status]}>{t(`account.${account.status}`)}</Badge><br /><small><Time at={account.createdAt} /></small></td>
      <td>
        <div className='row'>
          {action && <Button kind={account.status === 'Pending' ? 'main' : 'plain'} disabled={change.isPending} onClick={() => action.status === 'Suspended' ? suspend() : change.mutate({ status: action.status })}>{t(action.text)}</Button>}
          {account.status === 'Pending' && <Button onClick={refuse}>{t('accounts.refuse')}</Button>}
        </div>
      </td>
    </tr>
  )
}

function useAccounts (status: string) {
  return useInfiniteQuery({
    queryKey: ['accounts', status],
    queryFn: ({ pageParam }) => page<Account[]>(pageParam),
    initialPageParam: `/api/admin/users${query({ limit: 200, status })}`,
    getNextPageParam: (last) => last.next
  })
}

const itemsOf = ({ data }: ReturnType<typeof useAccounts>) => data?.pages.flatMap(({ items }) => items) ?? []

/*
 * The API cannot search accounts by name, so a search reads all of them. Accounts that wait come first,
 * however many there are.
 */
function List ({ ask }: { ask: Ask }) {
  const [{ status, search }, change] = useValues('status', 'search')
  const names = useNames()
  const list = useAccounts(status)
  const pending = useAccounts('Pending')
  const order = (account: Account) => account.status === 'Pending' ? 0 : account.status === 'Deleted' ? 2 : 1
  const wanted = search.trim().toLowerCase()
  useRest(list, wanted !== '')
  const shown = new Map([...(status ? [] : itemsOf(pending)), ...itemsOf(list)].map((account) => [account.id, account]))
  const all = [...shown.values()]
    .filter((account) => `${account.email} ${account.firstName} ${account.lastName} ${names(account.organizationId)}`.toLowerCase().includes(wanted))
    .sort((a, b) => order(a) - order(b))

  return (
    <>
      <div className='filters'>
        <Field label={t('accounts.search')}>{(props) => <input {...props} type='search' value={search} onChange={(e) => change({ search: e.target.value })} />}</Field>
        <Field label={t('accounts.status')}>
          {(props) => (
            <select {...props} value={status} onChange={(e) => change({ status: e.target.value })}>
              <option value=''>{t('accounts.all')}</option>
              {states.map((name) => <option key={name} value={name}>{t(`account.${name}`)}</option>)}
            </select>
          )}
        </Field>
      </div>
      {list.isPending && <Loading />}
      {list.isError && <Failed error={list.error} again={() => void list.refetch()} />}
      {list.isSuccess && !list.hasNextPage && all.length === 0 && <Empty>{t('accounts.empty')}</Empty>}
      {all.length > 0 && (
        <Table label={t('accounts.title')} head={[t('login.email'), t('accounts.role'), t('accounts.organization'), t('accounts.status'), '']}>
          {all.map((account) => <Row key={account.id} account={account} organization={names(account.organizationId)} ask={ask} />)}
        </Table>
      )}
      <More of={list} />
    </>
  )
}

export default function Accounts ({ rest }: { rest: string[] }) {
  const client = useQueryClient()
  const [rotating, setRotating] = useState(false)
  const [asked, ask] = useState<Asked | null>(null)
  const organizations = rest[0] === 'organizations'

  return (
    <div className='page'>
      <header>
        <h1>{organizations ? t('accounts.organizations') : t('accounts.title')}</h1>
        {!organizations && <Button kind='risk' onClick={() => setRotating(true)}>{t('accounts.rotate')}</Button>}
      </header>
      <nav className='tabs' aria-label={t('accounts.title')}>
        <a href={to('accounts')} aria-current={organizations ? undefined : 'page'}>{t('accounts.title')}</a>
        <a href={to('accounts', 'organizations')} aria-current={organizations ? 'page' : undefined}>{t('accounts.organizations')}</a>
      </nav>
      {organizations ? <Organizations /> : <List ask={ask} />}
      {rotating && <Confirm title={t('accounts.rotate')} text={t('accounts.rotateAsk')} action={t('accounts.rotate')} close={() => setRotating(false)}
        run={() => call('POST', '/api/admin/rotate-secret').then(() => session.end())} />}
      {asked && <Confirm title={asked.title} text={asked.text} action={asked.action} close={() => ask(null)}
        run={() => call('PUT', `/api/admin/users/${asked.account.id}`, asked.body).then(() => client.invalidateQueries({ queryKey: ['accounts'] }))} />}
    </div>
  )
}
