/* The language is the browser's, as far as there is a catalogue of it. */
import { de } from './de'
import { en, type Key } from './en'

const german = navigator.languages.find((name) => /^(de|en)\b/.test(name))?.startsWith('de') ?? false
const catalogue: Record<Key, string> = german ? de : en

export const language = german ? 'de' : 'en'

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
