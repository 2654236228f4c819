/* The catalogs of the console, and the texts of mistakes; scripts/lint-texts checks the catalogs. */
'use strict'
const assert = require('node:assert/strict')
const fs = require('node:fs')
const path = require('node:path')
const { call, admin, member, request } = require('./service')
const { scene } = require('./stage')

/* Returns the entries of a catalog, parsed from its source: 'key': 'text'. */
function catalogue (language) {
  const source = fs.readFileSync(path.join(__dirname, `../../modules/console/web/src/texts/${language}.ts`), 'utf8')
  return new Map([...source.matchAll(/'([A-Za-z]+(?:\.[A-Za-z0-9_]+)+)': '((?:[^'\\]|\\.)*)'/g)].map(([, key, text]) => [key, text]))
}

/* Mistakes in the forms of the console: method, path, body, and the codes of all problems in the response. */
const WEBHOOK = '/api/chat/webhooks'
const READING = { type: 'History', unit: 'kWh', startDate: '2024-05-01', endDate: '2024-05-02', value: 1 }
const MISTAKES = [
  ['POST', '/api/device', {}, 'no_name'],
  ['POST', '/api/device', { externalId: 'my', countryCode: 'Atlantis', latitude: '91', longitude: 'west', capacity: 0, commissioningDate: '1.4.26', timezone: 'Mars' },
    'reserved_id not_a_country not_a_date not_greater not_between not_degrees not_a_time_zone'],
  ['POST', '/api/device', { externalId: 'CODED' }, '', 'device_exists'],
  ['POST', '/api/meter-reads/new/CODED-2', { type: 'Hist', unit: 'W', endDate: 'x', value: -1 }, 'not_one_of not_one_of too_small not_a_date_or_time'],
  ['POST', '/api/meter-reads/new/CODED-2', { ...READING, startDate: '2024-05-03' }, 'not_later'],
  ['POST', '/api/meter-reads/new/CODED-2', { ...READING, unit: 'GWh' }, 'over_ceiling'],
  ['POST', '/api/meter-reads/new/CODED-2', { ...READING, startDate: '2024-03-31T02:30', timezone: 'Europe/Berlin' }, 'skipped_time'],
  ['POST', '/api/device-group', { name: 'Odd', deviceIds: ['CODED-2'], frequency: 'daily', start: '2024-05-01', end: '2024-04-01' }, 'not_later'],
  ['GET', `/api/chat/search?q=${'w+'.repeat(31)}`, undefined, 'too_many_words'],
  ['POST', WEBHOOK, { url: 'https://10.0.0.1/' }, 'url_private'],
  ['POST', WEBHOOK, { retryPolicy: { delays: Array(8).fill(86400) } }, 'too_long_in_total'],
  ['POST', WEBHOOK, { authentication: { type: 'mtls', certificate: 'x', key: 'y' } }, 'not_a_certificate'],
  ['POST', WEBHOOK, { filter: { $like: 1 } }, 'not_an_operator'],
  ['POST', WEBHOOK, { filter: { $or: Array(101).fill({ a: 1 }) } }, 'too_many_conditions'],
  ['POST', '/api/user/password/reset', { token: 'x'.repeat(43), password: 'long enough' }, 'link_used']
]

scene('texts: mistakes in the forms have codes', async () => {
  const cody = await member('Cody')
  const got = []

  await call('POST', '/api/device', cody.token, { externalId: 'CODED' })
  await call('POST', '/api/device', cody.token, { externalId: 'CODED-2', capacity: 10, commissioningDate: '2020-01-01' })
  for (const [method, to, body] of MISTAKES) {
    const sent = to === WEBHOOK ? { url: 'https://example.com/', events: [], ...body } : body
    const { errors = [], code } = await (await request(method, to, cody.token, sent)).json()
    got.push([method, to, body, errors.map((error) => error.code).join(' '), ...(code ? [code] : [])])
  }
  assert.deepEqual(got, MISTAKES)
  const again = { firstName: 'A', lastName: 'B', email: cody.email, password: 'long enough', orgName: 'Another', organizationType: 'Buyer' }
  assert.equal((await (await request('POST', '/api/user/register', null, again)).json()).code, 'account_exists')
  await call('PUT', `/api/admin/users/${cody.id}`, admin.token, { status: 'Suspended' })
  assert.equal((await (await request('POST', '/api/auth/login', null, { username: cody.email, password: cody.password })).json()).code, 'account_suspended')
})

module.exports = { catalogue }
