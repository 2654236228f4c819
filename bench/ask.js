/*
 * Sends a fixed number of requests: node ask.js unread_count|post|batch COUNT CONNECTIONS. Request k of a run is the
 * same in every run. A response other than 2xx ends the program. Environment: PORT, TOKENS.
 */
'use strict'
const fs = require('node:fs')
const http = require('node:http')

const [kind, count, connections] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])]
const tokens = fs.readFileSync(process.env.TOKENS, 'utf8').trim().split('\n')
const agent = new http.Agent({ keepAlive: true, maxSockets: connections })
const text = 'The inverter reports 4,812 kWh for March; is that plausible for this site?'

/* See bench/sql/seed.sql: participant1 of conversation k is account k % 10000 + 1. */
const kinds = {
  unread_count: (k) => {
    const n = k % tokens.length + 1
    return { method: 'GET', path: `/api/chat/unread-count/u${n}@bench.test`, n }
  },
  post: (k) => {
    const n = k % 10000 + 1
    const body = JSON.stringify({ username: `u${n}@bench.test`, chatEntry: text })
    return { method: 'POST', path: `/api/chat/conversations/${k}/messages`, n, body }
  },
  batch: (k) => { // readings of 1,000 minutes of device k
    const time = (minute) => new Date(Date.UTC(2016, 0, 1) + minute * 60000).toISOString().replace('.000', '')
    const reads = Array.from({ length: 1000 }, (_, i) => ({ startDate: time(i), endDate: time(i + 1), value: 10 }))
    const body = JSON.stringify({ type: 'Delta', unit: 'Wh', reads })
    return { method: 'POST', path: `/api/meter-reads/new/d${k}`, n: 1, body }
  }
}

function ask ({ method, path, n, body }) {
  const headers = { Authorization: `Bearer ${tokens[n - 1]}` }
  if (body) Object.assign(headers, { 'Content-Type': 'application/json', 'Content-Length': body.length })
  return new Promise((resolve, reject) => {
    http.request({ agent, host: '127.0.0.1', port: process.env.PORT, path, method, headers }, (answer) => {
      answer.resume()
      answer.on('end', () => answer.statusCode < 300
        ? resolve()
        : reject(new Error(`${method} ${path} gets status ${answer.statusCode}`)))
    }).on('error', reject).end(body)
  })
}

async function worker (first) {
  for (let k = first; k <= count; k += connections) await ask(kinds[kind](k))
}

Promise.all(Array.from({ length: connections }, (_, i) => worker(i + 1)))
  .then(() => agent.destroy())
  .catch((error) => { console.error(`ask.js: ${error.message}`); process.exit(1) })
