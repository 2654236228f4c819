/*
 * Measures the latency of other clients during an attack: node served.js SECONDS. All requests are due at fixed
 * times, even if earlier ones are late; latencies are measured from these times:
 *   own-reads, own-writes  unread counts and messages of one ordinary account, 100 each a second
 *   writes                 messages of random accounts in random conversations (seed.sql), 100 a second
 *   logins                 logins of one account from 127.0.0.4, 2 a second
 * Prints one line for each, "writes rate,p50,p99,max,count refused", in microseconds. Environment: PORT, TOKENS,
 * BUSBAR_PASSWORD.
 */
'use strict'
const fs = require('node:fs')
const http = require('node:http')

const seconds = Number(process.argv[2])
const tokens = fs.readFileSync(process.env.TOKENS, 'utf8').trim().split('\n')

const victim = 1
const talk = 10000 // conversation i is u<i % 10000 + 1>'s

function ask (agent, path, headers, body, done) {
  const text = body && JSON.stringify(body)
  const about = body && { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) }
  const options = {
    agent,
    host: '127.0.0.1',
    port: process.env.PORT,
    path,
    method: body ? 'POST' : 'GET',
    headers: { ...headers, ...about }
  }
  http.request(options, (answer) => {
    answer.resume()
    answer.on('end', () => done(answer.statusCode))
  }).on('error', () => done(0)).end(text)
}

function ownRead (agent, done) {
  const headers = { Authorization: `Bearer ${tokens[victim - 1]}` }
  ask(agent, `/api/chat/unread-count/u${victim}@bench.test`, headers, null, done)
}

function post (agent, id, done) {
  const n = id % 10000 + 1
  const body = { username: `u${n}@bench.test`, chatEntry: 'The inverter reports 4,812 kWh; is that plausible?' }
  ask(agent, `/api/chat/conversations/${id}/messages`, { Authorization: `Bearer ${tokens[n - 1]}` }, body, done)
}

const ownWrite = (agent, done) => post(agent, talk, done)
const write = (agent, done) => post(agent, 1 + Math.floor(Math.random() * 100000), done)

function login (agent, done) {
  const body = { username: 'visitor@bench.test', password: process.env.BUSBAR_PASSWORD }
  ask(agent, '/api/auth/login', {}, body, done)
}

function figures (name, times, refused) {
  times.sort((a, b) => a - b)
  const at = (q) => Math.round(1000 * times[Math.ceil((times.length - 1) * q)])
  const rate = (times.length / seconds).toFixed(1)
  console.log(name, [rate, at(0.5), at(0.99), at(1), times.length].join(), refused)
}

function run (name, rate, job, options) {
  const agent = new http.Agent({ keepAlive: true, ...options })
  const count = Math.ceil(rate * seconds)
  const begin = performance.now()
  const times = []
  let next = 0
  let refused = 0
  let due

  function tick () {
    while (next < count && (due = begin + next * 1000 / rate) <= performance.now()) {
      const at = due
      next++
      job(agent, (status) => {
        times.push(performance.now() - at)
        if (status < 200 || status > 299) refused++
        if (times.length < count) return
        figures(name, times, refused)
        agent.destroy()
      })
    }
    if (next < count) setTimeout(tick, Math.max(0, due - performance.now()))
  }
  tick()
}

run('own-reads', 100, ownRead, { maxSockets: 12 })
run('own-writes', 100, ownWrite, { maxSockets: 12 })
run('writes', 100, write, {})
run('logins', 2, login, { localAddress: '127.0.0.4' })
