/*
 * Writes the section of `bench/run webhook --hosts` to standard output, as Markdown: node report_hosts.js
 * RESULTS ROUNDS LOAD_AVERAGE DRAINED.
 */
'use strict'
const {
  read, median, spread, of, pairs, whole, perTenThousand, shown, table, goals, machine, warning
} = require('./figures.js')

const [file, rounds, busy, drained] = process.argv.slice(2)
const runs = read(file)

function wanted () {
  const ratio = pairs(runs, ['drain', 'http 100'], ['drain', 'http 1'], (many, one) => many.rate / one.rate)
  const opened = spread(of(runs, 'connections', 'http 100', (r) => r.rate))
  return [
    ['drain rate to 100 addresses / drain rate to one address', 'at least 0.80', shown(ratio), ratio.value >= 0.8],
    [`connections opened for ${whole(Number(drained))} deliveries to 100 addresses`, 'at most 1,000',
      shown(opened, whole), opened.value <= 1000]]
}

/* One row: the drain to a number of addresses, and the connections that it opened. */
function row ([scheme, count]) {
  const who = `${scheme} ${count}`
  const value = (measure) => whole(median(of(runs, measure, who, (r) => r.rate)))
  const cpu = (which) => median(of(runs, 'drain', who, perTenThousand(which))).toFixed(2)
  return [scheme, whole(count), value('drain'), value('connections'),
    scheme === 'https' ? value('resumed') : '–', cpu('server'), cpu('postgres')]
}

const drains = ['http', 'https'].flatMap((scheme) => [1, 10, 100, 1000].map((count) => [scheme, count]))

process.stdout.write(`## Webhooks at many addresses

Measured by \`bench/run webhook --hosts\` (medians of ${rounds} rounds) on ${machine()}.
Each run drains ${whole(Number(drained))} stored deliveries to addresses in 127.0.0.0/8.
They belong to 100 webhooks, or to one webhook per address if there are more than 100 addresses.
${warning(busy)}
${goals(wanted())}

${table(['scheme', 'addresses', 'per second', 'connections opened', 'TLS sessions resumed',
  'host: CPU s per 10,000', 'PostgreSQL: CPU s per 10,000'], drains.map(row))}

`)
