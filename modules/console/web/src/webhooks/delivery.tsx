/* A delivery: the request as it was sent, and each attempt with the response. */
import { useQuery, useQueryClient } from '@tanstack/react-query'

import { ApiError, call, get } from '../api/client'
import type { Attempt, Sent, Webhook } from '../api/types'
import { to } from '../router'
import { t } from '../texts/texts'
import { useAction } from '../ui/action'
import { toast } from '../ui/toast'
import { Badge, Button, Copy, Empty, Failed, Id, Loading } from '../ui/ui'
import { LOOK_AGAIN_MS, Milliseconds, Moment, nameOf, Outcome, pathOf, Result, urlOf } from './parts'

const isGood = ({ status }: Attempt) => status !== null && status >= 200 && status < 300

/* JSON with one member per line; another text is unchanged. */
function readable (body: string) {
  try {
    return JSON.stringify(JSON.parse(body), null, 2)
  } catch {
    return body
  }
}

function Headers ({ of }: { of: Attempt['requestHeaders'] }) {
  if (!of) return <p className='soft'>{t('hooks.noHeaders')}</p>
  return (
    <dl className='headers'>
      {Object.entries(of).map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  )
}

function Tried ({ attempt, open }: { attempt: Attempt; open: boolean }) {
  return (
    <li>
      <details open={open}>
        <summary>
          <Badge tone={isGood(attempt) ? 'good' : 'bad'}>
            <Result of={attempt} />
          </Badge>
          <span>{t('hooks.attempt', { n: attempt.number })}</span>
          <Moment at={attempt.at} />
          <small>
            <Milliseconds of={attempt.durationMs} />
          </small>
        </summary>
        {attempt.error !== null && attempt.status !== null && <p>{attempt.error}</p>}
        <h3>{t('hooks.answer')}</h3>
        {attempt.answer ? <pre tabIndex={0}>{attempt.answer}</pre> : <p className='soft'>{t('hooks.noAnswer')}</p>}
        <h3>{t('hooks.requestHeaders')}</h3>
        <Headers of={attempt.requestHeaders} />
      </details>
    </li>
  )
}

function Found ({ hook, sent }: { hook: Webhook; sent: Sent }) {
  const client = useQueryClient()
  const resend = useAction({
    mutationFn: () => call('POST', pathOf(hook, 'deliveries', sent.id, 'resend')),
    onSuccess: () => toast(t('hooks.queuedAgain')),
    onSettled: () =>
      Promise.all(
        ['delivery', 'deliveries', 'statistics'].map((name) =>
          client.invalidateQueries({ queryKey: [name, hook.id] })
        )
      )
  })
  const attempts = [...sent.attempts].reverse() // the latest first

  return (
    <div className='page hook'>
      <header>
        <div>
          <a href={to('webhooks', hook.id)}>{nameOf(hook)}</a>
          <h1>
            {sent.event} <Outcome of={sent.status} />
          </h1>
        </div>
        {hook.kind !== 'poll' && (
          <Button kind='main' disabled={resend.isPending || sent.status === 'queued'} onClick={() => resend.mutate()}>
            {t('hooks.resend')}
          </Button>
        )}
      </header>
      {resend.isError && <Failed error={resend.error} />}
      <dl className='facts panel'>
        <div>
          <dt>{t('state.time')}</dt>
          <dd>
            <Moment at={sent.createdAt} />
          </dd>
        </div>
        <div>
          <dt>{t('hooks.id')}</dt>
          <dd>
            <Id id={sent.eventId} />
          </dd>
        </div>
        <div>
          <dt>{t('hooks.url')}</dt>
          <dd>{urlOf(hook)}</dd>
        </div>
        {sent.nextAttemptAt && (
          <div>
            <dt>{t('hooks.nextAttempt')}</dt>
            <dd>
              <Moment at={sent.nextAttemptAt} />
            </dd>
          </div>
        )}
      </dl>
      <div className='two'>
        <section className='panel'>
          <h2>{t('hooks.attempts')}</h2>
          {attempts.length === 0 ? (
            <Empty>{t('hooks.noAttempt')}</Empty>
          ) : (
            <ol className='attempts'>
              {attempts.map((attempt, i) => (
                <Tried key={attempt.number} attempt={attempt} open={i === 0} />
              ))}
            </ol>
          )}
        </section>
        <section className='panel'>
          <h2>{t('hooks.body')}</h2>
          <Copy text={sent.body} shown={readable(sent.body)} />
        </section>
      </div>
    </div>
  )
}

export function DeliveryPage ({ hook, id }: { hook: Webhook; id: string }) {
  const sent = useQuery({
    queryKey: ['delivery', hook.id, id],
    queryFn: () => get<Sent>(pathOf(hook, 'deliveries', encodeURIComponent(id))),
    refetchInterval: ({ state }) => hook.kind !== 'poll' && state.data?.status === 'queued' && LOOK_AGAIN_MS
  })
  const gone = sent.error instanceof ApiError && sent.error.status === 404

  if (sent.isPending) return <Loading />
  if (sent.data && !gone) return <Found hook={hook} sent={sent.data} />
  return (
    <div className='page'>
      <header>
        <h1>{t('hooks.deliveries')}</h1>
      </header>
      {gone ? (
        <Empty>{t('hooks.deliveryGone')}</Empty>
      ) : (
        <Failed error={sent.error} again={() => void sent.refetch()} />
      )}
      <a href={to('webhooks', hook.id)}>{nameOf(hook)}</a>
    </div>
  )
}
