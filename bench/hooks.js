/*
 * Creates and deletes the webhooks of admin@bench.test, who sees every message:
 *
 *     node hooks.js add COUNT URL     URL/0 … for more than one, URL for one; prints their ids
 *     node hooks.js same COUNT URL    all at URL
 *     node hooks.js hosts COUNT URL HOSTS  all at URL, in which HOST is replaced by HOSTS addresses in turn
 *     node hooks.js clear             deletes them all
 *
 * Environment: PORT, BUSBAR_PASSWORD.
 */
'use strict'
const workers = 8
const base = `http://127.0.0.1:${process.env.PORT}`
const [what, count, url, hosts] = process.argv.slice(2)
let token

async function ask (method, path, body) {
  const headers = { 'Content-Type': 'application/json' }
  if (token) headers.Authorization = `Bearer ${token}`
  const answer = await fetch(base + path, { method, headers, body: body && JSON.stringify(body) })
  const text = await answer.text()
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`)
  return JSON.parse(text)
}

/* Runs job(0) … job(times - 1), up to `workers` at a time, and returns their results. */
async function all (times, job) {
  const results = []
  let next = 0
  const work = async () => {
    for (let i = next++; i < times; i = next++) results[i] = await job(i)
  }
  await Promise.all(Array.from({ length: workers }, work))
  return results
}

/* An address of the loopback network. The host opens separate connections to each address. */
function address (i) {
  return `127.1.${Math.floor(i / 250)}.${1 + i % 250}`
}

function urlOf (i) {
  if (what === 'hosts') return url.replace('HOST', address(i % Number(hosts)))
  return what === 'add' ? `${url}/${i}` : url
}

async function add () {
  const made = await all(Number(count), (i) => ask('POST', '/api/chat/webhooks', {
    url: urlOf(i),
    events: ['message.new'],
    secret: 'the-secret-of-the-bench'
  }))
  console.log(made.map((hook) => hook.id).join('\n'))
}

async function clear () {
  for (;;) {
    const hooks = await ask('GET', '/api/chat/webhooks?limit=1000')
    if (hooks.length === 0) return
    await all(hooks.length, (i) => ask('DELETE', `/api/chat/webhooks/${hooks[i].id}`))
  }
}

async function main () {
  const login = { username: 'admin@bench.test', password: process.env.BUSBAR_PASSWORD }
  token = (await ask('POST', '/api/auth/login', login)).accessToken
  if (what === 'clear') await clear()
  else await add()
}

main().catch((error) => { console.error(`hooks.js: ${error.message}`); process.exit(1) })
