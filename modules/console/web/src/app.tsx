/* The frame: the logged-in user, the navigation, and the view for the address. */
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { lazy, Suspense, useEffect, useLayoutEffect, useState, type ComponentType, type ReactNode } from 'react'

import { ApiError, call, session } from './api/client'
import type { Own, Role } from './api/types'
import { drafts } from './chat/drafts'
import { Link } from './login/link'
import { Login } from './login/login'
import { Switcher } from './organization'
import { goHome, restore, to, useEntry, useRoute } from './router'
import { Me, isOne } from './session'
import { t, useLanguage } from './texts/texts'
import type { Key } from './texts/en'
import { Boundary } from './ui/boundary'
import { Toasts } from './ui/toast'
import { Button, Loading, useModal } from './ui/ui'
import { Warnings } from './ui/warnings'

type View = ComponentType<{ rest: string[] }>

const AHEAD_MS = 1000

const all: Role[] = ['Admin', 'OrganizationAdmin', 'DeviceOwner', 'Buyer', 'User', 'ApiUser']
const owners: Role[] = ['Admin', 'OrganizationAdmin', 'DeviceOwner', 'ApiUser']

/* A view that is `apart` has no link in the navigation. */
const views: { name: string, text: Key, roles: Role[], apart?: boolean, load: () => Promise<{ default: View }> }[] = [
  { name: 'chat', text: 'nav.chat', roles: all, load: () => import('./chat/chat') },
  { name: 'webhooks', text: 'nav.webhooks', roles: all, load: () => import('./webhooks/webhooks') },
  { name: 'devices', text: 'nav.devices', roles: owners, load: () => import('./devices/devices') },
  { name: 'bulk', text: 'nav.bulk', roles: owners, load: () => import('./bulk/bulk') },
  { name: 'certificates', text: 'nav.certificates', roles: [...owners, 'Buyer'], load: () => import('./certificates/certificates') },
  { name: 'clients', text: 'nav.clients', roles: ['ApiUser'], load: () => import('./clients/clients') },
  { name: 'accounts', text: 'nav.accounts', roles: ['Admin'], load: () => import('./accounts/accounts') },
  { name: 'status', text: 'nav.status', roles: ['Admin'], load: () => import('./status/status') },
  { name: 'account', text: 'nav.account', roles: all, apart: true, load: () => import('./account/account') }
]

/*
 * React caches a failed import, and some browsers (Chromium 150) cache it by its address. So a retry uses a
 * new component and a new address; a different fragment is enough.
 */
const made = new Map<string, View>()
let retries = 0

async function loadAgain (load: typeof views[number]['load']): Promise<{ default: View }> {
  try {
    return await load()
  } catch (error) {
    const [address] = /https?:\S+\.js/.exec(String(error)) ?? []
    if (!address) throw error
    return await import(`${address}#${retries}`) as { default: View }
  }
}

function viewOf ({ name, load }: typeof views[number]): View {
  const View = made.get(name) ?? lazy(retries > 0 ? () => loadAgain(load) : load)
  made.set(name, View)
  return View
}

/*
 * Loads the files of all views early, so that no view fails later because the host is down or has newer
 * files.
 */
function useAhead (me: Own | null) {
  useEffect(() => {
    if (!me) return
    const timer = setTimeout(() => { for (const { load, roles } of views) if (isOne(me, ...roles)) load().catch(() => {}) }, AHEAD_MS)
    return () => clearTimeout(timer)
  }, [me])
}

const client = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5000,
      networkMode: 'always', // a request without a network fails, and the view says so
      refetchOnReconnect: true,
      retry: (count, error) => count < 2 && error instanceof ApiError && (error.status === 0 || error.status === 503)
    },
    mutations: { networkMode: 'always' }
  }
})

function Navigation ({ me, current, leave }: { me: Own, current: string, leave: () => void }) {
  return (
    <header className='bar'>
      <a className='skip' href='#content' onClick={(e) => { e.preventDefault(); document.getElementById('content')?.focus() }}>{t('app.skip')}</a>
      <strong>busbar</strong>
      <nav aria-label={t('nav.label')}>
        {views.filter(({ roles, apart }) => !apart && isOne(me, ...roles)).map(({ name, text }) =>
          <a key={name} href={to(name)} aria-current={name === current ? 'page' : undefined}>{t(text)}</a>)}
        <a href='/swagger' target='_blank' rel='noreferrer'>{t('nav.reference')}</a>
      </nav>
      <Switcher />
      <a className='who' href={to('account')} title={me.email} aria-current={current === 'account' ? 'page' : undefined}><span>{me.email}</span> <small>{t(`role.${me.role}`)}</small></a>
      <Button onClick={leave}>{t('login.out')}</Button>
    </header>
  )
}

/* A modal dialog, so that it covers all open dialogs; only a login closes it. */
function Gate ({ children }: { children: ReactNode }) {
  const ref = useModal()
  const show = () => { if (ref.current && !ref.current.open) ref.current.showModal() }

  return <dialog ref={ref} className='gate over' aria-label={t('login.title')} onCancel={(event) => event.preventDefault()} onClose={show}>{children}</dialog>
}

/* Shown under an address that has no view, or none for the role. */
function Missing ({ me, known }: { me: Own, known: boolean }) {
  return (
    <div className='page'>
      <header><h1>{t(known ? 'app.notYours' : 'app.noSuch')}</h1></header>
      <p>{known ? t('app.role', { role: t(`role.${me.role}`) }) : t('app.address')}</p>
      <a href={to('chat')}>{t('app.home')}</a>
    </div>
  )
}

/* When a session ends, the current view stays under the login, so that nothing typed is lost. */
export function App () {
  const [me, setMe] = useState<Own | null>(null)
  const [over, setOver] = useState(false)
  const [tries, setTries] = useState(0)
  const [name = 'chat', ...rest] = useRoute()
  const entry = useEntry()
  const language = useLanguage()

  useEffect(() => session.onEnd(() => setOver(true)), [])
  useAhead(me)
  useLayoutEffect(() => restore(entry), [entry, me?.id])
  const forget = () => { client.clear(); drafts.clear() }
  const enter = (account: Own) => {
    if (me && me.id !== account.id) { forget(); goHome() }
    setMe(account)
    setOver(false)
    void client.invalidateQueries()
  }
  const leave = () => {
    call('POST', '/api/auth/logout').catch(() => {})
    session.end()
    forget()
    setMe(null)
    setOver(false)
    goHome()
  }
  const known = views.find((view) => view.name === name)
  const found = me && known && isOne(me, ...known.roles) ? known : null
  const View = found && viewOf(found)

  useEffect(() => { document.title = found ? `${t(found.text)} – ${t('app.name')}` : t('app.name') }, [found, language])
  return (
    <QueryClientProvider client={client}>
      {me && (
        <Me.Provider value={me}>
          <div className='frame' inert={over}>
            <Navigation me={me} current={found?.name ?? ''} leave={leave} />
            <Warnings key={me.id} />
            <main id='content' tabIndex={0}>
              {!found || !View ? <Missing me={me} known={known !== undefined} /> : (
                <Boundary key={`${found.name} ${me.id}`} title={t(found.text)} again={() => { made.delete(found.name); retries++; setTries(tries + 1) }}>
                  <Suspense fallback={<Loading />}><View rest={rest} /></Suspense>
                </Boundary>
              )}
            </main>
          </div>
        </Me.Provider>
      )}
      {!me && <div className='gate'><main>{name === 'link' ? <Link purpose={rest[0] ?? ''} /> : <Login again={false} done={enter} />}</main></div>}
      <Toasts />
      {me && over && <Gate><Login again done={enter} /></Gate>}
    </QueryClientProvider>
  )
}
