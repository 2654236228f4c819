/*
 * Requests to the host. The access token is only in this module's memory. The browser keeps a cookie that scripts
 * cannot read. With this cookie the page gets another access token: when the page is loaded, before a token expires,
 * and after a 401. If there is no valid cookie, the session ends; the listener then shows the login above the current
 * view, so that nothing typed is lost.
 */
import { NO_ROUTE, asMessage, asProblem, type FieldError } from '../texts/problems'
import { language } from '../texts/texts'

/* `message` and the problem of each error are in the language that the page has when they are read. */
export class ApiError extends Error {
  readonly errors: FieldError[]
  readonly hasRoute: boolean
  hung = false // whether the host did not respond, so that another attempt would only wait again

  /* `retryAfter`: the seconds to wait before another attempt, if the response has them. */
  constructor (readonly status: number, text: string, body: ErrorBody = null, readonly retryAfter?: number) {
    super()
    this.hasRoute = body?.message !== NO_ROUTE
    this.errors = (body?.errors ?? []).map((error) => ({ ...error, get problem () { return asProblem(error) } }))
    Object.defineProperty(this, 'message', { get: () => asMessage(status, body?.message ?? text, body?.code, body?.params) })
  }
}

export interface Page<T> { items: T, next: string | null, total: number | null }

export interface Access { accessToken: string, expires_in: number }

const EARLY_MS = 60000 // before a token expires
const AGAIN_MS = 10000 // the response may have been lost; the host accepts the previous cookie for a minute
const LATEST_MS = 2 ** 31 - 1 // of a timer

let token: string | null = null
let timer = 0
let ended: () => void = () => {}
const waiting = new Set<() => void>() // for the next session
const renewAhead = () => { renew().catch(() => { if (token !== null) timer = window.setTimeout(renewAhead, AGAIN_MS) }) }

export const session = {
  reads: new AbortController(), // for GET requests
  uploads: new AbortController(),
  begin ({ accessToken, expires_in: seconds }: Access) {
    token = accessToken
    clearTimeout(timer)
    timer = window.setTimeout(renewAhead, Math.min(seconds * 1000 - EARLY_MS, LATEST_MS))
    for (const go of [...waiting]) go()
  },
  end () { token = null; clearTimeout(timer); ended() },
  /*
   * Call after a 401. Returns whether the request can be sent again with another token of the account. Ends the session
   * if there is no other token. Throws if this is not known, for example during an overload: the session stays.
   */
  async refused (sent: string | undefined): Promise<boolean> {
    if (sent !== `Bearer ${token}`) return token !== null && (!sent || accountOf(sent) === accountOf(token))
    const renewed = await renew()
    if (!renewed && sent === `Bearer ${token}`) session.end()
    return renewed
  },
  onEnd (listener: () => void) { ended = listener },
  abortUploads () { session.uploads.abort(); session.uploads = new AbortController() },
  /* Resolves at once if there is a session, otherwise with the next session or when the signal aborts. */
  present (signal: AbortSignal): Promise<void> {
    if (token || signal.aborted) return Promise.resolve()
    return new Promise((resolve) => {
      const go = () => { waiting.delete(go); resolve() }
      waiting.add(go)
      signal.addEventListener('abort', go, { once: true })
    })
  },
  account: () => accountOf(token), // the id; '' without a session
  header (): Record<string, string> { return token ? { Authorization: `Bearer ${token}` } : {} }
}

/*
 * A warning of the service about a request that it accepted. `of` is the name of the object, if the response
 * has one.
 */
export interface Warning extends FieldError { of: string | null }

let warn: (warnings: Warning[]) => void = () => {}

export const onWarnings = (listener: (warnings: Warning[]) => void) => { warn = listener }

/* Every JSON response is passed to this function, so that no view can forget its warnings. */
function checked<T> (body: T): T {
  const { warningDetails: warnings, ...rest } = (body ?? {}) as { warningDetails?: unknown } & Record<string, unknown>
  if (!Array.isArray(warnings) || warnings.length === 0) return body
  const names = [rest.email, rest.fileName, rest.siteName, rest.externalId, rest.url, rest.name]
  const of = names.find((name) => typeof name === 'string' && name !== '') ?? null
  warn((warnings as FieldError[]).map((one) => ({ ...one, of: of as string | null })))
  return body
}

type ErrorBody = { message?: string, errors?: FieldError[], code?: string, params?: Record<string, unknown> } | null

function failed (status: number, text: string, body: ErrorBody, retryAfter: string | null = null) {
  const seconds = Number(retryAfter ?? NaN)
  return new ApiError(status, text, body, Number.isFinite(seconds) ? seconds : undefined)
}

/* The error of a response that is not a success. */
async function errorOf (answer: Response) {
  const body = await answer.json().catch(() => null) as ErrorBody
  return failed(answer.status, answer.statusText, body, answer.headers.get('Retry-After'))
}

const QUIET_MS = 16000 // without data, then isAlive() is called; a stream sends data at least every 15 s
const ALIVE_MS = 4000
const SILENT_MS = 60000 // without data; the connection then counts as dropped, even if the host is alive

let looking: Promise<boolean> | null = null

/* Whether the host responds at all. It answers GET /api/health at once. */
const isAlive = () => looking ??= fetch('/api/health', { cache: 'no-store', signal: AbortSignal.timeout(ALIVE_MS) })
  .then(() => true, () => false).finally(() => { looking = null })

/*
 * The signal aborts when the host hangs, or when nothing has arrived for a minute. A host that is alive may
 * take longer than QUIET_MS for a response. Call `heard` when something arrives, and `stop` at the end.
 */
export function watchHost () {
  const late = new AbortController()
  let [timer, last, over] = [0, 0, false]
  const wait = () => { timer = window.setTimeout(() => void look(), QUIET_MS) }
  const look = async () => {
    const [before, alive] = [last, await isAlive()]
    if (over || last !== before) return
    if (!alive || Date.now() - last >= SILENT_MS) late.abort()
    else wait()
  }
  const heard = () => { clearTimeout(timer); last = Date.now(); wait() }

  heard()
  return { heard, stop: () => { over = true; clearTimeout(timer) }, signal: late.signal }
}

/* Limits the time until the headers of the response; uploading or downloading a file may take any time. */
async function ask (path: string, request: RequestInit): Promise<Response> {
  const watch = watchHost()
  try {
    const headers = { ...request.headers, 'Accept-Language': language } // of mails that the request sends
    const signal = request.method === 'GET' ? AbortSignal.any([watch.signal, session.reads.signal]) : watch.signal
    return await fetch(path, { ...request, headers, ...(!(request.body instanceof FormData) && { signal }) })
  } catch {
    throw Object.assign(new ApiError(0, ''), { hung: watch.signal.aborted })
  } finally {
    watch.stop()
  }
}

/* The account of a token; '' if there is no token. */
const accountOf = (text: string | null) =>
  text === null ? '' : String((JSON.parse(atob((text.split('.')[1] ?? '').replaceAll('-', '+').replaceAll('_', '/'))) as { sub: unknown }).sub)

let renewing: Promise<boolean> | null = null

const NONE = [204, 401, 403] // no cookie, one that has ended, or one of an account that may not log in any more

/*
 * Gets another access token. Returns false if the browser has no valid cookie, or the cookie of another account,
 * because somebody else has logged in in another tab. Throws if this cannot be decided, for example in an overload.
 */
export function renew (): Promise<boolean> {
  renewing ??= ask('/api/auth/refresh', { method: 'POST' }).then(async (answer) => {
    if (NONE.includes(answer.status)) return false
    if (!answer.ok) throw await errorOf(answer)
    const access = await answer.json() as Access
    if (token !== null && accountOf(token) !== accountOf(access.accessToken)) return false
    session.begin(access)
    return true
  }).finally(() => { renewing = null })
  return renewing
}

/* Aborts the streams and the GET requests in progress, because the host would refuse them after the logout. */
export async function logOut () {
  session.reads.abort()
  try {
    await call('POST', '/api/auth/logout')
  } finally {
    session.reads = new AbortController()
  }
}

export const PASSWORD = '/api/user/password' // a 401 of this path may mean a wrong current password

export async function send (method: string, path: string, body?: unknown, more: Record<string, string> = {}, again = true): Promise<Response> {
  const form = body instanceof FormData
  const headers: Record<string, string> = { ...session.header(), ...more }
  if (body !== undefined && !form) headers['Content-Type'] = 'application/json'
  const answer = await ask(path, { method, headers, body: form ? body : body === undefined ? undefined : JSON.stringify(body) })
  if (answer.ok) return answer
  if (answer.status === 401 && path !== PASSWORD && again && await session.refused(headers.Authorization)) return send(method, path, body, more, false)
  throw await errorOf(answer)
}

export async function call<T> (method: string, path: string, body?: unknown, more?: Record<string, string>): Promise<T> {
  return checked<T>(await (await send(method, path, body, more)).json())
}

/* 128 random bits; crypto.randomUUID() is not available on pages loaded without TLS. */
export const makeKey = () =>
  [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('')

const unsure = new Map<string, string>() // the keys of requests without a success, by path and body

/*
 * Creates an object with POST. If the response is lost and the user sends the same values again, the request has the
 * same Idempotency-Key, so the host creates the object only once.
 */
export async function create<T> (path: string, body: unknown): Promise<T> {
  const request = JSON.stringify([path, body])
  const key = unsure.get(request) ?? makeKey()
  unsure.set(request, key)
  const made = await call<T>('POST', path, body, { 'Idempotency-Key': key })
  unsure.delete(request)
  return made
}

const TRIES = 3

/*
 * Changes an object with PATCH. `check` gets the object as it is now, and throws an error if the change must not be
 * made. If somebody else changes the object meanwhile (412), it is read and checked again.
 */
export async function change<T> (path: string, body: unknown, check: (now: T) => void): Promise<T> {
  for (let tries = 1; ; tries++) {
    const answer = await send('GET', path)
    const tag = answer.headers.get('ETag')
    check(await answer.json() as T)
    try {
      return await call<T>('PATCH', path, body, tag === null ? {} : { 'If-Match': tag })
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 412 || tries === TRIES) throw error
    }
  }
}

/*
 * Sends files, once more if the access token has expired. Until then the browser asks before it leaves the page.
 * `progress` gets the part that has been sent, from 0 to 1, which fetch() does not report.
 */
export function upload<T> (
  method: string, path: string, form: FormData, progress: (part: number) => void,
  more: Record<string, string> = {}, again = true
): Promise<T> {
  const asks = (event: Event) => event.preventDefault()
  addEventListener('beforeunload', asks)
  return new Promise<T>((resolve, reject) => {
    const request = new XMLHttpRequest()
    const watch = watchHost()
    const headers: Record<string, string> = { ...session.header(), ...more }
    const signal = AbortSignal.any([watch.signal, session.uploads.signal])
    signal.onabort = () => request.abort()
    request.open(method, path)
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value)
    request.upload.onprogress = ({ loaded, total }) => {
      watch.heard()
      progress(loaded / Math.max(1, total))
    }
    request.onerror = request.onabort = () => reject(new ApiError(0, ''))
    request.onloadend = watch.stop
    const ended = async () => {
      let body = null
      try { body = JSON.parse(request.responseText) } catch { /* only the status is known */ }
      if (request.status < 300) return resolve(checked<T>(body))
      if (request.status === 401 && again && await session.refused(headers.Authorization) && !signal.aborted)
        return resolve(upload<T>(method, path, form, progress, more, false))
      reject(failed(request.status, request.statusText, body))
    }
    request.onload = () => { ended().catch(reject) }
    request.send(form)
  }).finally(() => removeEventListener('beforeunload', asks))
}

/*
 * For a public path whose 503 has the same body as its 200: the host is up, and reports which parts are down.
 */
export async function getAnyway<T> (path: string): Promise<T> {
  return checked<T>(await (await ask(path, {})).json())
}

export const get = <T>(path: string) => call<T>('GET', path)

/* Returns the path of the next page from a Link header. */
function nextOf (answer: Response): string | null {
  return /<([^>]+)>;\s*rel="next"/.exec(answer.headers.get('Link') ?? '')?.[1] ?? null
}

export async function page<T> (path: string): Promise<Page<T>> {
  const answer = await send('GET', path)
  const total = answer.headers.get('X-Total-Count')
  return { items: checked<T>(await answer.json()), next: nextOf(answer), total: total === null ? null : Number(total) }
}

/* Reads all pages of a list that is always short. */
export async function everything<T> (path: string): Promise<T[]> {
  const all: T[] = []
  for (let next: string | null = path; next;) {
    const part: Page<T[]> = await page<T[]>(next)
    all.push(...part.items)
    next = part.next
  }
  return all
}

/* Makes the browser save a response as a file. */
export async function download (path: string, name: string): Promise<void> {
  const url = URL.createObjectURL(await (await send('GET', path)).blob())
  const link = document.createElement('a')
  link.href = url
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(url), 60000)
}

export const query = (values: Record<string, string | number | boolean | undefined>) => {
  const given = Object.entries(values).filter(([, value]) => value !== undefined && value !== '')
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString()
  return text && `?${text}`
}
