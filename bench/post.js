/*
 * Posts messages in an open loop: node post.js RATE COUNT. Message number n is due n / RATE seconds after the
 * first one, even if earlier messages are late, and carries that time as sentAt, so that latencies include the
 * wait for a free connection. The author is participant1 of a random conversation (see seed.sql). Prints "rate
 * p50 p99 max count"; latencies are microseconds from due to the response. Environment: PORT, TOKENS.
 */
'use strict'
const fs = require('node:fs')
const http = require('node:http')

const connections = 32
const [rate, count] = process.argv.slice(2).map(Number)
const tokens = fs.readFileSync(process.env.TOKENS, 'utf8').trim().split('\n')
const agent = new http.Agent({ keepAlive: true, maxSockets: connections })
const server = { agent, host: '127.0.0.1', port: process.env.PORT }
const now = () => performance.timeOrigin + performance.now()
const times = []
let begin, due
let next = 0, warmed = 0

function fail (why) {
  console.error(`post.js: ${why}`)
  process.exit(1)
}

function post (at, done) {
  const id = 1 + Math.floor(Math.random() * 100000)
  const n = id % 10000 + 1
  const body = JSON.stringify({
    username: `u${n}@bench.test`,
    chatEntry: `sentAt ${at.toFixed(3)}: the inverter reports 4,812 kWh; is that plausible?`
  })
  const headers = {
    Authorization: `Bearer ${tokens[n - 1]}`,
    'Content-Type': 'application/json',
    'Content-Length': Buffer.byteLength(body)
  }
  const path = `/api/chat/conversations/${id}/messages`
  const options = { ...server, path, method: 'POST', headers }
  http.request(options, (answer) => {
    if (answer.statusCode !== 201) fail(`answer ${answer.statusCode}`)
    answer.resume()
    answer.on('end', () => done(now() - at))
  }).on('error', (error) => fail(error.message)).end(body)
}

function finish () {
  times.sort((a, b) => a - b)
  const at = (q) => Math.round(1000 * times[Math.floor((count - 1) * q)])
  const seconds = (now() - begin) / 1000
  console.log((count / seconds).toFixed(1), at(0.5), at(0.99), at(1), count)
  agent.destroy()
}

function answered (took) {
  times.push(took)
  if (times.length === count) finish()
}

function tick () {
  while (next < count && (due = begin + next * 1000 / rate) <= now()) {
    post(due, answered)
    next++
  }
  if (next < count) setTimeout(tick, Math.max(0, due - now()))
}

/* Opens all connections before the clock starts, with one request for the liveness on each. */
function warm () {
  http.get({ ...server, path: '/api/health' }, (answer) => {
    answer.resume()
    answer.on('end', () => {
      if (++warmed < connections) return
      begin = now() + 20
      setTimeout(tick, 20)
    })
  }).on('error', (error) => fail(error.message))
}

for (let i = 0; i < connections; i++) warm()
