/* The deliveries of a webhook. The filters are in the address. */
import { useQueryClient } from '@tanstack/react-query'
import { Download, Send } from 'lucide-react'
import type { ReactNode } from 'react'

import { call, download, query } from '../api/client'
import type { Delivery, Webhook } from '../api/types'
import { to, useValues } from '../router'
import { t } from '../texts/texts'
import { useAction } from '../ui/action'
import { asIso, asLocal, asMoment, asNumber } from '../ui/format'
import { FilterRow } from '../ui/filters'
import { useSettled } from '../ui/pages'
import { SelectionBar, useSelection, type Action } from '../ui/select'
import { Typed } from '../ui/typed'
import { Button, Empty, Failed, Field, Loading, More, Table } from '../ui/ui'
import { Milliseconds, Moment, Outcome, pathOf, Result, urlOf, useDeliveries, useEvents, type Search } from './parts'

export const states: Delivery['status'][] = ['queued', 'delivered', 'abandoned']

const EXAMPLE = '500'

const isStatus = (code: string) => code === '' || /^[1-5]\d\d$/.test(code)
const isId = (id: string) => id === '' || /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i.test(id)

export function Period ({
  since,
  until,
  change
}: {
  since: string
  until: string
  change: (some: { since?: string; until?: string }) => void
}) {
  const problem = since !== '' && until !== '' && since >= until ? t('hooks.reversed') : undefined
  return (
    <div className='period'>
      <Field label={t('hooks.from')} date={asLocal(since)}>
        {(props) => (
          <input
            {...props}
            type='datetime-local'
            value={asLocal(since)}
            onChange={(e) => change({ since: asIso(e.target.value) })}
          />
        )}
      </Field>
      <Field label={t('hooks.to')} problem={problem} date={asLocal(until)}>
        {(props) => (
          <input
            {...props}
            type='datetime-local'
            value={asLocal(until)}
            onChange={(e) => change({ until: asIso(e.target.value) })}
          />
        )}
      </Field>
    </div>
  )
}

export function StatusSelect ({
  value,
  of,
  change
}: {
  value: string
  of: Delivery['status'][]
  change: (to: string) => void
}) {
  return (
    <Field label={t('hooks.state')}>
      {(props) => (
        <select {...props} value={value} onChange={(e) => change(e.target.value)}>
          <option value=''>{t('hooks.any')}</option>
          {of.map((name) => (
            <option key={name} value={name}>
              {t(`delivery.${name}`)}
            </option>
          ))}
        </select>
      )}
    </Field>
  )
}

export function EventSelect ({
  value,
  change,
  all,
  ping = true
}: {
  value: string
  change: (to: string) => void
  all?: string
  ping?: boolean
}) {
  const names = useEvents()
  return (
    <Field label={t('hooks.event')}>
      {(props) => (
        <select {...props} value={value} onChange={(e) => change(e.target.value)}>
          {all !== undefined && <option value=''>{all}</option>}
          {[...(ping ? ['ping'] : []), ...(names.data ?? [])].map((name) => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </select>
      )}
    </Field>
  )
}

type Change = (some: Partial<Search>) => void

function Filters ({ search, change }: { search: Search; change: Change }) {
  const filtered = Object.values(search).some((value) => value !== '')
  const { code, error, eventId, since, until } = search
  const clear = () => change({ status: '', event: '', eventId: '', code: '', error: '', since: '', until: '' })

  return (
    <FilterRow
      used={[code, error, eventId, since, until].some((value) => value !== '')}
      clear={filtered ? clear : null}
      more={(
        <>
          <Field label={t('hooks.code')} problem={isStatus(code) ? undefined : t('hooks.codeWrong')}>
            {(props) => (
              <Typed {...props} inputMode='numeric' maxLength={3} placeholder={EXAMPLE} value={code}
                change={(text) => change({ code: text.trim() })} />
            )}
          </Field>
          <Field label={t('hooks.error')}>
            {(props) => (
              <Typed {...props} type='search' maxLength={100} value={error} change={(text) => change({ error: text })} />
            )}
          </Field>
          <Field label={t('hooks.id')} problem={isId(eventId) ? undefined : t('hooks.idWrong')}>
            {(props) => (
              <Typed {...props} type='search' maxLength={36} value={eventId}
                change={(text) => change({ eventId: text.trim() })} />
            )}
          </Field>
          <Period since={since} until={until} change={change} />
        </>
      )}
    >
      <StatusSelect value={search.status} of={states} change={(status) => change({ status })} />
      <EventSelect value={search.event} all={t('hooks.any')} change={(event) => change({ event })} />
    </FilterRow>
  )
}

/* The action for several deliveries: those that still wait are sent anyway. */
const resendOf = (hook: Webhook): Action<Delivery> => ({
  text: t('hooks.resend'),
  fits: ({ status }) => status !== 'queued',
  ask: (n) => t('hooks.resendMany', { n, url: urlOf(hook) }),
  run: ({ id }) => call('POST', pathOf(hook, 'deliveries', id, 'resend')),
  done: (n) => t('hooks.resentMany', { n })
})

const titleOf = ({ event, createdAt }: Delivery) => `${event}, ${asMoment(createdAt)}`

function Row ({ hook, delivery, box }: { hook: Webhook; delivery: Delivery; box: ReactNode }) {
  const last = delivery.attempts[delivery.attempts.length - 1]

  return (
    <tr>
      {box}
      <td>
        <Outcome of={delivery.status} />
      </td>
      <td>
        <a href={to('webhooks', hook.id, 'deliveries', delivery.id)}>{delivery.event}</a>
      </td>
      <td>
        <Moment at={delivery.createdAt} />
      </td>
      <td className='result'>
        {last ? <Result of={last} /> : '–'}
        {delivery.nextAttemptAt && delivery.attempts.length > 0 && (
          <small className='under'>
            {t('hooks.next')} <Moment at={delivery.nextAttemptAt} />
          </small>
        )}
      </td>
      <td className='number'>{asNumber(delivery.attempts.length)}</td>
      <td className='number'>
        <Milliseconds of={last?.durationMs} />
      </td>
    </tr>
  )
}

export function Deliveries ({ hook, test }: { hook: Webhook; test: () => void }) {
  const [search, change] = useValues('status', 'event', 'eventId', 'code', 'error', 'since', 'until')
  const asked = {
    ...search, code: isStatus(search.code) ? search.code : '', eventId: isId(search.eventId) ? search.eventId : ''
  }
  const filter = useSettled(query({ ...asked }).slice(1))
  const { list, all } = useDeliveries(hook, filter)
  const filtered = Object.values(asked).some((value) => value !== '')
  const csv = useAction({
    mutationFn: () =>
      download(pathOf(hook, `deliveries/export.csv?${filter}`), `deliveries-${hook.id}.csv`)
  })
  const client = useQueryClient()
  const selection = useSelection(all, ({ id }) => id)
  const head = [
    selection.head,
    t('hooks.state'),
    t('hooks.event'),
    t('state.time'),
    t('hooks.result'),
    { text: t('hooks.attempts'), number: true },
    { text: t('hooks.duration'), number: true }
  ]

  return (
    <section>
      <div className='row between top'>
        <Filters search={search} change={change} />
        <Button icon={Download} disabled={csv.isPending || all.length === 0} onClick={() => csv.mutate()}>
          {t('hooks.export')}
        </Button>
      </div>
      {csv.isError && <Failed error={csv.error} />}
      <SelectionBar
        selection={selection}
        actions={[resendOf(hook)]}
        nameOf={titleOf}
        changed={() =>
          Promise.all(
            ['deliveries', 'statistics'].map((name) => client.invalidateQueries({ queryKey: [name, hook.id] }))
          )
        }
      />
      {list.isPending && <Loading />}
      {list.isError && <Failed error={list.error} again={() => void list.refetch()} />}
      {list.isSuccess && all.length === 0 && (
        <Empty icon={Send} action={!filtered && <Button onClick={test}>{t('hooks.test')}</Button>}>
          {filtered ? t(list.hasNextPage ? 'hooks.noneYet' : 'hooks.noneSuch')
            : t(hook.kind === 'poll' ? 'hooks.noEvents' : 'hooks.noDeliveries')}
        </Empty>
      )}
      {all.length > 0 && (
        <Table label={t('hooks.deliveries')} head={head} busy={list.isPlaceholderData}>
          {all.map((delivery) => (
            <Row key={delivery.id} hook={hook} delivery={delivery} box={selection.cell(delivery, titleOf(delivery))} />
          ))}
        </Table>
      )}
      <More of={list} />
    </section>
  )
}
