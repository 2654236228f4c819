/*
 * The peer with which busbar is compared: fastify and pg as their manuals show them, one worker per core, the
 * statements prepared by name. It has no authentication, log or events.
 *
 * Environment: PORT; PGHOST and the other variables of libpq; STATEMENTS, a directory with the host's statements,
 * written by bench/run; POOL, the number of connections of a worker.
 */
'use strict'
const cluster = require('node:cluster')
const crypto = require('node:crypto')
const fs = require('node:fs')
const os = require('node:os')
const path = require('node:path')

const emailOf = { type: 'object', properties: { email: { type: 'string', maxLength: 254 } } }
const countReply = { type: 'object', properties: { count: { type: 'integer' } } }
const postBody = {
  type: 'object',
  required: ['username', 'chatEntry'],
  properties: {
    username: { type: 'string', maxLength: 254 },
    chatEntry: { type: 'string', minLength: 1, maxLength: 1048576 }
  }
}
const postReply = {
  type: 'object',
  properties: {
    uuid: { type: 'string' },
    username: { type: 'string' },
    chatEntry: { type: 'string' },
    nextEntryUuid: { type: 'null' },
    createdAt: { type: 'string' }
  }
}

function statement (name) {
  return fs.readFileSync(path.join(process.env.STATEMENTS, name), 'utf8').trim()
}

function serve () {
  const app = require('fastify')({ logger: false })
  const { Pool } = require('pg')
  const pool = new Pool({ max: Number(process.env.POOL || 8) })
  const unreadCount = { name: 'unread_count', text: statement('unread_count') }
  const post = { name: 'post', text: statement('post') }

  app.get('/api/chat/unread-count/:email',
    { schema: { params: emailOf, response: { 200: countReply } } },
    async (request) => {
      const { rows } = await pool.query({ ...unreadCount, values: [request.params.email] })
      return { count: Number(Object.values(rows[0])[0]) }
    })

  app.post('/api/chat/conversations/:id/messages',
    { schema: { body: postBody, response: { 201: postReply } } },
    async (request, reply) => {
      const { username, chatEntry } = request.body
      const uuid = crypto.randomUUID()
      const createdAt = new Date().toISOString()
      const values = [request.params.id, uuid, username, chatEntry, createdAt]
      await pool.query({ ...post, values })
      return reply.code(201).send({ uuid, username, chatEntry, nextEntryUuid: null, createdAt })
    })

  app.listen({ host: '127.0.0.1', port: Number(process.env.PORT) }).catch((error) => {
    console.error(error.message)
    process.exit(1)
  })
}

if (cluster.isPrimary) {
  for (let core = 0; core < os.availableParallelism(); core++) cluster.fork()
  cluster.on('exit', () => process.exit(1))
  process.on('SIGTERM', () => process.exit(0))
} else {
  process.on('disconnect', () => process.exit(0))
  serve()
}
