/* The language in the address (?lang=de), else the browser's, if there is a catalog for it. */
import { useSyncExternalStore } from 'react'

import { de } from './de'
import { en, type Key } from './en'

const catalogues: Record<string, Record<Key, string>> = { en, de }

/* Each name is in its own language. */
export const languages = [{ code: 'en', name: 'English' }, { code: 'de', name: 'Deutsch' }]

const wanted = [new URLSearchParams(location.search).get('lang') ?? '', ...navigator.languages]

export let language = wanted.map((name) => name.slice(0, 2).toLowerCase()).find((code) => Object.hasOwn(catalogues, code)) ?? 'en'

let catalogue = catalogues[language]!
let rules = new Intl.PluralRules(language)
const listeners = new Set<() => void>()

function listen (changed: () => void) {
  listeners.add(changed)
  return () => { listeners.delete(changed) }
}

export const useLanguage = () => useSyncExternalStore(listen, () => language)

/* Changes the language of the page without loading it again, which would end the session. */
export function speak (code: string) {
  language = code
  catalogue = catalogues[code]!
  rules = new Intl.PluralRules(code)
  document.documentElement.lang = code
  history.replaceState(history.state, '', `?lang=${code}${location.hash}`)
  for (const changed of [...listeners]) changed()
}

/* {n} is the value n; {n|device|devices} is the singular or plural that matches it. */
export function t (key: Key, values: Record<string, string | number> = {}): string {
  return catalogue[key].replace(/\{(\w+)(?:\|([^|}]*)\|([^}]*))?\}/g, (_, name: string, one?: string, many?: string) =>
    one === undefined ? String(values[name] ?? '') : rules.select(Number(values[name])) === 'one' ? one : many ?? '')
}

/* Translates a name of the API; a name without a translation is returned unchanged. */
export function named (group: string, name: string): string {
  const key = `${group}.${name}`
  return Object.hasOwn(catalogue, key) ? catalogue[key as Key] : name
}
