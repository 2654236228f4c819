/*
 * Prints the microseconds from the start of a host to its first response: node start.js PROGRAM ARGUMENTS…. Sends
 * GET /api/health again as soon as an attempt was refused.
 */
'use strict'
const { spawn } = require('node:child_process')
const http = require('node:http')

const [program, ...args] = process.argv.slice(2)
const path = '/api/health'
const began = process.hrtime.bigint()
const host = spawn(program, args, { stdio: ['ignore', 'inherit', 'inherit'] })
const taken = () => Number((process.hrtime.bigint() - began) / 1000n)
let answered = false

host.on('exit', (status) => process.exit(answered && status === 0 ? 0 : 1))

function ask () {
  const request = http.get({ host: '127.0.0.1', port: process.env.PORT, path }, (response) => {
    if (response.statusCode !== 200) process.exit(1)
    answered = true
    console.log(taken())
    response.resume()
    host.kill('SIGTERM')
  })
  request.on('error', () => {
    if (taken() > 10e6) process.exit(1)
    setTimeout(ask, 1)
  })
}

ask()
