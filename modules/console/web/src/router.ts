/*
 * Views have addresses after '#', so that the host serves a single page: "#/chat/17?org=2" is ['chat', '17'],
 * with values after the '?': the chosen organization, which every link keeps, and the filters of the view.
 *
 * @tanstack/history numbers the entries of the browser's history, and asks the guards of forms. The whole TanStack
 * Router is not used: it draws a view with the old values of the address before the new ones, so that the cursor jumps
 * while the user types into a filter (its issues 3162 and 6620), it scrolls before the rows of a list have arrived, and
 * the first load would be 24 KiB larger.
 */
import { createBrowserHistory, parseHref, type HistoryState } from '@tanstack/history'
import { useEffect, useState, useSyncExternalStore } from 'react'

declare module '@tanstack/history' {
  interface HistoryState { entry?: number } // changed values of a view do not change the number of the entry
}

type Part = string | number
type Values = Record<string, string>

const KEPT = 'org'
const RESTORE_MS = 5000
const UNASKED = { ignoreBlocker: true }

const tops = new Map<number, number>() // how far the view of each entry of the history was scrolled
let entries = Date.now()

const read = () => parseHref(`/${location.hash.replace(/^#\/?/, '')}`, history.state)
const box = () => document.getElementById('content')

/*
 * The entry that the browser makes for a link or a typed address has no state, and the entry of an earlier release has
 * another state. The library needs the entry's place in the history.
 */
addEventListener('popstate', () => {
  if (history.state?.__TSR_index !== undefined) return
  const { href, state } = router.location
  const next = { __TSR_index: state.__TSR_index + 1, key: `${++entries}`, entry: entries }

  History.prototype.replaceState.call(history, read().href === href ? state : next, '') // no listener is called
})

const router = createBrowserHistory({ parseLocation: read, createHref: (address) => `#${address}` })
const entryOf = () => router.location.state.entry ?? 0
let entry = entryOf()

router.subscribe(() => {
  tops.set(entry, box()?.scrollTop ?? 0)
  entry = entryOf()
})

const useAddress = () => useSyncExternalStore(router.subscribe, () => router.location.href)
export const useEntry = () => useSyncExternalStore(router.subscribe, entryOf)

export function useRoute (): string[] {
  useAddress()
  return router.location.pathname.split('/').filter(Boolean).map((part) => {
    try { return decodeURIComponent(part) } catch { return part }
  })
}

/*
 * Guards a form with unsaved changes: asks before the user follows a link, goes back or closes the page. Returns two
 * functions: `leave`, which is null until the user tries to leave the form, and `stay`.
 */
export function useGuard (unsaved: boolean) {
  const [leave, ask] = useState<(() => void) | null>(null)
  const stay = () => ask(null)

  useEffect(() => {
    if (!unsaved) return
    return router.block({
      blockerFn: ({ currentLocation: from, nextLocation: goal }) => {
        if (from.pathname === goal.pathname) return false
        ask(() => () => { stay(); router.go(goal.state.__TSR_index - from.state.__TSR_index, UNASKED) })
        return true // the library goes back to the form
      }
    })
  }, [unsaved])
  return { leave, stay }
}

const valuesOf = () => new URLSearchParams(router.location.search)
const chosen = () => valuesOf().get(KEPT) ?? ''

/* Returns an address with some of its values changed. An empty value is removed. */
function changed (some: Values, path = router.location.pathname, all = valuesOf()) {
  for (const [name, value] of Object.entries(some)) {
    if (value === '') all.delete(name)
    else all.set(name, value)
  }
  return `#${path}${all.size > 0 ? `?${all}` : ''}`
}

/* An address with values after the '?', except those that are empty. */
export const toWith = (values: Values, ...path: Part[]): string =>
  changed({ [KEPT]: chosen(), ...values }, `/${path.map(encodeURIComponent).join('/')}`, new URLSearchParams())

export const to = (...path: Part[]) => toWith({}, ...path)

/* Goes to an address, as a link does: the guard of a form asks first. */
export const visit = (address: string) => { location.hash = address }

function flush () {
  try {
    router.flush()
  } catch { /* Safari limits the changes per second; the next change includes this one */ }
}

/* Goes to the view of something that the user has just made: no guard asks. */
export function go (...path: Part[]) {
  router.push(to(...path).slice(1), { entry: ++entries }, UNASKED)
  flush()
}

/* Replaces the address of the current entry of the history. */
function replace (address: string, state: HistoryState = router.location.state) {
  router.replace(address.slice(1), state, UNASKED)
  flush()
}

/* Goes to an address and replaces the current entry of the history, which is no longer valid. */
export const goInstead = (...path: Part[]) => replace(to(...path), { entry: ++entries })

/* Call before a request that deletes the view's object. Returns goInstead(), without effect once the user has left. */
export function whileHere () {
  const at = entryOf()
  return (...path: Part[]) => { if (entryOf() === at) goInstead(...path) }
}

/* Goes to the start page, which replaces the current entry of the history. */
export const goHome = () => replace('#/', { entry: ++entries })

/*
 * Values of a view that are in its address, so that Back restores them and the address can be passed on. Returns
 * them by their names, empty if they are not in the address, and a function that changes some of them. This replaces
 * the current entry of the history: each typed character is not an entry.
 */
export function useValues<Name extends string> (...names: Name[]) {
  useAddress()
  const all = valuesOf()
  const values = Object.fromEntries(names.map((name) => [name, all.get(name) ?? ''])) as Record<Name, string>

  return [values, (some: { [name in Name]?: string }) => replace(changed(some as Values))] as const
}

/* Another organization is another entry of the history. */
export const choose = (organization: string) => visit(changed({ [KEPT]: organization }))

/*
 * Scrolls the view to where it was when the entry was left, once the view is long enough, unless the user
 * scrolls first. Returns a function that stops this.
 */
export function restore (which: number): (() => void) | undefined {
  const view = box()
  const top = tops.get(which) ?? 0
  if (!view) return
  const stop = new AbortController()
  const end = () => stop.abort()
  const scroll = () => { view.scrollTop = top; if (Math.abs(view.scrollTop - top) < 1) end() }
  const grown = new MutationObserver(scroll)

  grown.observe(view, { childList: true, subtree: true })
  stop.signal.addEventListener('abort', () => grown.disconnect())
  for (const name of ['wheel', 'touchmove', 'keydown', 'pointerdown'])
    addEventListener(name, end, { signal: stop.signal, passive: true })
  setTimeout(end, RESTORE_MS)
  scroll()
  return end
}
