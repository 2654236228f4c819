/* One group: its devices with their certified energy, and the organizations with which it is shared. */
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Plus, Trash2 } from 'lucide-react'
import { useRef, useState, type FormEvent } from 'react'

import { call, everything, get, query } from '../api/client'
import type { CertificateTotal, Device, Group, Share } from '../api/types'
import { titleOf } from '../devices/data'
import { useOrganizations } from '../organization'
import { to, whileHere } from '../router'
import { isOne, useMe } from '../session'
import { named, t } from '../texts/texts'
import { useAction } from '../ui/action'
import { asDay, asEnergy, asNumber } from '../ui/format'
import { toast } from '../ui/toast'
import { Button, Confirm, Empty, Failed, Field, Loading, Table } from '../ui/ui'
import { Add, Change } from './edit'

const SHOWN = 100 // devices; a group may have thousands

export const certificatesOf = (group: number) => {
  const address = to('certificates')
  return `${address}${address.includes('?') ? '&' : '?'}groupId=${group}`
}

function Members ({ group }: { group: Group }) {
  const client = useQueryClient()
  const [shown, show] = useState(SHOWN)
  const [leaving, leave] = useState<number | null>(null)
  const ended = group.end !== null && Date.parse(group.end) < Date.now()
  const { organizationId } = group
  const values = query({ organizationId, status: 'All', inGroup: ended ? undefined : true, limit: 1000 })
  const devices = useQuery({
    queryKey: ['devices', 'named', values], queryFn: () => everything<Device>(`/api/device${values}`)
  })
  const path = `/api/certificate-log/totals${query({ by: 'device', groupId: group.id, limit: 1000 })}`
  const totals = useQuery({ queryKey: ['certificates', path], queryFn: () => everything<CertificateTotal>(path) })
  const known = new Map(devices.data?.map((device) => [device.id, device]))
  const energy = new Map(totals.data?.map((total) => [total.deviceId, total.succeeded_watthour]))
  const titleOfId = (id: number) => {
    const device = known.get(id)
    return device ? titleOf(device) : t('groups.device', { id: String(id) })
  }
  const head = [t('devices.name'), t('devices.id'), { text: t('groups.issued'), number: true }, '']
  const remove = (id: number) => call('DELETE', `/api/device-group/${group.id}/devices/${id}`)
    .then(() => client.invalidateQueries({ queryKey: ['groups'] }))

  if (group.deviceIds.length === 0) return <Empty>{t('groups.noDevices')}</Empty>
  return (
    <>
      <Table label={t('devices.title')} head={head}>
        {group.deviceIds.slice(0, shown).map((id) => {
          const device = known.get(id)
          return (
            <tr key={id}>
              <td className='wide'>
                {device ? <a href={to('devices', device.uuid)}>{titleOf(device)}</a> : titleOfId(id)}
              </td>
              <td className='wide'>{device?.externalId}</td>
              <td className='number'>{asEnergy(energy.get(id) ?? 0)}</td>
              <td><Button kind='quiet' onClick={() => leave(id)}>{t('groups.remove')}</Button></td>
            </tr>
          )
        })}
      </Table>
      {group.deviceIds.length > shown && <Button onClick={() => show(shown + SHOWN)}>{t('state.more')}</Button>}
      {leaving !== null && (
        <Confirm title={t('groups.remove')} text={t('groups.removeAsk', { name: titleOfId(leaving) })}
          action={t('groups.remove')} run={() => remove(leaving)} close={() => leave(null)} />
      )}
    </>
  )
}

/*
 * An owner sees the number that was typed, not the name of another organization: the service does not return the name,
 * because otherwise anybody could learn who uses the service by sharing a group with one number after the other.
 * Admins, and accounts that act for both organizations, have the name anyway. The Buyer reads its number on its page
 * and passes it on, so both know which organization it means.
 */
function Sharing ({ group }: { group: Group }) {
  const client = useQueryClient()
  const { all, nameOf } = useOrganizations()
  const [added, setAdded] = useState('')
  const [ending, end] = useState<number | null>(null)
  const form = useRef<HTMLFormElement>(null)
  const path = `/api/device-group/${group.id}/share`
  const shares = useQuery({ queryKey: ['groups', 'share', group.id], queryFn: () => get<Share[]>(path) })
  const taken = [group.organizationId, ...shares.data?.map(({ organizationId }) => organizationId) ?? []]
  const others = all.filter(({ id }) => !taken.includes(id))
  const list = isOne(useMe(), 'Admin')
  const refresh = () => client.invalidateQueries({ queryKey: ['groups', 'share', group.id] })
  const add = useAction({
    mutationFn: () => call('POST', path, { organizationId: Number(added) }),
    onSuccess: () => {
      void refresh()
      toast(t('groups.sharedWith', { name: nameOf(Number(added)) }))
      setAdded('')
      form.current?.querySelector<HTMLElement>('input, select')?.focus() // of the next organization
    }
  })

  return (
    <section className='panel'>
      <h2>{t('groups.share')}</h2>
      <p>{t('groups.shareMeans')}</p>
      {add.isError && <Failed error={add.error} />}
      {shares.isError && <Failed error={shares.error} again={() => void shares.refetch()} />}
      {shares.data && shares.data.length > 0 && (
        <Table label={t('groups.share')} head={[t('accounts.organization'), t('groups.since'), '']}>
          {shares.data.map(({ organizationId, sharedAt }) => (
            <tr key={organizationId}>
              <td className='wide'>{nameOf(organizationId)}</td>
              <td>{asDay(sharedAt)}</td>
              <td><Button kind='quiet' onClick={() => end(organizationId)}>{t('groups.unshare')}</Button></td>
            </tr>
          ))}
        </Table>
      )}
      <form ref={form} className='filters'
        onSubmit={(event: FormEvent) => { event.preventDefault(); if (added) add.mutate() }}>
        <Field label={t(list ? 'accounts.organization' : 'groups.number')}>
          {(props) => list ? (
            <select {...props} value={added} onChange={(e) => setAdded(e.target.value)}>
              <option value=''>{t('org.choose')}</option>
              {others.map(({ id, name }) => <option key={id} value={id}>{name}</option>)}
            </select>
          ) : <input {...props} type='number' min={1} value={added} onChange={(e) => setAdded(e.target.value)} />}
        </Field>
        <Button type='submit' disabled={!added || add.isPending}>{t('groups.shareDo')}</Button>
      </form>
      {ending !== null && (
        <Confirm title={t('groups.unshare')} text={t('groups.unshareAsk', { name: nameOf(ending) })}
          action={t('groups.unshare')} run={() => call('DELETE', `${path}/${ending}`).then(refresh)}
          close={() => end(null)} />
      )}
    </section>
  )
}

export function One ({ id }: { id: string }) {
  const client = useQueryClient()
  const { several, nameOf } = useOrganizations()
  const [open, setOpen] = useState<'edit' | 'add' | 'delete' | null>(null)
  const path = `/api/device-group/${encodeURIComponent(id)}`
  const one = useQuery({ queryKey: ['groups', 'one', id], queryFn: () => get<Group>(path) })
  const group = one.data
  const close = () => setOpen(null)
  const remove = async () => {
    const leave = whileHere()
    await call('DELETE', path)
    leave('groups')
    toast(t('state.deleted', { name: group?.name ?? '' }))
    void client.invalidateQueries({ queryKey: ['groups'], refetchType: 'none' })
  }

  if (!group) {
    return (
      <div className='page'>
        <header><h1>{t('groups.group')}</h1></header>
        {one.isError ? <Failed error={one.error} again={() => void one.refetch()} /> : <Loading />}
        <a href={to('groups')}>{t('groups.back')}</a>
      </div>
    )
  }
  const facts: [string, string][] = [
    ...(several ? [[t('accounts.organization'), nameOf(group.organizationId)] as [string, string]] : []),
    [t('groups.frequency'), named('cycle', group.frequency)], [t('groups.start'), asDay(group.start)],
    [t('groups.end'), group.end ? asDay(group.end) : '–'], [t('devices.title'), asNumber(group.deviceIds.length)],
    [t('groups.carried'), asEnergy(group.carriedWatthour)]
  ]
  return (
    <div className='page'>
      <header>
        <div><a href={to('groups')}>{t('groups.back')}</a><h1>{group.name}</h1></div>
        <div className='row'>
          <a className='button plain' href={certificatesOf(group.id)}>{t('certs.title')}</a>
          <Button onClick={() => setOpen('edit')}>{t('devices.edit')}</Button>
          <Button kind='risk' icon={Trash2} onClick={() => setOpen('delete')}>{t('do.delete')}</Button>
        </div>
      </header>
      {one.isError && <Failed error={one.error} again={() => void one.refetch()} />}
      <dl className='facts panel'>
        {facts.map(([label, value]) => <div key={label}><dt>{label}</dt><dd>{value}</dd></div>)}
      </dl>
      <section>
        <div className='row between'>
          <h2>{t('devices.title')}</h2>
          <Button icon={Plus} onClick={() => setOpen('add')}>{t('groups.add')}</Button>
        </div>
        <Members group={group} />
      </section>
      <Sharing group={group} />
      {open === 'edit' && <Change group={group} close={close} />}
      {open === 'add' && <Add group={group} close={close} />}
      {open === 'delete' && (
        <Confirm title={t('groups.delete')} text={t('groups.deleteAsk', { name: group.name })} action={t('do.delete')}
          name={group.name} run={remove} close={close} done={() => {}} />
      )}
    </div>
  )
}
