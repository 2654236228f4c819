/*
 * Writes the section of `bench/run load` to standard output, as Markdown: node report_load.js RESULTS ROUNDS
 * SECONDS LOAD_AVERAGE IDLE SLOW.
 */
'use strict'
const {
  read, median, of, pairs, whole, ms, mib, perTenThousand, shown, table, goals, machine, warning
} = require('./figures.js')

const [file, rounds, seconds, busy, idle, slow] = process.argv.slice(2)
const runs = read(file)

function beside (name, who, without, most) {
  const ratio = pairs(runs, ['others', who], ['others', without], (a, b) => a.p99 / b.p99)
  return [name, `at most ${most}`, shown(ratio), ratio.value <= most]
}

function wanted () {
  const kb = median(of(runs, 'resident', 'idle', (r) => r.rate))
  return [
    [`resident memory with ${whole(Number(idle))} idle connections`, 'at most 96 MiB',
      `${mib(kb).toFixed(1)} MiB`, mib(kb) <= 96],
    beside(`p99 of other clients with ${whole(Number(idle))} idle connections / p99 without`, 'idle', 'alone', 1.5),
    beside(`p99 of other clients with ${slow} slow headers (slowhttptest -H) / p99 without`, 'headers',
      'alone again', 2),
    beside(`p99 of other clients with ${slow} slow bodies (-B) / p99 without`, 'bodies', 'alone again', 2),
    beside(`p99 of other clients with ${slow} slow readers (-X) / p99 without`, 'readers', 'alone again', 2)]
}

const titles = {
  alone: 'none', idle: `${idle} idle connections`, 'alone again': 'none, again',
  headers: `${slow} slow headers`, bodies: `${slow} slow bodies`, readers: `${slow} slow readers`
}

function detail (who) {
  const m = (value) => median(of(runs, 'others', who, value))
  return [titles[who], whole(m((r) => r.rate)), ms(m((r) => r.p50)), ms(m((r) => r.p99)),
    ms(m((r) => r.max)), m(perTenThousand('server')).toFixed(2)]
}

process.stdout.write(`## Crowds

Measured by \`bench/run load\` (medians of ${rounds} rounds, runs of ${seconds} s) on ${machine()}.
PostgreSQL, Redis, the server and the load generator share this machine. The lowest and highest of the rounds are in
brackets.
${warning(busy)}
${goals(wanted())}

GET /api/chat/unread-count/:email on 32 connections, with 10 ms between a response and the next request, while other
connections are open:

${table(['other connections', 'requests per second', 'p50 ms', 'p99 ms', 'longest ms', 'host: CPU s per 10,000'],
  Object.keys(titles).map(detail))}

`)
