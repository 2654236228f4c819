/*
 * Charts of uPlot: bars, with a line at the `limit` of each bar that has a limit, and the history of a number. The
 * value under the pointer is shown as text; a slider reads the bars by keyboard or screen reader. Limits far above the
 * bars have their own scale on the right.
 */
import { useEffect, useMemo, useRef, useState } from 'react'
import uPlot from 'uplot'

import { t } from '../texts/texts'
import { asExactTime } from './format'

/* `short`: the label below the axis, if it differs. */
export interface Bar { label: string, short?: string, value: number, limit?: number | null }

const BARS_PX = 208
const LINE_PX = 48
const FLAT = 3 // limits more than three times as high as the bars would make the bars flat
const CHARACTER_PX = 7
const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500]
const FONT = '12.8px system-ui, sans-serif'
const DARK = matchMedia('(prefers-color-scheme: dark)')

/* A color of the chart's style, which is read each time the chart is drawn. */
const styled = (name: 'color' | 'fill' | 'stroke' | 'borderTopColor') => (plot: uPlot) =>
  getComputedStyle(plot.root.parentElement!)[name]

/*
 * Draws in the element of `box`, and again when the data, the width or the colors change; `make` is called once.
 * Returns the index of the value under the pointer (`at`), and a function that moves the pointer to an index (`point`).
 */
function usePlot (data: uPlot.AlignedData, make: () => Omit<uPlot.Options, 'width'>) {
  const box = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot>(null)
  const [at, setAt] = useState<number | null>(null)
  const point = (i: number | null) =>
    plot.current?.setCursor({ left: i === null ? -10 : plot.current.valToPos(i, 'x'), top: 0 })

  useEffect(() => {
    const place = box.current!
    const made = new uPlot({
      width: place.clientWidth, legend: { show: false },
      hooks: { setCursor: [({ cursor }) => setAt(cursor.idx ?? null)] },
      cursor: { y: false, points: { show: false }, drag: { x: false } }, ...make()
    }, undefined, place)
    const resized = new ResizeObserver(() => made.setSize({ width: place.clientWidth, height: made.height }))
    const draw = () => made.redraw()
    plot.current = made
    resized.observe(place)
    DARK.addEventListener('change', draw)
    return () => {
      resized.disconnect()
      DARK.removeEventListener('change', draw)
      made.destroy()
    }
  }, [])
  useEffect(() => plot.current?.setData(data), [data])
  return { box, at, point }
}

const labelOf = ({ label, short = label }: Bar) => short

/* A round number above the highest bar. */
function topOf (most: number) {
  const step = 10 ** Math.floor(Math.log10(most)) / 2
  return Math.ceil(most * 1.02 / step) * step
}

const highestOf = (bars: Bar[]) => Math.max(1, ...bars.map(({ value }) => value))
const limitOf = (bars: Bar[]) => Math.max(0, ...bars.map(({ limit }) => limit ?? 0))

export const hasOwnScale = (bars: Bar[]) => limitOf(bars) > FLAT * highestOf(bars)

/* The ranges of the bars and of their limits. */
function rangesOf (bars: Bar[]): { bars: uPlot.Range.MinMax, limits: uPlot.Range.MinMax } {
  const [highest, limit] = [highestOf(bars), limitOf(bars)]
  const both = Math.max(highest, limit)
  const own = hasOwnScale(bars)
  return { bars: [0, topOf(own ? highest : both)], limits: [0, topOf(own ? limit : both)] }
}

/* The approximate length of the longest text, in pixels. */
const lengthOf = (texts: string[]) => CHARACTER_PX * Math.max(0, ...texts.map(({ length }) => length))

/* A line across the width of each bar that has a limit. */
const limits: uPlot.Series.PathBuilder = (plot, series, from, to) => {
  const stroke = new Path2D()

  for (let i = from; i <= to; i++) {
    const limit = plot.data[series]![i]
    if (limit == null) continue
    const y = plot.valToPos(limit, 'limit', true)
    stroke.moveTo(plot.valToPos(i - 0.5, 'x', true), y)
    stroke.lineTo(plot.valToPos(i + 0.5, 'x', true), y)
  }
  return { stroke }
}

export function Bars ({ title, note, bars, show }: {
  title: string, note?: string, bars: Bar[], show: (value: number) => string
}) {
  const latest = useRef(bars)
  const data = useMemo<uPlot.AlignedData>(() => {
    latest.current = bars
    return [bars.map((_, i) => i), bars.map(({ value }) => value), bars.map(({ limit }) => limit ?? null)]
  }, [bars])
  const { box, at, point } = usePlot(data, () => ({
    height: BARS_PX,
    padding: [12, 24, 0, 0],
    scales: {
      x: { time: false, range: () => [-0.5, latest.current.length - 0.5] },
      y: { range: () => rangesOf(latest.current).bars }, limit: { range: () => rangesOf(latest.current).limits }
    },
    axes: [
      {
        font: FONT, stroke: styled('color'), grid: { show: false }, ticks: { show: false }, incrs: STEPS, size: 30,
        space: () => lengthOf(latest.current.map(labelOf)) + 24,
        values: (_, all) => all.map((i) => latest.current[i] ? labelOf(latest.current[i]) : null)
      },
      {
        font: FONT, stroke: styled('color'), ticks: { show: false }, grid: { stroke: styled('borderTopColor'), width: 1 },
        size: (_, texts) => lengthOf(texts ?? []) + 16,
        values: (_, all) => all.map((value) => value === 0 ? '0' : show(value))
      },
      {
        scale: 'limit', side: 1, font: FONT, stroke: styled('stroke'), ticks: { show: false }, grid: { show: false },
        size: (_, texts) => hasOwnScale(latest.current) ? lengthOf(texts ?? []) + 16 : 0,
        values: (_, all) => all.map((value) => !hasOwnScale(latest.current) ? null : value === 0 ? '0' : show(value))
      }
    ],
    series: [
      {},
      { fill: styled('fill'), width: 0, paths: uPlot.paths.bars!({ size: [0.8, 60] }), points: { show: false } },
      { scale: 'limit', stroke: styled('stroke'), width: 2, dash: [5, 4], paths: limits, points: { show: false } }
    ]
  }))
  const textOf = ({ label, value, limit }: Bar) =>
    `${label}: ${show(value)}${typeof limit === 'number' ? `; ${t('devices.ceiling', { energy: show(limit) })}` : ''}`
  const shown = at === null ? undefined : bars[at]
  const last = bars.length - 1
  const most = Math.max(...bars.map(({ value }) => value))

  return (
    <figure className='plot'>
      <figcaption className='row between'><h2>{title}</h2><small>{shown ? textOf(shown) : note}</small></figcaption>
      <input className='hidden' type='range' min={0} max={last} value={at ?? last} aria-label={title}
        aria-valuetext={textOf(shown ?? bars[last]!)} onChange={(e) => point(Number(e.target.value))}
        onFocus={() => point(at ?? last)} onBlur={() => point(null)} />
      <div className='chart' ref={box} role='img'
        aria-label={t('chart.label', { title, n: bars.length, most: show(most) })} />
    </figure>
  )
}

/*
 * A number over the last hour or less: the current value, or the value and time under the pointer, and a line of the
 * history.
 */
export function Spark ({ title, times, values, show }: {
  title: string, times: number[], values: number[], show: (value: number) => string
}) {
  const { box, at } = usePlot([times, values], () => ({
    height: LINE_PX,
    scales: { x: { time: false }, y: { range: (_, __, most) => [0, Math.max(1e-9, most * 1.1)] } },
    axes: [{ show: false }, { show: false }],
    series: [{}, { stroke: styled('fill'), width: 2, points: { show: false } }]
  }))
  const last = values.length - 1
  const value = values[at ?? last]
  const time = times[at ?? 0]

  return (
    <figure className='panel spark'>
      <figcaption>{title}</figcaption>
      <strong>{value === undefined ? '…' : show(value)}</strong>
      <div className='chart' ref={box} aria-hidden='true' />
      {time !== undefined && last > 0 && (
        <small>{t(at === null ? 'chart.from' : 'chart.at', { time: asExactTime(time) })}</small>
      )}
    </figure>
  )
}
