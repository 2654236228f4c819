/* Groups of devices whose Delta readings are certified together: the list, or one group. */
import { Layers, Plus } from 'lucide-react'
import { useState } from 'react'

import type { Group, SharedGroup } from '../api/types'
import { Word } from '../help/word'
import { useOrganizations } from '../organization'
import { go, to } from '../router'
import { isOne, useMe } from '../session'
import { named, t } from '../texts/texts'
import { asDay, asEnergy, asNumber } from '../ui/format'
import { Button, Empty, Failed, Loading, Table } from '../ui/ui'
import { useGroups } from './data'
import { Make } from './edit'
import { certificatesOf, One } from './one'

function Own ({ groups }: { groups: Group[] }) {
  const { several, nameOf } = useOrganizations()
  const head = [
    t('groups.name'), ...(several ? [t('accounts.organization')] : []), t('groups.frequency'),
    { text: t('devices.title'), number: true }, t('groups.start'), t('groups.end'),
    { text: t('groups.carried'), number: true }
  ]

  return (
    <Table label={t('groups.title')} head={head}>
      {groups.map((group) => (
        <tr key={group.id}>
          <td className='wide'><a href={to('groups', group.id)}>{group.name}</a></td>
          {several && <td className='wide'>{nameOf(group.organizationId)}</td>}
          <td>{named('cycle', group.frequency)}</td>
          <td className='number'>{asNumber(group.deviceIds.length)}</td>
          <td>{asDay(group.start)}</td>
          <td>{group.end && asDay(group.end)}</td>
          <td className='number'>{asEnergy(group.carriedWatthour)}</td>
        </tr>
      ))}
    </Table>
  )
}

function Shared ({ groups }: { groups: SharedGroup[] }) {
  return (
    <>
      <h2>{t('groups.shared')}</h2>
      <Table label={t('groups.shared')}
        head={[t('groups.name'), t('groups.frequency'), t('groups.start'), t('groups.since')]}>
        {groups.map((group) => (
          <tr key={group.id}>
            <td className='wide'><a href={certificatesOf(group.id)}>{group.name}</a></td>
            <td>{named('cycle', group.frequency)}</td>
            <td>{asDay(group.start)}</td>
            <td>{asDay(group.sharedAt)}</td>
          </tr>
        ))}
      </Table>
    </>
  )
}

function List () {
  const me = useMe()
  const { own, shared } = useGroups()
  const [making, setMaking] = useState(false)
  const make = <Button kind='main' icon={Plus} onClick={() => setMaking(true)}>{t('groups.new')}</Button>

  return (
    <div className='page'>
      <header>
        <h1>{t('groups.title')}</h1>
        <span><Word of='cycle' /></span>
        {own.data && own.data.length > 0 && make}
      </header>
      {own.isPending && <Loading />}
      {own.isError && <Failed error={own.error} again={() => void own.refetch()} />}
      {own.data?.length === 0 && <Empty icon={Layers} action={make}>{t('groups.empty')}</Empty>}
      {own.data && own.data.length > 0 && <Own groups={own.data} />}
      {shared.data && shared.data.length > 0 && !isOne(me, 'Admin') && <Shared groups={shared.data} />}
      {making && <Make close={() => setMaking(false)} done={({ id }) => go('groups', id)} />}
    </div>
  )
}

export default function Groups ({ rest: [id] }: { rest: string[] }) {
  return id === undefined ? <List /> : <One key={id} id={id} />
}
