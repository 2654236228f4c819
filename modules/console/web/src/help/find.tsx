/* Ctrl+K: goes to a view, or to anything that has a name, by a part of the name. */
import { useQuery } from '@tanstack/react-query'
import { useId, useState, type KeyboardEvent } from 'react'

import { everything, get, query } from '../api/client'
import type { Account, Conversation, Device, Group, Organization, Webhook } from '../api/types'
import { titleOf } from '../devices/data'
import { to, toWith, visit } from '../router'
import { isOne, useMe } from '../session'
import { t } from '../texts/texts'
import { useSettled } from '../ui/pages'
import { Modal } from '../ui/ui'
import type { Goal } from './keys'

const FOUND = 6 // of each kind
const LEAST = 2 // characters before the service is asked
const SEARCH = 100 // characters, of the search for conversations
const FRESH_MS = 60000 // for lists that the service cannot search

interface Found { text: string, kind: string, address: string }

const isOwner = (me: ReturnType<typeof useMe>) => isOne(me, 'Admin', 'OrganizationAdmin', 'DeviceOwner', 'ApiUser')

function useFound (typed: string, goals: Goal[]): Found[] {
  const me = useMe()
  const search = useSettled(typed.trim())
  const asks = search.length >= LEAST
  const devices = useQuery({
    queryKey: ['devices', 'find', search], enabled: asks && isOwner(me),
    queryFn: () => get<Device[]>(`/api/device${query({ search, status: 'All', limit: FOUND })}`)
  })
  const accounts = useQuery({
    queryKey: ['accounts', 'find', search], enabled: asks && me.role === 'Admin',
    queryFn: () => get<Account[]>(`/api/admin/users${query({ search, limit: FOUND })}`)
  })
  const conversations = useQuery({
    queryKey: ['conversations', 'find', search], enabled: asks,
    queryFn: () => get<Conversation[]>(`/api/chat/conversations${query({ search: search.slice(0, SEARCH), limit: FOUND })}`)
  })
  const list = { enabled: asks, staleTime: FRESH_MS }
  const groups = useQuery({
    ...list, queryKey: ['groups', 'find'], enabled: asks && isOwner(me),
    queryFn: () => everything<Group>('/api/device-group?limit=1000')
  })
  const hooks = useQuery({
    ...list, queryKey: ['webhooks', 'find'], queryFn: () => everything<Webhook>('/api/chat/webhooks?limit=200')
  })
  const organizations = useQuery({
    ...list, queryKey: ['organizations'], enabled: asks && me.role === 'Admin',
    queryFn: () => everything<Organization>('/api/admin/organizations?limit=200')
  })
  const firstOf = <Item,>(all: Item[] | undefined, fits: (item: Item) => boolean) =>
    asks ? (all ?? []).filter(fits).slice(0, FOUND) : []
  const has = (text: string, part = search) => text.toLowerCase().includes(part.toLowerCase())
  const views = goals.filter(({ text }) => has(t(text), typed.trim()))
  const othersOf = ({ participant1, participant2, name1, name2 }: Conversation) =>
    [[participant1, name1], [participant2, name2]].filter(([email]) => email !== me.email)
      .map(([email, name]) => name ?? email).join(', ')
  const textOf = ({ name, url, id }: Webhook) => [name, url ?? `#${id}`].filter(Boolean).join(' · ')

  return [
    ...views.map(({ name, text }) => ({ text: t(text), kind: t('find.view'), address: to(name) })),
    ...(asks ? conversations.data ?? [] : []).map((one) => ({
      text: [othersOf(one), one.deviceProjectName].filter(Boolean).join(' · '), kind: t('find.conversation'),
      address: to('chat', one.id)
    })),
    ...(asks ? devices.data ?? [] : []).map((device) => (
      { text: titleOf(device), kind: t('find.device'), address: to('devices', device.uuid) }
    )),
    ...(asks ? accounts.data ?? [] : []).map(({ email }) => (
      { text: email, kind: t('find.account'), address: toWith({ org: '', search: email }, 'accounts') }
    )),
    ...firstOf(groups.data, ({ name }) => has(name)).map(({ id, name }) => (
      { text: name, kind: t('groups.group'), address: to('groups', id) }
    )),
    ...firstOf(hooks.data, (hook) => has(textOf(hook))).map((hook) => (
      { text: textOf(hook), kind: t('hooks.name'), address: to('webhooks', hook.id) }
    )),
    ...firstOf(organizations.data, ({ name }) => has(name)).map(({ name }) => (
      { text: name, kind: t('accounts.organization'), address: toWith({ search: name }, 'accounts', 'organizations') }
    ))
  ]
}

export function Find ({ goals, close }: { goals: Goal[], close: () => void }) {
  const id = useId()
  const [typed, type] = useState('')
  const [at, point] = useState(0)
  const found = useFound(typed, goals)
  const current = Math.min(at, found.length - 1)
  const choose = (address: string) => { close(); visit(address) }
  const pressed = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
    if (step) point((current + step + found.length) % Math.max(1, found.length))
    else if (event.key !== 'Enter') return
    else if (found[current]) choose(found[current].address)
    event.preventDefault()
  }

  return (
    <Modal title={t('keys.find')} close={close} className='find'>
      <input type='text' role='combobox' aria-label={t('keys.find')} aria-expanded='true' aria-controls={`${id}list`}
        aria-activedescendant={found[current] && `${id}${current}`} aria-autocomplete='list' autoComplete='off'
        autoFocus maxLength={255} placeholder={t(isOwner(useMe()) ? 'find.all' : 'find.views')} value={typed}
        onChange={(e) => { type(e.target.value); point(0) }} onKeyDown={pressed} />
      <ul role='listbox' id={`${id}list`} aria-label={t('keys.find')}>
        {found.map(({ text, kind, address }, i) => (
          <li key={kind + address} id={`${id}${i}`} role='option' aria-selected={i === current}
            ref={i === current ? (line) => line?.scrollIntoView({ block: 'nearest' }) : undefined}
            onPointerMove={() => point(i)} onClick={() => choose(address)}>
            <span>{text}</span> <small>{kind}</small>
          </li>
        ))}
      </ul>
      <p role='status' className='soft'>{found.length === 0 && t('find.none')}</p>
    </Modal>
  )
}
