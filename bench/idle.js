/*
 * Holds connections that have had one answer and ask for nothing more: node idle.js PORT COUNT.
 * Says "all open" when each has had its answer; SIGTERM ends it, with status 1 if any was closed.
 */
'use strict'
const net = require('node:net')

const [port, count] = process.argv.slice(2).map(Number)
const request = 'GET /api/health HTTP/1.1\r\nHost: x\r\n\r\n'
let next = 0
let answered = 0
let closed = 0

/* A few at a time: the listener's queue is no part of what is measured. */
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
