/*
 * The unsent text and files of each conversation, and its queue of messages, which are sent one after the other. They
 * stay while the page is open, also when the user looks at another view, but not for the next user.
 */
import { useSyncExternalStore } from 'react'

import { call, makeKey, upload } from '../api/client'
import type { Entry } from '../api/types'

/*
 * `key`: the same for every attempt, so that a lost response does not store the message twice. `part`: how much of the
 * files was sent, up to 1; `after`: the last message that was known before this one was sent.
 */
export interface Sending {
  key: string
  text: string
  files: File[]
  state: 'waiting' | 'sending' | 'unsent'
  part: number
  after?: string
}

/*
 * `problem`: why the queue has stopped; null: it has not. `returned`: the message that could not be sent and is in the
 * box again; it is sent before the messages of the queue.
 */
interface Draft { text: string; files: File[]; queue: Sending[]; problem: unknown; returned: Sending | null }

const NEW: Draft = { text: '', files: [], queue: [], problem: null, returned: null }

let own = new Map<number, Draft>() // of the account that is logged in; another account gets another map
const listeners = new Set<() => void>()
const receivers = new Set<(conversation: number, entry: Entry) => void>()

const draftOf = (id: number, all = own) => all.get(id) ?? NEW
const isEmpty = ({ text, files }: Draft) => !text.trim() && files.length === 0
const isUnsent = (draft: Draft) =>
  draft.files.length > 0 || draft.queue.length > 0 || (draft.returned !== null && !isEmpty(draft))
const ask = (event: Event) => event.preventDefault() // the browser asks whether the page may be left

function tell () {
  for (const changed of [...listeners]) changed()
  if ([...own.values()].some(isUnsent)) addEventListener('beforeunload', ask)
  else removeEventListener('beforeunload', ask)
}

function listen (changed: () => void) {
  listeners.add(changed)
  return () => {
    listeners.delete(changed)
  }
}

function change (id: number, some: Partial<Draft>, all = own) {
  all.set(id, { ...draftOf(id, all), ...some })
  tell()
}

export const drafts = {
  write: (id: number, text: string) => change(id, { text }),
  attach: (id: number, files: File[]) => change(id, { files }),
  clear () {
    own = new Map()
    tell()
  }
}

/* The files that are chosen for the next message. */
export const filesOf = (id: number) => draftOf(id).files

/* Calls the listener with each message that was sent from this page. */
export function onSent (listener: (conversation: number, entry: Entry) => void) {
  receivers.add(listener)
  return () => {
    receivers.delete(listener)
  }
}

function post (id: number, username: string, { key, text, files }: Sending, progress: (part: number) => void) {
  const headers = { 'Idempotency-Key': key }
  const path = `/api/chat/conversations/${id}`
  if (files.length === 0) return call<Entry>('POST', `${path}/messages`, { username, chatEntry: text }, headers)
  const form = new FormData()
  form.append('message', JSON.stringify({ username, chatEntry: text.trim() ? text : undefined }))
  for (const file of files) form.append('files', file)
  return upload<Entry>('POST', `${path}/attachments`, form, progress, headers)
}

/*
 * Sends the messages of the queue until one fails. This one returns to the box if the box is empty; otherwise it stays
 * the first of the queue. Ends after a logout, and leaves the drafts of the next user alone.
 */
async function run (id: number, username: string, after: string | undefined) {
  const all = own
  const rest = () => draftOf(id, all).queue.slice(1)
  for (let next; all === own && (next = draftOf(id, all).queue[0]);) {
    const first: Sending = { ...next, state: 'sending', part: 0, after }
    const progress = (part: number) => change(id, { queue: [{ ...first, part }, ...rest()] }, all)
    progress(0)
    try {
      const entry = await post(id, username, first, progress)
      change(id, { queue: rest() }, all)
      after = entry.uuid
      if (all === own) for (const receive of [...receivers]) receive(id, entry)
    } catch (problem) {
      const { text, files } = first
      return change(id, isEmpty(draftOf(id, all))
        ? { text, files, problem, returned: first, queue: rest() }
        : { problem, queue: [{ ...first, state: 'unsent' }, ...rest()] }, all)
    }
  }
}

/* Puts the message in the box, if there is one, into the queue, and sends the queue unless it is being sent. */
export function send (id: number, username: string, after: string | undefined) {
  const draft = draftOf(id)
  const { text, files, queue, problem, returned } = draft
  const same = returned?.text === text && returned.files.length === files.length &&
    files.every((file, i) => file === returned.files[i])
  const message: Sending = { key: same ? returned.key : makeKey(), text, files, state: 'waiting', part: 0 }
  const next = isEmpty(draft) ? [] : [message]
  const idle = queue.length === 0 || problem !== null
  change(id, { ...NEW, queue: returned ? [...next, ...queue] : [...queue, ...next] })
  if (idle) void run(id, username, after)
}

/* The queue. A component that needs only this is not drawn again for each typed character. */
export const useQueue = (id: number) => useSyncExternalStore(listen, () => draftOf(id).queue)

export const useDraft = (id: number) => useSyncExternalStore(listen, () => draftOf(id))
