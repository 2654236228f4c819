/*
 * What the reports share: the lines of a bench (see measure.sh), medians of the rounds, tables.
 * Ratios are medians of the rounds' own ratios, so that what slows the whole machine for a while
 * weighs on both sides.
 */
'use strict'
const fs = require('node:fs')
const os = require('node:os')

const names = ['round', 'measure', 'who', 'rate', 'p50', 'p99', 'max', 'requests', 'server',
  'postgres', 'load']

function read (file) {
  return fs.readFileSync(file, 'utf8').trim().split('\n').map((line) => {
    const run = {}
    line.split('\t').forEach((cell, i) => {
      run[names[i]] = names[i] === 'measure' || names[i] === 'who' ? cell : Number(cell)
    })
    return run
  })
}

function median (numbers) {
  const sorted = [...numbers].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
}

/* The median and what lies around it. */
function spread (numbers) {
  return { value: median(numbers), low: Math.min(...numbers), high: Math.max(...numbers) }
}

function of (runs, measure, who, value) {
  return runs.filter((r) => r.measure === measure && r.who === who).map(value)
}

/* join(one's run, the other's of the same round) for every round; a measure may differ, too. */
function pairs (runs, one, other, join) {
  const of = ([measure, who]) => runs.filter((r) => r.measure === measure && r.who === who)
  const others = new Map(of(other).map((r) => [r.round, r]))
  return spread(of(one).map((r) => join(r, others.get(r.round))))
}

const whole = (n) => Math.round(n).toLocaleString('en-US')
const ms = (us) => (us / 1000).toFixed(us < 100000 ? 2 : 0)
const mib = (kb) => Number(kb) / 1024
const perTenThousand = (cpu) => (r) => r[cpu] * 10000 / r.requests

/* 1.23 (1.20 to 1.30) */
function shown ({ value, low, high }, format = (n) => n.toFixed(2), unit = '') {
  return `${format(value)}${unit} (${format(low)} to ${format(high)})`
}

function table (head, rows) {
  const line = (cells) => `| ${cells.join(' | ')} |`
  return [line(head), `|${head.map(() => '---|').join('')}`, ...rows.map(line)].join('\n')
}

/*
 * [[name, wanted, measured, met]]: a figure that misses is for people to see, not a broken run. One short
 * round (--quick) is no measure of what is wanted.
 */
function goals (rows) {
  const judged = (good) => process.env.BENCH_QUICK ? 'not judged' : good ? 'met' : '**missed**'

  return table(['figure', 'wanted', 'measured', ''],
    rows.map(([name, limit, value, good]) => [name, limit, value, judged(good)]))
}

function machine () {
  return `a virtual machine with
${os.availableParallelism()} cores and ${Math.round(os.totalmem() / 2 ** 30)} GiB of memory`
}

function warning (busy) {
  return Number(busy) < 1
    ? ''
    : `\n**The machine was busy with other work: load average ${busy} before the first run.**\n`
}

module.exports = {
  read, median, spread, of, pairs, whole, ms, mib, perTenThousand, shown, table, goals, machine,
  warning
}
