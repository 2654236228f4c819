/* The reference page: it also shows operations that the role may not use, and requests can be sent
 * from it. */
'use strict'
const assert = require('node:assert/strict')
const { scene, figure } = require('./stage')
const { base, admin, login, member } = require('./service')

const ELEMENTS_MAX = 1000

scene('reference: a user logs in with Authorize and sends a request', async ({ page }) => {
  await login(admin)
  await page.goto(`${base}/swagger`)
  const operation = await opened(page, 'Accounts and tokens', 'get', '/api/auth/me')
  assert.equal(await page.locator('.opblock', { has: page.locator('[data-path="/api/device"]') }).count(), 0, 'other modules stay closed')
  await operation.getByText('Required role').first().waitFor()
  await execute(operation, '401')
  await page.getByRole('button', { name: 'Authorize', exact: true }).first().click()
  await page.locator('.auth-container input').first().fill(admin.token)
  await page.locator('.auth-btn-wrapper').getByRole('button', { name: /Apply credentials|Authorize/ }).first().click()
  await page.getByRole('button', { name: 'Close' }).first().click()
  await operation.getByRole('button', { name: 'Execute' }).click()
  await operation.locator('.live-responses-table .response').getByText('200').first().waitFor()
  assert.ok((await operation.locator('.live-responses-table').innerText()).includes(admin.email))
  await execute(await opened(page, 'Conversations', 'get', '/api/chat/stream'), '200') // though a stream has no end
  await page.emulateMedia({ colorScheme: 'dark' })
  assert.notEqual(await page.evaluate(() => getComputedStyle(document.documentElement).filter), 'none')
  assert.equal(await page.getByRole('link', { name: 'Console', exact: true }).getAttribute('href'), '/console')
  assert.equal(await page.evaluate(() => localStorage.length + sessionStorage.length + document.cookie.length), 0)
}, ['status of 401'])

scene('reference: the page begins with the titles of the modules; documents of a device can be uploaded', async ({ page }) => {
  await page.goto(`${base}/swagger`)
  await page.locator('[data-tag="Devices"]').waitFor()
  figure('elements of the reference before a module is opened', await page.locator('*').count(), ELEMENTS_MAX, 'elements')
  const operation = await opened(page, 'Devices', 'post', '/api/device')
  await operation.getByRole('combobox', { name: /media|content/i }).first().selectOption('multipart/form-data')
  await operation.getByRole('button', { name: 'Try it out' }).click()
  await operation.locator('input[type=file]').first().waitFor()
  assert.equal(await operation.locator('tr', { hasText: 'PROJECT_PHOTOS' }).locator('input[type=file]').count(), 1)
  assert.ok(await operation.locator('input[type=file]').count() >= 6)
})

/* Returns the block of an operation, opened. */
async function opened (page, tag, method, path) {
  const operation = page.locator(`.opblock-${method}`, { has: page.locator(`[data-path="${path}"]`) })
  if (!await operation.isVisible()) await page.locator(`[data-tag="${tag}"]`).click()
  await operation.locator('.opblock-summary-control').click()
  return operation
}

async function execute (operation, status, body) {
  await operation.getByRole('button', { name: 'Try it out' }).click()
  if (body) await operation.locator('textarea').fill(JSON.stringify(body))
  await operation.getByRole('button', { name: 'Execute' }).click()
  await operation.locator('.live-responses-table .response').getByText(status).first().waitFor()
}

scene('reference: a Developer logs in on the page and registers a device as shown', async ({ page }) => {
  const { email, password } = await member('Rooftop', 'Developer')

  await page.goto(`${base}/swagger`)
  await execute(await opened(page, 'Accounts and tokens', 'post', '/api/auth/login'), '200', { username: email, password })
  const device = await opened(page, 'Devices', 'post', '/api/device')
  await execute(device, '201')
  const stored = JSON.parse(await device.locator('.live-responses-table .response-col_description code').first().innerText())
  assert.deepEqual([stored.externalId, stored.siteName, stored.capacity, stored.address], ['PLANT-7', 'Rooftop 7', 9.9, 'Seestr. 7, 13353 Berlin'])
  const { paths } = await (await fetch(`${base}/openapi.json`)).json()
  const shown = JSON.stringify(await device.locator('.responses-inner > .responses-table .example').first().innerText())
  assert.ok(shown.includes('commissioning.pdf') || shown.includes('Europe/Berlin'), 'the response has an example')
  assert.deepEqual(Object.keys(paths).filter((path) => /^\/(console$|console\/assets|swagger$|swagger\/|$)/.test(path)), [])
  assert.equal(await page.evaluate(() => localStorage.length + sessionStorage.length + document.cookie.length), 0)
})

scene('reference: older paths are deprecated, and the page fits a phone', async ({ open }) => {
  const page = await open({ viewport: { width: 400, height: 800 } })

  await page.goto(`${base}/swagger`)
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'the page is not wider than the window')
  await page.locator('[data-tag="Devices"]').click()
  await page.locator('[data-tag="Meter readings"]').click()
  await page.locator('.opblock-deprecated').first().waitFor()
  assert.equal(await page.locator('.opblock-deprecated').count(), 4)
  await page.getByRole('button', { name: 'Authorize', exact: true }).first().click()
  await page.locator('.auth-container').first().waitFor()
  assert.equal(await page.getByText('Scopes are used').filter({ visible: true }).count(), 0)
})
