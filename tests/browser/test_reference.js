/* The reference page: it also shows operations that the role may not use, and requests can be sent
 * from it. */
'use strict'
const assert = require('node:assert/strict')
const { scene } = require('./stage')
const { base, admin, login } = require('./service')

scene('reference: a user logs in with Authorize and sends a request', async ({ open }) => {
  const page = await open()

  await login(admin)
  await page.goto(`${base}/swagger`)
  const operation = page.locator('.opblock-get', { has: page.locator('[data-path="/api/auth/me"]') })
  await page.locator('[data-tag="auth"]').click()
  assert.equal(await page.locator('.opblock', { has: page.locator('[data-path="/api/device"]') }).count(), 0, 'other modules stay closed')
  await operation.locator('.opblock-summary-control').click()
  await operation.getByText('Required role').first().waitFor()
  await operation.getByRole('button', { name: 'Try it out' }).click()
  await operation.getByRole('button', { name: 'Execute' }).click()
  await operation.locator('.live-responses-table .response').getByText('401').first().waitFor()
  await page.getByRole('button', { name: 'Authorize', exact: true }).first().click()
  await page.locator('.auth-container input').first().fill(admin.token)
  await page.locator('.auth-btn-wrapper').getByRole('button', { name: /Apply credentials|Authorize/ }).first().click()
  await page.getByRole('button', { name: 'Close' }).first().click()
  await operation.getByRole('button', { name: 'Execute' }).click()
  await operation.locator('.live-responses-table .response').getByText('200').first().waitFor()
  assert.ok((await operation.locator('.live-responses-table').innerText()).includes(admin.email))
  const stream = page.locator('.opblock-get', { has: page.locator('[data-path="/api/chat/stream"]') })
  await page.locator('[data-tag="chat"]').click()
  await stream.locator('.opblock-summary-control').click()
  await stream.getByRole('button', { name: 'Try it out' }).click()
  await stream.getByRole('button', { name: 'Execute' }).click()
  await stream.locator('.live-responses-table .response').getByText('200').first().waitFor() // though a stream has no end
  await page.emulateMedia({ colorScheme: 'dark' })
  assert.notEqual(await page.evaluate(() => getComputedStyle(document.documentElement).filter), 'none')
  assert.equal(await page.getByRole('link', { name: 'Console', exact: true }).getAttribute('href'), '/console')
  assert.equal(await page.evaluate(() => localStorage.length + sessionStorage.length + document.cookie.length), 0)
}, ['status of 401'])

scene('reference: documents of a device can be uploaded', async ({ open }) => {
  const page = await open()

  await page.goto(`${base}/swagger`)
  const operation = page.locator('.opblock-post', { has: page.locator('[data-path="/api/device"]') })
  await page.locator('[data-tag="device"]').click()
  await operation.locator('.opblock-summary-control').click()
  await operation.getByRole('combobox', { name: /media|content/i }).first().selectOption('multipart/form-data')
  await operation.getByRole('button', { name: 'Try it out' }).click()
  await operation.locator('input[type=file]').first().waitFor()
  assert.equal(await operation.locator('tr', { hasText: 'PROJECT_PHOTOS' }).locator('input[type=file]').count(), 1)
  assert.ok(await operation.locator('input[type=file]').count() >= 6)
})
