/* The small parts that all views consist of. */
import { Dialog as Base } from '@base-ui/react/dialog'
import { defaultRangeExtractor, useVirtualizer } from '@tanstack/react-virtual'
import { ArrowDown, ArrowUp, Check, ChevronsUpDown, Copy as CopyIcon, type LucideIcon } from 'lucide-react'
import {
  Children, Fragment, isValidElement, useEffect, useLayoutEffect, useRef, useState, useSyncExternalStore,
  type ButtonHTMLAttributes, type Key, type ReactElement, type ReactNode, type RefObject
} from 'react'

import { ApiError } from '../api/client'
import { preferences } from '../preferences'
import { useGuard } from '../router'
import { asProblem, labelOf, type FieldError } from '../texts/problems'
import { t } from '../texts/texts'
import { asAgo, asMoment, asPeriod, asTime, asUtc, asWritten, useMinutes } from './format'
import { useRest, type Pages } from './rest'

export function problemOf (error: unknown): string {
  if (!(error instanceof ApiError)) return String(error)
  if (error.status === 0) return t('state.offline')
  const fields = error.errors.map(({ field, problem }) => [labelOf(field), problem].filter(Boolean).join(': '))
  const text = fields.length > 0 ? fields.join('; ') : error.message
  return /[.!?]$/.test(text) ? text : `${text}.`
}

/* Problems of fields, each in its own line. */
export const Problems = ({ of }: { of: FieldError[] }) => of.map((each, i) => {
  const label = labelOf(each.field)
  return <div key={i}>{label !== '' && <strong>{label}: </strong>}{asProblem(each)}</div>
})

const view = () => document.getElementById('content')

type ButtonProps = ButtonHTMLAttributes<HTMLButtonElement> & {
  kind?: 'main' | 'plain' | 'risk' | 'danger' | 'link' | 'quiet', icon?: LucideIcon
}

/*
 * When a focused button is removed, its dialog or the view gets the focus. If the dialog closes, it moves the focus
 * itself.
 */
function useFocus (button: RefObject<HTMLButtonElement | null>) {
  useLayoutEffect(() => {
    const own = button.current
    return () => {
      if (document.activeElement !== own) return
      const around = own?.closest<HTMLElement>('[role=dialog]') ?? view()
      setTimeout(() => { if (document.activeElement === document.body) around?.focus({ preventScroll: true }) })
    }
  }, [])
}

/*
 * A `quiet` button has no border: for actions in the rows of tables. A button with only an icon needs an aria-label.
 * Disabled buttons use aria-disabled instead of `disabled`, so that they keep the focus: many are disabled only while
 * they work.
 */
export function Button ({
  kind = 'plain',
  type = 'button',
  className = '',
  icon: Icon,
  children,
  disabled,
  onClick,
  ...rest
}: ButtonProps) {
  const button = useRef<HTMLButtonElement>(null)

  useFocus(button)
  return (
    <button ref={button} type={type} className={`button ${kind} ${className}`} {...rest} aria-disabled={disabled}
      onClick={disabled ? (e) => { e.preventDefault(); e.stopPropagation() } : onClick}>
      {Icon && <Icon />}
      {children}
    </button>
  )
}

/* A time, or if the user prefers it, how long ago it is. `seconds`: minutes are not precise enough. */
export function Time ({ at, seconds = false }: { at: string, seconds?: boolean }) {
  const relative = preferences.times === 'relative'
  const full = seconds ? asMoment(at) : asTime(at)

  useMinutes(relative)
  return (
    <time dateTime={at} title={relative ? `${asMoment(at)} · ${asUtc(at)}` : asUtc(at)}>
      {relative ? asAgo(at) : full}
    </time>
  )
}

export function Period ({ start, end, zone }: { start: string, end: string, zone?: string }) {
  return <span title={`${asUtc(start)} – ${asUtc(end)}`}>{asPeriod(start, end, zone)}</span>
}

/* Lines in place of a text or table that is loading, so that the page does not jump. */
export function Loading ({ lines = 4 }: { lines?: number }) {
  return (
    <div className='loading' role='status'>
      <span className='hidden'>{t('state.loading')}</span>
      {Array.from({ length: lines }, (_, i) => <span key={i} className='line' />)}
    </div>
  )
}

/* Another attempt does not help if the object does not exist. It may help if the module of the route is not loaded. */
const isGone = (error: unknown) => error instanceof ApiError && error.status === 404 && error.hasRoute

export function Failed ({ error, again }: { error: unknown, again?: () => void }) {
  const gone = again !== undefined && isGone(error)
  return (
    <div className='failed' role='alert'>
      <p>
        {gone || (error instanceof ApiError && error.status === 0)
          ? t(gone ? 'state.gone' : 'state.offline')
          : t('state.failed', { problem: problemOf(error) })}
      </p>
      {again && !gone && <Button onClick={again}>{t('state.retry')}</Button>}
    </div>
  )
}

/* `action`: the button or link that helps. */
export function Empty ({
  icon: Icon,
  action,
  children
}: {
  icon?: LucideIcon
  action?: ReactNode
  children: ReactNode
}) {
  return (
    <div className='empty'>
      {Icon && <Icon />}
      <p>{children}</p>
      {action}
    </div>
  )
}

export function Logo () {
  return (
    <svg className='logo' viewBox='0 0 32 32' aria-hidden='true'>
      <rect width='32' height='32' rx='7' /><path d='M6 11h20M6 21h20M11 6v20M21 6v20' />
    </svg>
  )
}

export function Badge ({ tone, children }: { tone: 'good' | 'bad' | 'wait' | 'off', children: ReactNode }) {
  return <span className={`badge ${tone}`}>{children}</span>
}

let fields = 0

/* A label, its input, and the problem with its value. `date`: the value, if it is a date. */
export function Field ({
  label,
  problem,
  date = '',
  children
}: {
  label: string
  problem?: string
  date?: string
  children: (props: { id: string; 'aria-invalid'?: boolean; 'aria-describedby'?: string }) => ReactNode
}) {
  const [id] = useState(() => `field${++fields}`)
  const written = asWritten(date)
  const about = [written && `${id}d`, problem && `${id}p`].filter(Boolean).join(' ') || undefined
  return (
    <div className='field'>
      <label htmlFor={id}>{label}</label>
      {written && <small id={`${id}d`} className='written'>{written}</small>}
      {children({ id, 'aria-invalid': problem ? true : undefined, 'aria-describedby': about })}
      {problem && <p id={`${id}p`} className='problem'>{problem}</p>}
    </div>
  )
}

/* An e-mail, which may be broken into two lines between its parts. */
export function Mail ({ of }: { of: string }) {
  const [local, ...domain] = of.split('@')
  return <>{local}<wbr />{domain.length > 0 && `@${domain.join('@')}`}</>
}

/* The element that has the focus, and those around it that can have it: a table, the view. */
function focusable (): HTMLElement[] {
  const all: HTMLElement[] = []
  for (let each = document.activeElement; each instanceof HTMLElement; each = each.parentElement)
    if (each.tabIndex >= 0) all.push(each)
  return all
}

const popups: HTMLElement[] = [] // the open dialogs, the uppermost last
let changed = () => {}

function opened (popup: HTMLDivElement) {
  popups.push(popup)
  changed()
  return () => { popups.splice(popups.indexOf(popup), 1); changed() }
}

function listen (listener: () => void) {
  changed = listener
  return () => { changed = () => {} }
}

/* Returns the uppermost dialog; everything outside of it is inert. Only one component on the page may call this. */
export const usePopup = () => useSyncExternalStore(listen, () => popups.at(-1))

/*
 * A dialog while it is on the page. `close` is called by Escape. The focus returns to the element that had it. If that
 * element is gone, for example with a deleted row, the table of the row gets the focus, or else the view.
 */
export function Modal ({ title, close = () => {}, className = '', onInput, children }: {
  title: string, close?: () => void, className?: string, onInput?: () => void, children: ReactNode
}) {
  const [before] = useState(focusable)
  const goOn = () => before.find((each) => each.isConnected && !each.matches(':disabled')) ?? view()

  useEffect(() => () => { // the library leaves the focus nowhere if the view has changed together with the dialog
    setTimeout(() => { if (document.activeElement === document.body) goOn()?.focus({ preventScroll: true }) })
  }, [])
  return (
    <Base.Root open onOpenChange={close} disablePointerDismissal>
      <Base.Portal>
        <Base.Backdrop className='backdrop' forceRender />
        <Base.Popup
          ref={opened}
          className={`dialog ${className}`}
          aria-label={title}
          finalFocus={goOn}
          onInput={onInput}>
          {children}
        </Base.Popup>
      </Base.Portal>
    </Base.Root>
  )
}

/* Asks whether typed text may be lost. */
export function Discard ({ close, done }: { close: () => void, done: () => void }) {
  return (
    <Confirm title={t('do.discardAsk')} text={t('do.discardText')} action={t('do.discard')} cancel={t('do.keep')}
      close={close} done={done} run={() => Promise.resolve()} />
  )
}

/*
 * Asks before Escape, Back or closing the page, in two cases: in a `form`, if the user has typed text, which would be
 * lost; and with `leaving`, the question about content that cannot be shown again.
 */
export function Dialog ({ title, close, wide = false, form = true, leaving, children }: {
  title: string, close: () => void, wide?: boolean, form?: boolean, leaving?: string, children: ReactNode
}) {
  const [typed, type] = useState(false)
  const [asking, ask] = useState(false)
  const guard = useGuard(typed || leaving !== undefined)
  const leave = () => { if (typed || leaving) ask(true); else close() }
  const stay = () => { ask(false); guard.stay() }
  const done = () => { close(); guard.leave?.() }
  const asks = asking || guard.leave !== null

  return (
    <Modal title={title} close={leave} className={wide ? 'wide' : ''} onInput={() => type(form)}>
      <h2>{title}</h2>
      {children}
      {asks && !leaving && <Discard close={stay} done={done} />}
      {asks && leaving && (
        <Confirm title={title} text={leaving} action={t('do.close')} close={stay} done={done}
          run={() => Promise.resolve()} />
      )}
    </Modal>
  )
}

const words = (text: string) => text.trim().replace(/\s+/g, ' ')

/*
 * A field for a name that must be typed before an action that cannot be undone; '': none. Enter in the field starts
 * the action.
 */
export function useSure (name: string, start: () => void) {
  const [typed, type] = useState('')
  const sure = words(typed) === words(name)
  const field = name !== '' && (
    <Field label={t('do.type', { name })}>
      {(props) => (
        <input {...props} autoComplete='off' spellCheck={false} value={typed} onChange={(e) => type(e.target.value)}
          onKeyDown={(e) => { if (e.key === 'Enter' && sure && !e.nativeEvent.isComposing) start() }} />
      )}
    </Field>
  )

  return { sure, field }
}

/*
 * `text` says what the action will do. `done` is called instead of `close` if something else is shown after the
 * action; `mild`: the action does no harm; `name`: must be typed first, because the action cannot be undone.
 */
export function Confirm ({
  title,
  text,
  action,
  run,
  close,
  done = close,
  mild = false,
  cancel = t('do.cancel'),
  name = ''
}: {
  title: string
  text: ReactNode
  action: string
  run: () => Promise<unknown>
  close: () => void
  done?: () => void
  mild?: boolean
  cancel?: string
  name?: string
}) {
  const [error, setError] = useState<unknown>(null)
  const [busy, setBusy] = useState(false)

  const go = () => {
    if (busy) return
    setBusy(true)
    run().then(done, (problem) => { setError(problem); setBusy(false) })
  }
  const { sure, field } = useSure(name, go)

  return (
    <Dialog title={title} close={close} form={false}>
      <div className='text'>{text}</div>
      {field}
      {error !== null && <Failed error={error} />}
      <div className='actions'>
        <Button onClick={close}>{cancel}</Button>
        <Button kind={mild ? 'main' : 'danger'} disabled={busy || !sure} onClick={go}>{action}</Button>
      </div>
    </Dialog>
  )
}

/*
 * Selects an element's content and copies it, because pages loaded without TLS have no navigator.clipboard.
 */
function copySelected (element: Element) {
  getSelection()?.selectAllChildren(element)
  return document.execCommand('copy')
}

/* `shown`: the text in a form that is easier to read. */
export function Copy ({ text, shown = text }: { text: string, shown?: string }) {
  const [done, setDone] = useState(false)
  const code = useRef<HTMLElement>(null)
  const copy = async () => {
    const written = await navigator.clipboard?.writeText(text).then(() => true, () => false)
    setDone(written || (code.current !== null && copySelected(code.current)))
  }

  return (
    <div className='copy'>
      <code ref={code}>{shown}</code>
      <Button icon={done ? Check : CopyIcon} onClick={() => void copy()}>
        {done ? t('state.copied') : t('state.copy')}
      </Button>
    </div>
  )
}

/* An id, and in its place "Copied" after a click. `shown`: the id in a shorter form. */
export function Id ({ id, shown = id }: { id: string, shown?: string }) {
  const [copied, setCopied] = useState(false)
  const code = useRef<HTMLElement>(null)
  const copy = async () => {
    const written = await navigator.clipboard?.writeText(id).then(() => true, () => false)
    setCopied(written || (shown === id && code.current !== null && copySelected(code.current)))
  }

  return (
    <span>
      <Button kind='link' title={id} onClick={() => void copy()}>
        <span className='hidden'>{t('state.copyThis')} </span>
        <code ref={code}>{copied ? t('state.copied') : shown}</code>
      </Button>
    </span>
  )
}

const LONG = 100 // rows; of a longer table, only the rows near the window are on the page
const STEP = 30 // rows that are drawn at once
const AROUND = 20
const ROW_PX = 45

const arrows = { ascending: ArrowUp, descending: ArrowDown, none: ChevronsUpDown }

/*
 * The header of a column, right-aligned above numbers; clicking a header with `sort` sorts the rows. `of` is shown
 * instead of the text.
 */
export type Head =
  | string
  | { text: string; number?: boolean; sorted?: 'ascending' | 'descending' | 'none'; sort?: () => void; of?: ReactNode }

function Column ({ head, label, width }: { head: Head, label: string, width?: string }) {
  const style = { width }
  if (typeof head === 'string')
    return <th scope='col' style={style}>{head || <span className='hidden'>{label}</span>}</th>
  if (head.of) return <th scope='col' className='select' style={style}>{head.of}</th>
  const Arrow = arrows[head.sorted ?? 'none']
  return (
    <th scope='col' aria-sort={head.sorted} className={head.number ? 'number' : undefined} style={style}>
      {head.sort ? <button type='button' className='sort' onClick={head.sort}>{head.text}<Arrow /></button> : head.text}
    </th>
  )
}

/*
 * The number of rows that are drawn: those in the window first, and the others a moment later, so that the page
 * responds meanwhile. It never becomes smaller, because the view would scroll.
 */
function useDrawn (count: number): number {
  const [drawn, draw] = useState(STEP)
  const more = drawn < Math.min(count, LONG)

  useEffect(() => {
    if (!more) return
    const timer = setTimeout(() => draw(drawn + STEP))
    return () => clearTimeout(timer)
  }, [drawn, more])
  return drawn
}

/*
 * The rows of a long table that are near the window, and for each the height of the rows left out before it. The row
 * that had the focus last stays on the page wherever it is, because it may have an open dialog or a changed field. The
 * columns keep the widths that they have first, so that the widths do not depend on which rows are on the page. Cards,
 * which a narrow view shows, have no columns.
 */
function useRows (all: ReactElement[], table: RefObject<HTMLTableElement | null>) {
  const long = all.length > LONG
  const drawn = useDrawn(all.length)
  const [{ top, widths }, fix] = useState({ top: 0, widths: [] as string[] })
  const [used, use] = useState<Key | null>(null)
  const kept = all.findIndex(({ key }) => key !== null && key === used)
  const rows = useVirtualizer({
    count: all.length, enabled: long, getScrollElement: view, getItemKey: (i) => all[i]!.key ?? i,
    estimateSize: () => ROW_PX, overscan: AROUND, scrollMargin: top,
    rangeExtractor: (range) => {
      const near = defaultRangeExtractor(range)
      return kept < 0 || near.includes(kept) ? near : [...near, kept].sort((a, b) => a - b)
    }
  })
  const items = rows.getVirtualItems()
  const some = items.length > 0

  useLayoutEffect(() => {
    const [box, content] = [table.current, view()]
    if (!some || !box || !content) return
    const look = () => {
      const { top: begin, width } = box.getBoundingClientRect()
      const cards = getComputedStyle(box).display === 'block'
      fix(({ widths }) => ({
        top: begin - content.getBoundingClientRect().top + content.scrollTop,
        widths: cards ? [] : widths.length > 0 ? widths
          : [...box.rows[0]!.cells].map((cell) => `${cell.offsetWidth / width * 100}%`)
      }))
    }
    const watch = new ResizeObserver(look) // the observer also calls this at once

    watch.observe(content)
    return () => watch.disconnect()
  }, [some, table])
  if (!long) {
    const shown = all.slice(0, drawn).map((row, index) => ({ row, index, above: 0 }))
    return { shown, below: 0, widths: [], use }
  }
  const end = (i: number) => items[i]?.end ?? top
  return {
    shown: items.map(({ index, start }, i) => ({ row: all[index]!, index, above: start - end(i - 1) })),
    below: top + rows.getTotalSize() - end(items.length - 1), widths, use, measure: rows.measureElement
  }
}

/* A table that becomes a list of cards if its columns do not fit; a `small` table always fits. */
export function Table ({
  head,
  label,
  busy = false,
  small = false,
  children
}: {
  head: Head[]
  label: string
  busy?: boolean
  small?: boolean
  children: ReactNode
}) {
  const table = useRef<HTMLTableElement>(null)
  const { below, shown, measure, use, widths } = useRows(Children.toArray(children).filter(isValidElement), table)
  const space = (height: number) =>
    height > 0 && <tbody aria-hidden='true'><tr style={{ height }}><td colSpan={head.length} /></tr></tbody>

  useLayoutEffect(() => { // before the browser computes the style of the cells
    // on a card, the column's name comes before each value
    const names = head.map((each) => (typeof each === 'string' ? each : each.text))
    for (const body of table.current?.tBodies ?? [])
      for (const row of body.rows)
        [...row.cells].forEach((cell, i) => {
          const name = names[i] ?? ''
          if (cell.dataset.label !== name) cell.dataset.label = name // otherwise the browser computes its style again
        })
  })
  return (
    <div
      className={small ? 'table' : 'table cards'}
      role='region'
      aria-label={label}
      aria-busy={busy || undefined}
      tabIndex={0}>
      <table ref={table} className={widths.length > 0 ? 'fixed' : undefined}>
        <thead>
          <tr>{head.map((each, i) => <Column key={i} head={each} label={label} width={widths[i]} />)}</tr>
        </thead>
        {shown.map(({ row, index, above }) => (
          <Fragment key={row.key}>
            {space(above)}
            <tbody data-index={index} ref={measure} onFocus={() => use(row.key)}>{row}</tbody>
          </Fragment>
        ))}
        {space(below)}
      </table>
    </div>
  )
}

/*
 * The next page of a list, or all pages to its end, and the part of it that is shown. `whole`: false for lists that are
 * read again and again, which offer only the next page.
 */
export function More ({ of, shown, total, whole = true }: {
  of: Pages, shown?: number, total?: number | null, whole?: boolean
}) {
  const [all, readAll] = useState(false)
  const reading = all && of.hasNextPage

  useRest(of, all)
  useEffect(() => {
    if (!of.hasNextPage || (of.isError && !of.isFetching)) readAll(false)
  }, [of.hasNextPage, of.isError, of.isFetching])
  if (!of.hasNextPage) return null
  return (
    <div className='row more'>
      {!reading && (
        <Button disabled={of.isFetchingNextPage} onClick={() => void of.fetchNextPage()}>{t('state.more')}</Button>
      )}
      {whole && (
        <Button
          kind={reading ? 'plain' : 'quiet'}
          onClick={() => {
            if (!all && of.isError) void of.fetchNextPage() // the error would stop the rest
            readAll(!all)
          }}
        >
          {t(reading ? 'select.stop' : 'state.all')}
        </Button>
      )}
      {shown !== undefined && typeof total === 'number' && (
        <small>{t('state.shown', { n: shown, all: total })}</small>
      )}
    </div>
  )
}
