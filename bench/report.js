/*
 * Makes the table of a bench from its lines: node report.js RESULTS IDLE_KB LOAD_KB ROUNDS SECONDS
 * LOAD_AVERAGE, Markdown on standard output. Medians of the rounds; ratios are medians of the
 * rounds' own ratios, so that what slows the whole machine for a while weighs on both sides. A
 * figure that misses its limit is for people to see, not a broken run: the exit is 0 then, too.
 */
'use strict'
const fs = require('node:fs')
const os = require('node:os')

const [file, idle, load, rounds, seconds, busy] = process.argv.slice(2)
const names = ['round', 'measure', 'who', 'rate', 'p50', 'p99', 'max', 'requests', 'server',
  'postgres']
const runs = fs.readFileSync(file, 'utf8').trim().split('\n').map((line) => {
  const run = {}
  line.split('\t').forEach((cell, i) => {
    run[names[i]] = names[i] === 'measure' || names[i] === 'who' ? cell : Number(cell)
  })
  return run
})

function median (numbers) {
  const sorted = [...numbers].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
}

function of (measure, who, value) {
  return runs.filter((r) => r.measure === measure && r.who === who).map(value)
}

function ratio (measure, who, other) {
  const below = new Map(runs.filter((r) => r.measure === measure && r.who === other)
    .map((r) => [r.round, r.rate]))
  const all = of(measure, who, (r) => r.rate / below.get(r.round))
  return { value: median(all), low: Math.min(...all), high: Math.max(...all) }
}

const perTenThousand = (cpu) => (r) => r[cpu] * 10000 / r.requests
const whole = (n) => Math.round(n).toLocaleString('en-US')
const ms = (us) => (us / 1000).toFixed(us < 100000 ? 2 : 0)
const mib = (kb) => Number(kb) / 1024

function goals () {
  const ratios = [
    ['busbar : pgbench, unread count, same statement',
      ratio('unread_count', 'busbar', 'pgbench'), 0.95],
    ['busbar : pgbench, post, same statement in BEGIN…COMMIT',
      ratio('post', 'busbar', 'pgbench'), 1.5],
    ['busbar : the peer, unread count', ratio('unread_count', 'busbar', 'peer'), 3],
    ['busbar : the peer, post', ratio('post', 'busbar', 'peer'), 2],
    ['unread count, 1,000,000 messages stored : 10,000',
      ratio('unread_count', 'busbar', 'busbar-10,000'), 0.9]
  ].map(([name, r, least]) => [name, `at least ${least.toFixed(2)}`,
    `${r.value.toFixed(2)} (${r.low.toFixed(2)} to ${r.high.toFixed(2)})`, r.value >= least])
  const cpu = median(of('unread_count', 'busbar', perTenThousand('server')))
  const health = median(of('health', 'stopped', (r) => r.p99)) / 1000
  return [...ratios,
    ['CPU of the host for 10,000 authenticated reads', 'at most 0.35 s', `${cpu.toFixed(2)} s`,
      cpu <= 0.35],
    ['`GET /api/health` p99 while PostgreSQL is stopped', 'at most 50 ms',
      `${health.toFixed(2)} ms`, health <= 50],
    ['resident memory, all modules, idle', 'at most 40 MiB', `${mib(idle).toFixed(1)} MiB`,
      mib(idle) <= 40]]
}

const titles = {
  unread_count: 'GET /api/chat/unread-count/:email',
  post: 'POST /api/chat/conversations/:id/messages',
  health: 'GET /api/health, PostgreSQL stopped'
}
const people = {
  pgbench: 'pgbench -c 8', peer: 'the peer', busbar: 'busbar',
  'busbar-10,000': 'busbar, 10,000 messages', stopped: 'busbar'
}

function detail (measure, who) {
  const m = (value) => median(of(measure, who, value))
  return [titles[measure], people[who], whole(m((r) => r.rate)), ms(m((r) => r.p50)),
    ms(m((r) => r.p99)), ms(m((r) => r.max)),
    who === 'pgbench' ? '–' : m(perTenThousand('server')).toFixed(2),
    measure === 'health' ? '–' : m(perTenThousand('postgres')).toFixed(2)]
}

function table (head, rows) {
  const line = (cells) => `| ${cells.join(' | ')} |`
  return [line(head), `|${head.map(() => '---|').join('')}`, ...rows.map(line)].join('\n')
}

const order = [['unread_count', 'pgbench'], ['unread_count', 'peer'], ['unread_count', 'busbar'],
  ['unread_count', 'busbar-10,000'], ['post', 'pgbench'], ['post', 'peer'], ['post', 'busbar'],
  ['health', 'stopped']]

process.stdout.write(`# Benchmarks

Made by \`bench/run chat\` (${rounds} interleaved rounds of ${seconds} s a run, medians) on a virtual machine with
${os.availableParallelism()} cores and ${Math.round(os.totalmem() / 2 ** 30)} GiB of memory. Everything ran on this one machine: PostgreSQL, Redis, the
server and the load. Ratios are medians of the rounds' own, the lowest and highest in brackets.
${Number(busy) < 1 ? '' : `\n**The machine was busy with other work: load average ${busy} before the first run.**\n`}
${table(['figure', 'wanted', 'measured', ''],
  goals().map(([name, limit, value, good]) => [name, limit, value, good ? 'met' : '**missed**']))}

${table(['request', 'who', 'per second', 'p50 ms', 'p99 ms', 'longest ms',
  'CPU s per 10,000: server', 'PostgreSQL'], order.map((o) => detail(...o)))}

Resident memory of the host with all modules: ${mib(idle).toFixed(1)} MiB idle, ${mib(load).toFixed(1)} MiB at most under load (10,000 sessions
and the facts of 100,000 conversations in its caches).

`)
