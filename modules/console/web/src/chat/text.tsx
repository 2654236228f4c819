/*
 * A message's text. Addresses of web pages are links, text between two ``` is code, found words and mentions of the
 * user are marked; everything else stays text.
 */
import { Fragment, type ReactNode } from 'react'

import type { Own } from '../api/types'

const SPECIAL = /[.*+?^${}()|[\]\\]/g

/* Finds `@` with the user's e-mail, first name or whole name, in any case. */
export function mentionOf ({ email, firstName, lastName }: Pick<Own, 'email' | 'firstName' | 'lastName'>): RegExp {
  const names = [email, `${firstName} ${lastName}`.trim(), firstName].filter(Boolean)
  const any = names.map((name) => name.replace(SPECIAL, '\\$&')).join('|')
  return new RegExp(`(?<![\\p{L}\\p{N}])(@(?:${any}))(?![\\p{L}\\p{N}@_]|[.-][\\p{L}\\p{N}])`, 'giu')
}

/* Marks every second part: what the group of the expression has found. */
const parted = (text: string, expression: RegExp): ReactNode[] =>
  text.split(expression).map((part, i) => i % 2 === 1 ? <mark key={i}>{part}</mark> : part)

const ADDRESS = /https?:\/\/[^\s<>"'`]+/g
const AFTER = /[.,;:!?)\]}]+$/ // punctuation of the sentence, not of the address

const isAddress = (text: string) => {
  const { protocol, host } = URL.parse(text) ?? {}
  return (protocol === 'https:' || protocol === 'http:') && host !== ''
}

function linked (text: string, mention: RegExp): ReactNode[] {
  const parts: ReactNode[] = []
  let from = 0

  for (const { 0: found, index } of text.matchAll(ADDRESS)) {
    const address = found.replace(AFTER, '')
    if (!isAddress(address)) continue
    parts.push(
      <Fragment key={`before ${index}`}>{parted(text.slice(from, index), mention)}</Fragment>,
      <a key={index} href={address} target='_blank' rel='noopener noreferrer'>
        {address}
      </a>
    )
    from = index + address.length
  }
  return [...parts, <Fragment key='rest'>{parted(text.slice(from), mention)}</Fragment>]
}

const CODE = /\n?```(?:[\w+-]*\n)?([^]+?)\n?```\n?/ // its first line may name the language

export const formatted = (text: string, mention: RegExp): ReactNode[] =>
  text.split(CODE).map((part, i) =>
    i % 2 === 1 ? <code key={i}>{part}</code> : <Fragment key={i}>{linked(part, mention)}</Fragment>)

const SEPARATORS = /[\0-/:-@[-`{-\x7f]+/ // all ASCII characters except letters and digits, as in the search of the host
const UNSPACED = 0x0e00 // from here on most scripts are written without spaces

/* Marks the words of a search: at the beginning of a word, or anywhere in scripts without spaces. */
export function marked (text: string, search: string): ReactNode[] {
  const words = search.split(SEPARATORS).filter(Boolean).sort((a, b) => b.length - a.length)
  if (words.length === 0) return [text]
  const forms = words.map((word) => word.codePointAt(0)! < UNSPACED ? `(?<![\\p{L}\\p{N}])${word}` : word)
  return parted(text, new RegExp(`(${forms.join('|')})`, 'giu'))
}
