/*
 * Writes the section of `bench/run console` to standard output, as Markdown: node report_console.js RESULTS ROUNDS
 * MESSAGES DEVICES LOAD_AVERAGE.
 */
'use strict'
const { read, spread, of, whole, ms, shown, goals, machine, warning } = require('./figures.js')

const [file, rounds, messages, devices, busy] = process.argv.slice(2)
const runs = read(file)
const values = (measure, network) => spread(of(runs, measure, network, (r) => r.rate))
const row = (name, measure, network, most) => {
  const found = values(measure, network)
  return [name, `at most ${whole(most)} ms`, shown(found, ms, ' ms'), found.value <= most * 1000]
}
const opening = `from the click on a conversation of ${whole(messages)} messages until its last message is visible`

process.stdout.write(`## The console

Measured by \`bench/run console\` (medians of ${rounds} rounds, each with a new browser) on
${machine()}.
PostgreSQL, Redis, the server and the browser share this machine. The lowest and highest of the rounds are in
brackets.
${warning(busy)}
${goals([
    row(`${opening}, on the loopback`, 'open', 'loopback', 500),
    row(`${opening}, at 1.6 Mbit/s`, 'open', 'slow', 1500),
    row('longest task of the browser meanwhile (0: none of 50 ms or more)', 'open-task', 'loopback', 50),
    row(`a key in the search of ${whole(devices)} devices, until its effect is visible`, 'typing', 'loopback', 50)])}

`)
