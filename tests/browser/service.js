/*
 * The tested host: BUSBAR_BASE is its address, BUSBAR_PASSWORD the password of its Admin. Requests
 * that need no browser, and the people and objects that the views show.
 */
'use strict'
const assert = require('node:assert/strict')

const DAY_MS = 86400000
const base = process.env.BUSBAR_BASE
const domain = process.env.BUSBAR_DOMAIN ?? 'solar.example' // override it if these people already exist
const admin = { email: 'admin@example.com', password: process.env.BUSBAR_PASSWORD }

async function request (method, path, token, body, headers = {}) {
  const own = { ...headers }
  const form = body instanceof FormData
  if (token) own.Authorization = `Bearer ${token}`
  if (body !== undefined && !form) own['Content-Type'] = 'application/json'
  return fetch(base + path, { method, headers: own, body: form || body === undefined ? body : JSON.stringify(body) })
}

/* Returns the JSON of the response; fails the test and shows the response unless the status is a
 * success. */
async function call (method, path, token, body) {
  const answer = await request(method, path, token, body)
  const text = await answer.text()
  assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${text}`)
  return text ? JSON.parse(text) : null
}

async function login (person) {
  const { accessToken } = await call('POST', '/api/auth/login', null, { username: person.email, password: person.password })
  person.token = accessToken
  return person
}

/* The date a number of days ago. */
const day = (back) => new Date(Date.now() - back * DAY_MS).toISOString().slice(0, 10)

const registered = new Map() // how often each name was used

async function register (name, type = 'Developer') {
  const times = (registered.get(name) ?? 0) + 1
  registered.set(name, times)
  const person = {
    name,
    email: `${name.toLowerCase()}${times > 1 ? times : ''}@${domain}`,
    password: `the words of ${name} alone`
  }
  const account = await call('POST', '/api/user/register', null, {
    firstName: name, lastName: 'Example', email: person.email, password: person.password, orgName: `${name}${times > 1 ? times : ''} at ${domain}`, organizationType: type
  })
  return { ...person, id: account.id, organization: account.organizationId }
}

/* Returns a person who is approved and logged in. */
async function member (name, type) {
  const person = await register(name, type)
  if (!admin.token) await login(admin)
  await call('PUT', `/api/admin/users/${person.id}`, admin.token, { status: 'Active' })
  return login(person)
}

function converse (from, to, text, device) {
  return call('POST', '/api/chat/conversations/start', from.token, {
    participant1: from.email, participant2: to.email, username: from.email, chatEntry: text, deviceProjectName: device
  })
}

function say (from, conversation, text) {
  return call('POST', `/api/chat/conversations/${conversation}/messages`, from.token, { username: from.email, chatEntry: text })
}

module.exports = { day, base, domain, admin, request, call, login, register, member, converse, say }
