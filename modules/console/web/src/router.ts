/* Views have addresses after '#', so that the host serves a single page: "#/chat/17" is ['chat', '17']. */
import { useSyncExternalStore } from 'react'

const read = () => location.hash.replace(/^#\/?/, '')

function listen (changed: () => void) {
  addEventListener('hashchange', changed)
  return () => removeEventListener('hashchange', changed)
}

export function useRoute (): string[] {
  const path = useSyncExternalStore(listen, read)
  return path.split('/').filter(Boolean).map((part) => {
    try { return decodeURIComponent(part) } catch { return part }
  })
}

export const to = (...parts: (string | number)[]) => `#/${parts.map((part) => encodeURIComponent(part)).join('/')}`
export const go = (...parts: (string | number)[]) => { location.hash = to(...parts) }

/* Goes to an address and replaces the current entry of the history, which is no longer valid. */
export const goInstead = (...parts: (string | number)[]) => { location.replace(to(...parts)) }
