/* The frame: the logged-in user, the navigation, and the view for the address. */
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { BookOpen, CircleQuestionMark, CircleUser, LogOut, Menu, MessagesSquare, Search, X } from 'lucide-react'
import { Suspense, useEffect, useLayoutEffect, useReducer, useState } from 'react'

import { ApiError, get, logOut, renew, session } from './api/client'
import type { Own } from './api/types'
import { drafts } from './chat/drafts'
import { tabs, useNotifications } from './chat/live'
import { useUnread } from './chat/unread'
import { Find } from './help/find'
import { Keys, useKeys } from './help/keys'
import { Link } from './login/link'
import { Login } from './login/login'
import { Switcher } from './organization'
import { goHome, restore, to, useEntry, useRoute } from './router'
import { Me, SetMe, isOne } from './session'
import { t, useRedraw } from './texts/texts'
import { Boundary } from './ui/boundary'
import { zoneOf } from './ui/format'
import { Toasts, refuse } from './ui/toast'
import { Button, Confirm, Dialog, Failed, Loading, Logo, Modal, problemOf } from './ui/ui'
import { Warnings } from './ui/warnings'
import { groups, help, own, retry, useAhead, viewOf, views } from './views'
import { useHealth } from './webhooks/health'

const AGAIN_MS = 5000
const UNREAD_MS = 15000
const WIDE = matchMedia('(min-width: 60rem)')

const client = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5000,
      networkMode: 'always', // a request without a network fails, and the view says so
      refetchOnReconnect: true,
      retry: (count, error) =>
        count < 2 && error instanceof ApiError && !error.hung && (error.status === 0 || error.status === 503)
    },
    mutations: { networkMode: 'always' }
  }
})
tabs.onmessage = () => void client.invalidateQueries({ queryKey: ['conversations'] })

const many = (n: number) => n > 99 ? '99+' : n

/*
 * The navigation is next to the view. On a narrow screen it is one line above the view, with a button that
 * opens the rest.
 */
function Navigation ({
  me,
  over,
  current,
  open,
  toggle,
  leave
}: {
  me: Own
  over: boolean
  current: string
  open: boolean
  toggle: (open: boolean) => void
  leave: () => void
}) {
  const unread = useUnread(me, UNREAD_MS).data?.count ?? 0 // next to Chat and in the title of the page
  const { failing } = useHealth()
  useNotifications(me, !over)
  const place = views.find(({ name }) => name === current)
  const goals = views.filter(({ roles }) => isOne(me, ...roles))
  const [shown, show] = useState<'find' | 'keys' | null>(null)

  const noteOf = (name: string) =>
    name === 'webhooks' && failing.length > 0 ? t('todo.hooks', { n: failing.length }) : undefined

  useKeys(goals, show)
  useEffect(() => {
    document.title = `${unread > 0 ? `(${many(unread)}) ` : ''}${place ? `${t(place.text)} – ` : ''}${t('app.name')}`
  })
  return (
    <header
      className={open ? 'side open' : 'side'}
      onKeyDown={(event) => {
        if (event.key === 'Escape') toggle(false)
      }}>
      <a
        className='skip'
        href='#content'
        onClick={(e) => {
          e.preventDefault()
          document.getElementById('content')?.focus()
        }}>
        {t('app.skip')}
      </a>
      <div className='top'>
        <Button
          kind='quiet'
          className='toggle'
          icon={open ? X : Menu}
          aria-label={t('nav.menu')}
          aria-expanded={open}
          aria-controls='menu'
          onClick={() => toggle(!open)}
        />
        <a className='brand' href={to('overview')}>
          <Logo />
          busbar
        </a>
        {unread > 0 && (
          <a className='news' href={to('chat')} aria-label={t('todo.unread', { n: many(unread) })}>
            <MessagesSquare />
            <em>{many(unread)}</em>
          </a>
        )}
      </div>
      <div id='menu'>
        <Switcher />
        <button type='button' className='button finder' onClick={() => show('find')}>
          <Search />{t('nav.find')}<kbd aria-hidden='true'>{`${t('keys.control')} K`}</kbd>
        </button>
        <nav aria-label={t('nav.label')} onClick={() => toggle(false)}>
          {groups.map((group, i) => group.some(({ roles }) => isOne(me, ...roles)) && (
            <ul key={i}>
              {group.filter(({ roles }) => isOne(me, ...roles)).map(({ name, text, icon: Icon }) => (
                <li key={name}>
                  <a href={to(name)} title={noteOf(name)} aria-current={name === current ? 'page' : undefined}>
                    <Icon />{t(text)}
                    {name === 'chat' && unread > 0 && <em aria-hidden='true'>{many(unread)}</em>}
                    {name === 'webhooks' && failing.length > 0 && (
                      <em className='bad' aria-hidden='true'>{many(failing.length)}</em>
                    )}
                  </a>
                </li>
              ))}
            </ul>
          ))}
          <ul>
            <li><a href='/swagger' target='_blank' rel='noreferrer'><BookOpen />{t('nav.reference')}</a></li>
            <li>
              <a href={to(help.name)} aria-current={current === help.name ? 'page' : undefined}>
                <CircleQuestionMark />{t(help.text)}
              </a>
            </li>
          </ul>
        </nav>
        <div className='who'>
          <a
            href={to(own.name)}
            title={me.email}
            aria-current={current === own.name ? 'page' : undefined}
            onClick={() => toggle(false)}>
            <CircleUser />
            <span>
              <span>{me.email}</span> <small>{t(`role.${me.role}`)}</small>{' '}
              <small>{t('nav.zone', { zone: zoneOf() })}</small>
            </span>
          </a>
          <Button kind='quiet' icon={LogOut} aria-label={t('login.out')} title={t('login.out')} onClick={leave} />
        </div>
      </div>
      {shown === 'find' && <Find goals={goals} close={() => { show(null); toggle(false) }} />}
      {shown === 'keys' && (
        <Dialog title={t('help.keys')} close={() => show(null)} form={false}>
          <Keys goals={goals} />
          <div className='actions'><Button onClick={() => show(null)}>{t('do.close')}</Button></div>
        </Dialog>
      )}
    </header>
  )
}

/* Shown under an address that has no view, or none for the role. */
function Missing ({ me, known }: { me: Own, known: boolean }) {
  return (
    <div className='page'>
      <header><h1>{t(known ? 'app.notYours' : 'app.noSuch')}</h1></header>
      <p>{known ? t('app.role', { role: t(`role.${me.role}`) }) : t('app.address')}</p>
      <a href={to('overview')}>{t('app.home')}</a>
    </div>
  )
}

/*
 * Continues the session of the browser's cookie after a reload, and in another tab. Tries again while the host cannot
 * be reached or is overloaded, because nobody knows then whether there is a session.
 */
function useStart (enter: (me: Own) => void) {
  const [starting, setStarting] = useState(true)
  const [problem, setProblem] = useState<unknown>(null)
  const [attempt, again] = useReducer((n: number) => n + 1, 0)

  useEffect(() => {
    let timer = 0
    const failed = (error: unknown) => {
      const seconds = error instanceof ApiError ? error.retryAfter ?? 0 : 0
      setProblem(error)
      timer = window.setTimeout(again, Math.max(AGAIN_MS, seconds * 1000))
    }

    renew().then(async (renewed) => { if (renewed) enter(await get<Own>('/api/auth/me')) })
      .then(() => setStarting(false), failed)
    return () => clearTimeout(timer)
  }, [attempt])
  return { starting, problem, again }
}

/* When a session ends, the current view stays under the login, so that nothing typed is lost. */
export function App () {
  const [me, setMe] = useState<Own | null>(null)
  const { starting, problem, again } = useStart(setMe)
  const [over, setOver] = useState(false)
  const [tries, setTries] = useState(0)
  const [menu, setMenu] = useState(false)
  const [asking, ask] = useState(false)
  const [name = 'overview', ...rest] = useRoute()
  const entry = useEntry()
  const version = useRedraw()

  useEffect(() => session.onEnd(() => setOver(true)), [])
  useEffect(() => {
    const close = () => setMenu(false)
    WIDE.addEventListener('change', close)
    return () => WIDE.removeEventListener('change', close)
  }, [])
  useAhead(me)
  useLayoutEffect(() => restore(entry), [entry, me?.id])
  useEffect(() => { // the link that had the focus may be gone with the previous view
    if (document.activeElement === document.body) document.getElementById('content')?.focus({ preventScroll: true })
  }, [name, rest.join('/')])
  const forget = () => { client.clear(); drafts.clear(); session.abortUploads(); ask(false) }
  const enter = (account: Own) => {
    if (me && me.id !== account.id) { forget(); goHome() }
    setMe(account)
    setOver(false)
    void client.invalidateQueries()
  }
  /* The cookie stays if the host cannot be reached, so the user stays logged in. */
  const leave = async () => {
    const error: unknown = await logOut().then(() => null, (problem) => problem)
    if (error !== null && !(error instanceof ApiError && error.status === 401)) {
      void client.invalidateQueries() // the logout has aborted the reads
      return refuse(t('login.stays', { problem: problemOf(error) }))
    }
    session.end()
    forget()
    setMe(null)
    setOver(false)
    goHome()
  }
  /* Asks first in every case in which the browser asks before it closes the page. */
  const leaveOrAsk = () => {
    if (dispatchEvent(new Event('beforeunload', { cancelable: true }))) void leave()
    else ask(true)
  }
  const known = views.find((view) => view.name === name)
  const found = me && known && isOne(me, ...known.roles) ? known : null
  const View = found && viewOf(found)
  const linked = name === 'link' // from a mail, maybe for another account

  useEffect(() => { if (!me || linked) document.title = t('app.name') }, [me, linked, version])
  return (
    <QueryClientProvider client={client}>
      {me && !linked && (
        <Me.Provider value={me}>
          <SetMe.Provider value={setMe}>
            <div className='frame'>
              <Navigation
                key={me.id}
                me={me}
                over={over}
                current={found?.name ?? ''}
                open={menu}
                toggle={setMenu}
                leave={leaveOrAsk}
              />
              <Warnings key={me.id} />
              <main id='content' tabIndex={0} inert={menu}>
                {!found || !View ? (
                  <Missing me={me} known={known !== undefined} />
                ) : (
                  <Boundary
                    key={`${found.name} ${me.id}`}
                    title={t(found.text)}
                    again={() => {
                      retry(found)
                      setTries(tries + 1)
                    }}>
                    <Suspense fallback={<Loading />}>
                      <View rest={rest} />
                    </Suspense>
                  </Boundary>
                )}
              </main>
              <Toasts key={me.id} />
            </div>
            {asking && (
              <Confirm title={t('login.out')} text={t('login.outAsk')} action={t('login.out')} run={leave}
                close={() => ask(false)} />
            )}
          </SetMe.Provider>
        </Me.Provider>
      )}
      {!me && starting && (
        <div className='gate starting'>
          {problem === null ? <Logo /> : <main><Failed error={problem} again={again} /></main>}
        </div>
      )}
      {(!me || linked) && !starting && (
        <div className='gate'>
          <main>{linked ? <Link purpose={rest[0] ?? ''} home={t(me ? 'app.home' : 'register.back')} /> : <Login done={enter} />}</main>
        </div>
      )}
      {me && over && !linked && <Modal title={t('login.title')} className='over'><Login again={me.email} done={enter} /></Modal>}
    </QueryClientProvider>
  )
}
