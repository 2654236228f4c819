/*
 * Creates the attackers of attack.js and writes them to standard output as JSON: node attackers.js URL. Each has
 * a session, a second account that is pending, 1,000 webhooks at URL, up to 600 bulk uploads with a long header
 * line, and two conversations: one that against.sql makes long, and one to write into. Environment: PORT,
 * BUSBAR_PASSWORD.
 */
'use strict'
const hooks = 1000
const uploads = 600
const base = `http://127.0.0.1:${process.env.PORT}`
const password = process.env.BUSBAR_PASSWORD
const url = process.argv[2]

async function post (path, body, token) {
  const headers = { 'Content-Type': 'application/json' }
  if (token) headers.Authorization = `Bearer ${token}`
  const answer = await fetch(base + path, { method: 'POST', headers, body: JSON.stringify(body) })
  const text = await answer.text()
  if (!answer.ok) throw new Error(`POST ${path}: ${answer.status} ${text}`)
  return JSON.parse(text)
}

async function conversation (email, other, token) {
  const body = { username: email, participant1: email, participant2: other, chatEntry: 'The first one.' }
  return (await post('/api/chat/conversations/start', body, token)).conversation
}

/* Makes a bulk upload and cancels it. Returns false if it was refused because there are too many. */
async function upload (token) {
  const names = Array.from({ length: 900 }, (_, i) => `column ${i} `.padEnd(16, 'x'))
  const form = new FormData()
  form.append('file', new Blob([`externalId,siteName,${names.join()}\nx,x\n`]), 'devices.csv')
  const headers = { Authorization: `Bearer ${token}` }
  const answer = await fetch(`${base}/api/bulk-upload?type=Devices`, { method: 'POST', headers, body: form })
  const text = await answer.text()
  if (answer.ok) await post(`/api/bulk-upload/${JSON.parse(text).bulkUploadId}/cancel`, {}, token)
  else console.error(`attackers.js: an upload gets status ${answer.status} ${text}`)
  return answer.ok
}

async function prepare (number) {
  const email = `attacker${number}@bench.test`
  const pending = `pending${number}@bench.test`
  const token = (await post('/api/auth/login', { username: email, password })).accessToken
  await post('/api/user/register', {
    firstName: 'A', lastName: 'B', email: pending, password, orgName: `Pending ${number}`
  })
  const long = await conversation(email, `chain${number}@bench.test`, token)
  const talk = await conversation(email, `talk${number}@bench.test`, token)
  const hook = { url, events: ['message.new'], secret: 'the-secret-of-the-bench' }
  for (let i = 0; i < hooks; i += 8) {
    await Promise.all(Array.from({ length: 8 }, () => post('/api/chat/webhooks', hook, token)))
  }
  for (let i = 0; i < uploads && await upload(token); i++);
  const address = `127.0.0.${number + 1}`
  return { address, email, pending, password, token, chain: long.headUuid, talk: talk.id }
}

Promise.all([1, 2].map(prepare))
  .then((attackers) => console.log(JSON.stringify(attackers)))
  .catch((error) => { console.error(`attackers.js: ${error.message}`); process.exit(1) })
