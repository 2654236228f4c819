/*
 * Live events of the user's conversations: they update the cached lists and chains, and can notify of messages. All
 * parts of the page share one stream, because a browser opens few connections to a host.
 */
import { useQueryClient, type QueryClient } from '@tanstack/react-query'
import { useEffect, useState } from 'react'

import { get, query } from '../api/client'
import { follow } from '../api/stream'
import type { Conversation, Entry, Own } from '../api/types'
import { preferences } from '../preferences'
import { to, visit } from '../router'
import { t } from '../texts/texts'
import { mentionOf } from './text'

export type Arrival = { conversationId: number; message: Entry }
export type Typing = { conversationId: number; username: string }

const TONES = [660, 880] // Hz
const TONE_S = .12
const SOUND_MS = 1000 // at least, between two sounds
const BLOCKED_MS = 500 // a sound that is allowed starts within this time

interface Listener { heard: (arrival: Arrival) => unknown, changed: (open: boolean) => void, typing?: (who: Typing) => unknown }

/* Other tabs of the browser. A message says that this tab has changed conversations, but added no message. */
export const tabs: Pick<BroadcastChannel, 'onmessage' | 'postMessage'> = (() => {
  try {
    return new BroadcastChannel('busbar conversations')
  } catch { // the browser stores nothing for this page, and connects no tabs
    return { onmessage: null, postMessage: () => {} }
  }
})()

/* Reads the lists of conversations again, in all tabs. */
export function readAgain (client: QueryClient) {
  tabs.postMessage(null)
  return client.invalidateQueries({ queryKey: ['conversations'] })
}

const listeners = new Set<Listener>()
let stream: AbortController | null = null // ends the page's stream; null: there is none
let isOpen = false

function begin (client: QueryClient) {
  const own = new AbortController()
  const hear = ({ event, data }: { event?: string; data: string }) => {
    if (own.signal.aborted) return
    if (event === 'typing') return [...listeners].forEach(({ typing }) => typing?.(JSON.parse(data) as Typing))
    if (event === 'message.new') for (const { heard } of [...listeners]) heard(JSON.parse(data) as Arrival)
    void client.invalidateQueries({ queryKey: ['conversations'] })
  }
  const changed = (open: boolean) => {
    if (own.signal.aborted) return
    isOpen = open
    for (const listener of [...listeners]) listener.changed(open)
    if (open) void client.invalidateQueries({ queryKey: ['conversations'] }) // the stream does not have earlier events
  }

  stream = own
  void follow('/api/chat/stream', hear, changed, own.signal).then(() => {
    if (stream === own) stream = null // the host refuses the stream; the next listener tries again
  })
}

/*
 * Opens the stream for the first listener. Returns a function that removes the listener. The stream ends with the last
 * one, unless another one is added at once, because another conversation is opened.
 */
function join (client: QueryClient, listener: Listener): () => void {
  listeners.add(listener)
  if (!stream) begin(client)
  listener.changed(isOpen)
  return () => {
    listeners.delete(listener)
    queueMicrotask(() => {
      if (listeners.size > 0) return
      stream?.abort()
      stream = null
      isOpen = false
    })
  }
}

/* Calls `heard` with each new message, and `typing` if somebody types. Returns true while the stream is open. */
export function useLive (heard: (arrival: Arrival) => unknown, typing?: (who: Typing) => unknown): boolean {
  const client = useQueryClient()
  const [open, setOpen] = useState(false)

  useEffect(() => join(client, { heard, changed: setOpen, typing }), [client, heard, typing])
  return open
}

/* Returns whether the user takes part in a conversation, because an Admin's stream has all conversations. */
const isOwn = (client: QueryClient, id: number) => client.fetchQuery({
  queryKey: ['own', id],
  queryFn: () => get<Conversation[]>(`/api/chat/conversations${query({ id, mine: true })}`),
  staleTime: Infinity
}).then((found) => found.length > 0, () => false)

/* Returns null if the browser does not let a page create notifications: Chrome on Android throws. */
export function createNotification (title: string, options?: NotificationOptions): Notification | null {
  try {
    return new Notification(title, options)
  } catch {
    return null
  }
}

/* Plays two short tones, unless the browser still blocks sounds, because the user has not used the page yet. */
export async function playSound () {
  const audio = new AudioContext()
  const loudness = audio.createGain()

  await Promise.race([audio.resume(), new Promise((resolve) => setTimeout(resolve, BLOCKED_MS))])
  if (audio.state !== 'running') return audio.close()
  loudness.gain.value = .1
  loudness.connect(audio.destination)
  TONES.forEach((frequency, i) => {
    const tone = audio.createOscillator()
    tone.frequency.value = frequency
    tone.connect(loudness)
    tone.start(audio.currentTime + i * TONE_S)
    tone.stop(audio.currentTime + (i + 1) * TONE_S)
    if (i === TONES.length - 1) tone.onended = () => void audio.close()
  })
}

/*
 * Calls `run` when no other tab of the browser has the lock `name`, and holds the lock until the signal aborts. Calls
 * `run` at once if the browser has no locks.
 */
function inOneTab (name: string, signal: AbortSignal, run: () => void) {
  if (!('locks' in navigator)) return run()
  const hold = () => new Promise<void>((release) => {
    if (signal.aborted) return release()
    signal.addEventListener('abort', () => release())
    run()
  })
  navigator.locks.request(name, { signal }, hold).catch(() => { if (!signal.aborted) run() })
}

/*
 * If the account has chosen it, the browser notifies of each message that arrives while the page is hidden. A
 * notification says whether the message mentions the user. It has no text of the message, because other people may see
 * the screen. A click on it opens the conversation. All notifications are closed when the session ends. If the user has
 * chosen it, each message that arrives is also announced by a sound, in one tab.
 */
export function useNotifications ({ id, email, firstName, lastName }: Own, loggedIn: boolean) {
  const client = useQueryClient()
  const notifies = loggedIn && preferences.notify?.includes(id) && Notification.permission === 'granted'
  const sounds = loggedIn && preferences.sound

  useEffect(() => {
    if (!notifies && !sounds) return
    const control = new AbortController()
    const { signal } = control
    const shown = new Map<number, Notification>() // the latest of each conversation
    let soundAt = 0 // after a break the stream sends all missed messages at once, and they have one sound
    const heard = async ({ conversationId, message: { username, chatEntry } }: Arrival) => {
      if (!(document.hidden || preferences.sound) || username === email) return
      if (!(await isOwn(client, conversationId)) || signal.aborted) return
      if (preferences.sound && Date.now() >= soundAt + SOUND_MS) { // another tab may have changed the choice
        soundAt = Date.now()
        void playSound()
      }
      if (!notifies || !document.hidden) return
      const mentioned = mentionOf({ email, firstName, lastName }).test(chatEntry)
      const body = t(mentioned ? 'own.mentioned' : 'own.newMessage')
      const one = createNotification(username, { body, tag: `busbar ${conversationId}` })
      if (!one) return
      shown.set(conversationId, one)
      one.onclick = () => {
        one.close()
        window.focus()
        visit(to('chat', conversationId))
      }
    }

    inOneTab(`busbar notifications ${id}`, signal, () => {
      signal.addEventListener('abort', join(client, { heard, changed: () => {} }))
    })
    return () => {
      control.abort()
      for (const one of shown.values()) one.close()
    }
  }, [client, id, email, firstName, lastName, notifies, sounds])
}
