/*
 * The form of a webhook, on a page with its own address (views.ts). Rarely used parts are folded, and show their value.
 * An error of the service is shown once: at its field, or above the form if it has none.
 */
import { useQueryClient } from '@tanstack/react-query'
import { useState, type ComponentProps, type ReactNode } from 'react'
import { useController, useFieldArray, type Path, type UseFormRegisterReturn, type UseFormReturn } from 'react-hook-form'

import { call, change, create } from '../api/client'
import type { Filtered, Webhook } from '../api/types'
import { to, useGuard } from '../router'
import { labelOf } from '../texts/problems'
import { t } from '../texts/texts'
import type { Key } from '../texts/en'
import { useAction } from '../ui/action'
import { Input, Select, TextArea, useSentForm } from '../ui/form'
import { asNumber } from '../ui/format'
import { toast } from '../ui/toast'
import { Badge, Button, Discard, Failed, Loading, problemOf } from '../ui/ui'
import { EventsLink } from './catalogue'
import {
  bodyOf, changedIn, formOf, MEMBERS, problemsOf, readDelays, readFilter, type Authentication, type Form
} from './form'
import { Moment, nameOf, pathOf, useEvents } from './parts'

/* The props of each part of the form. */
interface Part {
  form: UseFormReturn<Form>
  values: Form
  hook?: Webhook
}

const EXAMPLES = {
  filter: '{"deviceProjectName": {"$startsWith": "Rooftop"}}',
  header: 'X-Api-Key',
  pem: '-----BEGIN …'
}

const problemAt = ({ getFieldState, formState }: UseFormReturn<Form>, name: Path<Form>) =>
  getFieldState(name, formState).error?.message as string | undefined

/* Shows the problem of a field that has no label. */
function Problem ({ form, name }: { form: UseFormReturn<Form>; name: Path<Form> }) {
  const text = problemAt(form, name)
  return text && <p className='problem' id={`problem-${name}`}>{text}</p>
}

/* Connects an input with its Problem. */
const wrongAt = (form: UseFormReturn<Form>, name: Path<Form>) =>
  problemAt(form, name) !== undefined && { 'aria-invalid': true, 'aria-describedby': `problem-${name}` }

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

function Choices ({ label, field, of }: { label: string; field: UseFormRegisterReturn; of: [string, string][] }) {
  return (
    <fieldset className='field radios'>
      <legend>{label}</legend>
      {of.map(([value, text]) => (
        <label key={value} className='check'>
          <input type='radio' value={value} {...field} />
          {text}
        </label>
      ))}
    </fieldset>
  )
}

function Check ({ text, ...rest }: { text: string } & ComponentProps<'input'>) {
  return (
    <label className='check'>
      <input type='checkbox' {...rest} />
      {text}
    </label>
  )
}

function Receiver ({ form, values, hook }: Part) {
  return (
    <section className='panel part'>
      {!hook && (
        <Choices
          label={t('hooks.kind')}
          field={form.register('kind')}
          of={[
            ['send', t('hooks.kind.send')],
            ['poll', t('hooks.kind.poll')]
          ]}
        />
      )}
      {values.kind === 'send' && (
        <Input of={form} name='url' label={t('hooks.url')} type='url' required maxLength={2048} />
      )}
      <Input of={form} name='name' label={t('hooks.nameIs')} maxLength={100} />
      <TextArea of={form} name='description' label={t('hooks.description')} rows={2} maxLength={1000} />
    </section>
  )
}

/* Groups names by the part before their dot. */
function grouped (names: string[]): [string, string[]][] {
  const groups = new Map<string, string[]>()
  for (const name of names) {
    const group = name.split('.')[0] ?? name
    groups.set(group, [...(groups.get(group) ?? []), name])
  }
  return [...groups]
}

function Events ({ form, values }: Part) {
  const names = useEvents()
  const { field } = useController({ control: form.control, name: 'events' })
  const chosen = field.value
  const toggle = (name: string) =>
    field.onChange(chosen.includes(name) ? chosen.filter((other) => other !== name) : [...chosen, name])

  return (
    <section className='panel part'>
      <Choices
        label={t('hooks.events')}
        field={form.register('scope')}
        of={[
          ['all', t('hooks.all')],
          ['some', t('hooks.some')]
        ]}
      />
      {values.scope === 'some' && (
        <>
          {names.isPending && <Loading />}
          {names.isError && <Failed error={names.error} again={() => void names.refetch()} />}
          {names.data && (
            <div className='groups'>
              {grouped(names.data.filter((name) => name !== 'ping')).map(([group, own]) => (
                <div key={group} role='group' aria-label={group}>
                  {own.map((name) => (
                    <Check key={name} text={name} checked={chosen.includes(name)} onChange={() => toggle(name)} />
                  ))}
                </div>
              ))}
            </div>
          )}
          {chosen.length === 0 && <p className='problem'>{t('hooks.choose')}</p>}
        </>
      )}
      <p><EventsLink /></p>
      <Problem form={form} name='events' />
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

function Filter ({ form, values, hook }: Part) {
  const filter = readFilter(values.filter)
  const test = useAction({
    mutationFn: (of: Record<string, unknown>) =>
      call<Filtered>('POST', pathOf(hook?.id ?? 0, 'filter', 'test'), { filter: of })
  })
  const tested = problemsOf(test.error).find(({ field }) => field === 'filter')?.problem
  const wrong = filter === undefined ? t('hooks.filterWrong') : problemAt(form, 'filter') ?? tested

  return (
    <Folded
      title={t('hooks.filter')}
      value={t(filter === null ? 'hooks.filterNone' : 'hooks.filterSome')}
      open={filter !== null || wrong !== undefined}
    >
      <p className='soft'>{t('hooks.filterIs')}</p>
      <TextArea
        of={form}
        name='filter'
        label={t('hooks.filterJson')}
        problem={wrong}
        className='code'
        rows={8}
        spellCheck={false}
        placeholder={EXAMPLES.filter}
        onInput={() => test.reset()}
      />
      <div className='row'>
        <Button
          disabled={!filter}
          onClick={() => form.setValue('filter', JSON.stringify(filter, null, 2), { shouldDirty: true })}
        >
          {t('hooks.filterFormat')}
        </Button>
        {hook && (
          <Button disabled={!filter || test.isPending} onClick={() => filter && test.mutate(filter)}>
            {t('hooks.filterTest')}
          </Button>
        )}
      </div>
      <div role='status'>{test.data && <Matches of={test.data} />}</div>
      {test.isError && tested === undefined && <Failed error={test.error} />}
    </Folded>
  )
}

/* A number and the unit that it has. */
function Amount ({ form, name, label, max, children }: {
  form: UseFormReturn<Form>; name: 'after' | 'limit'; label: string; max: number; children: ReactNode
}) {
  return (
    <div className='row'>
      <input
        className='few'
        type='number'
        min={1}
        max={max}
        required
        aria-label={label}
        {...wrongAt(form, name)}
        {...form.register(name)}
      />
      {children}
    </div>
  )
}

function Retries ({ form, values }: Part) {
  const { retry, disable } = values
  const delays = readDelays(values.delays)
  const wrong = retry === 'own' && !delays ? t('hooks.delaysWrong') : problemAt(form, 'delays')

  return (
    <Folded
      title={t('hooks.retries')}
      value={retry === 'own' ? values.delays : t(`hooks.retry.${retry}`)}
      open={retry !== 'default' || disable || wrong !== undefined}
    >
      <Choices
        label={t('hooks.retries')}
        field={form.register('retry')}
        of={[
          ['default', t('hooks.retry.default')],
          ['standard', t('hooks.retry.standard')],
          ['own', t('hooks.retry.own')]
        ]}
      />
      {retry === 'own' && <Input of={form} name='delays' label={t('hooks.delays')} problem={wrong} />}
      {retry === 'own' && delays && <p className='soft'>{t('hooks.delaysAre', { n: delays.length + 1 })}</p>}
      <Check text={t('hooks.disabling')} {...form.register('disable')} />
      {disable && (
        <>
          <p className='soft'>{t('hooks.disablingIs')}</p>
          <Amount form={form} name='after' label={t('hooks.disablingAfter')} max={2592}>
            <select className='few' aria-label={t('hooks.unit')} {...form.register('unit')}>
              {(['m', 'h', 'd'] as const).map((unit) => (
                <option key={unit} value={unit}>
                  {t(`hooks.unit.${unit}`)}
                </option>
              ))}
            </select>
          </Amount>
          <Problem form={form} name='after' />
        </>
      )}
    </Folded>
  )
}

function Pace ({ form, values }: Part) {
  const { limited, ordered } = values
  const value = [
    limited ? t(`hooks.limited.${values.per}`, { n: values.limit }) : '',
    ordered ? t('hooks.ordered') : ''
  ]
    .filter(Boolean)
    .join(', ')

  return (
    <Folded title={t('hooks.pace')} value={value || t('hooks.unlimited')} open={limited || ordered}>
      <Check text={t('hooks.rateLimit')} {...form.register('limited')} />
      {limited && (
        <Amount form={form} name='limit' label={t('hooks.limit')} max={1000}>
          <select className='few' aria-label={t('hooks.unit')} {...form.register('per')}>
            <option value='second'>{t('hooks.perSecond')}</option>
            <option value='minute'>{t('hooks.perMinute')}</option>
          </select>
        </Amount>
      )}
      <Problem form={form} name='limit' />
      <Check text={t('hooks.ordering')} {...wrongAt(form, 'ordered')} {...form.register('ordered')} />
      {ordered && <p className='soft'>{t('hooks.orderingIs')}</p>}
      <Problem form={form} name='ordered' />
    </Folded>
  )
}

function Headers ({ form, values, hook }: Part) {
  const { fields, append, remove, replace } = useFieldArray({ control: form.control, name: 'headers' })
  const known = Object.entries(hook?.headers ?? {})
  const names = values.keepsHeaders ? known.map(([name]) => name) : values.headers.map(({ name }) => name).filter(Boolean)
  const again = () => {
    form.setValue('keepsHeaders', false, { shouldDirty: true })
    replace(known.map(([name]) => ({ name, value: '' })))
  }

  return (
    <Folded
      title={t('hooks.headers')}
      value={names.join(', ') || t('hooks.none')}
      open={names.length > 0 || problemAt(form, 'headers') !== undefined}
    >
      <p className='soft'>{t('hooks.headersAre')}</p>
      {values.keepsHeaders && (
        <>
          {known.map(([name, value]) => (
            <code key={name} className='each'>
              {name}: {value}
            </code>
          ))}
          <Button onClick={again}>{t('hooks.headersAgain')}</Button>
        </>
      )}
      {fields.map(({ id }, i) => (
        <div key={id} className='row header'>
          <input
            aria-label={t('hooks.headerName')}
            placeholder={EXAMPLES.header}
            required={values.headers[i]?.value !== ''}
            maxLength={128}
            {...form.register(`headers.${i}.name`)}
          />
          <input
            aria-label={t('hooks.headerValue')}
            type='password'
            autoComplete='off'
            required={values.headers[i]?.name !== ''}
            {...form.register(`headers.${i}.value`)}
          />
          <Button onClick={() => remove(i)}>{t('hooks.headerRemove')}</Button>
        </div>
      ))}
      {!values.keepsHeaders && (
        <Button onClick={() => append({ name: '', value: '' })}>{t('hooks.headerAdd')}</Button>
      )}
      <Problem form={form} name='headers' />
    </Folded>
  )
}

const SECRET = ['password', 'token', 'clientSecret']
const LONG = ['certificate', 'key']
const OPTIONAL = ['scope', 'audience']

function Member ({ form, name }: { form: UseFormReturn<Form>; name: string }) {
  const field = { of: form, name: `credentials.${name}`, label: t(`hooks.member.${name}` as Key) } as const

  if (LONG.includes(name))
    return <TextArea {...field} className='code' rows={5} required spellCheck={false} placeholder={EXAMPLES.pem} />
  return (
    <Input
      {...field}
      type={SECRET.includes(name) ? 'password' : name === 'tokenUrl' ? 'url' : 'text'}
      autoComplete='off'
      required={!OPTIONAL.includes(name)}
    />
  )
}

function Login ({ form, values, hook }: Part) {
  const { authentication } = values
  const kept = hook?.authentication?.type
  const kinds: Authentication[] = [...(kept ? ['keep' as const] : []), 'none', 'basic', 'bearer', 'oauth2', 'mtls']
  const textOf = (kind: Authentication) =>
    kind === 'keep' && kept
      ? t('hooks.login.keep', { kind: t(`hooks.login.${kept}`) })
      : kind === 'keep'
        ? ''
        : t(`hooks.login.${kind}`)
  const members = authentication === 'keep' || authentication === 'none' ? [] : MEMBERS[authentication]

  return (
    <Folded
      title={t('hooks.login')}
      value={textOf(authentication)}
      open={authentication !== 'none' || problemAt(form, 'authentication') !== undefined}
    >
      <p className='soft'>{t('hooks.loginIs')}</p>
      <Select of={form} name='authentication' label={t('hooks.loginKind')}>
        {kinds.map((kind) => (
          <option key={kind} value={kind}>
            {textOf(kind)}
          </option>
        ))}
      </Select>
      {members.map((name) => (
        <Member key={name} form={form} name={name} />
      ))}
    </Folded>
  )
}

function Signing ({ form, values, hook }: Part) {
  const kinds = ['hmac', 'ed25519', 'both'] as const
  const wrong = problemAt(form, 'signature') ?? problemAt(form, 'secret')

  return (
    <Folded
      title={t('hooks.signature')}
      value={t(`hooks.signature.${values.signature}`)}
      open={values.signature !== 'hmac' || wrong !== undefined}
    >
      <Choices
        label={t('hooks.signature')}
        field={form.register('signature')}
        of={kinds.map((kind) => [kind, t(`hooks.signature.${kind}`)])}
      />
      <Problem form={form} name='signature' />
      {!hook && (
        <Input of={form} name='secret' label={t('hooks.ownSecret')} type='password' autoComplete='off' maxLength={256} />
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

/* `made` gets a new webhook, even if the user has left the form; `leave` does not. */
export function Edit ({ hook, made, leave }: {
  hook?: Webhook; made?: (hook: Webhook) => void; leave: (hook: Webhook) => void
}) {
  const client = useQueryClient()
  const [first] = useState(hook) // as it was when the form was opened: only members that differ are sent
  const [known, know] = useState(hook) // as it was when the user last saw its values
  const [opened] = useState(() => formOf(hook))
  const form = useSentForm<Form, Webhook>(opened, {
    send: (values) => {
      const body = bodyOf(values, first)
      if (!known) return create<Webhook>('/api/chat/webhooks', body)
      return change<Webhook>(pathOf(known), body, (now) => {
        const names = changedIn(known, now, Object.keys(body))
          .filter((name) => changedIn(now, body as Partial<Webhook>, [name]).length > 0)
        if (names.length > 0) throw new Conflict(now, names)
      })
    },
    failed: (error) => { if (error instanceof Conflict) know(error.now) },
    done: (saved) => {
      if (hook) client.setQueryData(['webhooks', String(hook.id)], saved)
      void client.invalidateQueries({ queryKey: ['webhooks'] })
      if (hook) toast(t('hooks.saved'))
      else made?.(saved)
    },
    leave,
    problemsOf
  })
  const guard = useGuard(form.formState.isDirty)
  const values = form.watch()
  const part: Part = { form, values, hook }
  const good =
    (values.scope === 'all' || values.events.length > 0) &&
    readFilter(values.filter) !== undefined &&
    (values.kind === 'poll' || values.retry !== 'own' || readDelays(values.delays) !== null)
  const back = hook ? to('webhooks', hook.id) : to('webhooks')
  const { error } = form.save
  const conflict = error instanceof Conflict ? error : null

  return (
    <div className='page hook form'>
      <header>
        <div>
          <a href={back}>{hook ? nameOf(hook) : t('hooks.title')}</a>
          <h1>{t(hook ? 'hooks.editOne' : 'hooks.new')}</h1>
        </div>
      </header>
      <form {...form.attributes}>
        <Receiver {...part} />
        <Events {...part} />
        <Filter {...part} />
        {values.kind === 'send' && (
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
          {error && !conflict && (
            <p className='failed' role='alert'>
              {form.error ? problemOf(form.error) : t('hooks.problems')}
            </p>
          )}
          <div className='actions'>
            <a className='button' href={back}>
              {t('do.cancel')}
            </a>
            <Button kind='main' type='submit' disabled={form.save.isPending || !good}>
              {t(conflict ? 'devices.saveAnyway' : 'do.save')}
            </Button>
          </div>
        </div>
      </form>
      {guard.leave && <Discard close={guard.stay} done={guard.leave} />}
    </div>
  )
}
