/* The messages that a search has found, the newest first. Each links to its place in its conversation. */
import { keepPreviousData, useInfiniteQuery } from '@tanstack/react-query'

import { page, query } from '../api/client'
import type { Found as Data } from '../api/types'
import { t } from '../texts/texts'
import { useRest } from '../ui/rest'
import { Empty, Failed, Loading, More } from '../ui/ui'
import { nameOf, titleOf } from './conversation'
import { Avatar, When } from './items'
import { marked } from './text'

const PAGES = 5 // that are read one after the other while nothing is found

interface Props {
  words: string
  mine: boolean
  organizationId: number | undefined
  email: string
  isOpen: (data: Data) => boolean
  hrefOf: (data: Data) => string
  organizationOf: (id: number | null) => string | false | undefined // if the user acts for several
}

function Row ({ data, words, email, isOpen, hrefOf, organizationOf }: Props & { data: Data }) {
  const { username } = data
  const { title, emails } = titleOf(data, email)
  const about = [data.deviceProjectName, organizationOf(data.organizationId)].filter(Boolean).join(' · ')
  const name = nameOf(data, username)

  return (
    <li>
      <a href={hrefOf(data)} aria-current={isOpen(data) ? 'true' : undefined}>
        <Avatar email={username} name={name} />
        <span className='with' title={emails || undefined}>{title}</span>{' '}
        {about !== '' && <small>{about}</small>} <When at={data.createdAt} />{' '}
        <span className='last'>
          {username === email ? t('chat.you') : name ?? username}: {marked(data.excerpt, words)}
        </span>
      </a>
    </li>
  )
}

/* A page reads a limited number of messages, so it may be empty although another one follows. */
export function Found (props: Props) {
  const { words: q, mine, organizationId } = props
  const list = useInfiniteQuery({
    queryKey: ['found', q, mine, organizationId],
    queryFn: ({ pageParam }) => page<Data[]>(pageParam),
    initialPageParam: `/api/chat/search${query({ q, mine: mine || undefined, organizationId })}`,
    getNextPageParam: (last) => last.next,
    placeholderData: keepPreviousData
  })
  const pages = list.data?.pages ?? []
  const all = pages.flatMap(({ items }) => items)

  useRest(list, all.length === 0 && pages.length < PAGES)
  return (
    <>
      {list.isPending && <Loading />}
      {list.isError && <Failed error={list.error} again={() => void list.refetch()} />}
      {list.isSuccess && !list.isFetching && all.length === 0 && (
        <Empty>{t(list.hasNextPage ? 'chat.notYetFound' : 'chat.notFound')}</Empty>
      )}
      <ul className='found' aria-busy={list.isFetching || undefined}>
        {all.map((data) => <Row key={data.uuid} data={data} {...props} />)}
      </ul>
      <More of={list} />
    </>
  )
}
