/* The logged-in account, which all views can access. */
import { createContext, useContext } from 'react'

import type { Account, Role } from './api/types'

export const Me = createContext<Account | null>(null)

export function useMe (): Account {
  const me = useContext(Me)
  if (!me) throw new Error('a view is shown without an account')
  return me
}

export const isOne = (me: Account, ...roles: Role[]) => roles.includes(me.role)
