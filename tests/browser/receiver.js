/* A receiver of webhooks: records requests, verifies their signatures, and responds as a test
 * asks. */
'use strict'
const crypto = require('node:crypto')
const http = require('node:http')
const { after } = require('node:test')

const servers = []

after(() => { for (const server of servers) { server.closeAllConnections(); server.close() } })

function receiver () {
  const state = { status: 200, hangs: false, answers: null, secret: '', got: [] } // `answers`: a promise to wait for
  const server = http.createServer((request, response) => {
    const parts = []
    request.on('data', (part) => parts.push(part))
    request.on('end', async () => {
      const body = Buffer.concat(parts)
      const right = crypto.createHmac('sha256', state.secret).update(body).digest('hex')
      state.got.push({ event: request.headers['x-webhook-event'], genuine: request.headers['x-webhook-signature'] === right })
      if (state.hangs) return
      await state.answers
      response.writeHead(state.status).end(state.status === 200 ? 'the receiver is well' : 'the receiver is ill')
    })
  })
  return new Promise((resolve) => server.listen(0, '127.0.0.1', () => {
    state.url = `http://127.0.0.1:${server.address().port}/hook`
    servers.push(server)
    resolve(state)
  }))
}

module.exports = { receiver }
