/* A conversation in the list, and the parts that it has in common with a message that a search has found. */
import type { Conversation as Data } from '../api/types'
import { t } from '../texts/texts'
import { asClock, asDay, asNumber, asUtc } from '../ui/format'
import { othersOf, unreadBy } from './conversation'

const HUES = 360

const hueOf = (email: string) => [...email].reduce((sum, each) => (sum * 31 + each.charCodeAt(0)) % HUES, 7)

/* The first letters of an e-mail, in a color that depends on it. */
export function Avatar ({ email }: { email: string }) {
  const initials = email
    .split('@')[0]
    ?.split(/[._+-]/)
    .map((part) => part.charAt(0))
    .join('')
    .slice(0, 2)
  return (
    <span className='avatar' aria-hidden='true' style={{ backgroundColor: `hsl(${hueOf(email)} 45% 30%)` }}>
      {initials}
    </span>
  )
}

/* The time of today, otherwise the day. */
export function When ({ at }: { at: string }) {
  const today = asDay(at) === asDay(new Date().toISOString())
  return (
    <time dateTime={at} title={asUtc(at)}>
      {today ? asClock(at) : asDay(at)}
    </time>
  )
}

export function Item ({ data, email, current, href }: { data: Data; email: string; current: boolean; href: string }) {
  const unread = current ? 0 : unreadBy(data, email)
  const { username, chatEntry, createdAt } = data.lastMessage
  const others = othersOf(data, email)

  return (
    <li>
      <a href={href} aria-current={current ? 'true' : undefined} className={unread > 0 ? 'unread' : ''}>
        <Avatar email={data.participant1 === email ? data.participant2 : data.participant1} />
        <span className='with'>{others}</span> {data.deviceProjectName && <small>{data.deviceProjectName}</small>}{' '}
        <When at={createdAt} />{' '}
        <span className='last'>{username === email ? t('chat.youSaid', { text: chatEntry }) : chatEntry}</span>{' '}
        {unread > 0 && (
          <em>
            {asNumber(unread)}
            <span className='hidden'> {t('chat.unread')}</span>
          </em>
        )}
      </a>
    </li>
  )
}
