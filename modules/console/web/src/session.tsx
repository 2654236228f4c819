/* The logged-in account, which all views can access. */
import { createContext, useContext } from 'react'

import type { Own, Role } from './api/types'

export const Me = createContext<Own | null>(null)
export const SetMe = createContext<(me: Own) => void>(() => {})

export function useMe (): Own {
  const me = useContext(Me)
  if (!me) throw new Error('a view is shown without an account')
  return me
}

export const isOne = (me: Own, ...roles: Role[]) => roles.includes(me.role)
