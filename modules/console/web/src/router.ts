/*
 * Views have addresses after '#', so that the host serves a single page: "#/chat/17?org=2" is ['chat', '17'],
 * with values after the '?': the chosen organization, which every link keeps, and the filters of the view.
 */
import { useEffect, useRef, useState, useSyncExternalStore } from 'react'

type Part = string | number

const KEPT = 'org'
const RESTORE_MS = 5000

const read = () => location.hash.replace(/^#\/?/, '')
const listeners = new Set<() => void>()
const tops = new Map<number, number>() // how far the view of each entry of the history was scrolled
let entries = Date.now()
let current = read()
let [entry, place] = stateOf(0)
let replaced = false // the next entry takes the place of the current one
let returning = false // to the form that the user wanted to leave
let guard: ((leave: () => void) => void) | null = null // of the form that has unsaved changes

/* Returns the number of the current entry of the history and its place there, which are in its state. */
function stateOf (next: number): [number, number] {
  const state = history.state as { entry?: number, place?: number } | null
  if (state?.entry !== undefined) return [state.entry, state.place ?? 0]
  history.replaceState({ entry: ++entries, place: next }, '')
  return [entries, next]
}

function listen (changed: () => void) {
  listeners.add(changed)
  return () => { listeners.delete(changed) }
}

const tell = () => { for (const changed of [...listeners]) changed() }
const box = () => document.getElementById('content')

const pathOf = (address: string) => address.split('?')[0]

/* A form with unsaved changes stays until the user has been asked: the history goes back to it, or forth again. */
addEventListener('hashchange', () => {
  const [reached, at] = stateOf(replaced ? place : place + 1)

  replaced = false
  if (returning) {
    returning = false
    return
  }
  if (guard && at !== place && pathOf(read()) !== pathOf(current)) {
    const steps = at - place
    returning = true
    history.go(-steps)
    return guard(() => history.go(steps))
  }
  tops.set(entry, box()?.scrollTop ?? 0)
  entry = reached
  place = at
  current = read()
  tell()
})

/*
 * Guards a form with unsaved changes: whoever follows a link, goes back or closes the page is asked first. Returns a
 * function that leaves the form, once the user has tried to, or else null; one that stays; and one that ends the guard
 * before the view itself leaves the form.
 */
export function useGuard (unsaved: boolean) {
  const [leave, ask] = useState<(() => void) | null>(null)
  const over = useRef(false)
  const release = () => { over.current = true; guard = null }

  useEffect(() => {
    if (!unsaved || over.current) return
    const stay = (event: BeforeUnloadEvent) => event.preventDefault()
    guard = (goal) => ask(() => () => { release(); goal() })
    addEventListener('beforeunload', stay)
    return () => { guard = null; removeEventListener('beforeunload', stay) }
  }, [unsaved])
  return { leave, stay: () => ask(null), release }
}

function parts (): [string, URLSearchParams] {
  const [path = '', ...values] = current.split('?')
  return [path, new URLSearchParams(values.join('?'))]
}

const written = (path: string, values: URLSearchParams) => `#/${path}${values.size > 0 ? `?${values}` : ''}`

export function useRoute (): string[] {
  useSyncExternalStore(listen, () => current)
  return parts()[0].split('/').filter(Boolean).map((part) => {
    try { return decodeURIComponent(part) } catch { return part }
  })
}

export function to (...path: Part[]): string {
  const kept = parts()[1].get(KEPT)
  return written(
    path.map((part) => encodeURIComponent(part)).join('/'),
    new URLSearchParams(kept ? { [KEPT]: kept } : {})
  )
}

/* An address with values after the '?', except those that are empty. */
export function toWith (values: Record<string, string>, ...path: Part[]): string {
  const [address = '', kept] = to(...path).split('?')
  const all = new URLSearchParams(kept)
  for (const [name, value] of Object.entries(values)) if (value !== '') all.set(name, value)
  return `${address}${all.size > 0 ? `?${all}` : ''}`
}

export const go = (...path: Part[]) => { location.hash = to(...path) }

/* Goes to an address and replaces the current entry of the history, which is no longer valid. */
export const goInstead = (...path: Part[]) => { replaced = location.hash !== to(...path); location.replace(to(...path)) }

/* Sets values of the address. An empty value is removed. */
function changed (values: Record<string, string>) {
  const [path, all] = parts()
  for (const [name, value] of Object.entries(values)) {
    if (value === '') all.delete(name)
    else all.set(name, value)
  }
  return written(path, all)
}

/* Replaces the current entry of the history: each typed character is not an entry. */
function replace (address: string) {
  try {
    history.replaceState(history.state, '', address)
  } catch { /* Safari limits the changes per second; the next one includes this one */ }
  current = address.replace(/^#\/?/, '')
  tell()
}

/* The address of a page that has just been loaded, for another account. */
export const goHome = () => replace('#/')

/*
 * Values of a view that are in its address, so that Back restores them and the address can be passed on. Returns
 * them by their names, empty if they are not in the address, and a function that changes some of them.
 */
export function useValues<Name extends string> (...names: Name[]) {
  useSyncExternalStore(listen, () => current)
  const all = parts()[1]
  const values = Object.fromEntries(names.map((name) => [name, all.get(name) ?? ''])) as Record<Name, string>

  return [values, (some: { [name in Name]?: string }) => replace(changed(some as Record<string, string>))] as const
}

/* Another organization is another entry of the history. */
export const choose = (organization: string) => { location.hash = changed({ [KEPT]: organization }) }

export const useEntry = () => useSyncExternalStore(listen, () => entry)

/*
 * Scrolls the view to where it was when the entry was left, once the view is long enough, unless the user
 * scrolls first. Returns a function that stops this.
 */
export function restore (which: number): (() => void) | undefined {
  const view = box()
  const top = tops.get(which) ?? 0
  if (!view) return
  const reached = () => { view.scrollTop = top; return Math.abs(view.scrollTop - top) < 1 }
  if (reached()) return
  const stop = new AbortController()
  const grown = new MutationObserver(() => { if (reached()) stop.abort() })
  const timer = setTimeout(() => stop.abort(), RESTORE_MS)

  grown.observe(view, { childList: true, subtree: true })
  for (const name of ['wheel', 'touchmove', 'keydown', 'pointerdown'])
    addEventListener(name, () => stop.abort(), { signal: stop.signal, passive: true })
  stop.signal.addEventListener('abort', () => {
    grown.disconnect()
    clearTimeout(timer)
  })
  return () => stop.abort()
}
