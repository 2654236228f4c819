/* The language in the address (?lang=de), else the preferred one, else the browser's, if there is a catalog for it. */
import { useSyncExternalStore } from 'react'

import { prefer, preferences } from '../preferences'
import { de } from './de'
import { en, type Key } from './en'

const catalogues: Record<string, Record<Key, string>> = { en, de }

/* Each name is in its own language. */
export const languages = [{ code: 'en', name: 'English' }, { code: 'de', name: 'Deutsch' }]

const wanted = [new URLSearchParams(location.search).get('lang') ?? '', preferences.language ?? '', ...navigator.languages]

export let language = wanted.map((name) => name.slice(0, 2).toLowerCase()).find((code) => Object.hasOwn(catalogues, code)) ?? 'en'

/* Returns a function that returns the place of a number's form; a language has its forms in the order of CLDR. */
function pluralOf (code: string) {
  const rules = new Intl.PluralRules(code)
  const known: string[] = rules.resolvedOptions().pluralCategories
  const forms = ['zero', 'one', 'two', 'few', 'many', 'other'].filter((form) => known.includes(form))
  return (n: number) => forms.indexOf(rules.select(n))
}

/* The viewer's regional format: en-GB and de-AT differ from the plain languages of the catalog. */
export const way = () => navigator.languages.find((name) => name.startsWith(language)) ?? language

const numbersOf = () => new Intl.NumberFormat(way(), { maximumFractionDigits: 20 })

let catalogue = catalogues[language]!
let plural = pluralOf(language)
let numbers = numbersOf()
const listeners = new Set<() => void>()

function listen (changed: () => void) {
  listeners.add(changed)
  return () => { listeners.delete(changed) }
}

let version = 0

export const useRedraw = () => useSyncExternalStore(listen, () => version)

/* Changes the language of the page, without loading it again. */
export function speak (code: string) {
  language = code
  catalogue = catalogues[code]!
  plural = pluralOf(code)
  numbers = numbersOf()
  document.documentElement.lang = code
  if (location.search) history.replaceState(history.state, '', `${location.pathname}${location.hash}`)
  prefer({ language: code })
  redraw()
}

/* Draws the page again, with another language or other preferences. */
export function redraw () {
  version++
  for (const changed of [...listeners]) changed()
}

/*
 * {n} is the value n, a number in the viewer's format: pass an id as text. {n|device|devices} is the form for
 * the number n, of the forms that the language has; if n is a text, the last form.
 */
export function t (key: Key, values: Record<string, string | number> = {}): string {
  return catalogue[key].replace(/\{(\w+)((?:\|[^|}]*)*)\}/g, (_, name: string, all: string) => {
    const value = values[name] ?? ''
    const isNumber = typeof value === 'number'
    if (all !== '') return all.split('|')[1 + plural(isNumber ? value : NaN)] ?? ''
    return isNumber ? numbers.format(value) : value
  })
}

/* Returns whether there is a text with this key. */
export const has = (key: string): key is Key => Object.hasOwn(catalogue, key)

/* Translates a name of the API; a name without a translation is returned unchanged. */
export function named (group: string, name: string): string {
  const key = `${group}.${name}`
  return has(key) ? catalogue[key] : name
}
