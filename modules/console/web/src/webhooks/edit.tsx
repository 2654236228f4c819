/*
 * The form of a webhook, a page with an address. Rarely used parts are folded, and show their value. An error of the
 * service is shown once: at its field, or above the form if it has none.
 */
import { useQueryClient } from '@tanstack/react-query'
import { useState, type ReactNode } from 'react'

import { ApiError, call, change } from '../api/client'
import type { Filtered, Webhook } from '../api/types'
import { to, useGuard } from '../router'
import { labelOf } from '../texts/problems'
import { t } from '../texts/texts'
import type { Key } from '../texts/en'
import { useAction } from '../ui/action'
import { asNumber } from '../ui/format'
import { toast } from '../ui/toast'
import { Badge, Button, Discard, Failed, Field, Loading, problemOf } from '../ui/ui'
import { bodyOf, changedIn, formOf, MEMBERS, readDelays, readFilter, type Authentication, type Form } from './form'
import { Moment, nameOf, pathOf, useEvents } from './parts'

type Set = (some: Partial<Form>) => void
type Problem = (...fields: string[]) => string | undefined

interface Part {
  form: Form
  set: Set
  problem: Problem
  hook?: Webhook
}

const EXAMPLES = {
  filter: '{"deviceProjectName": {"$startsWith": "Rooftop"}}',
  header: 'X-Api-Key',
  pem: '-----BEGIN …'
}

const PLACES = [
  'url',
  'name',
  'description',
  'events',
  'secret',
  'filter',
  'retryPolicy',
  'disablePolicy',
  'rateLimit',
  'ordering',
  'headers',
  'signature',
  'authentication'
]

const isWithin = (field: string, place: string) =>
  field === place || field.startsWith(`${place}.`) || field.startsWith(`${place}[`)

/* The problem with a field or its parts; the path of a part is in the text. */
function problemAt (error: unknown, place: string): string | undefined {
  const found = error instanceof ApiError ? error.errors.filter(({ field }) => isWithin(field, place)) : []
  const texts = found.map(({ field, problem }) =>
    field === place ? problem : `${field.slice(place.length).replace(/^\./, '')}: ${problem}`
  )
  return texts.length > 0 ? texts.join('; ') : undefined
}

const hasPlace = (error: unknown) =>
  error instanceof ApiError &&
  error.errors.length > 0 &&
  error.errors.every(({ field }) => PLACES.some((place) => isWithin(field, place)))

/* A folded part of the form, with its value next to the title. */
function Folded ({
  title,
  value,
  open,
  children
}: {
  title: string
  value: string
  open: boolean
  children: ReactNode
}) {
  const [opened, setOpened] = useState(open)
  const [before, setBefore] = useState(open)

  if (open !== before) {
    // a problem unfolds it
    setBefore(open)
    if (open) setOpened(true)
  }
  return (
    <details className='panel part' open={opened} onToggle={(e) => setOpened(e.currentTarget.open)}>
      <summary>
        <strong>{title}</strong>
        <small>{value}</small>
      </summary>
      {children}
    </details>
  )
}

function Choices<Value extends string> ({
  label,
  name,
  value,
  of,
  change
}: {
  label: string
  name: string
  value: Value
  of: [Value, string][]
  change: (to: Value) => void
}) {
  return (
    <fieldset className='field radios'>
      <legend>{label}</legend>
      {of.map(([each, text]) => (
        <label key={each} className='check'>
          <input type='radio' name={name} checked={value === each} onChange={() => change(each)} />
          {text}
        </label>
      ))}
    </fieldset>
  )
}

function Check ({ text, checked, change }: { text: string; checked: boolean; change: (to: boolean) => void }) {
  return (
    <label className='check'>
      <input type='checkbox' checked={checked} onChange={(e) => change(e.target.checked)} />
      {text}
    </label>
  )
}

function Receiver ({ form, set, problem, hook }: Part) {
  return (
    <section className='panel part'>
      {!hook && (
        <Choices
          label={t('hooks.kind')}
          name='kind'
          value={form.polled ? 'poll' : 'send'}
          change={(kind) => set({ polled: kind === 'poll' })}
          of={[
            ['send', t('hooks.kind.send')],
            ['poll', t('hooks.kind.poll')]
          ]}
        />
      )}
      {!form.polled && (
        <Field label={t('hooks.url')} problem={problem('url')}>
          {(props) => (
            <input
              {...props}
              type='url'
              required
              maxLength={2048}
              value={form.url}
              onChange={(e) => set({ url: e.target.value })}
            />
          )}
        </Field>
      )}
      <Field label={t('hooks.nameIs')} problem={problem('name')}>
        {(props) => (
          <input {...props} maxLength={100} value={form.name} onChange={(e) => set({ name: e.target.value })} />
        )}
      </Field>
      <Field label={t('hooks.description')} problem={problem('description')}>
        {(props) => (
          <textarea
            {...props}
            rows={2}
            maxLength={1000}
            value={form.description}
            onChange={(e) => set({ description: e.target.value })}
          />
        )}
      </Field>
    </section>
  )
}

/* Names by the part before their dot. */
function grouped (names: string[]): [string, string[]][] {
  const groups = new Map<string, string[]>()
  for (const name of names) {
    const group = name.split('.')[0] ?? name
    groups.set(group, [...(groups.get(group) ?? []), name])
  }
  return [...groups]
}

function Events ({ form, set, problem }: Part) {
  const names = useEvents()
  const toggle = (name: string) =>
    set({
      events: form.events.includes(name) ? form.events.filter((other) => other !== name) : [...form.events, name]
    })

  return (
    <section className='panel part'>
      <Choices
        label={t('hooks.events')}
        name='events'
        value={form.all ? 'all' : 'some'}
        change={(to) => set({ all: to === 'all' })}
        of={[
          ['all', t('hooks.all')],
          ['some', t('hooks.some')]
        ]}
      />
      {!form.all && names.isPending && <Loading />}
      {!form.all && names.isError && <Failed error={names.error} again={() => void names.refetch()} />}
      {!form.all && names.data && (
        <div className='groups'>
          {grouped(names.data.filter((name) => name !== 'ping')).map(([group, own]) => (
            <div key={group} role='group' aria-label={group}>
              {own.map((name) => (
                <Check key={name} text={name} checked={form.events.includes(name)} change={() => toggle(name)} />
              ))}
            </div>
          ))}
        </div>
      )}
      {!form.all && form.events.length === 0 && <p className='problem'>{t('hooks.choose')}</p>}
      {problem('events') && <p className='problem'>{problem('events')}</p>}
    </section>
  )
}

function Matches ({ of }: { of: Filtered }) {
  return (
    <>
      <p>{t('hooks.filterMatched', { n: asNumber(of.matched), all: asNumber(of.events.length) })}</p>
      {of.events.length > 0 && (
        <ul className='matches' tabIndex={0} aria-label={t('hooks.filterTested')}>
          {of.events.map(({ eventId, event, createdAt, matches }) => (
            <li key={eventId}>
              <Badge tone={matches ? 'good' : 'off'}>{t(matches ? 'hooks.matches' : 'hooks.matchesNot')}</Badge>
              {event} <Moment at={createdAt} />
            </li>
          ))}
        </ul>
      )}
    </>
  )
}

function Filter ({ form, set, problem, hook }: Part) {
  const filter = readFilter(form.filter)
  const test = useAction({
    mutationFn: (of: Record<string, unknown>) =>
      call<Filtered>('POST', pathOf(hook?.id ?? 0, 'filter', 'test'), { filter: of })
  })
  const wrong = filter === undefined ? t('hooks.filterWrong') : (problem('filter') ?? problemAt(test.error, 'filter'))

  return (
    <Folded
      title={t('hooks.filter')}
      value={t(filter === null ? 'hooks.filterNone' : 'hooks.filterSome')}
      open={filter !== null || wrong !== undefined}
    >
      <p className='soft'>{t('hooks.filterIs')}</p>
      <Field label={t('hooks.filterJson')} problem={wrong}>
        {(props) => (
          <textarea
            {...props}
            className='code'
            rows={8}
            spellCheck={false}
            value={form.filter}
            placeholder={EXAMPLES.filter}
            onChange={(e) => {
              test.reset()
              set({ filter: e.target.value })
            }}
          />
        )}
      </Field>
      <div className='row'>
        <Button disabled={!filter} onClick={() => set({ filter: JSON.stringify(filter, null, 2) })}>
          {t('hooks.filterFormat')}
        </Button>
        {hook && (
          <Button disabled={!filter || test.isPending} onClick={() => filter && test.mutate(filter)}>
            {t('hooks.filterTest')}
          </Button>
        )}
      </div>
      <div role='status'>{test.data && <Matches of={test.data} />}</div>
      {test.isError && !hasPlace(test.error) && <Failed error={test.error} />}
    </Folded>
  )
}

function Retries ({ form, set, problem }: Part) {
  const delays = readDelays(form.delays)
  const wrong = form.retry === 'own' && !delays ? t('hooks.delaysWrong') : problem('retryPolicy')
  const value = form.retry === 'own' ? form.delays : t(`hooks.retry.${form.retry}`)

  return (
    <Folded
      title={t('hooks.retries')}
      value={value}
      open={form.retry !== 'default' || form.disable || wrong !== undefined}
    >
      <Choices
        label={t('hooks.retries')}
        name='retry'
        value={form.retry}
        change={(retry) => set({ retry })}
        of={[
          ['default', t('hooks.retry.default')],
          ['standard', t('hooks.retry.standard')],
          ['own', t('hooks.retry.own')]
        ]}
      />
      {form.retry === 'own' && (
        <Field label={t('hooks.delays')} problem={wrong}>
          {(props) => <input {...props} value={form.delays} onChange={(e) => set({ delays: e.target.value })} />}
        </Field>
      )}
      {form.retry === 'own' && delays && <p className='soft'>{t('hooks.delaysAre', { n: delays.length + 1 })}</p>}
      <Check text={t('hooks.disabling')} checked={form.disable} change={(disable) => set({ disable })} />
      {form.disable && (
        <>
          <p className='soft'>{t('hooks.disablingIs')}</p>
          <div className='row'>
            <input
              className='few'
              type='number'
              min={1}
              max={2592}
              required
              aria-label={t('hooks.disablingAfter')}
              value={form.after}
              aria-invalid={problem('disablePolicy') !== undefined}
              onChange={(e) => set({ after: e.target.value })}
            />
            <select
              className='few'
              aria-label={t('hooks.unit')}
              value={form.unit}
              onChange={(e) => set({ unit: e.target.value })}
            >
              {(['m', 'h', 'd'] as const).map((unit) => (
                <option key={unit} value={unit}>
                  {t(`hooks.unit.${unit}`)}
                </option>
              ))}
            </select>
          </div>
          {problem('disablePolicy') && <p className='problem'>{problem('disablePolicy')}</p>}
        </>
      )}
    </Folded>
  )
}

function Pace ({ form, set, problem }: Part) {
  const value = [
    form.limited ? t(`hooks.limited.${form.per}`, { n: form.limit }) : '',
    form.ordered ? t('hooks.ordered') : ''
  ]
    .filter(Boolean)
    .join(', ')

  return (
    <Folded title={t('hooks.pace')} value={value || t('hooks.unlimited')} open={form.limited || form.ordered}>
      <Check text={t('hooks.rateLimit')} checked={form.limited} change={(limited) => set({ limited })} />
      {form.limited && (
        <div className='row'>
          <input
            className='few'
            type='number'
            min={1}
            max={1000}
            required
            aria-label={t('hooks.limit')}
            value={form.limit}
            aria-invalid={problem('rateLimit') !== undefined}
            onChange={(e) => set({ limit: e.target.value })}
          />
          <select
            className='few'
            aria-label={t('hooks.unit')}
            value={form.per}
            onChange={(e) => set({ per: e.target.value === 'minute' ? 'minute' : 'second' })}
          >
            <option value='second'>{t('hooks.perSecond')}</option>
            <option value='minute'>{t('hooks.perMinute')}</option>
          </select>
        </div>
      )}
      {problem('rateLimit') && <p className='problem'>{problem('rateLimit')}</p>}
      <Check text={t('hooks.ordering')} checked={form.ordered} change={(ordered) => set({ ordered })} />
      {form.ordered && <p className='soft'>{t('hooks.orderingIs')}</p>}
    </Folded>
  )
}

function Headers ({ form, set, problem, hook }: Part) {
  const { headers } = form
  const known = Object.entries(hook?.headers ?? {})
  const names = (headers ?? known.map(([name]) => ({ name }))).map(({ name }) => name).filter(Boolean)
  const change = (at: number, some: Partial<{ name: string; value: string }>) =>
    set({ headers: headers?.map((header, i) => (i === at ? { ...header, ...some } : header)) ?? null })

  return (
    <Folded
      title={t('hooks.headers')}
      value={names.join(', ') || t('hooks.none')}
      open={names.length > 0 || problem('headers') !== undefined}
    >
      <p className='soft'>{t('hooks.headersAre')}</p>
      {headers === null && (
        <>
          {known.map(([name, value]) => (
            <code key={name} className='each'>
              {name}: {value}
            </code>
          ))}
          <Button onClick={() => set({ headers: known.map(([name]) => ({ name, value: '' })) })}>
            {t('hooks.headersAgain')}
          </Button>
        </>
      )}
      {headers?.map(({ name, value }, i) => (
        <div key={i} className='row header'>
          <input
            aria-label={t('hooks.headerName')}
            placeholder={EXAMPLES.header}
            required={value !== ''}
            maxLength={128}
            value={name}
            onChange={(e) => change(i, { name: e.target.value })}
          />
          <input
            aria-label={t('hooks.headerValue')}
            type='password'
            autoComplete='off'
            required={name !== ''}
            value={value}
            onChange={(e) => change(i, { value: e.target.value })}
          />
          <Button onClick={() => set({ headers: headers.filter((_, at) => at !== i) })}>
            {t('hooks.headerRemove')}
          </Button>
        </div>
      ))}
      {headers && (
        <Button onClick={() => set({ headers: [...headers, { name: '', value: '' }] })}>
          {t('hooks.headerAdd')}
        </Button>
      )}
      {problem('headers') && <p className='problem'>{problem('headers')}</p>}
    </Folded>
  )
}

const SECRET = ['password', 'token', 'clientSecret']
const LONG = ['certificate', 'key']
const OPTIONAL = ['scope', 'audience']

function Member ({ name, form, set, problem }: Part & { name: string }) {
  const value = form.credentials[name] ?? ''
  const change = (text: string) => set({ credentials: { ...form.credentials, [name]: text } })

  return (
    <Field label={t(`hooks.member.${name}` as Key)} problem={problem(`authentication.${name}`)}>
      {(props) =>
        LONG.includes(name) ? (
          <textarea
            {...props}
            className='code'
            rows={5}
            required
            spellCheck={false}
            placeholder={EXAMPLES.pem}
            value={value}
            onChange={(e) => change(e.target.value)}
          />
        ) : (
          <input
            {...props}
            type={SECRET.includes(name) ? 'password' : name === 'tokenUrl' ? 'url' : 'text'}
            autoComplete='off'
            required={!OPTIONAL.includes(name)}
            value={value}
            onChange={(e) => change(e.target.value)}
          />
        )
      }
    </Field>
  )
}

function Login (part: Part) {
  const { form, set, problem, hook } = part
  const { authentication } = form
  const kept = hook?.authentication?.type
  const kinds: Authentication[] = [...(kept ? ['keep' as const] : []), 'none', 'basic', 'bearer', 'oauth2', 'mtls']
  const textOf = (kind: Authentication) =>
    kind === 'keep' && kept
      ? t('hooks.login.keep', { kind: t(`hooks.login.${kept}`) })
      : kind === 'keep'
        ? ''
        : t(`hooks.login.${kind}`)
  const members = authentication === 'keep' || authentication === 'none' ? [] : MEMBERS[authentication]
  const placed = members.some((name) => problem(`authentication.${name}`))

  return (
    <Folded
      title={t('hooks.login')}
      value={textOf(authentication)}
      open={authentication !== 'none' || problem('authentication') !== undefined}
    >
      <p className='soft'>{t('hooks.loginIs')}</p>
      <Field label={t('hooks.loginKind')} problem={placed ? undefined : problem('authentication')}>
        {(props) => (
          <select
            {...props}
            value={authentication}
            onChange={(e) => set({ authentication: kinds.find((kind) => kind === e.target.value) ?? 'none' })}
          >
            {kinds.map((kind) => (
              <option key={kind} value={kind}>
                {textOf(kind)}
              </option>
            ))}
          </select>
        )}
      </Field>
      {members.map((name) => (
        <Member key={name} {...part} name={name} />
      ))}
    </Folded>
  )
}

function Signing ({ form, set, problem, hook }: Part) {
  const kinds = ['hmac', 'ed25519', 'both'] as const
  return (
    <Folded
      title={t('hooks.signature')}
      value={t(`hooks.signature.${form.signature}`)}
      open={form.signature !== 'hmac' || problem('signature', 'secret') !== undefined}
    >
      <Choices
        label={t('hooks.signature')}
        name='signature'
        value={form.signature}
        change={(signature) => set({ signature })}
        of={kinds.map((kind) => [kind, t(`hooks.signature.${kind}`)])}
      />
      {problem('signature') && <p className='problem'>{problem('signature')}</p>}
      {!hook && (
        <Field label={t('hooks.ownSecret')} problem={problem('secret')}>
          {(props) => (
            <input
              {...props}
              type='password'
              autoComplete='off'
              maxLength={256}
              value={form.secret}
              onChange={(e) => set({ secret: e.target.value })}
            />
          )}
        </Field>
      )}
    </Folded>
  )
}

/* Somebody else has changed these members since the form was opened. */
class Conflict extends Error {
  constructor (readonly now: Webhook, readonly names: string[]) { super('') }
}

function Changed ({ of: { now, names } }: { of: Conflict }) {
  const textOf = (value: unknown) =>
    typeof value === 'string' ? value : value === undefined || value === null ? '–' : JSON.stringify(value)

  return (
    <div className='failed' role='alert'>
      <p>{t('hooks.conflict')}</p>
      <ul>
        {names.map((name) => (
          <li key={name}>{labelOf(name)}: {textOf((now as Record<string, unknown>)[name])}</li>
        ))}
      </ul>
    </div>
  )
}

export function Edit ({ hook, done }: { hook?: Webhook; done: (hook: Webhook) => void }) {
  const client = useQueryClient()
  const [form, setForm] = useState(() => formOf(hook))
  const [first] = useState(hook) // as it was when the form was opened: only members that differ are sent
  const [known, know] = useState(hook) // as it was when the user last saw its values
  const [opened] = useState(form)
  const guard = useGuard(JSON.stringify(form) !== JSON.stringify(opened))
  const save = useAction({
    mutationFn: () => {
      const body = bodyOf(form, first)
      if (!known) return call<Webhook>('POST', '/api/chat/webhooks', body)
      return change<Webhook>(pathOf(known), body, (now) => {
        const names = changedIn(known, now, Object.keys(body))
          .filter((name) => changedIn(now, body as Partial<Webhook>, [name]).length > 0)
        if (names.length > 0) throw new Conflict(now, names)
      })
    },
    onError: (error) => { if (error instanceof Conflict) know(error.now) },
    onSuccess: (saved) => {
      if (hook) client.setQueryData(['webhooks', String(hook.id)], saved)
      void client.invalidateQueries({ queryKey: ['webhooks'] })
      if (hook) toast(t('hooks.saved'))
      done(saved)
    }
  })
  const problem: Problem = (...fields) => fields.map((field) => problemAt(save.error, field)).find(Boolean)
  const part: Part = { form, set: (some) => setForm((before) => ({ ...before, ...some })), problem, hook }
  const good =
    (form.all || form.events.length > 0) &&
    readFilter(form.filter) !== undefined &&
    (form.polled || form.retry !== 'own' || readDelays(form.delays) !== null)
  const back = hook ? to('webhooks', hook.id) : to('webhooks')
  const conflict = save.error instanceof Conflict ? save.error : null

  return (
    <div className='page hook form'>
      <header>
        <div>
          <a href={back}>{hook ? nameOf(hook) : t('hooks.title')}</a>
          <h1>{t(hook ? 'hooks.editOne' : 'hooks.new')}</h1>
        </div>
      </header>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          if (good) save.mutate()
        }}
      >
        <Receiver {...part} />
        <Events {...part} />
        <Filter {...part} />
        {!form.polled && (
          <>
            <Retries {...part} />
            <Pace {...part} />
            <Login {...part} />
            <Headers {...part} />
            <Signing {...part} />
          </>
        )}
        <div className='foot'>
          {conflict && <Changed of={conflict} />}
          {save.isError && !conflict && (
            <p className='failed' role='alert'>
              {hasPlace(save.error) ? t('hooks.problems') : problemOf(save.error)}
            </p>
          )}
          <div className='actions'>
            <a className='button' href={back}>
              {t('do.cancel')}
            </a>
            <Button kind='main' type='submit' disabled={save.isPending || !good}>
              {t(conflict ? 'devices.saveAnyway' : 'do.save')}
            </Button>
          </div>
        </div>
      </form>
      {guard.leave && <Discard close={guard.stay} done={guard.leave} />}
    </div>
  )
}
