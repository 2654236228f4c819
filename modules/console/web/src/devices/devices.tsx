/* Devices: a list with filters, possible duplicates, or one device. */
import { isOne, useMe } from '../session'
import { Duplicates } from './duplicates'
import { List } from './list'
import { One } from './one'

export default function Devices ({ rest }: { rest: string[] }) {
  const me = useMe()

  if (rest[0] === 'duplicates' && isOne(me, 'Admin')) return <Duplicates />
  return rest[0] === undefined ? <List /> : <One key={rest[0]} name={rest[0]} />
}
