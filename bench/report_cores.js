/*
 * Writes the section of `bench/run cores` to standard output, as Markdown: node report_cores.js RESULTS
 * ROUNDS SECONDS LOAD_AVERAGE.
 */
'use strict'
const { read, median, of, whole, ms, table, machine, warning } = require('./figures.js')

const [file, rounds, seconds, busy] = process.argv.slice(2)
const runs = read(file)
const counts = [...new Set(runs.map((r) => Number(r.who.split('-')[1])))].sort((a, b) => a - b)
const titles = {
  unread_count: 'GET /api/chat/unread-count/:email',
  post: 'POST /api/chat/conversations/:id/messages'
}

function row (measure, who, cores) {
  const m = (value, count = cores) => median(of(runs, measure, `${who}-${count}`, value))
  const us = (cpu) => m((r) => r[cpu] * 1e6 / r.requests).toFixed(1)
  return [titles[measure], who, cores, whole(m((r) => r.rate)),
    (m((r) => r.rate) / m((r) => r.rate, counts[0])).toFixed(2), ms(m((r) => r.p99)),
    who === 'pgbench' ? '–' : us('server'), us('postgres'), us('load')]
}

const rows = Object.keys(titles).flatMap((measure) => ['pgbench', 'busbar'].flatMap((who) =>
  counts.map((cores) => row(measure, who, cores))))

process.stdout.write(`## Cores

Measured by \`bench/run cores\` (medians of ${rounds} rounds, runs of ${seconds} s) on ${machine()}.
PostgreSQL, Redis, the host and the load generator are confined to the number of cores in the table.
${warning(busy)}
${table(['request', 'program', 'cores', 'per second', 'relative to one core', 'p99 ms', 'host: µs', 'PostgreSQL: µs',
    'load generator: µs'], rows)}

`)
