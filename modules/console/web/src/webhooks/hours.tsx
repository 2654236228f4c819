/*
 * The outcomes of the last 24 hours as stacked bars. Each bar with deliveries is a link to these deliveries. The line
 * below names the values of the bar under the pointer or the focus.
 */
import { useState } from 'react'

import type { Hour, Webhook } from '../api/types'
import { toWith } from '../router'
import { t } from '../texts/texts'
import { asClock, asNumber } from '../ui/format'

const HOUR_MS = 3600000
const EVERY = 6 // hours between labels
const parts = ['delivered', 'abandoned', 'queued'] as const

const endOf = ({ at }: Hour) => new Date(Date.parse(at) + HOUR_MS).toISOString()

/* The URL of the list of deliveries of an hour. */
const hrefOf = (hook: Webhook, hour: Hour) => toWith({ since: hour.at, until: endOf(hour) }, 'webhooks', hook.id)

const textOf = (hour: Hour) =>
  `${asClock(hour.at)} – ${asClock(endOf(hour))}: ${
    parts
      .filter((name) => hour[name] > 0)
      .map((name) => `${asNumber(hour[name])} ${t(`delivery.${name}`)}`)
      .join(', ') || t('hooks.quiet')
  }`

export function Hours ({ hook, hours }: { hook: Webhook; hours: Hour[] }) {
  const [shown, show] = useState<number | null>(null)
  const totals = hours.map((hour) => hour.delivered + hour.abandoned + hour.queued)
  const most = Math.max(0, ...totals)
  const current = shown === null ? undefined : hours[shown]
  return (
    <figure className='hours'>
      <div className='stacks' role='group' aria-label={t('hooks.chart')} onPointerLeave={() => show(null)}>
        {hours.map((hour, i) => {
          const stack = parts.map(
            (name) =>
              hour[name] > 0 && <i key={name} className={name} style={{ height: `${(hour[name] / most) * 100}%` }} />
          )
          const shows = { onPointerEnter: () => show(i), onFocus: () => show(i), onBlur: () => show(null) }
          return totals[i] === 0 ? (
            <span key={hour.at} {...shows} />
          ) : (
            <a key={hour.at} href={hrefOf(hook, hour)} aria-label={textOf(hour)} {...shows}>
              {stack}
            </a>
          )
        })}
      </div>
      <div className='labels' aria-hidden='true'>
        {hours.map((hour, i) => i % EVERY === 0 && <span key={hour.at}>{asClock(hour.at)}</span>)}
      </div>
      <figcaption>
        {current ? textOf(current) : most > 0 ? t('hooks.chartNote', { n: asNumber(most) }) : t('hooks.chartNone')}
      </figcaption>
    </figure>
  )
}
