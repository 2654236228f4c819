/*
 * The views, by the first part of their address, in the groups of the navigation. A view reads the other parts itself:
 *
 *   #/chat/CONVERSATION/MESSAGE                  the conversation, at a message
 *   #/devices/DEVICE, #/groups/GROUP, #/bulk/UPLOAD
 *   #/certificates/ENTRY                         the certificate of an entry
 *   #/accounts/organizations
 *   #/webhooks/new, #/webhooks/WEBHOOK/edit      the form
 *   #/webhooks/WEBHOOK/TAB                       its settings, its consumers, …
 *   #/webhooks/WEBHOOK/deliveries/DELIVERY
 *
 * #/link/PURPOSE is not in the table, because it is shown instead of the login.
 */
import {
  Activity, Award, CircleQuestionMark, CircleUser, KeyRound, Layers, LayoutDashboard, MessagesSquare, ScrollText,
  SunMedium, Upload, Users, Webhook, type LucideIcon
} from 'lucide-react'
import { lazy, useEffect, type ComponentType } from 'react'

import type { Own, Role } from './api/types'
import { isOne } from './session'
import type { Key } from './texts/en'

type View = ComponentType<{ rest: string[] }>
type Load = () => Promise<{ default: View }>
type Name<Text> = Text extends `nav.${infer Rest}` ? Rest : never

interface Place { name: string, text: Key, icon: LucideIcon, roles: Role[], load: Load }

const AHEAD_MS = 1000

const all: Role[] = ['Admin', 'OrganizationAdmin', 'DeviceOwner', 'Buyer', 'User', 'ApiUser']
const owners: Role[] = ['Admin', 'OrganizationAdmin', 'DeviceOwner', 'ApiUser']

const place = (name: Name<Key>, icon: LucideIcon, roles: Role[], load: Load): Place =>
  ({ name, text: `nav.${name}`, icon, roles, load })

export const groups: Place[][] = [
  [
    place('overview', LayoutDashboard, all, () => import('./overview/overview')),
    place('chat', MessagesSquare, all, () => import('./chat/chat'))
  ],
  [
    place('devices', SunMedium, owners, () => import('./devices/devices')),
    place('groups', Layers, owners, () => import('./groups/groups')),
    place('bulk', Upload, owners, () => import('./bulk/bulk')),
    place('certificates', Award, [...owners, 'Buyer'], () => import('./certificates/certificates'))
  ],
  [
    place('webhooks', Webhook, all, () => import('./webhooks/webhooks')),
    place('clients', KeyRound, ['ApiUser'], () => import('./clients/clients'))
  ],
  [
    place('accounts', Users, ['Admin'], () => import('./accounts/accounts')),
    place('audit', ScrollText, ['Admin'], () => import('./audit/audit')),
    place('status', Activity, ['Admin'], () => import('./status/status'))
  ]
]
export const help = place('help', CircleQuestionMark, all, () => import('./help/help'))
export const own = place('account', CircleUser, all, () => import('./account/account'))
export const views = [...groups.flat(), help, own]

/*
 * React caches a failed import, and some browsers (Chromium 150) cache it by its address. So a retry uses a
 * new component and a new address; a different fragment is enough.
 */
const made = new Map<string, View>()
let retries = 0

async function loadAgain (load: Load): Promise<{ default: View }> {
  try {
    return await load()
  } catch (error) {
    const [address] = /https?:\S+\.js/.exec(String(error)) ?? []
    if (!address) throw error
    return await import(`${address}#${retries}`) as { default: View }
  }
}

export function viewOf ({ name, load }: Place): View {
  const View = made.get(name) ?? lazy(retries > 0 ? () => loadAgain(load) : load)
  made.set(name, View)
  return View
}

/* Makes the next viewOf() load a view again that could not be loaded. */
export function retry ({ name }: Place) {
  made.delete(name)
  retries++
}

/*
 * Loads the files of all views early, so that no view fails later because the host is down or has newer files. The
 * files are loaded one after the other, so that the page responds meanwhile.
 */
export function useAhead (me: Own | null) {
  useEffect(() => {
    if (!me) return
    const loadAll = async () => {
      for (const { load, roles } of views) if (isOne(me, ...roles)) await load().catch(() => {})
    }
    const timer = setTimeout(() => void loadAll(), AHEAD_MS)
    return () => clearTimeout(timer)
  }, [me])
}
