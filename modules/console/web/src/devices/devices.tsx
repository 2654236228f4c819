/* Devices: a list with filters, or one device. */
import { List } from './list'
import { One } from './one'

export default function Devices ({ rest }: { rest: string[] }) {
  return rest[0] === undefined ? <List /> : <One key={rest[0]} name={rest[0]} />
}
