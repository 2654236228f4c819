/*
 * Short messages about what was done, with a button that undoes it if that is possible, or about why something was not
 * done. They are below the view, or at the end of the uppermost dialog. They leave after a while, but not while the
 * pointer or the focus is on them.
 */
import { Check, CircleAlert, X } from 'lucide-react'
import { useEffect, useState } from 'react'
import { createPortal } from 'react-dom'

import { t } from '../texts/texts'
import { Button, usePopup } from './ui'

const SHOWN_MS = 6000

interface Message { id: number, text: string, undo?: () => void, bad?: true }

let show: (message: Message) => void = () => {}
let count = 0

/* Any part of the console can call these; refuse() says why something was not done. */
export const toast = (text: string, undo?: () => void) => show({ id: ++count, text, undo })
export const refuse = (text: string) => show({ id: ++count, text, bad: true })

function One ({ message: { id, text, undo, bad }, close }: { message: Message, close: (id: number) => void }) {
  const [over, setOver] = useState(false)
  const [focused, setFocused] = useState(false)
  const held = over || focused

  useEffect(() => {
    if (held) return
    const timer = setTimeout(() => close(id), SHOWN_MS)
    return () => clearTimeout(timer)
  }, [held, id, close])
  return (
    <li
      className={bad && 'bad'}
      onPointerEnter={({ pointerType }) => setOver(pointerType === 'mouse')} // a finger does not stay
      onPointerLeave={() => setOver(false)}
      onFocus={() => setFocused(true)}
      onBlur={() => setFocused(false)}>
      {bad ? <CircleAlert /> : <Check />}
      <span>{text}</span>
      {undo && <Button kind='link' onClick={() => { close(id); undo() }}>{t('do.undo')}</Button>}
      <Button kind='quiet' icon={X} aria-label={t('toast.close')} onClick={() => close(id)} />
    </li>
  )
}

export function Toasts () {
  const popup = usePopup()
  const [all, set] = useState<Message[]>([])
  const [close] = useState(() => (id: number) => set((before) => before.filter((each) => each.id !== id)))

  useEffect(() => {
    show = (message) => set((before) => [...before.slice(-2), message])
    return () => { show = () => {} }
  }, [])
  const list = (
    <div className='toasts' role='status'>
      {all.length > 0 && (
        <ul>
          {all.map((message) => (
            <One key={message.id} message={message} close={close} />
          ))}
        </ul>
      )}
    </div>
  )
  return popup ? createPortal(list, popup) : list
}
