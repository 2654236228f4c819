/*
 * Writes the section of `bench/run modules` to standard output, as Markdown: node report_modules.js RESULTS ROUNDS
 * SECONDS LOAD_AVERAGE CPU_TIME…; the last CPU_TIME is the one of the goal.
 */
'use strict'
const { read, median, of, pairs, ms, shown, table, goals, machine, warning } = require('./figures.js')

const [file, rounds, seconds, busy, ...limits] = process.argv.slice(2)
const runs = read(file)
const others = ['without limits', ...limits.map((limit) => `with ${limit} ms/s`)]
const ratio = (who) => pairs(runs, ['reads', who], ['reads', 'alone'], (a, b) => a.p99 / b.p99)
const last = ratio(others.at(-1))

function row (who) {
  const value = (name) => ms(median(of(runs, 'reads', who, (r) => r[name])))
  const burnt = who === 'alone' ? '0' : median(of(runs, 'burnt', who, (r) => r.rate)).toFixed(1)

  return [who, burnt, value('p50'), value('p99'), who === 'alone' ? '1' : shown(ratio(who))]
}

process.stdout.write(`## One module against others

Measured by \`bench/run modules\` (medians of ${rounds} rounds, runs of ${seconds} s) on ${machine()}.
PostgreSQL, Redis, the server and the load generators share this machine. The lowest and highest of the rounds are in
brackets.
${warning(busy)}
${goals([[`p99 of chat's reads ${others.at(-1)} of cpu_time / p99 without the other module`, 'at most 3.00',
  shown(last), last.value <= 3]])}

${table(['the other module', 'its requests per second', "p50 of chat's reads, ms", 'p99, ms', 'p99 / p99 alone'],
  ['alone', ...others].map(row))}

`)
