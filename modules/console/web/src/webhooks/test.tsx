/* Sends a ping or an example of an event, and shows what the receiver answered. */
import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'

import { call } from '../api/client'
import type { Tested, Webhook } from '../api/types'
import { t } from '../texts/texts'
import { useAction } from '../ui/action'
import { asNumber } from '../ui/format'
import { Button, Dialog, Failed } from '../ui/ui'
import { EventsLink } from './catalogue'
import { EventSelect } from './deliveries'
import { pathOf, urlOf } from './parts'

/* The service answers after a few seconds even if the receiver has not: then the attempt goes on. */
function Told ({ of, polled }: { of: Tested; polled: boolean }) {
  if (polled && of.success) return <p className='notice'>{t('hooks.testedPoll')}</p>
  if (of.success)
    return <p className='notice'>{t('hooks.tested', { status: of.status ?? '', ms: asNumber(of.durationMs) })}</p>
  if (of.status === null && of.error?.includes('attempt continues'))
    return <p className='notice wait'>{t('hooks.testWaits')}</p>
  const problem = of.status !== null ? t('hooks.answered', { status: of.status }) : (of.error ?? '')
  return <p className='failed'>{t('hooks.testFailed', { problem })}</p>
}

export function Test ({ hook, close }: { hook: Webhook; close: () => void }) {
  const client = useQueryClient()
  const [event, setEvent] = useState('ping')
  const polled = hook.kind === 'poll'
  const test = useAction({
    mutationFn: () => call<Tested>('POST', pathOf(hook, 'test'), { event }),
    onSettled: () => {
      for (const name of ['deliveries', 'statistics']) void client.invalidateQueries({ queryKey: [name, hook.id] })
    }
  })

  return (
    <Dialog title={t('hooks.test')} close={close} form={false}>
      <p>{polled ? t('hooks.testPoll') : t('hooks.testIs', { url: urlOf(hook) })}</p>
      <EventSelect value={event} change={setEvent} />
      <p><EventsLink of={event} /></p>
      <div role='status'>{test.data && !test.isPending && <Told of={test.data} polled={polled} />}</div>
      {test.isError && <Failed error={test.error} />}
      <div className='actions'>
        <Button onClick={close}>{t('do.close')}</Button>
        <Button kind='main' disabled={test.isPending} onClick={() => test.mutate()}>
          {t(test.isPending ? 'hooks.testing' : 'hooks.testDo')}
        </Button>
      </div>
    </Dialog>
  )
}
