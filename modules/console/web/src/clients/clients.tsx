/* The API clients of an ApiUser: programs that get tokens with an id and a secret, which is shown once. */
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { KeyRound, Plus } from 'lucide-react'
import { useState } from 'react'

import { call, create, everything } from '../api/client'
import type { Client, MadeClient } from '../api/types'
import { t } from '../texts/texts'
import { FormDialog, Input, useSentForm } from '../ui/form'
import { beginOf, dayOf } from '../ui/format'
import { toast } from '../ui/toast'
import { Badge, Button, Confirm, Copy, Dialog, Empty, Failed, Id, Loading, Table, Time } from '../ui/ui'

const pathOf = ({ id }: Client) => `/api/auth/clients/${id}`

/* The form of a new client, or of `client`, which may have no name. The last day is included. */
function Edit ({ client, close, done }: { client?: Client, close: () => void, done: (client: MadeClient) => void }) {
  const until = client?.expiresAt ? dayOf(new Date(Date.parse(client.expiresAt) - 1).toISOString()) : ''
  const form = useSentForm({ name: client?.name ?? '', expiresAt: until }, {
    send: ({ name, expiresAt }) => {
      const values = expiresAt === until ? { name } : { name, expiresAt: beginOf(expiresAt, 1) || null }
      return client ? call<MadeClient>('PATCH', pathOf(client), values) : create<MadeClient>('/api/auth/clients', values)
    },
    done
  })

  return (
    <FormDialog title={client ? t('devices.edit') : t('clients.new')} of={form} close={close}>
      <Input of={form} name='name' label={t('clients.name')} required={client?.name !== ''} maxLength={100} />
      <Input of={form} name='expiresAt' label={t('clients.until')} type='date' />
    </FormDialog>
  )
}

/* A program may make a client without a name. */
const nameOf = (client: Client) => client.name || client.client_id

const isOver = ({ expiresAt }: Client) => expiresAt !== null && Date.parse(expiresAt) <= Date.now()

/* A command that gets a token. */
function Example ({ id, secret }: { id: string; secret: string }) {
  return (
    <Copy
      text={`curl -s -u '${id}:${secret}' -d grant_type=client_credentials ${location.origin}/api/auth/getAccess`}
    />
  )
}

function Made ({ client, close }: { client: MadeClient, close: () => void }) {
  return (
    <Dialog title={t('clients.made', { name: nameOf(client) })} wide leaving={t('clients.leave')} close={close}>
      <p>{t('clients.secret')}</p>
      <h3>client_id</h3>
      <Copy text={client.client_id} />
      <h3>client_secret</h3>
      <Copy text={client.client_secret} />
      <h3>{t('clients.try')}</h3>
      <Example id={client.client_id} secret={client.client_secret} />
      <div className='actions'><Button kind='main' onClick={close}>{t('do.close')}</Button></div>
    </Dialog>
  )
}

export default function Clients () {
  const store = useQueryClient()
  const [edited, edit] = useState<Client | 'new' | null>(null)
  const [made, setMade] = useState<MadeClient | null>(null)
  const [rotated, rotate] = useState<Client | null>(null)
  const [deleted, setDeleted] = useState<Client | null>(null)
  const list = useQuery({ queryKey: ['clients'], queryFn: () => everything<Client>('/api/auth/clients?limit=200') })
  const changed = () => store.invalidateQueries({ queryKey: ['clients'] })
  const make = <Button kind='main' icon={Plus} onClick={() => edit('new')}>{t('clients.new')}</Button>

  return (
    <div className='page'>
      <header>
        <h1>{t('clients.title')}</h1>
        {list.data && list.data.length > 0 && make}
      </header>
      {list.isPending && <Loading />}
      {list.isError && <Failed error={list.error} again={() => void list.refetch()} />}
      {list.data?.length === 0 && (
        <Empty icon={KeyRound} action={make}>{t('clients.empty')}</Empty>
      )}
      {list.data && list.data.length > 0 && (
        <Table label={t('clients.title')}
          head={[t('clients.name'), 'client_id', t('state.since'), t('own.used'), t('clients.expires'), '']}>
          {list.data.map((client) => (
            <tr key={client.id}>
              <td className='wide'>{client.name || '–'}</td>
              <td className='wide'><Id id={client.client_id} /></td>
              <td><Time at={client.createdAt} /></td>
              <td>{client.usedAt ? <Time at={client.usedAt} /> : t('clients.never')}</td>
              <td>
                {client.expiresAt ? <Time at={client.expiresAt} /> : t('clients.never')}{' '}
                {isOver(client) && <Badge tone='bad'>{t('clients.expired')}</Badge>}
              </td>
              <td>
                <div className='row'>
                  <Button kind='quiet' onClick={() => edit(client)}>{t('devices.edit')}</Button>
                  <Button kind='quiet' onClick={() => rotate(client)}>{t('hooks.rotate')}</Button>
                  <Button kind='quiet' onClick={() => setDeleted(client)}>{t('do.delete')}</Button>
                </div>
              </td>
            </tr>
          ))}
        </Table>
      )}
      {list.data && list.data.length > 0 && (
        <section className='panel'>
          <h2>{t('clients.try')}</h2>
          <Example id={list.data[0]!.client_id} secret='…' />
          <p>{t('clients.use')} <a href='/swagger' target='_blank' rel='noreferrer'>{t('nav.reference')}</a></p>
        </section>
      )}
      {edited && (
        <Edit
          client={edited === 'new' ? undefined : edited}
          close={() => edit(null)}
          done={(client) => {
            edit(null)
            if (edited === 'new') setMade(client)
            void changed()
          }}
        />
      )}
      {rotated && (
        <Confirm title={t('hooks.rotate')} text={t('clients.rotate', { name: nameOf(rotated) })} action={t('hooks.rotate')}
          close={() => rotate(null)}
          run={async () => setMade(await call<MadeClient>('POST', `${pathOf(rotated)}/rotate-secret`))} />
      )}
      {made && <Made client={made} close={() => setMade(null)} />}
      {deleted && (
        <Confirm
          title={t('do.delete')}
          text={t('clients.delete', { name: nameOf(deleted) })}
          action={t('do.delete')}
          name={nameOf(deleted)}
          close={() => setDeleted(null)}
          run={async () => {
            await call('DELETE', pathOf(deleted))
            await changed()
            toast(t('state.deleted', { name: nameOf(deleted) }))
          }}
        />
      )}
    </div>
  )
}
