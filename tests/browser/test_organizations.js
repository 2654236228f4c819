/* Accounts that act for several organizations choose one, and see the names of all. */
'use strict'
const assert = require('node:assert/strict')
const { scene, enter, go, look, button } = require('./stage')
const { domain, admin, login, member, call } = require('./service')

const nameOf = (person) => `${person.name} at ${domain}`
const sentTo = (page, path) => page.waitForRequest((request) => request.method() === 'POST' && request.url().includes(path))

/* Returns an ApiUser that acts for its own organization and for another one. */
async function actor (name, other) {
  const api = await member(name, 'ApiUser')

  await call('PUT', `/api/admin/organizations/${other.organization}`, admin.token, { apiUserId: api.id })
  return api
}

scene('organizations: an ApiUser of two organizations chooses one for a new device and for the list', async ({ page }) => {
  const other = await member('Orgother')
  const api = await actor('Orgapi', other)
  const header = page.getByRole('banner').getByLabel('Organization')
  const form = page.getByRole('dialog')

  await enter(page, api, '#/devices')
  await button(page, 'Register a device').click()
  await form.getByLabel('Site').fill('Roof of the other')
  await button(form, 'Save').click()
  await form.locator('select[aria-invalid=true]').waitFor()
  await look(page, 'organizations-device')
  await form.getByLabel('Organization').selectOption(nameOf(other))
  await button(form, 'Save').click()
  await page.getByRole('heading', { name: 'Roof of the other' }).waitFor()
  await page.locator('dl.facts').getByText(nameOf(other)).waitFor()
  await header.selectOption(nameOf(api))
  await go(page, 'Devices')
  await page.getByText('No devices here').waitFor()
  assert.match(page.url(), new RegExp(`#/devices\\?org=${api.organization}$`))
  await button(page, 'Register a device').click()
  await form.getByLabel('Site').fill('Roof of my own')
  await button(form, 'Save').click()
  await page.getByRole('heading', { name: 'Roof of my own' }).waitFor()
  await go(page, 'Devices')
  await page.getByRole('row', { name: new RegExp(`Roof of my own.*${nameOf(api)}`) }).waitFor()
  assert.equal(await page.getByText('Roof of the other').count(), 0)
  await header.selectOption('All organizations')
  await page.getByRole('row', { name: new RegExp(`Roof of the other.*${nameOf(other)}`) }).waitFor()
  await page.getByRole('row', { name: /Roof of my own/ }).waitFor()
  await look(page, 'organizations-devices')
  await page.goBack()
  await page.getByText('Roof of the other').waitFor({ state: 'detached' })
  assert.equal(await header.inputValue(), String(api.organization))
  assert.deepEqual((await call('GET', '/api/device', other.token)).map(({ siteName }) => siteName), ['Roof of the other'])
}, ['status of 400'])

scene('organizations: an Admin chooses the organization of a bulk upload', async ({ page }) => {
  const owner = await member('Orgowner')

  await login(admin)
  await call('POST', '/api/device', owner.token, { externalId: 'OWN-1', siteName: 'Owned roof' })
  await enter(page, admin, '#/bulk')
  await page.getByRole('main').getByLabel('Organization').selectOption(nameOf(owner))
  await page.getByLabel('Drop a CSV file here').setInputFiles({ name: 'reads.csv', mimeType: 'text/csv', buffer: Buffer.from('externalId,startDate,endDate,value,unit,type\nOWN-1,2026-01-01T00:00:00Z,2026-01-02T00:00:00Z,5,kWh,History\n') })
  const [sent] = await Promise.all([sentTo(page, '/api/bulk-upload'), button(page, 'Upload and check').click()])
  assert.equal(new URL(sent.url()).searchParams.get('organizationId'), String(owner.organization))
  await page.getByText(/row can be stored|rows can be stored/).waitFor()
  await look(page, 'organizations-admin')
})
