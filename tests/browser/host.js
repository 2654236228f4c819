/* Starts another host on the databases of the tested host, with the environment that ./start
 * left. */
'use strict'
const assert = require('node:assert/strict')
const { execFileSync, spawn } = require('node:child_process')
const fs = require('node:fs')
const net = require('node:net')
const path = require('node:path')

const control = process.env.BUSBAR_CONTROL

const freePort = () => new Promise((resolve) => {
  const server = net.createServer().listen(0, '127.0.0.1', () => {
    const { port } = server.address()
    server.close(() => resolve(port))
  })
})

function environment () {
  const text = fs.readFileSync(path.join(path.dirname(control), '../../environment'), 'utf8')
  return Object.fromEntries([...text.matchAll(/^(\w+)="(.*)"$/gm)].map(([, name, value]) => [name, value]))
}

/* Returns its address and port, a function that ends it, and one that stops its processes, as if they hung. */
async function another (at = 0) {
  const own = environment()
  const port = at || await freePort()
  const as = process.env.BUSBAR_AS.split('\n').filter(Boolean) // the user of the first host
  const [program, ...words] = [...as, process.env.BUSBAR_PROGRAM, '-c', own.BUSBAR_CONF, 'serve']
  const host = spawn(program, words, {
    env: { PATH: process.env.PATH, ...own, BUSBAR_PORT: String(port), BUSBAR_CONTROL: `${path.dirname(control)}/second.sock` },
    stdio: 'ignore'
  })
  const there = `http://127.0.0.1:${port}`
  const ended = new Promise((resolve) => host.once('exit', resolve))
  const hang = () => {
    const workers = execFileSync('ps', ['-o', 'pid=', '--ppid', String(host.pid)], { encoding: 'utf8' })
    for (const pid of [host.pid, ...workers.trim().split(/\s+/)]) process.kill(Number(pid), 'SIGSTOP')
  }
  const ready = () => fetch(`${there}/api/health/ready`).then(({ ok }) => ok, () => false)

  while (host.exitCode === null && !await ready()) await new Promise((resolve) => setTimeout(resolve, 50))
  assert.equal(host.exitCode, null, 'the second host runs')
  return { there, port, hang, end: (signal = 'SIGTERM') => { host.kill(signal); return ended } }
}

module.exports = { another }
