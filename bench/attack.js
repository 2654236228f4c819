/*
 * Attacks a host until SIGTERM: node attack.js NAME COUNT. NAME is one of the table at the end, or all.
 * The first COUNT attackers of the file ATTACKERS (made by attackers.js) lead each attack, each from a separate
 * address. Prints "under way" when every part of the attack has begun, and at the end the number of responses
 * per status. A refused request is sent again as Retry-After says, after at least 50 ms and at most one second;
 * without a pause this program would use up the processors. The floods (R2, L8) do not wait, as real attackers
 * do not. Environment: PORT, ATTACKERS.
 */
'use strict'
const fs = require('node:fs')
const http = require('node:http')
const net = require('node:net')

const attackers = JSON.parse(fs.readFileSync(process.env.ATTACKERS, 'utf8')).slice(0, Number(process.argv[3]))
const port = Number(process.env.PORT)
const statuses = {}
const awaited = {} // parts of each attack that have not begun
let number = 0

const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
const json = (value) => Buffer.from(JSON.stringify(value))

function count (attack, status) {
  const of = (statuses[attack] ??= {})
  of[status] = (of[status] ?? 0) + 1
}

/* Runs one part of an attack, which never ends. `work` gets a function that it calls when the part has begun. */
function part (attack, work) {
  let begun = false
  awaited[attack] = (awaited[attack] ?? 0) + 1
  work(() => {
    if (begun) return
    begun = true
    if (--awaited[attack] === 0) delete awaited[attack]
    if (Object.keys(awaited).length === 0) console.log('under way')
  })
}

/* Sends one request and returns {status, after}. Calls `take` with the response as soon as its head has arrived. */
function ask (at, method, path, body, take) {
  const headers = body ? { 'Content-Type': 'application/json', 'Content-Length': body.length } : {}
  if (!path.startsWith('/api/auth') && !path.startsWith('/api/user')) headers.Authorization = `Bearer ${at.token}`
  const options = { agent: at.agent, localAddress: at.address, host: '127.0.0.1', port, method, path, headers }
  return new Promise((resolve) => {
    const request = http.request(options, (answer) => {
      const status = answer.statusCode
      const after = Number(answer.headers['retry-after'] ?? 0)
      take(answer)
      answer.on('close', () => resolve({ status, after }))
    })
    request.on('error', (error) => resolve({ status: error.code, after: 0 }))
    request.end(body)
  })
}

/*
 * Runs `times` copies of `job` in parallel, each again and again, `pause` ms after a response; 0: at once, even
 * after a refusal.
 */
function repeat (attack, times, pause, job) {
  for (let i = 0; i < times; i++) {
    part(attack, async (begun) => {
      const read = (answer) => {
        begun()
        answer.resume()
      }
      for (;;) {
        const { status, after } = await job(read)
        count(attack, status)
        if (!pause && typeof status === 'number') continue
        await wait(status < 300 ? pause : Math.min(Math.max(after * 1000, 50), 1000))
      }
    })
  }
}

/* Opens a connection that sends bytes, and opens it again after it was closed or after `life` ms. */
function hold (attack, at, life, bytes, settled) {
  part(attack, (begun) => {
    const open = () => {
      let status = 'closed'
      const socket = net.connect({ port, host: '127.0.0.1', localAddress: at.address })
      const timer = life && setTimeout(() => { status = 'left'; socket.destroy() }, life)
      socket.on('error', (error) => { status = error.code })
      socket.on('close', () => {
        clearTimeout(timer)
        count(attack, status)
        begun()
        setTimeout(open, 1000)
      })
      socket.on('connect', () => { socket.write(bytes); settled(socket, begun) })
    }
    open()
  })
}

const head = (at, method, path, more = '') => `${method} ${path} HTTP/1.1\r\nHost: x\r\n` +
  `Authorization: Bearer ${at.token}\r\n${more}\r\n`

function hashes (at) {
  const credentials = json({ username: at.pending, password: at.password })
  repeat('D2', 32, 50, (read) => ask(at, 'POST', '/api/auth/login', credentials, read))
  repeat('D2', 32, 50, (read) => {
    const email = `x${process.pid}.${++number}.${at.email}`
    const body = { firstName: 'A', lastName: 'B', email, password: at.password, orgName: `Org of ${email}` }
    return ask(at, 'POST', '/api/user/register', json(body), read)
  })
}

function logins (at) {
  const body = json({ username: at.email, password: at.password })
  repeat('D3', 8, 50, (read) => ask(at, 'POST', '/api/auth/login', body, read))
}

function messages (at) {
  const body = json({ username: at.email, chatEntry: 'x'.repeat(200000) })
  repeat('D4', 5, 50, (read) => ask(at, 'POST', `/api/chat/conversations/${at.talk}/messages`, body, read))
}

function lists (at) {
  repeat('D5', 8, 50, (read) => ask(at, 'GET', '/api/device?limit=1000', null, read))
  repeat('D5', 16, 50, (read) => ask(at, 'GET', `/api/chat/conversations/user/${at.email}`, null, read))
  repeat('D5', 200, 200, (read) => ask(at, 'GET', `/api/chat/unread-count/${at.email}`, null, read))
}

/* Reads 64 KiB every 20 ms. */
function slowly (answer) {
  answer.on('data', () => {
    answer.pause()
    setTimeout(() => answer.resume(), 20)
  })
}

function chains (at) {
  repeat('D6', 4, 50, (read) => ask(at, 'GET', `/api/chat/chain/${at.chain}`, null, read))
  for (let i = 0; i < 8; i++) {
    part('D6', async (begun) => {
      for (;;) {
        const { status } = await ask(at, 'GET', `/api/chat/chain/${at.chain}`, null, (answer) => {
          begun()
          slowly(answer)
        })
        count('D6', status)
        await wait(50)
      }
    })
  }
}

/* Opens more connections than an address may have (a quarter of 8,192). */
function idlers (at) {
  for (let i = 0; i < 2200; i++) {
    hold('D9', at, 0, 'GET /api/health HTTP/1.1\r\nHost: x\r\n\r\n', (socket, begun) => socket.once('data', begun))
  }
}

/* Each upload sends 4 MiB of its 100 MiB and then nothing; after five seconds it starts again. */
function uploads (at) {
  const boundary = 'the-boundary'
  const noise = Buffer.alloc(65536, 'sixteen letters ')
  for (let i = 0; i < 8; i++) {
    const first = `--${boundary}\r\nContent-Disposition: form-data; name="deviceToRegister"\r\n\r\n` +
      `{"externalId":"never${++number}"}\r\n--${boundary}\r\n` +
      'Content-Disposition: form-data; name="SF_02C"; filename="x"\r\n\r\n'
    const type = `Content-Type: multipart/form-data; boundary=${boundary}\r\nContent-Length: 104857600\r\n`
    hold('D10', at, 5000, head(at, 'POST', '/api/device', type) + first, (socket, begun) => {
      let sent = 0
      const send = () => {
        if (socket.destroyed) return
        if (++sent > 64) return begun()
        socket.write(noise, () => setTimeout(send, 5))
      }
      socket.resume()
      send()
    })
  }
}

/* Does not read the responses; sends new requests after five seconds. */
function unread (at) {
  for (const path of [`/api/chat/chain/${at.chain}`, '/api/device?limit=1000']) {
    for (let i = 0; i < 8; i++) {
      hold('D13', at, 5000, head(at, 'GET', path), (socket, begun) => {
        socket.once('readable', begun)
      })
    }
  }
}

/* One account sends the cheapest request on 200 connections. */
function cheap (at) {
  repeat('R2', 200, 0, (read) => ask(at, 'GET', `/api/chat/unread-count/${at.email}`, null, read))
}

function registrations (at) {
  repeat('L8', 64, 0, (read) => {
    const email = `y${process.pid}.${++number}.${at.email}`
    const body = { firstName: 'A', lastName: 'B', email, password: at.password, orgName: `Org of ${email}` }
    return ask(at, 'POST', '/api/user/register', json(body), read)
  })
}

/* Posts messages of the greatest allowed size, and lists all webhooks. */
function large (at) {
  const body = json({ username: at.email, chatEntry: 'x'.repeat(1000000) })
  repeat('L9', 4, 50, (read) => ask(at, 'POST', `/api/chat/conversations/${at.talk}/messages`, body, read))
  repeat('L9', 16, 50, (read) => ask(at, 'GET', '/api/chat/webhooks', null, read))
}

function jobs (at) {
  repeat('R1', 4, 50, (read) => ask(at, 'GET', '/api/bulk-upload?limit=1000', null, read))
}

const attacks = {
  R1: jobs, R2: cheap, L8: registrations, L9: large,
  D2: hashes, D3: logins, D4: messages, D5: lists, D6: chains, D9: idlers, D10: uploads, D13: unread
}
const chosen = process.argv[2] === 'all' ? Object.keys(attacks) : [process.argv[2]]

for (const at of attackers) {
  at.agent = new http.Agent({ keepAlive: true })
  for (const name of chosen) attacks[name](at)
}
setTimeout(() => {
  for (const name in awaited) console.log(`${name} is not under way: ${awaited[name]} parts`)
}, 30000)
process.on('SIGTERM', () => {
  for (const [name, of] of Object.entries(statuses)) {
    console.log(`  ${name}:`, Object.entries(of).map(([status, n]) => `${n} ${status}`).join(', '))
  }
  process.exit(0)
})
