/*
 * The events that webhooks can get: the meaning, the fields and an example of each, from the API's document. Each event
 * has an address.
 */
import { useQuery } from '@tanstack/react-query'
import { useEffect, useRef } from 'react'

import { get } from '../api/client'
import { to } from '../router'
import { translated } from '../texts/service'
import { t } from '../texts/texts'
import { Copy, Empty, Failed, Loading, Table } from '../ui/ui'

interface Schema {
  type?: string | string[], format?: string, description?: string, enum?: unknown[]
  properties?: Record<string, Schema>, items?: Schema, required?: string[]
}

interface Described {
  post: { tags: string[], description: string, requestBody: { content: Record<string, { schema: Schema, example: unknown }> } }
}

const JSON_TYPE = 'application/json'

/* A link to an event, or to the first one. It opens a new tab, so that a form or a dialog stays. */
export const EventsLink = ({ of = '' }: { of?: string }) => (
  <a href={of ? to('webhooks', 'events', of) : to('webhooks', 'events')} target='_blank' rel='noreferrer'>
    {t('events.look')}
  </a>
)

const typeOf = ({ type = [], format, enum: choices }: Schema) =>
  choices?.join(' | ') ?? [type].flat().map((one) => one === 'string' && format ? format : one).join(' | ')

interface Field { path: string, type: string, means: string, optional: boolean }

/* The fields of an object and of the objects in it, by their paths. */
function fieldsOf ({ properties = {}, required = [] }: Schema, before = ''): Field[] {
  return Object.entries(properties).flatMap(([name, of]) => {
    const path = before + name
    const own = { path, type: typeOf(of), means: translated(of.description ?? ''), optional: !required.includes(name) }
    return [own, ...fieldsOf(of, `${path}.`), ...fieldsOf(of.items ?? {}, `${path}[].`)]
  })
}

function Details ({ name, of: { post } }: { name: string, of: Described }) {
  const { schema, example } = post.requestBody.content[JSON_TYPE]!
  const text = JSON.stringify(example, null, 2)

  return (
    <section aria-labelledby='event'>
      <h2 id='event'><code>{name}</code></h2>
      <p>{translated(post.description)}</p>
      <Table label={t('events.fields')} head={[t('events.field'), t('readings.type'), t('events.means')]}>
        {fieldsOf(schema).map(({ path, type, means, optional }) => (
          <tr key={path}>
            <td className='wide'><code>{path}</code></td>
            <td><code>{type}</code> {optional && <small>{t('events.optional')}</small>}</td>
            <td className='wide'>{means}</td>
          </tr>
        ))}
      </Table>
      <h3>{t('events.example')}</h3>
      <div className='panel'><Copy text={text} /></div>
    </section>
  )
}

export function Catalogue ({ name: asked }: { name: string | undefined }) {
  const reference = useQuery({
    queryKey: ['reference', 'events'], staleTime: Infinity,
    queryFn: async () => (await get<{ webhooks?: Record<string, Described> }>('/openapi.json')).webhooks ?? {}
  })
  const all = Object.keys(reference.data ?? {}).sort()
  const name = asked ?? all[0] ?? ''
  const found = reference.data?.[name]
  const list = useRef<HTMLElement>(null)

  useEffect(() => { // on a phone the list shows only some of the events
    list.current?.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest' })
  }, [name, reference.isSuccess])

  return (
    <div className='page'>
      <header><div><a href={to('webhooks')}>{t('hooks.title')}</a><h1>{t('hooks.events')}</h1></div></header>
      {reference.isPending && <Loading />}
      {reference.isError && <Failed error={reference.error} again={() => void reference.refetch()} />}
      {reference.isSuccess && (
        <div className='catalogue'>
          <nav ref={list} aria-label={t('hooks.events')}>
            {all.map((event) => (
              <a key={event} href={to('webhooks', 'events', event)} aria-current={event === name ? 'page' : undefined}>
                <code>{event}</code>
              </a>
            ))}
          </nav>
          {found ? <Details name={name} of={found} /> : <Empty>{t('events.gone')}</Empty>}
        </div>
      )}
    </div>
  )
}
