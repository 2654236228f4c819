/* The console is built with types generated from the API's document; they must match this host. */
'use strict'
const assert = require('node:assert/strict')
const fs = require('node:fs')
const path = require('node:path')
const { scene } = require('./stage')
const { call } = require('./service')
const { typesOf } = require('./types')

const kept = path.join(__dirname, '../../modules/console/web/src/api/document.ts')

scene('types: the console is built with types generated from the document of the host', async () => {
  const made = await typesOf(await call('GET', '/openapi.json'))

  fs.writeFileSync(path.join(process.env.BUSBAR_PICTURES, 'document.ts'), made)
  assert.equal(fs.readFileSync(kept, 'utf8'), made, 'copy build/browser/pictures/document.ts')
})
