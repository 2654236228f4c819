/*
 * Writes the section of `bench/run stream` to standard output, as Markdown: node report_stream.js RESULTS
 * ROUNDS SECONDS LOAD_AVERAGE STREAMS.
 */
'use strict'
const {
  read, median, spread, of, whole, ms, perTenThousand, shown, table, goals, machine, warning
} = require('./figures.js')

const [file, rounds, seconds, busy, count] = process.argv.slice(2)
const streams = whole(Number(count))
const runs = read(file)
const names = { pairs: '1,000 messages/s, two streams each', admin: 'one message/s, all streams' }

function wanted () {
  return Object.entries(names).map(([who, name]) => {
    const p99 = spread(of(runs, 'stream', who, (r) => r.p99 / 1000))
    return [`p99 from post to arrival: ${name}`, 'at most 300 ms',
      shown(p99, (n) => n.toFixed(1), ' ms'), p99.value <= 300]
  })
}

function rows () {
  return Object.keys(names).map((who) => {
    const middle = (value) => median(of(runs, 'stream', who, value))
    return [names[who], whole(middle((r) => r.rate)), ms(middle((r) => r.p50)), ms(middle((r) => r.p99)),
      ms(middle((r) => r.max)), middle(perTenThousand('server')).toFixed(2),
      middle(perTenThousand('postgres')).toFixed(2),
      whole(median(of(runs, 'resident', who, (r) => r.rate)))]
  })
}

console.log(`## ${streams} streams, one message a second to each

Measured by \`bench/run stream\` (medians of ${rounds} rounds of ${seconds} s) on ${machine()}.
The lowest and highest of the rounds are in brackets.
${warning(busy)}
${goals(wanted())}

${table(['messages', 'arrivals/s', 'p50 ms', 'p99 ms', 'longest ms', 'host: CPU s per 10,000',
    'PostgreSQL: CPU s per 10,000', 'peak memory of the host, MiB'], rows())}`)
