/*
 * The unsent text and files of each conversation, and the messages that are being sent. They stay while the page is
 * open, also when the user looks at another view, but not for the next user.
 */
import { useSyncExternalStore } from 'react'

import { call, upload } from '../api/client'
import type { Entry } from '../api/types'

/* `after`: the last message that was known when the text was sent; `part`: how much of the files was sent, up to 1. */
export interface Sending { text: string; files: File[]; part: number; after: string | undefined }

const NO_FILES: File[] = []

const texts = new Map<number, string>()
const files = new Map<number, File[]>()
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

/* Keeps one key per text and files until they are sent, so that a lost response does not store them twice. */
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
  attach(id: number, all: File[]) {
    files.set(id, all)
    tell()
  },
  clear() {
    for (const all of [texts, files, sending, problems, keys]) all.clear()
    tell()
  }
}

/* The files that are chosen for the next message. */
export const filesOf = (id: number) => files.get(id) ?? NO_FILES

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
  const attached = filesOf(id)
  const same = attached.map(({ name, size, lastModified }) => `\n${name} ${size} ${lastModified}`).join('')
  const headers = { 'Idempotency-Key': keyOf(id, chatEntry + same) }
  const path = `/api/chat/conversations/${id}`
  const progress = (part: number) => {
    if (sending.has(id)) sending.set(id, { text: chatEntry, files: attached, part, after })
    tell()
  }
  const form = new FormData()
  form.append('message', JSON.stringify({ username, chatEntry: chatEntry.trim() ? chatEntry : undefined }))
  for (const file of attached) form.append('files', file)
  sending.set(id, { text: chatEntry, files: attached, part: 0, after })
  problems.delete(id)
  files.delete(id)
  drafts.write(id, '')
  try {
    const entry = attached.length > 0
      ? await upload<Entry>('POST', `${path}/attachments`, form, progress, headers)
      : await call<Entry>('POST', `${path}/messages`, { username, chatEntry }, headers)
    keys.delete(id)
    for (const receive of [...receivers]) receive(id, entry)
  } catch (error) {
    if (sending.has(id)) {
      // otherwise the user has logged out
      problems.set(id, error)
      files.set(id, [...attached, ...filesOf(id)])
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
    files: useSyncExternalStore(listen, () => filesOf(id)),
    pending: usePending(id),
    problem: useSyncExternalStore(listen, () => problems.get(id) ?? null)
  }
}
