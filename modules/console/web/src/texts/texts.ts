/* The language is the one that the address names (?lang=de), else the browser's, if there is a catalogue of it. */
import { de } from './de'
import { en, type Key } from './en'

const catalogues: Record<string, Record<Key, string>> = { en, de }

/* As people call them who speak them. */
export const languages = [{ code: 'en', name: 'English' }, { code: 'de', name: 'Deutsch' }]

const wanted = [new URLSearchParams(location.search).get('lang') ?? '', ...navigator.languages]

export const language = wanted.map((name) => name.slice(0, 2).toLowerCase()).find((code) => Object.hasOwn(catalogues, code)) ?? 'en'

const catalogue = catalogues[language]!

const rules = new Intl.PluralRules(language)

/* {n} is the value n; {n|device|devices} the word that goes with it. */
export function t (key: Key, values: Record<string, string | number> = {}): string {
  return catalogue[key].replace(/\{(\w+)(?:\|([^|}]*)\|([^}]*))?\}/g, (_, name: string, one?: string, many?: string) =>
    one === undefined ? String(values[name] ?? '') : rules.select(Number(values[name])) === 'one' ? one : many ?? '')
}

/* What the API calls something, in the language of the page; one that no text is known of stays as it is. */
export function named (group: string, name: string): string {
  const key = `${group}.${name}`
  return Object.hasOwn(catalogue, key) ? catalogue[key as Key] : name
}
