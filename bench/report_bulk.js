/*
 * Writes the section of `bench/run bulk` to standard output, as Markdown: node report_bulk.js RESULTS ROUNDS
 * LOAD_AVERAGE ROWS.
 */
'use strict'
const {
  read, median, spread, of, pairs, whole, ms, mib, perTenThousand, shown, table, goals, machine,
  warning
} = require('./figures.js')

const [file, rounds, busy, rows] = process.argv.slice(2)
const runs = read(file)
const count = whole(Number(rows))
const seconds = (measure) => spread(of(runs, measure, 'busbar', (r) => r.max / 1e6))

function atMost (name, most, value, unit, format = (n) => n.toFixed(1)) {
  return [name, `at most ${most}${unit}`, shown(value, format, unit), value.value <= most]
}

const ratio = pairs(runs, ['devices', 'busbar'], ['devices', 'COPY'], (a, b) => a.rate / b.rate)
const beside = pairs(runs, ['typing', 'beside'], ['typing', 'alone'], (a, b) => a.p99 / b.p99)
const growth = spread(of(runs, 'growth', 'busbar', (r) => mib(r.rate)))
const pages = spread(of(runs, 'logs', 'busbar', (r) => r.p99 / 1000))

const wanted = [
  atMost(`${count} device rows: upload with check`, 8, seconds('checked'), ' s'),
  [`${count} device rows: rate from confirm to finished / rate of COPY`, 'at least 0.30', shown(ratio),
    ratio.value >= 0.3],
  atMost(`${count} reading rows, 100 devices: confirm to finished`, 8, seconds('reads'), ' s'),
  atMost(`${count} reading rows, 1,000 devices mixed: confirm to finished`, 8, seconds('mixed'), ' s'),
  atMost('memory growth of the host during a round', 24, growth, ' MiB'),
  atMost('p99 of chat posts during a job / p99 without a job', 2, beside, '', (n) => n.toFixed(2)),
  atMost(`p99 of a page of a log with ${whole(5 * rows)} rows`, 20, pages, ' ms')]

const stored = [
  ['devices, upload with check', 'checked', 'busbar'], ['devices, stored', 'devices', 'busbar'],
  ['devices, COPY', 'devices', 'COPY'], ['readings, device by device', 'reads', 'busbar'],
  ['readings, 1,000 devices mixed', 'mixed', 'busbar']
].map(([name, measure, who]) => {
  const m = (value) => median(of(runs, measure, who, value))
  return [name, m((r) => r.max / 1e6).toFixed(2), whole(m((r) => r.rate))]
})

const answered = [
  ['posts, no job', 'typing', 'alone'], ['posts during a job', 'typing', 'beside'],
  ['pages of a log', 'logs', 'busbar']
].map(([name, measure, who]) => {
  const m = (value) => median(of(runs, measure, who, value))
  return [name, whole(m((r) => r.rate)), ms(m((r) => r.p50)), ms(m((r) => r.p99)),
    ms(m((r) => r.max)), m(perTenThousand('server')).toFixed(2)]
})

console.log(`## Bulk uploads

Measured by \`bench/run bulk\` (medians of ${rounds} rounds) on ${machine()}.
PostgreSQL, Redis, the load generator and the host with the modules chat, device, reading and webhook share this
machine. The lowest and highest of the rounds are in brackets.
${warning(busy)}
${goals(wanted)}

${table(['run', 's', 'rows/s'], stored)}

${table(['requests', '/s', 'p50 ms', 'p99 ms', 'longest ms', 'host: CPU s per 10,000'], answered)}
`)
