/*
 * Generates the types of the responses to the console, with openapi-typescript, from the document
 * at /openapi.json:
 *
 *     node tests/browser/types.js http://127.0.0.1:8080 > modules/console/web/src/api/document.ts
 *
 * It includes only operations whose responses the console shows, and no descriptions, so that other
 * wording or other routes change nothing here.
 */
'use strict'

const shown = [
  'get /api/auth/me', 'get /api/auth/clients', 'post /api/auth/clients', 'get /api/admin/users', 'get /api/admin/organizations',
  'get /api/chat/conversations/user/{email}', 'get /api/chat/chain/{headUuid}', 'get /api/chat/webhooks', 'get /api/chat/webhooks/statistics',
  'get /api/chat/webhooks/{id}/deliveries', 'get /api/chat/webhooks/{id}/deliveries/{deliveryId}', 'post /api/chat/webhooks/{id}/test',
  'get /api/device/{externalId}', 'get /api/device/{externalId}/documents', 'get /api/meter-reads/new/{externalId}/totals',
  'get /api/device/{externalId}/coverage', 'get /api/certificate-log/explain', 'get /api/certificate-log', 'get /api/bulk-upload', 'get /api/bulk-upload/bulk-upload-log/{bulkUploadId}'
]

const WORDS = ['description', 'summary', 'example', 'examples', 'title', 'format', 'additionalProperties']

/* Removes descriptions. A property may have the same name as a removed key, so the keys of
 * `properties` stay. */
function bare (value, names = false) {
  if (Array.isArray(value)) return value.map((each) => bare(each))
  if (value === null || typeof value !== 'object') return value
  return Object.fromEntries(Object.entries(value).filter(([key]) => names || !WORDS.includes(key)).map(([key, each]) => [key, bare(each, key === 'properties')]))
}

function answersOf (operation) {
  const [status, answer] = Object.entries(operation.responses).find(([code]) => /^20[01]$/.test(code))
  return { responses: { [status]: { description: '', content: bare(answer.content) } } }
}

async function typesOf (reference) {
  const { default: openapiTS, astToString } = await import('openapi-typescript')
  const paths = {}
  for (const one of shown) {
    const [method, path] = one.split(' ')
    if (!reference.paths[path]?.[method]) throw new Error(`the reference has no ${one}`)
    paths[path] = { ...paths[path], [method]: answersOf(reference.paths[path][method]) }
  }
  const { components, openapi } = reference
  const made = await openapiTS({ openapi, info: { title: '', version: '' }, paths, components: { schemas: bare(components?.schemas ?? {}, true) } })
  return `/* Made by tests/browser/types.js of the API's document; ./test browser fails where it is not that of the host. */\n${astToString(made)}`
}

module.exports = { typesOf }

if (require.main === module) {
  fetch(`${process.argv[2]}/openapi.json`).then((answer) => answer.json()).then(typesOf).then((text) => process.stdout.write(text))
}
