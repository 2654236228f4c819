/* A field for a filter that the user types. */
import { useEffect, useRef, type InputHTMLAttributes } from 'react'

import { useEntry } from '../router'

const PAUSE_MS = 250

/*
 * The field keeps its text itself, so a key redraws only the field, even if the list that the text filters is long.
 * `change` gets the text when the user pauses, presses Enter, follows a link or clicks a button, but not after Back.
 * Leaving the field does not change the list, because the rows would move while a button of one of them is pressed. The
 * value of an incomplete date is '', so the field is written only if its value differs.
 */
export function Typed ({ value, change, ...rest }: InputHTMLAttributes<HTMLInputElement> & {
  value: string, change: (text: string) => void
}) {
  const input = useRef<HTMLInputElement>(null)
  const timer = useRef(0)
  const entry = useEntry()
  const pass = () => {
    const text = input.current?.value ?? value
    clearTimeout(timer.current)
    timer.current = 0
    if (text !== value) change(text)
  }
  const latest = useRef(pass)

  useEffect(() => { latest.current = pass })
  useEffect(() => {
    const leave = ({ target }: MouseEvent) => {
      if (timer.current !== 0 && target instanceof Element && target.closest('a, button')) latest.current()
    }
    addEventListener('click', leave, true)
    return () => removeEventListener('click', leave, true)
  }, [])
  useEffect(() => () => { clearTimeout(timer.current); timer.current = 0 }, [entry])
  useEffect(() => {
    if (timer.current === 0 && input.current && input.current.value !== value) input.current.value = value
  }, [entry, value])
  return (
    <input {...rest} ref={input} defaultValue={value}
      onKeyDown={(event) => {
        if (event.key !== 'Enter' || event.nativeEvent.isComposing) return
        event.preventDefault() // a form around the field is not sent
        pass()
      }}
      onChange={() => {
        clearTimeout(timer.current)
        timer.current = window.setTimeout(() => latest.current(), PAUSE_MS)
      }} />
  )
}
