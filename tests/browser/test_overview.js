/* The front page: figures and next steps for each kind of user. */
'use strict'
const assert = require('node:assert/strict')
const { scene, enter, go, look } = require('./stage')
const { admin, day, domain, login, member, register, call, converse, request } = require('./service')

const tile = (page, name) => page.locator('.tile', { hasText: name })

/* Uploads readings, of which the second one cannot be stored. Returns the path of the upload. */
async function upload ({ token }, name, externalId) {
  const form = new FormData()

  form.append('file', new Blob([`externalId,startDate,endDate,value,unit,type\n${externalId},${day(2)},${day(1)},1,kWh,History\nOV-NONE,${day(2)},${day(1)},1,kWh,History\n`]), name)
  return `/api/bulk-upload/${(await call('POST', '/api/bulk-upload?type=Reads', token, form)).bulkUploadId}`
}

scene('overview: devices show their last readings, and messages and failed uploads are things to do', async ({ page }) => {
  const person = await member('Ovedev')
  const row = (name) => page.getByRole('row', { name: new RegExp(name) })

  await login(admin)
  await call('POST', '/api/device', person.token, { externalId: 'OV-2', siteName: 'Silent roof' })
  const good = { capacity: 10, commissioningDate: '2020-01-01' }
  await call('POST', '/api/device', person.token, { externalId: 'OV-3', ...good })
  const reads = [{ startDate: day(3), endDate: day(2), value: 5, unit: 'GWh', type: 'History' }]
  assert.equal((await request('POST', '/api/meter-reads/new/OV-3', person.token, { reads })).status, 409)
  for (let i = 4; i < 12; i++) { // changed later, and without problems
    await call('POST', '/api/device', person.token, { externalId: `OV-${i}`, ...good })
    await call('POST', `/api/meter-reads/new/OV-${i}`, person.token, { reads: [{ ...reads[0], unit: 'kWh' }] })
  }
  // The last one changed: it is shown, whether its certificates are issued yet or not.
  await call('POST', '/api/device', person.token, { externalId: 'OV-1', siteName: 'Sending roof', capacity: 10, countryCode: 'DE', commissioningDate: '2020-01-01' })
  await call('POST', '/api/meter-reads/new/OV-1', person.token, { reads: [{ startDate: day(3), endDate: day(2), value: 5, unit: 'kWh', type: 'History' }] })
  await converse(admin, person, 'A question about the roof', 'Sending roof')
  await upload(person, 'checked.csv', 'OV-5')
  await call('POST', `${await upload(person, 'stored.csv', 'OV-4')}/confirm`, person.token)
  while ((await call('GET', '/api/bulk-upload', person.token)).every(({ status }) => status !== 'finished')) await new Promise((resolve) => setTimeout(resolve, 100))
  await enter(page, person, '')
  await row('Sending roof').getByText('5 kWh').waitFor()
  await row('Silent roof').getByText('None in 30 days').waitFor()
  await row('Silent roof').getByText('No capacity').waitFor()
  await row('OV-3').getByText('1 reading refused').waitFor()
  const names = await page.getByRole('region', { name: 'Devices and their last readings' }).getByRole('link').allInnerTexts()
  assert.deepEqual(names.slice(0, 2).sort(), ['OV-3', 'Silent roof'], 'problems come first')
  await tile(page, 'Devices').getByText('11', { exact: true }).waitFor()
  await look(page, 'overview')
  await page.getByRole('link', { name: 'checked.csv is checked: store its rows, or cancel it' }).waitFor()
  await page.getByRole('link', { name: '1 row of stored.csv could not be stored' }).click()
  await page.getByRole('heading', { name: 'stored.csv' }).waitFor()
  await page.goBack()
  await page.getByRole('link', { name: '1 unread message', exact: true }).click()
  await page.getByRole('link', { name: /Sending roof/ }).waitFor()
})

scene('overview: an ApiUser of two organizations sees the devices and the certificates of both', async ({ page }) => {
  const [other, api] = [await member('Ovebother'), await member('Oveapi', 'ApiUser')]
  const nameOf = (person) => `${person.name} at ${domain}`
  const row = (person) => page.getByRole('row', { name: new RegExp(`OV-${person.name}`) })

  await call('PUT', `/api/admin/organizations/${other.organization}`, admin.token, { apiUserId: api.id })
  for (const { name, organization } of [other, api]) {
    await call('POST', '/api/device', api.token, { externalId: `OV-${name}`, siteName: `${name} roof`, organizationId: organization, capacity: 10, commissioningDate: '2020-01-01' })
    await call('POST', `/api/meter-reads/new/OV-${name}?organizationId=${organization}`, api.token, { reads: [{ startDate: day(3), endDate: day(2), value: 5, unit: 'kWh', type: 'History' }] })
  }
  while ((await call('GET', '/api/certificate-log?status=Succeeded', api.token)).length < 2) await new Promise((resolve) => setTimeout(resolve, 100))
  await enter(page, api, '')
  await page.getByText('10 kWh in 12 months').waitFor()
  await page.getByRole('region', { name: 'Devices and their last readings' }).getByRole('link', { name: `${other.name} roof` }).waitFor()
  await look(page, 'overview-api-user')
  await go(page, 'Certificates')
  await row(other).waitFor()
  await row(api).waitFor()
  await look(page, 'certificates-organizations')
  await page.getByRole('banner').getByLabel('Organization').selectOption(nameOf(other))
  await row(api).waitFor({ state: 'detached' })
  await row(other).waitFor()
})

scene('overview: an Admin sees accounts that wait for approval', async ({ page }) => {
  await register('Ovewait')
  await enter(page, admin, '')
  await page.getByRole('link', { name: /wait.* for approval/ }).waitFor()
  await look(page, 'overview-admin')
  await page.route('**/api/admin/users?*status=Pending*', (route) => route.fulfill({ // two pages
    json: Array(200).fill({}),
    headers: route.request().url().includes('after') ? {} : { Link: '</api/admin/users?status=Pending&after=1>; rel="next"' }
  }))
  await page.reload()
  await page.getByRole('link', { name: '400 accounts wait for approval' }).waitFor()
})
