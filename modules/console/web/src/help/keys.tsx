/*
 * Keyboard shortcuts. Shortcuts of one character work while no field has the focus and no dialog is open. The user can
 * switch them off (WCAG 2.1.4).
 */
import { useEffect, useRef } from 'react'

import { prefer, preferences } from '../preferences'
import { to, visit } from '../router'
import { redraw, t } from '../texts/texts'
import type { Key } from '../texts/en'
import { Table } from '../ui/ui'

export interface Goal { name: string, text: Key }

const NEXT_MS = 1500 // between g and the key of a view

/* The second key of each view, after g. */
const letters: Record<string, string> = {
  o: 'overview', c: 'chat', d: 'devices', g: 'groups', b: 'bulk', e: 'certificates', w: 'webhooks', k: 'clients',
  a: 'accounts', l: 'audit', s: 'status', h: 'help', m: 'account'
}

const isTyping = ({ target }: KeyboardEvent) =>
  target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) &&
  !(target instanceof HTMLInputElement && ['checkbox', 'radio', 'button', 'range'].includes(target.type))

function focusSearch (): boolean {
  const field = document.querySelector<HTMLInputElement>('#content input[type=search]')
  field?.focus()
  field?.select()
  return field !== null
}

/* `goals`: the views that the account has; `open` shows the search of everything, or the list of keys. */
export function useKeys (goals: Goal[], open: (what: 'find' | 'keys') => void) {
  const begun = useRef(0) // when g was pressed

  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const { key, ctrlKey, metaKey, altKey } = event
      if (document.querySelector('[role=dialog]')) return
      if ((ctrlKey || metaKey) && !altKey && key.toLowerCase() === 'k') {
        event.preventDefault()
        return open('find')
      }
      if (ctrlKey || metaKey || altKey || preferences.keys === false || isTyping(event)) return
      const second = Date.now() - begun.current < NEXT_MS
      const goal = second ? goals.find(({ name }) => name === letters[key]) : undefined
      begun.current = key === 'g' && !second ? Date.now() : 0
      if (goal) visit(to(goal.name))
      else if (key === '?') open('keys')
      else if (key === '/' && focusSearch()) event.preventDefault()
    }

    addEventListener('keydown', pressed)
    return () => removeEventListener('keydown', pressed)
  })
}

export function Keys ({ goals = [] }: { goals?: Goal[] }) {
  const views = goals.flatMap(({ name, text }) =>
    Object.entries(letters).filter(([, of]) => of === name).map(([letter]) => [`g ${letter}`, t(text)] as const))
  const rows = [
    [`${t('keys.control')} K`, t('keys.find')], ['/', t('keys.search')], ['?', t('keys.list')],
    ...(views.length > 0 ? views : [['g …', t('keys.go')] as const]),
    [t('keys.enter'), t(preferences.enter === 'line' ? 'chat.keysLine' : 'chat.keys')], [t('keys.shift'), t('keys.range')]
  ] as const

  return (
    <>
      <Table small label={t('help.keys')} head={[t('keys.key'), t('keys.does')]}>
        {rows.map(([key, does]) => (
          <tr key={key}>
            <td>{key.split(' ').map((one) => <kbd key={one}>{one}</kbd>)}</td>
            <td className='wide'>{does}</td>
          </tr>
        ))}
      </Table>
      <label className='check'>
        <input type='checkbox' role='switch' checked={preferences.keys !== false}
          onChange={(e) => { prefer({ keys: e.target.checked ? undefined : false }); redraw() }} />
        {t('keys.on')}
      </label>
    </>
  )
}
