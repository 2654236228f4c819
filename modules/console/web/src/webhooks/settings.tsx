/* The settings of a webhook, its secret, and its deletion. */
import { useQueryClient } from '@tanstack/react-query'
import { useState, type ReactNode } from 'react'

import { call } from '../api/client'
import type { Webhook } from '../api/types'
import { whileHere } from '../router'
import { t } from '../texts/texts'
import { asMoment, asNumber } from '../ui/format'
import { toast } from '../ui/toast'
import { Button, Confirm, Copy, Failed } from '../ui/ui'
import { isAll, written } from './form'
import { Moment, nameOf, Owner, pathOf, urlOf, useSwitch } from './parts'

function Fact ({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  )
}

function retriesOf ({ retryPolicy }: Webhook) {
  if (typeof retryPolicy === 'object') return written(retryPolicy.delays)
  return t(retryPolicy === 'standard' ? 'hooks.retry.standard' : 'hooks.retry.default')
}

/* How requests log in to the receiver, without what is secret. */
function Login ({ of }: { of: Webhook['authentication'] }) {
  if (!of?.type) return <>{t('hooks.login.none')}</>
  const who = of.username ?? of.clientId ?? of.token
  return (
    <>
      {t(`hooks.login.${of.type}`)}
      {who && (
        <>
          : <code>{who}</code>
        </>
      )}
      {of.tokenUrl && <span className='under'>{of.tokenUrl}</span>}
      {of.expiresAt && (
        <span className='under'>
          {t('hooks.expires')} <Moment at={of.expiresAt} />
        </span>
      )}
    </>
  )
}

const none = () => <span className='soft'>{t('hooks.none')}</span>

/* The settings that a webhook has only if its events are sent. */
function Sending ({ hook }: { hook: Webhook }) {
  const { rateLimit, headers, disablePolicy } = hook

  return (
    <>
      <Fact name={t('hooks.retries')}>{retriesOf(hook)}</Fact>
      <Fact name={t('hooks.disabling')}>
        {disablePolicy ? t('hooks.disablesAfter', { after: disablePolicy.after }) : t('hooks.never')}
      </Fact>
      <Fact name={t('hooks.ordering')}>{t(hook.ordering ? 'hooks.ordered' : 'hooks.unordered')}</Fact>
      <Fact name={t('hooks.rateLimit')}>
        {rateLimit ? t(`hooks.limited.${rateLimit.per}`, { n: asNumber(rateLimit.limit) }) : none()}
      </Fact>
      <Fact name={t('hooks.headers')}>
        {headers
          ? Object.entries(headers).map(([name, value]) => (
              <code key={name} className='each'>
                {name}: {value}
              </code>
            ))
          : none()}
      </Fact>
      <Fact name={t('hooks.login')}>
        <Login of={hook.authentication} />
      </Fact>
      <Fact name={t('hooks.signature')}>{t(`hooks.signature.${hook.signature ?? 'hmac'}`)}</Fact>
      {hook.publicKey && (
        <Fact name={t('hooks.publicKey')}>
          <Copy text={hook.publicKey} />
        </Fact>
      )}
      {hook.publicKey && (
        <Fact name={t('hooks.jwks')}>
          <Copy text={location.origin + pathOf(hook, 'jwks')} />
        </Fact>
      )}
      <Fact name={t('hooks.secretTitle')}>
        <code>{hook.secret}</code>
      </Fact>
    </>
  )
}

function Facts ({ hook }: { hook: Webhook }) {
  const { filter } = hook

  return (
    <dl className='settings'>
      {hook.url && (
        <Fact name={t('hooks.url')}>
          <Copy text={hook.url} />
        </Fact>
      )}
      <Fact name={t('hooks.owner')}>
        <Owner id={hook.userId} />
      </Fact>
      <Fact name={t('state.since')}>{asMoment(hook.createdAt)}</Fact>
      <Fact name={t('hooks.events')}>{isAll(hook) ? t('hooks.all') : hook.events.join(', ')}</Fact>
      <Fact name={t('hooks.filter')}>
        {filter ? <pre tabIndex={0}>{JSON.stringify(filter, null, 2)}</pre> : none()}
      </Fact>
      {hook.kind !== 'poll' && <Sending hook={hook} />}
    </dl>
  )
}

export function Settings ({ hook, show }: { hook: Webhook; show: (made: Webhook) => void }) {
  const client = useQueryClient()
  const change = useSwitch(hook)
  const [asked, ask] = useState<'rotate' | 'delete' | null>(null)
  const close = () => ask(null)
  const rotate = () =>
    call<Webhook>('POST', pathOf(hook, 'rotate-secret'), {}).then((made) => {
      close()
      show(made)
      return client.invalidateQueries({ queryKey: ['webhooks'] })
    })
  const remove = () => {
    const leave = whileHere()
    return call('DELETE', pathOf(hook)).then(() => {
      leave('webhooks') // Back does not return to the deleted webhook
      for (const name of ['deliveries', 'delivery', 'statistics', 'replay'])
        client.removeQueries({ queryKey: [name, hook.id] })
      client.removeQueries({ queryKey: ['webhooks', String(hook.id)] })
      toast(t('state.deleted', { name: nameOf(hook) }))
      return client.invalidateQueries({ queryKey: ['webhooks'], exact: true })
    })
  }

  return (
    <>
      <section className='panel'>
        <Facts hook={hook} />
      </section>
      <section className='panel zone' aria-label={t('hooks.danger')}>
        {hook.kind !== 'poll' && (
          <div className='row between'>
            <div>
              <strong>{t('hooks.rotate')}</strong>
              <p>{t('hooks.rotateIs')}</p>
            </div>
            <Button onClick={() => ask('rotate')}>{t('hooks.rotate')}</Button>
          </div>
        )}
        <div className='row between'>
          <div>
            <strong>{t(hook.active ? 'hooks.disable' : 'hooks.enable')}</strong>
            <p>{t('hooks.disableIs')}</p>
          </div>
          <Button disabled={change.isPending} onClick={() => change.mutate(!hook.active)}>
            {t(hook.active ? 'hooks.disable' : 'hooks.enable')}
          </Button>
        </div>
        {change.isError && <Failed error={change.error} />}
        <div className='row between'>
          <div>
            <strong>{t('do.delete')}</strong>
            <p>{t('hooks.deleteIs')}</p>
          </div>
          <Button kind='risk' onClick={() => ask('delete')}>
            {t('do.delete')}
          </Button>
        </div>
      </section>
      {asked === 'rotate' && (
        <Confirm
          title={t('hooks.rotate')}
          text={t('hooks.rotateAsk')}
          action={t('hooks.rotate')}
          mild
          close={close}
          done={() => {}}
          run={rotate}
        />
      )}
      {asked === 'delete' && (
        <Confirm
          title={t('do.delete')}
          text={t('hooks.delete', { url: urlOf(hook) })}
          action={t('do.delete')}
          name={hook.name ?? (URL.canParse(hook.url ?? '') ? new URL(hook.url ?? '').host : String(hook.id))}
          close={close}
          done={() => {}}
          run={remove}
        />
      )}
    </>
  )
}
