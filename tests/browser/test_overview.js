/* The front page: figures and next steps for each kind of user. */
'use strict'
const assert = require('node:assert/strict')
const { scene, enter, look, button } = require('./stage')
const { admin, login, member, register, call, converse } = require('./service')

const DAY_MS = 86400000
const tile = (page, name) => page.locator('.tile', { hasText: name })

scene('overview: a new account sees its first steps, and each leads to the view', async ({ open }) => {
  const page = await open()

  await enter(page, await member('Ovenew'), '')
  await page.getByRole('heading', { name: 'Hello, Ovenew' }).waitFor()
  await page.getByRole('link', { name: 'Create a webhook, so' }).waitFor()
  await page.getByRole('link', { name: 'Upload many devices' }).waitFor()
  await look(page, 'overview-new')
  await page.getByRole('link', { name: 'Register your first device' }).click()
  await page.getByText('No devices here').waitFor()
})

scene('overview: devices show their last readings, and messages and failed uploads are things to do', async ({ open }) => {
  const person = await member('Ovedev')
  const page = await open()
  const day = (ago) => new Date(Math.floor(Date.now() / DAY_MS - ago) * DAY_MS).toISOString()
  const row = (name) => page.getByRole('row', { name: new RegExp(name) })

  await login(admin)
  await call('POST', '/api/device', person.token, { externalId: 'OV-1', siteName: 'Sending roof', capacity: 10, countryCode: 'DE', commissioningDate: '2020-01-01' })
  await call('POST', '/api/device', person.token, { externalId: 'OV-2', siteName: 'Silent roof' })
  await call('POST', '/api/meter-reads/new/OV-1', person.token, { reads: [{ startDate: day(3), endDate: day(2), value: 5, unit: 'kWh', type: 'History' }] })
  await converse(admin, person, 'A question about the roof', 'Sending roof')
  await enter(page, person, '')
  await row('Sending roof').getByText('5 kWh').waitFor()
  await row('Silent roof').getByText('None in 30 days').waitFor()
  await tile(page, 'Devices').getByText('2', { exact: true }).waitFor()
  await look(page, 'overview')
  await page.getByRole('link', { name: '1 unread message', exact: true }).click()
  await page.getByRole('link', { name: /Sending roof/ }).waitFor()
})

scene('overview: an Admin sees accounts that wait for approval', async ({ open }) => {
  const page = await open()

  await register('Ovewait')
  await enter(page, admin, '')
  await page.getByRole('link', { name: /wait.* for approval/ }).click()
  await page.getByRole('heading', { name: 'Accounts' }).waitFor()
})

scene('shell: on a phone the navigation is one line, and its button opens the views', async ({ open }) => {
  const page = await open({ viewport: { width: 400, height: 800 }, hasTouch: true })
  const menu = button(page, 'Menu')

  await page.goto(`${require('./service').base}/console#/devices`)
  const person = await member('Ovephone')
  await page.getByLabel('E-mail').fill(person.email)
  await page.getByLabel('Password').fill(person.password)
  await button(page, 'Log in').click()
  await page.getByText('No devices here').waitFor()
  const { height } = await page.getByRole('banner').boundingBox()
  assert.ok(height <= 60, `the navigation takes ${height} px of 800`)
  await menu.click()
  await page.screenshot({ path: `${process.env.BUSBAR_PICTURES}/menu-400.png` })
  await page.keyboard.press('Escape')
  assert.equal(await menu.getAttribute('aria-expanded'), 'false')
  await menu.click()
  await page.getByRole('navigation').getByRole('link', { name: 'Certificates' }).click()
  await page.getByRole('heading', { name: 'Certificates' }).waitFor()
  assert.equal(await page.getByRole('navigation').isVisible(), false)
})
