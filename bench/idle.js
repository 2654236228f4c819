/*
 * Holds connections open that send one request and then nothing: node idle.js PORT COUNT. Prints "all open" when
 * each has had its response. SIGTERM ends it, with status 1 if a connection was closed.
 */
'use strict'
const net = require('node:net')

const [port, count] = process.argv.slice(2).map(Number)
const request = 'GET /api/health HTTP/1.1\r\nHost: x\r\n\r\n'
let next = 0
let answered = 0
let closed = 0

/* Opens a few at a time, so that the listener's backlog does not matter. */
function open () {
  if (next === count) return
  next++
  const socket = net.connect(port, '127.0.0.1', () => socket.write(request))
  socket.once('data', () => {
    if (++answered === count) console.log('all open')
    open()
  })
  socket.on('error', (error) => console.log(error.message))
  socket.on('close', () => closed++)
}

for (let i = 0; i < 64; i++) open()
process.on('SIGTERM', () => {
  console.log(`${answered} were open, ${closed} were closed`)
  process.exit(closed ? 1 : 0)
})
