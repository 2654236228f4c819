/*
 * Writes the section of `bench/run against` to standard output, as Markdown: node report_against.js RESULTS
 * ROUNDS SECONDS LOAD_AVERAGE UPLOADS_MAX.
 */
'use strict'
const {
  read, median, of, pairs, ms, mib, shown, table, goals, machine, warning
} = require('./figures.js')

const [file, rounds, seconds, busy, uploadsMax] = process.argv.slice(2)
const runs = read(file)
const kinds = ['own-reads', 'own-writes', 'reads', 'writes', 'logins']
const titles = {
  R1: 'R1: lists of bulk uploads with long header lines',
  R2: 'R2: 200 connections that read unread counts without a pause',
  L8: 'L8: a flood of registrations',
  L9: 'L9: messages of 1 MB, lists of 1,000 webhooks',
  D2: 'D2: registrations, and logins to an account that is pending',
  D3: 'D3: eight logins to one account at a time',
  D4: 'D4: messages of 200 kB, 1,000 webhooks each',
  D5: 'D5: lists of devices and conversations, unread counts',
  D6: 'D6: conversations of 64 MiB, read fast and slowly',
  D9: 'D9: idle connections, more than an address may have',
  D10: 'D10: uploads that do not end',
  D13: 'D13: responses that nobody reads',
  all: 'all attacks together'
}
const names = Object.keys(titles).flatMap((title) => [1, 2].map((count) => `${title} by ${count}`))
  .filter((who) => runs.some((r) => r.who === who))
const rates = (measure, who) => of(runs, measure, who, (r) => r.rate)
const ratio = (kind, who) => pairs(runs, [kind, who], [kind, `before ${who}`], (a, b) => a.p99 / b.p99)

function wanted () {
  const rows = names.flatMap((who) => kinds.map((kind) => {
    const value = ratio(kind, who)
    return [`p99 of others' ${kind} during ${who} / p99 before`, 'at most 3.00', shown(value), value.value <= 3]
  }))
  const refused = kinds.flatMap((kind) => names.flatMap((who) => rates(`refused-${kind}`, who)))
  const number = refused.reduce((sum, n) => sum + n, 0)
  const memory = mib(Math.max(...names.flatMap((who) => rates('growth', who))))
  const disk = Math.max(...names.flatMap((who) => rates('uploads', who)))
  return [...rows,
    ["others' requests that were refused", 'none', String(number), number === 0],
    ['memory growth of the host during an attack', 'at most 256 MiB',
      `${memory.toFixed(1)} MiB`, memory <= 256],
    ['unfinished uploads on the disk', `at most ${mib(uploadsMax / 1024)} MiB`,
      `${mib(disk / 1024).toFixed(1)} MiB`, disk <= Number(uploadsMax)]]
}

function detail (who) {
  const p99 = (kind, beside) => ms(median(of(runs, kind, beside, (r) => r.p99)))
  const cells = kinds.map((kind) => `${p99(kind, `before ${who}`)} → ${p99(kind, who)}`)
  const [name, count] = who.split(' by ')
  return [titles[name], count, ...cells, mib(median(rates('growth', who))).toFixed(1)]
}

process.stdout.write(`## One against all

Measured by \`bench/run against\`, which is also the last part of \`bench/run load\` (${rounds === '1' ? '1 round' : `medians of ${rounds} rounds`},
runs of ${seconds} s), on ${machine()}.
PostgreSQL, Redis, the server, the attackers and the others share this machine. The lowest and highest of the rounds
are in brackets.
${warning(busy)}
${goals(wanted())}

p99 in ms before the attack → during the attack:

${table(['attack', 'accounts', ...kinds.map((kind) => `others' ${kind}`), 'memory growth of the host, MiB'],
  names.map(detail))}

`)
