/*
 * Writes the section of `bench/run webhook` to standard output, as Markdown: node report_webhook.js RESULTS
 * ROUNDS SECONDS LOAD_AVERAGE DRAINED WEBHOOKS BACKLOG.
 */
'use strict'
const {
  read, median, spread, of, pairs, whole, ms, mib, perTenThousand, shown, table, goals, machine,
  warning
} = require('./figures.js')

const [file, rounds, seconds, busy, ...numbers] = process.argv.slice(2)
const [drained, webhooks, backlog] = numbers.map((n) => whole(Number(n)))
const runs = read(file)

function atLeast (name, least, value, format) {
  return [name, `at least ${format ? format(least) : least.toFixed(2)}`, shown(value, format),
    value.value >= least]
}

function atMost (name, most, value, format, unit) {
  return [name, `at most ${most}${unit}`, shown(value, format, unit), value.value <= most]
}

const inMs = (us) => (us / 1000).toFixed(1)

/* One goal: the webhooks' p99 in the run `bad`, compared with the run `alone`. */
function beside (name, bad, alone) {
  const ratio = pairs(runs, bad, alone, (a, b) => a.p99 / b.p99)
  const more = pairs(runs, bad, alone, (a, b) => a.p99 - b.p99)
  const p99 = (which) => inMs(median(of(runs, ...which, (r) => r.p99)))
  return [name, 'at most 1.20, or 5 ms more',
    `${shown(ratio)}: ${p99(bad)} ms / ${p99(alone)} ms`,
    ratio.value <= 1.2 || more.value <= 5000]
}

function all (measure, who, value) {
  return spread(of(runs, measure, who, value))
}

function wanted () {
  const growth = (who) => spread(of(runs, 'memory', who, (r) => mib(r.rate)))
  const rate = (a, b) => a.rate / b.rate
  return [
    atLeast('drain rate / rate of bare libcurl to the same receiver', 0.7,
      pairs(runs, ['drain', 'busbar'], ['limit', 'libcurl'], rate)),
    atLeast(`drain rate for ${drained} stored deliveries, per second`, 12000,
      all('drain', 'busbar', (r) => r.rate), whole),
    atMost('p99 from scheduled time to arrival, 1,000 messages/s', 25,
      all('open', 'delivered', (r) => r.p99 / 1000), (n) => n.toFixed(1), ' ms'),
    atMost('PostgreSQL\'s CPU for a delivery, without its post, 100 messages/s', 280,
      pairs(runs, ['cost', 'one'], ['cost', 'none'],
        (one, none) => 100 * (perTenThousand('postgres')(one) - perTenThousand('postgres')(none))), whole, ' µs'),
    beside('p99 of nine webhooks while a tenth hangs / p99 without the tenth', ['isolation', 'hanging'],
      ['isolation', 'alone']),
    atLeast('rate of posts with one paused webhook / rate without a webhook', 0.8,
      pairs(runs, ['post', 'one'], ['post', 'none'], rate)),
    ...[['refused', 'refuses connections'], ['hanging', 'hangs']].flatMap(([who, does]) => [
      atMost(`memory for ${backlog} queued deliveries whose receiver ${does}`, 32, growth(who),
        (n) => n.toFixed(1), ' MiB'),
      beside(`p99 of another webhook with this backlog (receiver ${does}) / p99 before`, ['backlog', who],
        ['backlog', `before ${who}`])])]
}

const rows = [
  ['store', 'busbar', `storing ${drained} deliveries (posts to ${webhooks} paused webhooks)`],
  ['limit', 'libcurl', `sending ${drained} requests with bare libcurl`],
  ['drain', 'busbar', `sending ${drained} stored deliveries`],
  ['open', 'answered', 'open loop, 1,000 messages/s: scheduled time to response'],
  ['open', 'delivered', 'open loop, 1,000 messages/s: scheduled time to arrival'],
  ['cost', 'idle', 'no messages, 20 s'],
  ['cost', 'none', '100 messages/s, no webhook: scheduled time to response'],
  ['cost', 'one', '100 messages/s, one webhook: scheduled time to arrival'],
  ['isolation', 'alone', 'nine webhooks, 20 messages/s: scheduled time to arrival'],
  ['isolation', 'hanging', 'nine webhooks while a tenth hangs: scheduled time to arrival'],
  ['fanout', 'answered', 'a message to 1,000 webhooks: scheduled time to response'],
  ['fanout', 'delivered', 'a message to 1,000 webhooks: scheduled time to arrival'],
  ['post', 'none', 'posts, 32 connections, no webhook'],
  ['post', 'one', 'posts, 32 connections, one paused webhook'],
  ['backlog', 'before refused', '200 messages/s to one webhook, before the backlog'],
  ['backlog', 'refused', `200 messages/s to one webhook, ${backlog} queued, receiver refuses connections`],
  ['backlog', 'before hanging', '200 messages/s to one webhook, before the backlog'],
  ['backlog', 'hanging', `200 messages/s to one webhook, ${backlog} queued, receiver hangs`]
]

/* CPU seconds per 10,000, or a dash below 0.1 s: a clock tick is 10 ms, so smaller figures are too coarse. */
function cpu (measure, who, which) {
  const used = median(of(runs, measure, who, (r) => r[which]))
  return used < 0.1 ? '–' : median(of(runs, measure, who, perTenThousand(which))).toFixed(2)
}

function detail ([measure, who, name]) {
  const time = (which) => {
    const us = median(of(runs, measure, who, (r) => r[which]))
    return us ? ms(us) : '–'
  }
  return [name, whole(median(of(runs, measure, who, (r) => r.rate))), time('p50'), time('p99'),
    time('max'), cpu(measure, who, 'server'), cpu(measure, who, 'postgres')]
}

const last = all('fanout', 'delivered', (r) => r.max)

process.stdout.write(`## Webhooks

Measured by \`bench/run webhook\` (medians of ${rounds} rounds, runs of ${seconds} s) on ${machine()}.
PostgreSQL, Redis, the server, the receiver and the load generator share this machine. The lowest and highest of the
rounds are in brackets.
${warning(busy)}
${goals(wanted())}

${table(['measurement', 'per second', 'p50 ms', 'p99 ms', 'longest ms', 'host: CPU s per 10,000',
  'PostgreSQL: CPU s per 10,000'], rows.map(detail))}

The last of the 1,000 deliveries of a message arrives ${shown(last, ms, ' ms')} after the scheduled time.

`)
