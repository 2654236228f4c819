/* Accounts, for Admins, with accounts that wait for approval first; and organizations. */
import { useQueryClient } from '@tanstack/react-query'
import { Download, UserPlus, Users } from 'lucide-react'
import { useState, type ReactNode } from 'react'

import { call, everything, query, session } from '../api/client'
import type { Account, Role } from '../api/types'
import { useOrganizations } from '../organization'
import { to, useValues } from '../router'
import { useMe } from '../session'
import { t } from '../texts/texts'
import { useAction } from '../ui/action'
import { saveCsv } from '../ui/csv'
import { usePages } from '../ui/pages'
import { SelectionBar, useSelection, type Action } from '../ui/select'
import { refuse, toast } from '../ui/toast'
import { Typed } from '../ui/typed'
import { Badge, Button, Confirm, Empty, Failed, Field, Loading, Mail, More, Table, Time, problemOf } from '../ui/ui'
import { Invite, tones } from './invite'
import { Organizations, useNames } from './organizations'

const states = ['Pending', 'Active', 'Suspended', 'Deleted'] as const
const roles: Role[] = ['Admin', 'OrganizationAdmin', 'DeviceOwner', 'Buyer', 'User', 'ApiUser']

type Change = Partial<Account>

interface Asked { title: string, text: string, action: string, done: string, body: Change, undo?: Change }

/* The texts of the dialog that asks before a change. */
function askedOf (account: Account, change: { role: Role } | { status: 'Suspended' | 'Deleted' }): Asked {
  const { email } = account
  if ('role' in change) {
    const role = t(`role.${change.role}`)
    return {
      title: t('accounts.newRole'),
      text: t('accounts.roleAsk', { email, before: t(`role.${account.role}`), role }),
      action: t('accounts.newRole'),
      done: t('accounts.roleDone', { email, role }),
      body: change,
      undo: { role: account.role }
    }
  }
  return change.status === 'Suspended'
    ? { title: t('accounts.suspend'), text: t('accounts.suspendAsk', { email }), action: t('accounts.suspend'),
        done: t('accounts.suspended', { email }), body: change, undo: { status: account.status } }
    : { title: t('accounts.refuse'), text: t('accounts.refuseAsk', { email }), action: t('accounts.refuse'),
        done: t('accounts.refused', { email }), body: change }
}

/* Changes an account, and reports it with an undo if it can be undone. */
function useChange ({ id }: Account) {
  const client = useQueryClient()
  const put = (body: Change) =>
    call('PUT', `/api/admin/users/${id}`, body).then(() => client.invalidateQueries({ queryKey: ['accounts'] }))

  return async (body: Change, done: string, undo?: Change) => {
    await put(body)
    toast(done, undo && (() => { put(undo).catch((problem) => refuse(problemOf(problem))) }))
  }
}

/* The actions for several accounts; an Admin cannot suspend itself. */
function actionsOf (own: number): Action<Account>[] {
  const put = (status: Account['status']) => ({ id }: Account) => call('PUT', `/api/admin/users/${id}`, { status })
  const is = (status: Account['status']) => (account: Account) => account.status === status && account.id !== own

  return [
    { text: t('accounts.approve'), fits: is('Pending'), run: put('Active'),
      ask: (n) => t('accounts.approveMany', { n }), done: (n) => t('accounts.approvedMany', { n }) },
    { text: t('accounts.activate'), fits: is('Suspended'), run: put('Active'),
      ask: (n) => t('accounts.activateMany', { n }), done: (n) => t('accounts.activatedMany', { n }) },
    { text: t('accounts.suspend'), kind: 'danger', fits: is('Active'), run: put('Suspended'),
      ask: (n) => t('accounts.suspendMany', { n }), done: (n) => t('accounts.suspendedMany', { n }) },
    { text: t('accounts.refuse'), kind: 'danger', fits: is('Pending'), run: put('Deleted'),
      ask: (n) => t('accounts.refuseMany', { n }), done: (n) => t('accounts.refusedMany', { n }) }
  ]
}

function Row ({ account, organization, box }: { account: Account, organization: string, box: ReactNode }) {
  const me = useMe()
  const change = useChange(account)
  const [asked, ask] = useState<Asked | null>(null)
  const own = account.id === me.id
  const activate = useAction({
    mutationFn: () => change({ status: 'Active' }, t('accounts.activated', { email: account.email }))
  })
  const name = `${account.firstName} ${account.lastName}`.trim()

  return (
    <tr>
      {box}
      <td className='wide'>
        <Mail of={account.email} />{name && <><br /><small>{name}</small></>}
        {activate.isError && <Failed error={activate.error} />}
        {asked && <Confirm title={asked.title} text={asked.text} action={asked.action} close={() => ask(null)}
          run={() => change(asked.body, asked.done, asked.undo)} />}
      </td>
      <td>
        {own ? (
          t(`role.${account.role}`)
        ) : (
          <select
            aria-label={`${t('accounts.role')}: ${account.email}`}
            value={account.role}
            disabled={account.status === 'Deleted'}
            onChange={(e) => ask(askedOf(account, { role: e.target.value as Role }))}>
            {roles.map((role) => <option key={role} value={role}>{t(`role.${role}`)}</option>)}
          </select>
        )}
      </td>
      <td className='wide'>{organization}</td>
      <td>
        <Badge tone={tones[account.status]}>{t(`account.${account.status}`)}</Badge>
        <br />
        <small>
          <Time at={account.createdAt} />
        </small>
      </td>
      <td>
        <div className='row'>
          {account.status === 'Pending' && (
            <Button kind='main' disabled={activate.isPending} onClick={() => activate.mutate()}>
              {t('accounts.approve')}
            </Button>
          )}
          {account.status === 'Pending' && (
            <Button onClick={() => ask(askedOf(account, { status: 'Deleted' }))}>{t('accounts.refuse')}</Button>
          )}
          {account.status === 'Suspended' && (
            <Button disabled={activate.isPending} onClick={() => activate.mutate()}>
              {t('accounts.activate')}
            </Button>
          )}
          {account.status === 'Active' && !own && (
            <Button kind='quiet' onClick={() => ask(askedOf(account, { status: 'Suspended' }))}>
              {t('accounts.suspend')}
            </Button>
          )}
        </div>
      </td>
    </tr>
  )
}

/* The service searches and filters. Without a filter, accounts that wait for approval come first. */
function List () {
  const me = useMe()
  const client = useQueryClient()
  const [{ status, search, role }, change] = useValues('status', 'search', 'role')
  const names = useNames()
  const { chosen: organizationId } = useOrganizations()
  const filter = query({ limit: 200, status, role, search: search.trim(), organizationId })
  const filtered = [status, search, role].some(Boolean)
  const { list, all } = usePages<Account>('accounts', `/api/admin/users${filter}`)
  const pending = usePages<Account>(
    'accounts', `/api/admin/users${query({ limit: 100, status: 'Pending', organizationId })}`, !filtered
  )
  const shown = new Map([...(filtered ? [] : pending.all), ...all].map((account) => [account.id, account]))
  const rows = [...shown.values()]
  const selection = useSelection(rows, ({ id }) => id)
  const csv = useAction({
    mutationFn: async () => saveCsv('accounts.csv', await everything<Account>(`/api/admin/users${filter}`), [
      ['id', ({ id }) => id], ['email', ({ email }) => email], ['firstName', ({ firstName }) => firstName],
      ['lastName', ({ lastName }) => lastName], ['role', ({ role }) => role], ['status', ({ status }) => status],
      ['organizationId', ({ organizationId }) => organizationId],
      ['organization', ({ organizationId }) => names(organizationId)], ['createdAt', ({ createdAt }) => createdAt]
    ])
  })
  const select = (name: 'status' | 'role', label: string, value: string, options: [string, string][]) => (
    <Field label={label}>
      {(props) => (
        <select {...props} value={value} onChange={(e) => change({ [name]: e.target.value })}>
          <option value=''>{t('accounts.all')}</option>
          {options.map(([one, text]) => <option key={one} value={one}>{text}</option>)}
        </select>
      )}
    </Field>
  )

  return (
    <>
      <div className='filters'>
        <Field label={t('accounts.search')}>
          {(props) => (
            <Typed {...props} type='search' maxLength={255} placeholder={t('accounts.searchIn')} value={search}
              change={(text) => change({ search: text })} />
          )}
        </Field>
        {select('status', t('accounts.status'), status, states.map((name) => [name, t(`account.${name}`)]))}
        {select('role', t('accounts.role'), role, roles.map((name) => [name, t(`role.${name}`)]))}
        <Button icon={Download} disabled={csv.isPending || rows.length === 0} onClick={() => csv.mutate()}>
          {t('hooks.export')}
        </Button>
      </div>
      {csv.isError && <Failed error={csv.error} />}
      <SelectionBar selection={selection} actions={actionsOf(me.id)} nameOf={({ email }) => email}
        changed={() => client.invalidateQueries({ queryKey: ['accounts'] })} />
      {list.isPending && <Loading />}
      {list.isError && <Failed error={list.error} again={() => void list.refetch()} />}
      {list.isSuccess && all.length === 0 && (
        <Empty
          icon={Users}
          action={filtered && (
            <Button onClick={() => change({ status: '', search: '', role: '' })}>{t('accounts.clear')}</Button>
          )}>
          {t('accounts.empty')}
        </Empty>
      )}
      {rows.length > 0 && (
        <Table label={t('accounts.title')} busy={list.isPlaceholderData}
          head={[
            selection.head, t('login.email'), t('accounts.role'), t('accounts.organization'), t('accounts.status'), ''
          ]}>
          {rows.map((account) => (
            <Row key={account.id} account={account} organization={names(account.organizationId)}
              box={selection.cell(account, account.email)} />
          ))}
        </Table>
      )}
      <More of={list} />
    </>
  )
}

export default function Accounts ({ rest }: { rest: string[] }) {
  const [rotating, setRotating] = useState(false)
  const [inviting, setInviting] = useState(false)
  const organizations = rest[0] === 'organizations'

  return (
    <div className='page'>
      <header>
        <h1>{organizations ? t('accounts.organizations') : t('accounts.title')}</h1>
        {!organizations && (
          <div className='row'>
            <Button onClick={() => setRotating(true)}>{t('accounts.rotate')}</Button>
            <Button kind='main' icon={UserPlus} onClick={() => setInviting(true)}>{t('accounts.invite')}</Button>
          </div>
        )}
      </header>
      <nav className='tabs' aria-label={t('accounts.title')}>
        <a href={to('accounts')} aria-current={organizations ? undefined : 'page'}>
          {t('accounts.title')}
        </a>
        <a href={to('accounts', 'organizations')} aria-current={organizations ? 'page' : undefined}>
          {t('accounts.organizations')}
        </a>
      </nav>
      {organizations ? <Organizations /> : <List />}
      {inviting && <Invite roles={roles} close={() => setInviting(false)} />}
      {rotating && (
        <Confirm
          title={t('accounts.rotate')}
          text={t('accounts.rotateAsk')}
          action={t('accounts.rotate')}
          name={location.host}
          close={() => setRotating(false)}
          run={() => call('POST', '/api/admin/rotate-secret').then(() => session.end())}
        />
      )}
    </div>
  )
}
