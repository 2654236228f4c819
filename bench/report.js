/*
 * Writes the section of `bench/run chat` to standard output, as Markdown: node report.js RESULTS IDLE_KB
 * LOAD_KB ROUNDS SECONDS LOAD_AVERAGE.
 */
'use strict'
const os = require('node:os')
const {
  read, median, of, pairs, whole, ms, mib, perTenThousand, shown, table, goals, machine, warning
} = require('./figures.js')

const [file, idle, load, rounds, seconds, busy] = process.argv.slice(2)
const runs = read(file)

function wanted () {
  const rows = [
    ['rate of busbar / rate of pgbench: unread count, same statement', 'unread_count', 'pgbench', 1],
    ['rate of busbar with 128 connections / rate of pgbench: unread count, same statement', 'unread_count',
      'pgbench', 1, 'busbar-128'],
    ['rate of busbar / rate of pgbench: post, same statement in BEGIN…COMMIT', 'post', 'pgbench', 2.6],
    ['rate of busbar / rate of the peer: unread count', 'unread_count', 'peer', 3.5],
    ['rate of busbar / rate of the peer: post', 'post', 'peer', 3.5],
    ['rate of busbar / rate of NestJS: unread count', 'unread_count', 'nest', 10],
    ['rate of busbar / rate of NestJS: post', 'post', 'nest', 10],
    ['rate with 1,000,000 stored messages / rate with 10,000: unread count', 'unread_count', 'busbar-10,000', 0.9]
  ].map(([name, measure, other, least, who = 'busbar']) => {
    const ratio = pairs(runs, [measure, who], [measure, other], (a, b) => a.rate / b.rate)
    return [name, `at least ${least.toFixed(2)}`, shown(ratio), ratio.value >= least]
  })
  const cpu = ['server', 'postgres'].map((who) =>
    median(of(runs, 'unread_count', 'busbar', perTenThousand(who)))).reduce((a, b) => a + b)
  const part = (measure) =>
    pairs(runs, [measure, 'busbar'], ['unread_count', 'busbar'], (a, b) => a.rate / b.rate).value.toFixed(2)
  const p99 = (measure) => median(of(runs, measure, 'busbar', (r) => r.p99)) / 1000
  const alone = pairs(runs, ['alone', 'busbar'], ['alone', 'single'], (a, b) => a.p50 / b.p50)
  const health = median(of(runs, 'health', 'stopped', (r) => r.p99)) / 1000
  return [...rows,
    ['CPU of host and PostgreSQL for 10,000 authenticated reads', 'at most 0.25 s',
      `${cpu.toFixed(2)} s`, cpu <= 0.25],
    ...[['few', '6 connections'], ['half', '64 connections that pause']].map(([measure, who]) =>
      [`p99 of unread counts at ${part(measure)} times the highest rate (${who})`, 'at most 2 ms',
        `${p99(measure).toFixed(2)} ms`, p99(measure) <= 2]),
    ['p50 / p50 with `database.gather: 1`: unread count on one connection', 'at most 1.00', shown(alone),
      Number(alone.value.toFixed(2)) <= 1],
    ['p99 of `GET /api/health` while PostgreSQL is stopped', 'at most 50 ms',
      `${health.toFixed(2)} ms`, health <= 50],
    ['resident memory of the idle host with all modules', 'at most 40 MiB', `${mib(idle).toFixed(1)} MiB`,
      mib(idle) <= 40]]
}

/* Processor time per request in microseconds: by the server, PostgreSQL and the load, the rest, and the total. */
function spent (measure, who) {
  const us = (cpu) => median(of(runs, measure, who, (r) => r[cpu] * 1e6 / r.requests))
  const parts = ['server', 'postgres', 'load'].map(us)
  const had = os.availableParallelism() * 1e6 / median(of(runs, measure, who, (r) => r.rate))
  const sum = parts.reduce((a, b) => a + b)
  return [titles[measure], people[who], who === 'pgbench' ? '–' : parts[0].toFixed(1),
    parts[1].toFixed(1), parts[2].toFixed(1), (had - sum).toFixed(1), had.toFixed(1)]
}

const titles = {
  few: 'GET /api/chat/unread-count/:email, 6 connections',
  half: 'GET /api/chat/unread-count/:email, 64 connections, pauses of 1 ms',
  alone: 'GET /api/chat/unread-count/:email, one connection',
  unread_count: 'GET /api/chat/unread-count/:email',
  post: 'POST /api/chat/conversations/:id/messages',
  health: 'GET /api/health, PostgreSQL stopped'
}
const people = {
  pgbench: 'pgbench -c 8', peer: 'the peer', nest: 'NestJS', busbar: 'busbar',
  'busbar-10,000': 'busbar, 10,000 messages', 'busbar-128': 'busbar, 128 connections',
  stopped: 'busbar', single: 'busbar, `database.gather: 1`'
}

function detail (measure, who) {
  const m = (value) => median(of(runs, measure, who, value))
  return [titles[measure], people[who], whole(m((r) => r.rate)), ms(m((r) => r.p50)),
    ms(m((r) => r.p99)), ms(m((r) => r.max)),
    who === 'pgbench' ? '–' : m(perTenThousand('server')).toFixed(2),
    measure === 'health' ? '–' : m(perTenThousand('postgres')).toFixed(2)]
}

const order = [['unread_count', 'pgbench'], ['unread_count', 'peer'], ['unread_count', 'nest'],
  ['unread_count', 'busbar'], ['unread_count', 'busbar-10,000'], ['unread_count', 'busbar-128'],
  ['few', 'busbar'], ['half', 'busbar'],
  ['alone', 'busbar'], ['alone', 'single'], ['post', 'pgbench'], ['post', 'peer'],
  ['post', 'nest'], ['post', 'busbar'], ['health', 'stopped']]

process.stdout.write(`## Chat

Measured by \`bench/run chat\` (medians of ${rounds} interleaved rounds, runs of ${seconds} s) on ${machine()}.
PostgreSQL, Redis, the server and the load generator share this machine. A ratio is the median of the rounds' ratios;
the lowest and highest are in brackets.
${warning(busy)}
${goals(wanted())}

${table(['request', 'program', 'per second', 'p50 ms', 'p99 ms', 'longest ms',
  'server: CPU s per 10,000', 'PostgreSQL: CPU s per 10,000'], order.map((o) => detail(...o)))}

Processor time per request in microseconds, at the highest rate:

${table(['request', 'program', 'server', 'PostgreSQL', 'load generator', 'rest', 'total'],
  order.filter(([measure]) => ['unread_count', 'post'].includes(measure)).map((o) => spent(...o)))}

Resident memory of the host with all modules: ${mib(idle).toFixed(1)} MiB idle, ${mib(load).toFixed(1)} MiB at most under
load (its caches then contain 10,000 sessions and 100,000 conversations).

`)
