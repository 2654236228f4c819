/* A message's text. Addresses of web pages are links; everything else stays text. */
import type { ReactNode } from 'react'

const ADDRESS = /https?:\/\/[^\s<>"'`]+/g
const AFTER = /[.,;:!?)\]}]+$/ // punctuation of the sentence, not of the address

const isAddress = (text: string) => {
  const { protocol, host } = URL.parse(text) ?? {}
  return (protocol === 'https:' || protocol === 'http:') && host !== ''
}

export function linked (text: string): ReactNode[] {
  const parts: ReactNode[] = []
  let from = 0

  for (const { 0: found, index } of text.matchAll(ADDRESS)) {
    const address = found.replace(AFTER, '')
    if (!isAddress(address)) continue
    parts.push(
      text.slice(from, index),
      <a key={index} href={address} target='_blank' rel='noopener noreferrer'>
        {address}
      </a>
    )
    from = index + address.length
  }
  return [...parts, text.slice(from)]
}
