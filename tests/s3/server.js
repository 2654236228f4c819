// An S3 server for the tests of the document store: s3rver, which checks signatures, and a front
// end. The front end adds two checks that s3rver lacks: a PUT is stored completely or not at all,
// and its content is compared with x-amz-content-sha256 if that header is signed. It also fails on
// request.
//
//     [ADDRESS=127.0.0.1] node --openssl-legacy-provider server.js PORT DIRECTORY BUCKET [TLS_PORT KEY CERTIFICATE]
//
// If BUCKET is empty, there is no bucket. TLS_PORT serves the same over HTTPS as PORT over HTTP.
// PUT /-/MODE sets the mode, GET /-/count returns the number of requests since then. Modes:
//   pass     behaves like S3
//   refuse   responds with 503
//   hang     reads, and never responds
//   cut      closes the connection in the middle of the request or of the response
//   corrupt  changes a byte of the response: of XML the first one, because others may not matter
//   again    returns the same page of a list, and says that there are more
//   redirect responds to HTTPS requests with 307 to the same path at PORT
//   hold     stores contents only after the mode has changed; the count is the number of these contents
//   die      stores half of a PUT's content and exits
'use strict'

const crypto = require('node:crypto')
const fs = require('node:fs')
const http = require('node:http')
const https = require('node:https')
const S3rver = require('@20minutes/s3rver')

const [port, directory, bucket, tls_port, key, certificate] = process.argv.slice(2)
const held = []
let mode = 'pass', count = 0

function error(res, status, code) {
  res.writeHead(status, { 'Content-Type': 'application/xml' })
  res.end(`<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>${code}</Code></Error>`)
}

function same_page(res) {
  res.writeHead(200, { 'Content-Type': 'application/xml' })
  res.end('<ListBucketResult><IsTruncated>true</IsTruncated><Contents><Key>docs/0</Key>' +
    '<LastModified>2020-01-01T00:00:00.000Z</LastModified></Contents></ListBucketResult>')
}

function redirect(req, res) {
  res.writeHead(307, { Location: `http://127.0.0.1:${port}${req.url}` })
  res.end()
}

function control(req, res) {
  if (req.method === 'PUT') {
    mode = req.url.slice(3)
    count = 0
    for (const serve_held of held.splice(0)) serve_held()
  }
  res.end(String(mode === 'hold' ? held.length : count))
}

function collect(req, heard) {
  const pieces = []
  req.on('data', piece => {
    pieces.push(piece)
    if (mode === 'cut' && req.method === 'PUT') req.socket.destroy()
  })
  req.on('end', () => heard(Buffer.concat(pieces)))
}

function is_whole(req, body) {
  const told = req.headers['x-amz-content-sha256']
  return !told || told === 'UNSIGNED-PAYLOAD' || told === crypto.createHash('sha256').update(body).digest('hex')
}

function spoil(body) {
  const spoilt = Buffer.from(body)
  if (spoilt.length) spoilt[spoilt[0] === '<'.charCodeAt(0) ? 0 : spoilt.length >> 1] ^= 1
  return spoilt
}

function has_object() {
  return fs.readdirSync(directory, { recursive: true }).some(name => name.endsWith('._S3rver_object'))
}

// Reads the whole response of s3rver, so that it can be falsified.
function say(inner, res) {
  collect(inner, body => {
    res.writeHead(inner.statusCode, inner.headers)
    if (mode === 'cut') res.write(body.subarray(0, body.length >> 1), () => res.socket.destroy())
    else res.end(mode === 'corrupt' ? spoil(body) : body)
  })
}

function pass_on(inner_port, req, res, body) {
  const to = { host: '127.0.0.1', port: inner_port } // Node 18 resolves "localhost" only to ::1
  const call = http.request({ ...to, method: req.method, path: req.url, headers: req.headers },
    inner => say(inner, res))
  call.on('error', () => res.socket.destroy())
  if (mode === 'die' && req.method === 'PUT') {
    call.write(body.subarray(0, body.length >> 1))
    setInterval(() => { if (has_object()) process.exit(1) }, 20)
  }
  else call.end(body)
}

function serve(inner_port, req, res) {
  if (req.url.startsWith('/-/')) return control(req, res)
  if (!req.url.includes('list-type=')) count++ // jobs of the hosts list objects at any time
  collect(req, body => {
    if (mode === 'hang') return
    if (mode === 'hold' && req.method === 'PUT') return held.push(() => pass_on(inner_port, req, res, body))
    if (mode === 'redirect' && req.socket.encrypted) return redirect(req, res)
    if (mode === 'again') return same_page(res)
    if (mode === 'refuse') return error(res, 503, 'SlowDown')
    if (!is_whole(req, body)) return error(res, 400, 'XAmzContentSHA256Mismatch')
    pass_on(inner_port, req, res, body)
  })
}

const store = new S3rver({ port: 0, address: '127.0.0.1', silent: true, directory,
  configureBuckets: bucket ? [{ name: bucket }] : [] })

function listen(inner_port) {
  const answer = (req, res) => serve(inner_port, req, res)
  const plain = () => http.createServer(answer)
    .listen(Number(port), process.env.ADDRESS || '127.0.0.1', () => console.log('ready'))

  if (!tls_port) return plain()
  https.createServer({ key: fs.readFileSync(key), cert: fs.readFileSync(certificate) }, answer)
    .listen(Number(tls_port), '127.0.0.1', plain)
}

store.run().then(at => listen(at.port))
