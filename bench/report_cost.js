/*
 * Writes the section of `bench/run cost` to standard output, as Markdown: node report_cost.js RESULTS ROUNDS
 * LOAD_AVERAGE COUNT.
 */
'use strict'
const { read, median, of, whole, table, machine, warning } = require('./figures.js')

const [file, rounds, busy, count] = process.argv.slice(2)
const runs = read(file)

/* CPU seconds of the host and of PostgreSQL, bytes and bytes of WAL of one object. */
function cost (name) {
  const m = (measure, who, value) => median(of(runs, measure, who, value))
  return [m(name, 'busbar', (r) => r.server / r.requests), m(name, 'busbar', (r) => r.postgres / r.requests),
    m('bytes', name, (r) => r.rate), m('wal', name, (r) => r.rate)]
}

const message = cost('message')
const costs = [
  ['messages', message],
  ['deliveries', cost('delivery').map((value, i) => value - message[i])],
  ['readings, one in each request', cost('reading')],
  ['readings, 1,000 in each request', cost('batch')]
]
const rates = [1000, 10000, 100000]
const month = 30 * 86400 * 1000 // objects

console.log(`### A million messages, deliveries and readings

Measured by \`bench/run cost\` (${rounds === '1' ? '1 round' : `medians of ${rounds} rounds`}, ${whole(Number(count))} messages in each run) on ${machine()}.
PostgreSQL, Redis, the load generator and the host share this machine.
${warning(busy)}
${table(['a million', 'CPU s of the host', 'CPU s of PostgreSQL', 'GB of tables and indexes', 'GB of WAL'],
  costs.map(([name, [host, postgres, bytes, wal]]) =>
    [name, whole(host * 1e6), whole(postgres * 1e6), (bytes / 1e3).toFixed(2), (wal / 1e3).toFixed(2)]))}

The cost at constant rates. *Cores* are the cores of the hosts + the cores of PostgreSQL.

${table(['', ...rates.map((rate) => `cores at ${whole(rate)} a second`),
  ...rates.map((rate) => `MB/s of WAL at ${whole(rate)}`), 'GB of tables and indexes in 30 days at 1,000'],
costs.map(([name, [host, postgres, bytes, wal]]) =>
  [name, ...rates.map((rate) => `${(host * rate).toFixed(2)} + ${(postgres * rate).toFixed(2)}`),
    ...rates.map((rate) => (wal * rate / 1e6).toFixed(1)), whole(bytes * month / 1e9)]))}
`)
