/*
 * Sends a request for each of many objects, a few at a time. If the service asks to wait (429, 503), all requests wait
 * for that time. The rest is not sent after the session has ended, or if the service cannot be reached.
 */
import { ApiError } from '../api/client'

const AT_ONCE = 4
const TRIES = 5
const LOOK_MS = 200
const WAIT_S = 1

/* `waiting`: seconds until requests are sent again; 0: they are being sent. */
export interface Progress { done: number, waiting: number }

const hasStatus = (error: unknown, ...statuses: number[]): error is ApiError =>
  error instanceof ApiError && statuses.includes(error.status)

/*
 * Returns a map with the error of each failed item, and null for each item that succeeded. Items that were not tried
 * are not in the map. `report` is called after each change of the progress; if it returns false, the work ends.
 */
export async function forEachItem<Item> (
  items: Item[], run: (item: Item) => Promise<unknown>, report: (progress: Progress) => boolean
): Promise<Map<Item, unknown>> {
  const results = new Map<Item, unknown>()
  let [next, resumeAt, over] = [0, 0, false]
  const goesOn = () => {
    const waiting = Math.max(0, Math.ceil((resumeAt - Date.now()) / 1000))
    over ||= !report({ done: results.size, waiting })
    return !over
  }
  const wait = async () => {
    while (Date.now() < resumeAt && goesOn()) await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
  }
  const one = async (item: Item): Promise<unknown> => {
    for (let tries = 1; ; tries++) {
      try {
        await run(item)
        return null
      } catch (error) {
        over ||= hasStatus(error, 0, 401)
        if (!hasStatus(error, 429, 503) || tries === TRIES) return error
        resumeAt = Math.max(resumeAt, Date.now() + (error.retryAfter ?? WAIT_S) * 1000)
        await wait()
        if (!goesOn()) return error
      }
    }
  }
  const work = async () => {
    while (next < items.length) {
      await wait()
      if (!goesOn() || next >= items.length) return
      const item = items[next++]!
      results.set(item, await one(item))
    }
  }

  await Promise.all(Array.from({ length: AT_ONCE }, work))
  goesOn()
  return results
}
