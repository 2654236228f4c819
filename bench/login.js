/*
 * Logs in u1@bench.test … u10000@bench.test over 8 connections, and prints their tokens in that order, one per
 * line. Environment: PORT, BUSBAR_PASSWORD.
 */
'use strict'
const http = require('node:http')

const accounts = 10000
const connections = 8
const agent = new http.Agent({ keepAlive: true, maxSockets: connections })
const tokens = new Array(accounts)

function login (number) {
  const body = JSON.stringify({
    username: `u${number}@bench.test`, password: process.env.BUSBAR_PASSWORD
  })
  const headers = { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) }
  const options = {
    agent,
    host: '127.0.0.1',
    port: process.env.PORT,
    path: '/api/auth/login',
    method: 'POST',
    headers
  }
  return new Promise((resolve, reject) => {
    const request = http.request(options, (answer) => {
      let text = ''
      answer.setEncoding('utf8')
      answer.on('data', (piece) => { text += piece })
      answer.on('end', () => answer.statusCode === 200
        ? resolve(JSON.parse(text).accessToken)
        : reject(new Error(`login of u${number}: ${answer.statusCode} ${text}`)))
    })
    request.on('error', reject)
    request.end(body)
  })
}

async function worker (first) {
  for (let n = first; n <= accounts; n += connections) tokens[n - 1] = await login(n)
}

login(1)
  .then(() => Promise.all(Array.from({ length: connections }, (_, i) => worker(i + 1))))
  .then(() => { agent.destroy(); process.stdout.write(tokens.join('\n') + '\n') })
  .catch((error) => { console.error(error.message); process.exit(1) })
