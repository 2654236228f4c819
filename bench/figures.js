/*
 * Shared by the reports: reads the lines of a benchmark (see measure.sh), computes medians of the rounds,
 * formats tables. A ratio is the median of the rounds' ratios, so other work on the machine during a
 * round slows both sides of a ratio.
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

/* The median, the lowest and the highest number. */
function spread (numbers) {
  return { value: median(numbers), low: Math.min(...numbers), high: Math.max(...numbers) }
}

function of (runs, measure, who, value) {
  return runs.filter((r) => r.measure === measure && r.who === who).map(value)
}

/* The spread of join(run of `one`, run of `other`) over the rounds; both are [measure, who]. */
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
 * A table of [name, goal, measured, met]. A missed goal does not fail the benchmark. With --quick, one short
 * round is too little to judge, so no goal is judged.
 */
function goals (rows) {
  const judged = (good) => process.env.BENCH_QUICK ? 'not judged' : good ? 'met' : '**missed**'

  return table(['figure', 'goal', 'measured', 'result'],
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
