/* The API clients of an ApiUser: programs that get tokens with an id and a secret, which is shown once. */
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { KeyRound, Plus } from 'lucide-react'
import { useState } from 'react'

import { call, everything } from '../api/client'
import type { Client, MadeClient } from '../api/types'
import { t } from '../texts/texts'
import { FormDialog, Input, useSentForm } from '../ui/form'
import { toast } from '../ui/toast'
import { Button, Confirm, Copy, Dialog, Empty, Failed, Id, Loading, Table, Time } from '../ui/ui'

function Make ({ close, done }: { close: () => void, done: (client: MadeClient) => void }) {
  const form = useSentForm({ name: '' }, { send: (values) => call<MadeClient>('POST', '/api/auth/clients', values), done })

  return (
    <FormDialog title={t('clients.new')} of={form} close={close}>
      <Input of={form} name='name' label={t('clients.name')} required maxLength={100} />
    </FormDialog>
  )
}

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
    <Dialog title={t('clients.made')} wide leaving={t('clients.leave')} close={close}>
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

/* A program may make a client without a name. */
const nameOf = (client: Client) => client.name || client.client_id

export default function Clients () {
  const store = useQueryClient()
  const [making, setMaking] = useState(false)
  const [made, setMade] = useState<MadeClient | null>(null)
  const [deleted, setDeleted] = useState<Client | null>(null)
  const list = useQuery({ queryKey: ['clients'], queryFn: () => everything<Client>('/api/auth/clients?limit=200') })
  const changed = () => store.invalidateQueries({ queryKey: ['clients'] })
  const make = <Button kind='main' icon={Plus} onClick={() => setMaking(true)}>{t('clients.new')}</Button>

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
        <Table label={t('clients.title')} head={[t('clients.name'), 'client_id', t('state.since'), '']}>
          {list.data.map((client) => (
            <tr key={client.id}>
              <td className='wide'>{client.name || '–'}</td>
              <td className='wide'><Id id={client.client_id} /></td>
              <td><Time at={client.createdAt} /></td>
              <td><Button kind='quiet' onClick={() => setDeleted(client)}>{t('do.delete')}</Button></td>
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
      {making && (
        <Make
          close={() => setMaking(false)}
          done={(client) => {
            setMaking(false)
            setMade(client)
            void changed()
          }}
        />
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
            await call('DELETE', `/api/auth/clients/${deleted.id}`)
            await changed()
            toast(t('state.deleted', { name: nameOf(deleted) }))
          }}
        />
      )}
    </div>
  )
}
