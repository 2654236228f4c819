/* The filters of a list: the first ones, and others that are shown after a click on "More filters". */
import { ListFilter, X } from 'lucide-react'
import { useRef, useState, type ReactNode } from 'react'
import { flushSync } from 'react-dom'

import { t } from '../texts/texts'
import { Button } from './ui'

/*
 * `more`: further filters, which a button shows unless `used` (one of them is set). `clear` empties all filters; null:
 * all are empty. A button disappears when it is clicked, so the focus moves to the first field shown or emptied by it.
 */
export function FilterRow ({ children, more, used, clear }: {
  children: ReactNode, more: ReactNode, used: boolean, clear: (() => void) | null
}) {
  const [opened, setOpened] = useState(used)
  const row = useRef<HTMLDivElement>(null)
  const open = opened || used
  const fields = () => row.current?.querySelectorAll<HTMLElement>('input, select')
  const show = () => {
    const before = fields()?.length ?? 0
    flushSync(() => setOpened(true))
    fields()?.[before]?.focus()
  }
  const empty = () => {
    setOpened(false)
    clear?.()
    fields()?.[0]?.focus()
  }

  return (
    <div ref={row} className='filters'>
      {children}
      {open && more}
      <div className='row'>
        {!open && <Button icon={ListFilter} onClick={show}>{t('state.filters')}</Button>}
        {clear && <Button kind='quiet' icon={X} onClick={empty}>{t('hooks.clear')}</Button>}
      </div>
    </div>
  )
}
