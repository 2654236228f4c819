/*
 * Writes the section of `bench/run device` to standard output, as Markdown: node report_device.js RESULTS
 * ROUNDS SECONDS LOAD_AVERAGE.
 */
'use strict'
const {
  read, median, spread, of, pairs, whole, ms, perTenThousand, shown, table, goals, machine, warning
} = require('./figures.js')

const [file, rounds, seconds, busy] = process.argv.slice(2)
const runs = read(file)
const rate = (r) => r.rate
const ratio = (one, other) => pairs(runs, one, other, (a, b) => a.rate / b.rate)

function wanted () {
  const posts = ratio(['device', 'busbar'], ['device', 'pgbench'])
  const upload = ratio(['uploaded', 'busbar'], ['written', 'dd'])
  const growth = spread(of(runs, 'growth', 'busbar', (r) => r.rate / 1024))
  return [
    ['rate of busbar / rate of pgbench: POST device, same statement', 'at least 0.70', shown(posts),
      posts.value >= 0.7],
    ['rate of an upload of 100 MiB of documents / rate of writing the same bytes with fsync', 'at least 0.60',
      shown(upload), upload.value >= 0.6],
    ['memory growth of the host during the upload', 'at most 2 MiB', shown(growth, (n) => n.toFixed(2), ' MiB'),
      growth.value <= 2]]
}

function detail (who) {
  const m = (value) => median(of(runs, 'device', who, value))
  const server = who === 'pgbench' ? '–' : m(perTenThousand('server')).toFixed(2)
  return [who, whole(m(rate)), ms(m((r) => r.p50)), ms(m((r) => r.p99)), ms(m((r) => r.max)),
    server, m(perTenThousand('postgres')).toFixed(2)]
}

const megabytes = (measure, who) => whole(median(of(runs, measure, who, rate)))

console.log(`## Devices

Measured by \`bench/run device\` (medians of ${rounds} rounds, runs of ${seconds} s) on ${machine()}.
All programs share this machine. The lowest and highest of the rounds are in brackets.
${warning(busy)}
${goals(wanted())}

${table(['POST /api/device', 'per second', 'p50 ms', 'p99 ms', 'longest ms',
    'host: CPU s per 10,000', 'PostgreSQL: CPU s per 10,000'], ['pgbench', 'busbar'].map(detail))}

100 MiB in ten files: ${megabytes('uploaded', 'busbar')} MiB/s through the API, \
${megabytes('written', 'dd')} MiB/s by dd.
`)
