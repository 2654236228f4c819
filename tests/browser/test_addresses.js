/* Filters and the scroll position belong to an address: Back restores them. */
'use strict'
const assert = require('node:assert/strict')
const { scene, enter, to, look, find, button } = require('./stage')
const { admin, login, member, call } = require('./service')

const ROOFS = 60
const scrolled = (page) => page.locator('#content').evaluate((box) => box.scrollTop)

scene('addresses: the list of devices keeps search, filters, order and scroll position in address and history', async ({ open, page }) => {
  const person = await member('Addrdev')
  const first = page.getByRole('table').getByRole('row').nth(1)

  for (let i = 0; i < ROOFS; i++) await call('POST', '/api/device', person.token, { externalId: `R-${i}`, siteName: `Roof ${i}`, capacity: i + 1 })
  await call('POST', '/api/device', person.token, { externalId: 'W-1', siteName: 'Windmill' })
  await enter(page, person, '#/devices')
  for (const key of [...'rof', 'ArrowLeft', 'o']) await page.getByLabel('Search by name or number').press(key) // in the middle
  await button(page, 'Capacity').dblclick()
  await first.getByText(`Roof ${ROOFS - 1}`).waitFor()
  await page.getByText('More filters').click()
  await page.getByLabel('Capacity to (kW)').fill('50')
  await first.getByText('Roof 49').waitFor()
  const address = page.url()
  await page.getByRole('link', { name: 'Roof 5', exact: true }).scrollIntoViewIfNeeded()
  const top = await scrolled(page)
  assert.ok(top > 500, `${top}`)
  await page.getByRole('link', { name: 'Roof 5', exact: true }).click()
  await page.getByRole('heading', { name: 'Roof 5' }).waitFor()
  assert.equal(await scrolled(page), 0)
  await page.goBack()
  await first.getByText('Roof 49').waitFor()
  await page.waitForFunction((wanted) => Math.abs(document.getElementById('content').scrollTop - wanted) < 2, top)
  assert.equal(page.url(), address)
  assert.equal(await page.getByLabel('Search by name or number').inputValue(), 'roof')
  assert.equal(await page.getByLabel('Capacity to (kW)').inputValue(), '50')
  assert.equal(await page.locator('th[aria-sort=descending]').count(), 1)
  const other = await open()
  await enter(other, person, new URL(address).hash)
  await other.getByRole('table').getByRole('row').nth(1).getByText('Roof 49').waitFor()
})

scene('addresses: the address keeps the filters of certificates, accounts, organizations and deliveries', async ({ page }) => {
  const person = await member('Addrall')
  const hook = await call('POST', '/api/chat/webhooks', person.token, { url: 'http://127.0.0.1:9/addresses', events: [] })

  await login(admin)
  await enter(page, admin, '#/accounts')
  await find(page, person.email)
  await page.getByLabel('State').selectOption('Active')
  await to(page, '/accounts/organizations')
  await find(page, person.name)
  await to(page, '/certificates?groupId=999999') // of another organization
  const [asked] = await Promise.all([
    page.waitForRequest((request) => /certificate-log\?(?!.*groupId).*start=.*end=/.test(request.url())),
    page.getByLabel('From').fill('2026-10-01').then(() => page.getByLabel('To', { exact: true }).fill('2026-10-03'))
  ])
  const { searchParams } = new URL(asked.url())
  assert.equal(searchParams.get('start'), '2026-09-30T22:00:00.000Z') // days in Berlin, the last one included
  assert.equal(searchParams.get('end'), '2026-10-03T22:00:00.000Z')
  await page.getByLabel('To', { exact: true }).fill('2026-09-03')
  await page.getByText('From is later than To.').waitFor()
  await look(page, 'certificates-reversed')
  await page.getByLabel('To', { exact: true }).fill('2026-10-03')
  await to(page, `/webhooks/${hook.id}`)
  await page.getByRole('combobox', { name: 'State' }).selectOption('abandoned')
  await page.getByText('No delivery matches').waitFor()
  await to(page, '/status')
  await page.getByRole('heading', { name: 'Status' }).waitFor()
  await page.goBack()
  await page.getByText('No delivery matches').waitFor()
  await page.goBack()
  await page.waitForFunction(() => [...document.querySelectorAll('input[type=date]')].map(({ value }) => value).join() === '2026-10-01,2026-10-03')
  await page.goBack()
  await page.waitForFunction((name) => document.querySelector('input[type=search]')?.value === name, person.name)
  await page.goBack()
  await page.getByRole('row', { name: new RegExp(person.email) }).waitFor()
  assert.equal(await page.getByLabel('Search').inputValue(), person.email)
  assert.equal(await page.getByLabel('State').inputValue(), 'Active')
})
