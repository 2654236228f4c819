/*
 * Values over time as bars, with a line at the `limit` of each that has one. Screen readers get the largest
 * values.
 */
import { t } from '../texts/texts'

/* `short`: the label below the axis, if it differs. */
export interface Bar { label: string, short?: string, value: number, limit?: number | null }

const HEIGHT = 160

/* Rounds up to 1, 1.5, 2, 2.5, 3, 4, 5, 7.5, 10, … */
function round (most: number) {
  const power = 10 ** Math.floor(Math.log10(most))
  return (([1, 1.5, 2, 2.5, 3, 4, 5, 7.5].find((step) => step * power >= most)) ?? 10) * power
}

function Shapes ({ bars, top, show }: { bars: Bar[], top: number, show: (value: number) => string }) {
  const width = 800 / Math.max(1, bars.length)
  const wide = Math.min(width * 0.8, 60)
  const y = (value: number) => HEIGHT - Math.max(0, value) / top * HEIGHT
  const line = bars.map(({ limit }, i) => typeof limit === 'number' ? `M${i * width} ${y(limit)}h${width}` : '').join('')

  return (
    <>
      {[0, 0.5, 1].map((part) => <line key={part} x1='0' x2='800' y1={HEIGHT * part} y2={HEIGHT * part} vectorEffect='non-scaling-stroke' />)}
      {bars.map(({ label, value, limit }, i) => (
        <g key={i}>
          <rect x={i * width + (width - wide) / 2} width={wide} y={y(value)} height={HEIGHT - y(value)} />
          <rect className='hit' x={i * width} width={width} y='0' height={HEIGHT}>
            <title>{`${label}: ${show(value)}${typeof limit === 'number' ? `; ${t('devices.ceiling', { energy: show(limit) })}` : ''}`}</title>
          </rect>
        </g>
      ))}
      {line && <path className='limit' d={line} vectorEffect='non-scaling-stroke' />}
    </>
  )
}

export function Bars ({ title, note, bars, show }: { title: string, note?: string, bars: Bar[], show: (value: number) => string }) {
  const most = Math.max(...bars.map(({ value }) => value))
  const top = round(Math.max(1, most, ...bars.map(({ limit }) => limit ?? 0)))
  const every = Math.max(1, Math.ceil(bars.length / 7))

  return (
    <figure className='plot'>
      <figcaption className='row between'><h2>{title}</h2>{note && <small>{note}</small>}</figcaption>
      <div className='area'>
        <div className='scale' aria-hidden='true'>{[top, top / 2, 0].map((value) => <span key={value}>{show(value)}</span>)}</div>
        <svg className='chart' viewBox={`0 0 800 ${HEIGHT}`} preserveAspectRatio='none' role='img' aria-label={t('chart.label', { title, n: bars.length, most: show(most) })}>
          <Shapes bars={bars} top={top} show={show} />
        </svg>
        <div className={every === 1 ? 'axis each' : 'axis'} aria-hidden='true'>{bars.map(({ label, short = label }, i) => i % every === 0 && (
          <span key={i} style={{ flexGrow: Math.min(every, bars.length - i) }}>{i > 0 && i + every > bars.length ? '' : short}</span>
        ))}</div>
      </div>
    </figure>
  )
}
