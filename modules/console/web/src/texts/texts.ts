/* The language in the address (?lang=de), else the browser's, if there is a catalog for it. */
import { de } from './de'
import { en, type Key } from './en'

const catalogues: Record<string, Record<Key, string>> = { en, de }

/* Each name is in its own language. */
export const languages = [{ code: 'en', name: 'English' }, { code: 'de', name: 'Deutsch' }]

const wanted = [new URLSearchParams(location.search).get('lang') ?? '', ...navigator.languages]

export const language = wanted.map((name) => name.slice(0, 2).toLowerCase()).find((code) => Object.hasOwn(catalogues, code)) ?? 'en'

const catalogue = catalogues[language]!

const rules = new Intl.PluralRules(language)

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
