/*
 * Writes the section of `bench/run reload` to standard output, as Markdown: node report_reload.js RESULTS
 * ROUNDS RELOADS STARTS LOAD_AVERAGE.
 */
'use strict'
const { read, spread, of, whole, ms, mib, shown, goals, machine, warning } = require('./figures.js')

const [file, rounds, reloads, starts, busy] = process.argv.slice(2)
const runs = read(file)
const values = (measure, who) => spread(of(runs, measure, who, (r) => r.rate))
const sum = (measure) => of(runs, measure, 'all', (r) => r.rate).reduce((a, b) => a + b, 0)

function wanted () {
  const start = values('start', 'answer')
  const reload = values('reload', 'all')
  const failed = sum('failed')
  const before = values('memory', 'after20')
  const after = values('memory', 'after100')
  return [
    ['start to first response, PostgreSQL running', 'at most 300 ms', shown(start, ms, ' ms'),
      start.value <= 300e3],
    ['`busbar reload` with all modules, under load', 'at most 100 ms', shown(reload, ms, ' ms'),
      reload.value <= 100e3],
    [`failed requests of ${whole(sum('requests'))} requests during ${reloads} reloads`, '0', whole(failed),
      failed === 0],
    [`resident memory after ${reloads} reloads / after 20 reloads`, 'at most 1.10',
      `${(after.value / before.value).toFixed(2)}: ${mib(after.value).toFixed(1)} MiB / ` +
      `${mib(before.value).toFixed(1)} MiB`, after.value / before.value <= 1.1]]
}

process.stdout.write(`## Starting and reloading

Measured by \`bench/run reload\` (medians of ${rounds} rounds of ${starts} starts and ${reloads} reloads) on
${machine()}.
PostgreSQL, Redis, the server and the load generator share this machine. The lowest and highest of the rounds are in
brackets.
${warning(busy)}
${goals(wanted())}

`)
