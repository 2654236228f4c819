/* A conversation in the list, and the parts that it has in common with a message that a search has found. */
import { memo } from 'react'

import type { Conversation as Data } from '../api/types'
import { t } from '../texts/texts'
import { asClock, asDay, asNumber, asUtc, useToday } from '../ui/format'
import { Badge } from '../ui/ui'
import { titleOf, unreadBy } from './conversation'

const HUES = 360

const hueOf = (email: string) => [...email].reduce((sum, each) => (sum * 31 + each.charCodeAt(0)) % HUES, 7)

/* The first letters of a name or an e-mail, in a color that depends on the e-mail. */
export function Avatar ({ email, name }: { email: string, name?: string | null }) {
  const initials = (name ?? email.split('@')[0])
    ?.split(/[\s._+-]+/)
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
  const today = asDay(at) === useToday()
  return (
    <time dateTime={at} title={asUtc(at)}>
      {today ? asClock(at) : asDay(at)}
    </time>
  )
}

/* `organization`: its name, if the user acts for several. */
export const Item = memo(function Item ({ data, email, organization, current, href }: {
  data: Data, email: string, organization: string | false | undefined, current: boolean, href: string
}) {
  const unread = current ? 0 : unreadBy(data, email)
  const { username, chatEntry, createdAt, attachments } = data.lastMessage
  const { title, emails } = titleOf(data, email)
  const about = [data.deviceProjectName, organization].filter(Boolean).join(' · ')
  const second = data.participant1 === email
  const text = chatEntry || (attachments ?? []).map(({ name }) => name).join(', ')

  return (
    <li>
      <a href={href} aria-current={current ? 'true' : undefined} className={unread > 0 ? 'unread' : ''}>
        <Avatar email={second ? data.participant2 : data.participant1} name={second ? data.name2 : data.name1} />
        <span className='with' title={emails || undefined}>
          {title} {emails !== '' && <span>{emails}</span>}
        </span>{' '}
        {(data.closed || about !== '') && (
          <small>{data.closed && <><Badge tone='off'>{t('chat.closed')}</Badge>{' '}</>}{about}</small>
        )}{' '}
        <When at={createdAt} />{' '}
        <span className='last'>{username === email ? t('chat.youSaid', { text }) : text}</span>{' '}
        {unread > 0 && (
          <em>
            {asNumber(unread)}
            <span className='hidden'> {t('chat.unread')}</span>
          </em>
        )}
      </a>
    </li>
  )
})
