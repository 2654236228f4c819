/*
 * The unsent text of each conversation, and the messages that are being sent. Both stay while the page is open,
 * also when the user looks at another view, but not for the next user.
 */
import { useSyncExternalStore } from 'react'

import { call } from '../api/client'
import type { Entry } from '../api/types'

/* `after`: the last message that was known when the text was sent. */
export interface Sending { text: string; after: string | undefined }

const texts = new Map<number, string>()
const sending = new Map<number, Sending>()
const problems = new Map<number, unknown>()
const keys = new Map<number, { text: string; key: string }>()
const listeners = new Set<() => void>()
const receivers = new Set<(conversation: number, entry: Entry) => void>()

const tell = () => {
  for (const changed of [...listeners]) changed()
}

function listen (changed: () => void) {
  listeners.add(changed)
  return () => {
    listeners.delete(changed)
  }
}

/* 128 random bits; crypto.randomUUID() is not available on pages loaded without TLS. */
const makeKey = () =>
  [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('')

/* Keeps one key per text until it is sent, so that a lost response does not store the text twice. */
function keyOf (id: number, text: string) {
  const last = keys.get(id)
  if (last?.text === text) return last.key
  const key = makeKey()
  keys.set(id, { text, key })
  return key
}

export const drafts = {
  write(id: number, text: string) {
    texts.set(id, text)
    tell()
  },
  clear() {
    for (const all of [texts, sending, problems, keys]) all.clear()
    tell()
  }
}

/* Calls the listener with each message that was sent from this page. */
export function onSent (listener: (conversation: number, entry: Entry) => void) {
  receivers.add(listener)
  return () => {
    receivers.delete(listener)
  }
}

/*
 * Sends a message: one at a time in a conversation. A message that could not be sent returns to the box, before
 * any text typed meanwhile.
 */
export async function send (id: number, username: string, chatEntry: string, after: string | undefined) {
  if (sending.has(id)) return
  const headers = { 'Idempotency-Key': keyOf(id, chatEntry) }
  const path = `/api/chat/conversations/${id}/messages`
  sending.set(id, { text: chatEntry, after })
  problems.delete(id)
  drafts.write(id, '')
  try {
    const entry = await call<Entry>('POST', path, { username, chatEntry }, headers)
    keys.delete(id)
    for (const receive of [...receivers]) receive(id, entry)
  } catch (error) {
    if (sending.has(id)) {
      // otherwise the user has logged out
      problems.set(id, error)
      texts.set(id, [chatEntry, texts.get(id)].filter(Boolean).join('\n'))
    }
  }
  sending.delete(id)
  tell()
}

/* The message that is being sent. A component that needs only this is not drawn again for each typed character. */
export const usePending = (id: number) => useSyncExternalStore(listen, () => sending.get(id) ?? null)

export function useDraft (id: number) {
  return {
    text: useSyncExternalStore(listen, () => texts.get(id) ?? ''),
    pending: usePending(id),
    problem: useSyncExternalStore(listen, () => problems.get(id) ?? null)
  }
}
