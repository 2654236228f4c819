/* Organizations: their names for the list of accounts, and the ApiUsers that act for each. */
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'

import { call, everything } from '../api/client'
import type { Account, Organization } from '../api/types'
import { useValues } from '../router'
import { named, t } from '../texts/texts'
import { Typed } from '../ui/typed'
import { Confirm, Empty, Failed, Field, Loading, Table, Time } from '../ui/ui'

function useOrganizations () {
  return useQuery({
    queryKey: ['organizations'],
    queryFn: () => everything<Organization>('/api/admin/organizations?limit=200')
  })
}

/* Returns a function from an organization's id to its name. */
export function useNames () {
  const { data } = useOrganizations()
  return (id: number | null) => id === null ? '–' : data?.find((one) => one.id === id)?.name ?? String(id)
}

function Row ({ organization, actors }: { organization: Organization, actors: Account[] }) {
  const client = useQueryClient()
  const [chosen, choose] = useState<number | null>(null)
  const { name } = organization
  const email = (id: number | null) => actors.find((actor) => actor.id === id)?.email ?? String(id)
  const text = chosen
    ? t('accounts.actorAsk', { name, email: email(chosen) })
    : t('accounts.nobodyAsk', { name, email: email(organization.apiUserId) })

  return (
    <tr>
      <td className='wide'>
        {organization.name}
        {organization.address && (
          <>
            <br />
            <small>{organization.address}</small>
          </>
        )}
      </td>
      <td>{named('organization', organization.type)}</td>
      <td>
        <select
          aria-label={`${t('accounts.actor')}: ${organization.name}`}
          value={organization.apiUserId ?? 0}
          onChange={(e) => choose(Number(e.target.value))}>
          <option value={0}>{t('accounts.nobody')}</option>
          {actors.map(({ id, email }) => <option key={id} value={id}>{email}</option>)}
        </select>
        {chosen !== null && (
          <Confirm
            title={t('accounts.actor')}
            text={text}
            action={t('accounts.actorDo')}
            close={() => choose(null)}
            run={() =>
              call('PUT', `/api/admin/organizations/${organization.id}`, { apiUserId: chosen }).then(() =>
                client.invalidateQueries({ queryKey: ['organizations'] })
              )
            }
          />
        )}
      </td>
      <td><Time at={organization.createdAt} /></td>
    </tr>
  )
}

export function Organizations () {
  const list = useOrganizations()
  const accounts = useQuery({
    queryKey: ['accounts', 'actors'],
    queryFn: () => everything<Account>('/api/admin/users?limit=200&status=Active&role=ApiUser')
  })
  const actors = accounts.data ?? []
  const [{ search }, change] = useValues('search')
  const found = list.data?.filter(({ name }) => name.toLowerCase().includes(search.trim().toLowerCase())) ?? []

  if (list.isPending) return <Loading />
  if (list.isError) return <Failed error={list.error} again={() => void list.refetch()} />
  if (list.data.length === 0) return <Empty>{t('accounts.noOrganizations')}</Empty>
  return (
    <>
      {accounts.isError && <Failed error={accounts.error} again={() => void accounts.refetch()} />}
      <p>
        <small>{t('accounts.actorIs')}</small>
      </p>
      <div className='filters'>
        <Field label={t('accounts.search')}>
          {(props) => <Typed {...props} type='search' value={search} change={(text) => change({ search: text })} />}
        </Field>
      </div>
      {found.length === 0 && <Empty>{t('accounts.noSuchOrganization')}</Empty>}
      {found.length > 0 && (
        <Table
          label={t('accounts.organizations')}
          head={[t('accounts.name'), t('accounts.type'), t('accounts.actor'), t('state.since')]}>
          {found.map((organization) => (
            <Row key={organization.id} organization={organization} actors={actors} />
          ))}
        </Table>
      )}
    </>
  )
}
