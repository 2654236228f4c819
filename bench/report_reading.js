/*
 * Writes the section of `bench/run reading` to standard output, as Markdown: node report_reading.js RESULTS
 * ROUNDS SECONDS LOAD_AVERAGE STORED.
 */
'use strict'
const {
  read, median, spread, of, pairs, whole, ms, perTenThousand, shown, table, goals, machine, warning
} = require('./figures.js')

const [file, rounds, seconds, busy, stored] = process.argv.slice(2)
const runs = read(file)
const rate = (a, b) => a.rate / b.rate

function atLeast (name, least, value, format) {
  return [name, `at least ${format ? format(least) : least.toFixed(2)}`, shown(value, format),
    value.value >= least]
}

function atMost (name, most, value, unit) {
  return [name, `at most ${most} ${unit}`, `${value.toFixed(1)} ${unit}`, value <= most]
}

const wanted = [
  atLeast('rate of readings in batches of 1,000 / rate of COPY with the same rows', 0.4,
    pairs(runs, ['batch', 'busbar'], ['batch', 'COPY'], rate)),
  atLeast('readings per second, in batches of 1,000', 30000,
    spread(of(runs, 'batch', 'busbar', (r) => r.rate)), whole),
  atLeast(`rate of batches with ${whole(Number(stored))} stored readings / rate with none`, 0.8,
    pairs(runs, ['stored', 'busbar'], ['batch', 'busbar'], rate)),
  atLeast('rate of single readings / rate of pgbench with the same statements', 0.7,
    pairs(runs, ['single', 'busbar'], ['reading', 'pgbench'], rate)),
  atMost('issuing certificates for 1,000,000 hourly readings in daily cycles', 60,
    median(of(runs, 'issue', 'busbar', (r) => r.rate)), 's'),
  atMost('issuing certificates for the hourly History readings of a day, 20,000 devices', 60,
    median(of(runs, 'histories', 'busbar', (r) => r.rate)), 's'),
  atMost('p99 of a page of the certificate log with 1,000,000 entries', 20,
    median(of(runs, 'pages', 'busbar', (r) => r.p99)) / 1000, 'ms')]

const rows = [
  ['batches of 1,000', 'batch', 'busbar'], ['COPY', 'batch', 'COPY'],
  [`batches of 1,000, ${whole(Number(stored))} stored`, 'stored', 'busbar'],
  ['single readings, 32 connections', 'single', 'busbar'],
  ['pgbench -c 8', 'reading', 'pgbench'], ['pages', 'pages', 'busbar']
].map(([name, measure, who]) => {
  const m = (value) => median(of(runs, measure, who, value))
  return [name, whole(m((r) => r.rate)), ms(m((r) => r.p50)), ms(m((r) => r.p99)),
    m(perTenThousand('server')).toFixed(2), m(perTenThousand('postgres')).toFixed(2)]
})

console.log(`## Readings and certificates

Measured by \`bench/run reading\` (medians of ${rounds} rounds, runs of ${seconds} s) on ${machine()}.
All programs share this machine. The lowest and highest of the rounds are in brackets.
${warning(busy)}
${goals(wanted)}

${table(['run', '/s', 'p50 ms', 'p99 ms', 'host: CPU s per 10,000', 'PostgreSQL: CPU s per 10,000'], rows)}
`)
