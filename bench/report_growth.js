/*
 * Writes the section of `bench/run growth` to standard output, as Markdown: node report_growth.js RESULTS SECONDS
 * LOAD_AVERAGE DEVICES.
 */
'use strict'
const { read, of, whole, ms, table, machine, warning } = require('./figures.js')

const [file, seconds, busy, devices] = process.argv.slice(2)
const runs = read(file)
const stages = ['tenth', 'all']
const row = (name, value) => [name, ...stages.map(value)]
const number = (measure, format) => (stage) => format(of(runs, measure, stage, (r) => r.rate)[0])
const latency = (measure) => (stage) => of(runs, measure, stage, (r) => `${ms(r.p50)} / ${ms(r.p99)}`)[0]

console.log(`### Growth of readings

Measured by \`bench/run growth\` (each rate and latency in one run of ${seconds} s) on ${machine()}. ${whole(Number(devices))} devices have
hourly readings.
${warning(busy)}
${table(['', ...stages.map(number('rows', (n) => `${whole(n)} rows`))], [
  row('table, GB', number('table', (n) => (n / 1000).toFixed(2))),
  row('indexes, GB', number('indexes', (n) => (n / 1000).toFixed(2))),
  row('`VACUUM (FREEZE, ANALYZE)` of the rows added since, s', number('vacuum', (n) => n.toFixed(1))),
  row('new readings a second, 1,000 in each request', (stage) => whole(of(runs, `batch ${stage}`, 'busbar', (r) => r.rate)[0])),
  row('new readings a second, one in each request', (stage) => whole(of(runs, `single ${stage}`, 'busbar', (r) => r.rate)[0])),
  row('latest reading, p50 / p99 in ms', latency('latest')),
  row('a day of a device, p50 / p99 in ms', latency('day')),
  row('a month of a device, p50 / p99 in ms', latency('month')),
  row('the first page of all readings of a device, p50 / p99 in ms', latency('first')),
  row('sums by month of all readings of a device, p50 / p99 in ms', latency('totals'))
])}
`)
