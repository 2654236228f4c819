/* Devices: a list with filters, possible duplicates, or one device. */
import { useValues } from '../router'
import { isOne, useMe } from '../session'
import { Duplicates } from './duplicates'
import { List } from './list'
import { One } from './one'

export default function Devices ({ rest }: { rest: string[] }) {
  const me = useMe()
  const [{ show }] = useValues('show') // a name in the path would be a device

  if (rest[0] !== undefined) return <One key={rest[0]} name={rest[0]} />
  return show === 'duplicates' && isOne(me, 'Admin') ? <Duplicates /> : <List />
}
