/*
 * Selecting rows of a table, and one action for all of them: a column of checkboxes, a bar with the number of selected
 * rows and the actions, one question that says what the action will do, its progress, and the rows that failed.
 * Only rows that are shown can be selected. Rows that failed stay selected.
 */
import { useEffect, useRef, useState, type ChangeEvent, type Key, type ReactNode } from 'react'
import { flushSync } from 'react-dom'

import { t } from '../texts/texts'
import { forEachItem, type Progress } from './each'
import { toast } from './toast'
import { Button, Dialog, problemOf, useSure, type Head } from './ui'

const NAMED = 5 // rows that the question names

export interface Action<Item> {
  text: string // of the button
  kind?: 'danger'
  final?: true // cannot be undone, so the number of rows must be typed
  fits: (item: Item) => boolean // rows that it does not change are left out
  ask: (n: number) => string
  run: (item: Item) => Promise<unknown>
  done: (n: number) => string
}

export function useSelection<Item> (shown: Item[], keyOf: (item: Item) => Key) {
  const [keys, set] = useState<ReadonlySet<Key>>(new Set())
  const first = useRef<HTMLInputElement>(null) // in the header
  const last = useRef<Key>(null) // the row that was clicked last; Shift selects from there
  const selected = shown.filter((item) => keys.has(keyOf(item)))
  const all = shown.length > 0 && selected.length === shown.length
  const put = (items: Item[], on: boolean) => set((before) => {
    const after = new Set(before)
    for (const item of items) {
      if (on) after.add(keyOf(item))
      else after.delete(keyOf(item))
    }
    return after
  })
  const toggle = (item: Item, { target, nativeEvent }: ChangeEvent<HTMLInputElement>) => {
    const from = shown.findIndex((one) => keyOf(one) === last.current)
    const to = shown.indexOf(item)
    const range = from >= 0 && (nativeEvent as MouseEvent).shiftKey
    last.current = keyOf(item)
    put(range ? shown.slice(Math.min(from, to), Math.max(from, to) + 1) : [item], target.checked)
  }
  const head: Head = {
    text: '',
    of: (
      <input type='checkbox' aria-label={t('select.all')} checked={all}
        ref={(box) => { first.current = box; if (box) box.indeterminate = selected.length > 0 && !all }}
        onChange={() => put(shown, !all)} />
    )
  }
  const cell = (item: Item, name: string) => (
    <td className='select'>
      <input type='checkbox' aria-label={t('select.one', { name })} checked={keys.has(keyOf(item))}
        onChange={(event) => toggle(item, event)} />
    </td>
  )

  return {
    selected, shown, head, cell,
    keep: (items: Item[]) => set(new Set(items.map(keyOf))),
    selectAll: () => put(shown, true),
    focusAll: () => first.current?.focus()
  }
}

type Selection<Item> = ReturnType<typeof useSelection<Item>>

/* The names of items, in a list that stays short. */
function Names ({ of }: { of: ReactNode[] }) {
  return (
    <ul>
      {of.slice(0, NAMED).map((name, i) => <li key={i}>{name}</li>)}
      {of.length > NAMED && <li>{t('select.more', { n: of.length - NAMED })}</li>}
    </ul>
  )
}

/* Asks, sends the requests, and names the rows that failed. */
function Run<Item> ({ action, selection, nameOf, changed, close }: {
  action: Action<Item>; selection: Selection<Item>; nameOf: (item: Item) => string; changed: () => unknown
  close: () => void
}) {
  const [items] = useState(() => selection.selected.filter(action.fits)) // the rows that the question is about
  const left = selection.selected.length - items.length
  const [skipped] = useState(left)
  const [progress, report] = useState<Progress | null>(null)
  const [results, finish] = useState<Map<Item, unknown> | null>(null)
  const stopped = useRef(false)
  const failed = results ? items.filter((item) => results.get(item)) : []
  const untried = results ? items.filter((item) => !results.has(item)) : []
  const succeeded = items.length - failed.length - untried.length
  const stop = () => { stopped.current = true }
  const leave = progress && !results ? stop : close

  const { sure, field } = useSure(action.final ? String(items.length) : '', () => void start())

  async function start () {
    report({ done: 0, waiting: 0 })
    const ended = await forEachItem(items, action.run, (now) => { report(now); return !stopped.current })
    const wrong = items.filter((item) => ended.get(item) !== null)

    selection.keep(wrong)
    void changed()
    finish(ended)
    if (wrong.length > 0) return
    close()
    toast(action.done(items.length))
  }

  useEffect(() => stop, []) // when the view is left
  return (
    <Dialog title={action.text} close={leave} form={false}>
      {!progress && (
        <div className='text'>
          <p>{action.ask(items.length)}</p>
          <Names of={items.map(nameOf)} />
          {skipped > 0 && <p>{t('select.skipped', { n: skipped })}</p>}
          {field}
        </div>
      )}
      {progress && !results && (
        <>
          <progress aria-label={action.text} value={progress.done} max={items.length} />
          <p role='status'>
            {progress.waiting > 0
              ? t('select.waits', { n: progress.waiting })
              : t('select.progress', { n: progress.done, all: items.length })}
          </p>
        </>
      )}
      {results && (
        <div className='text' role='alert'>
          <p>{t('select.progress', { n: succeeded, all: items.length })}</p>
          {failed.length > 0 && (
            <div className='failed'>
              <p>{t('select.failed', { n: failed.length })}</p>
              <ul>{failed.map((item, i) => <li key={i}>{nameOf(item)}: {problemOf(results.get(item))}</li>)}</ul>
            </div>
          )}
          {untried.length > 0 && <p>{t('select.untried', { n: untried.length })}</p>}
        </div>
      )}
      <div className='actions'>
        {!progress && <Button onClick={close}>{t('do.cancel')}</Button>}
        {!progress && (
          <Button kind={action.kind ?? 'main'} disabled={!sure} onClick={() => void start()}>
            {action.text}
          </Button>
        )}
        {progress && (
          <Button key={results ? 'close' : 'stop'} autoFocus onClick={leave}>
            {t(results ? 'do.close' : 'select.stop')}
          </Button>
        )}
      </div>
    </Dialog>
  )
}

/* The number of selected rows, and the actions that fit at least one of them. `changed` is called after an action. */
export function SelectionBar<Item> ({ selection, actions, nameOf, changed }: {
  selection: Selection<Item>; actions: Action<Item>[]; nameOf: (item: Item) => string; changed: () => unknown
}) {
  const [chosen, choose] = useState<Action<Item> | null>(null)
  const { selected, shown, keep, selectAll, focusAll } = selection
  const bar = useRef<HTMLDivElement>(null)
  const count = t('select.count', { n: selected.length })
  const fitting = actions.map((action) => ({ action, n: selected.filter(action.fits).length })).filter(({ n }) => n > 0)

  /* The button disappears, so the focus goes to the checkbox that selects all rows; on a phone, to the bar's button. */
  const clear = () => {
    flushSync(() => keep([]))
    focusAll()
    bar.current?.querySelector('button')?.focus()
  }

  return (
    <>
      <span className='hidden' role='status'>{selected.length > 0 && count}</span>
      {shown.length > 0 && (
        <div ref={bar} className={selected.length > 0 ? 'selection' : 'selection none'} role='group'
          aria-label={t('select.actions')}>
          {selected.length > 0 && <strong>{count}</strong>}
          {selected.length < shown.length && (
            <Button kind='quiet' onClick={selectAll}>{t('select.allOf', { n: shown.length })}</Button>
          )}
          {selected.length > 0 && <Button kind='quiet' onClick={clear}>{t('select.clear')}</Button>}
          <div className='row'>
            {fitting.map(({ action, n }) => (
              <Button key={action.text} kind={action.kind === 'danger' ? 'risk' : 'plain'}
                onClick={() => choose(action)}>
                {t('select.do', { action: action.text, n })}
              </Button>
            ))}
          </div>
        </div>
      )}
      {chosen && (
        <Run action={chosen} selection={selection} nameOf={nameOf} changed={changed} close={() => choose(null)} />
      )}
    </>
  )
}
