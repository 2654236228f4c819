/*
 * Values over time as bars, with a line at the `limit` of each that has one. A slider over the bars reads one
 * value at a time, by keyboard, touch, mouse or screen reader.
 */
import { useState, type PointerEvent } from 'react'

import { t } from '../texts/texts'

/* `short`: the label below the axis, if it differs. */
export interface Bar { label: string, short?: string, value: number, limit?: number | null }

const HEIGHT = 160
const LABELS = 7

/* Rounds up to 1, 1.5, 2, 2.5, 3, 4, 5, 7.5, 10, … */
function round (most: number) {
  const power = 10 ** Math.floor(Math.log10(most))
  return (([1, 1.5, 2, 2.5, 3, 4, 5, 7.5].find((step) => step * power >= most)) ?? 10) * power
}

function Shapes ({ bars, top, at }: { bars: Bar[], top: number, at: number | null }) {
  const width = 800 / Math.max(1, bars.length)
  const wide = Math.min(width * 0.8, 60)
  const y = (value: number) => HEIGHT - Math.max(0, value) / top * HEIGHT
  const line = bars.map(({ limit }, i) => limit == null ? '' : `M${i * width} ${y(limit)}h${width}`).join('')

  return (
    <>
      {[0, 0.5, 1].map((part) => (
        <line key={part} x1='0' x2='800' y1={HEIGHT * part} y2={HEIGHT * part} vectorEffect='non-scaling-stroke' />
      ))}
      {bars.map(({ value }, i) => (
        <rect key={i} x={i * width + (width - wide) / 2} width={wide} y={y(value)} height={HEIGHT - y(value)} />
      ))}
      {at !== null && <rect className='hit' x={at * width} width={width} y='0' height={HEIGHT} />}
      {line && <path className='limit' d={line} vectorEffect='non-scaling-stroke' />}
    </>
  )
}

/* Labels below some bars, the last one included; the outer ones stay inside of the chart. */
function Axis ({ bars }: { bars: Bar[] }) {
  const every = Math.max(1, Math.ceil(bars.length / LABELS))

  return (
    <div className='axis' aria-hidden='true'>
      {bars.map(({ label, short = label }, i) => {
        const place = (i + 0.5) / bars.length * 100
        const shift = place < 6 ? 0 : place > 94 ? 100 : 50
        const left = shift === 50 ? place : shift
        return (bars.length - 1 - i) % every === 0 && (
          <span key={i} style={{ left: `${left}%`, transform: `translateX(-${shift}%)` }}>{short}</span>
        )
      })}
    </div>
  )
}

export function Bars ({ title, note, bars, show }: {
  title: string, note?: string, bars: Bar[], show: (value: number) => string
}) {
  const [at, setAt] = useState<number | null>(null)
  const most = Math.max(...bars.map(({ value }) => value))
  const top = round(Math.max(1, most, ...bars.map(({ limit }) => limit ?? 0)))
  const textOf = ({ label, value, limit }: Bar) =>
    `${label}: ${show(value)}${typeof limit === 'number' ? `; ${t('devices.ceiling', { energy: show(limit) })}` : ''}`
  const shown = at === null ? undefined : bars[at]
  const point = (event: PointerEvent<HTMLInputElement>) => {
    const { left, width } = event.currentTarget.getBoundingClientRect()
    setAt(Math.min(bars.length - 1, Math.max(0, Math.floor((event.clientX - left) / width * bars.length))))
  }

  return (
    <figure className='plot'>
      <figcaption className='row between'><h2>{title}</h2><small>{shown ? textOf(shown) : note}</small></figcaption>
      <div className='area'>
        <div className='scale' aria-hidden='true'>
          {[top, top / 2, 0].map((value) => <span key={value}>{show(value)}</span>)}
        </div>
        <div className='bars'>
          <svg className='chart' viewBox={`0 0 800 ${HEIGHT}`} preserveAspectRatio='none' role='img'
            aria-label={t('chart.label', { title, n: bars.length, most: show(most) })}>
            <Shapes bars={bars} top={top} at={shown ? at : null} />
          </svg>
          <input type='range' min={0} max={bars.length - 1} value={at ?? bars.length - 1} aria-label={title}
            aria-valuetext={textOf(shown ?? bars[bars.length - 1]!)} onChange={(e) => setAt(Number(e.target.value))}
            onFocus={() => setAt(at ?? bars.length - 1)} onBlur={() => setAt(null)}
            onPointerMove={point} onPointerDown={point} onPointerLeave={() => setAt(null)} />
        </div>
        <Axis bars={bars} />
      </div>
    </figure>
  )
}
