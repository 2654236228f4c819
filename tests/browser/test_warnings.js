/* Warnings of the service: their codes, and how the console words them. */
'use strict'
const assert = require('node:assert/strict')
const { scene, enter, to, look, button } = require('./stage')
const { admin, call, converse, member, register, request } = require('./service')
const { catalogue } = require('./test_texts')

const WEBHOOK = { url: 'https://example.com/', events: [] }

/* Requests that succeed with warnings: method, path, body, and the codes of all warnings in the response. */
const DOUBTFUL = [
  ['POST', '/api/device', { externalId: 'DOUBT-1', capacity: 250000, fuelCode: 'PV', deviceTypeCode: 'T1', address: '' },
    'empty_ignored large_capacity unusual_fuel unusual_type'],
  ['POST', '/api/device', { externalId: 'DOUBT-2', organizationId: 987654 }, 'organization_ignored'],
  ['POST', '/api/chat/webhooks', { ...WEBHOOK, secret: 'short' }, 'short_secret'],
  ['GET', '/api/certificate-log/issuer/certifiedlogOfdevices?pageNumber=1&pageNumber=1', undefined, 'given_twice'],
  ['POST', '/api/meter-reads/new/DOUBT-3', { type: 'History', unit: 'Wh', value: 1, startDate: '2024-05-01', starttimestamp: '2024-05-02', endDate: '2024-05-03' }, 'alias_ignored']
]

scene('warnings: each has a code', async () => {
  const person = await member('Doubtful')
  const got = []

  await call('POST', '/api/device', person.token, { externalId: 'DOUBT-3', capacity: 10, commissioningDate: '2020-01-01' })
  for (const [method, path, body] of DOUBTFUL) {
    const { warnings = [], warningDetails = [] } = await call(method, path, person.token, body)
    assert.deepEqual(warningDetails.map(({ field, problem }) => `${field}: ${problem}`), warnings)
    got.push([method, path, body, warningDetails.map(({ code }) => code).join(' ')])
  }
  assert.deepEqual(got, DOUBTFUL)
  const form = new FormData()
  form.append('file', new Blob(['externalId,Farbe: Dach,\n1.23E+12,rot,x\n']), 'doubt.csv')
  const { warningDetails, bulkUploadId } = await (await request('POST', '/api/bulk-upload', person.token, form)).json()
  assert.deepEqual(warningDetails.map(({ field, code, params }) => [field, code, params]),
    [['Farbe: Dach', 'unknown_column', undefined], ['', 'unnamed_column', { column: 3, row: 1 }]])
  const { rows } = await call('GET', `/api/bulk-upload/bulk-upload-log/${bulkUploadId}`, person.token)
  assert.deepEqual(rows[0].warnings.map(({ code }) => code), ['shortened_number'])
})

scene('warnings: they are in the language of the page, with the labels of the fields, and change with it', async ({ open }) => {
  const page = await open({ locale: 'de-DE' })
  const person = await member('Warner')
  const form = page.getByRole('dialog')
  const de = catalogue('de')
  const shown = page.getByRole('region', { name: de.get('warnings.title') })

  await enter(page, person, '#/devices')
  await button(page, de.get('devices.new')).click()
  await form.getByLabel(de.get('devices.id')).fill('WARN-1')
  await form.getByLabel(de.get('devices.capacity')).fill('250000')
  await button(form, de.get('do.save')).click()
  await shown.getByText(`WARN-1: ${de.get('devices.capacity')}: ${de.get('problem.large_capacity')}`, { exact: true }).waitFor()
  await look(page, 'warnings-german')
  await to(page, '/account')
  await page.getByLabel(de.get('own.language')).selectOption('English')
  await page.getByRole('region', { name: 'Warnings' })
    .getByText('WARN-1: Capacity: is in kW, and this value is large; did you enter watts?', { exact: true }).waitFor()
})

scene('warnings: an approval names the conversations of the e-mail and its letters', async ({ open }) => {
  const page = await open({ locale: 'de-DE' })
  const known = await member('Wanda')
  const person = await register('Wılma') // the letter after the W has no dot

  for (const device of ['Warned 2', 'Warned 3']) await converse(known, person, 'Before the approval', device)
  await enter(page, admin, `#/accounts?search=${encodeURIComponent(person.email)}`)
  await button(page.getByRole('row', { name: new RegExp(person.email) }), catalogue('de').get('accounts.approve')).click()
  const shown = page.getByRole('region', { name: 'Hinweise' })
  await shown.getByText('nimmt schon an 2 Unterhaltungen teil').waitFor()
  await shown.getByText('enthält Buchstaben, die lateinischen ähneln').waitFor()
})
