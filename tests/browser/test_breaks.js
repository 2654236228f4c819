/* Failures while a person works: of the session, the network, the host, or a file of the console.
 * No input is lost. */
'use strict'
const assert = require('node:assert/strict')
const { scene, enter, logIn, go, to, hold, look, button, confirm, chain, figure } = require('./stage')
const { base, admin, login, member, converse, say, call } = require('./service')
const { another } = require('./host')

const HANG_MAX_S = 25
const SLOW_MS = 700
const TOO_LARGE = 11 * 1048576
const LONG = 'Longname'.repeat(31) // has no place for a line break
const live = (page) => page.getByText('Live', { exact: true })

async function again (page, person) {
  await page.getByText('Your session has ended').waitFor()
  await logIn(page, person)
  await page.getByText('Your session has ended').waitFor({ state: 'detached' })
}

scene('breaks: after another login a conversation is live again and has the messages sent meanwhile', async ({ page }) => {
  const rob = await member('Rob')
  await login(admin)
  const { conversation } = await converse(rob, admin, 'Before the token is revoked', 'Revoked 1')

  await enter(page, rob)
  await page.getByRole('link', { name: /Revoked 1/ }).click()
  await live(page).waitFor()
  await call('PUT', '/api/user/password', rob.token, { current: rob.password, new: 'another wording entirely' })
  rob.password = 'another wording entirely'
  await page.getByText('Your session has ended').waitFor() // the stream reported it, without a click
  await say(admin, conversation.id, 'written while nobody was logged in')
  await again(page, rob)
  await chain(page).getByText('written while nobody was logged in').waitFor()
  await live(page).waitFor()
  await say(admin, conversation.id, 'written after the other login')
  await chain(page).getByText('written after the other login').waitFor()
}, ['status of 401'])

scene('breaks: messages written before the stream opens are shown once and in order', async ({ page }) => {
  const sue = await member('Sue')
  await login(admin)
  const { conversation } = await converse(sue, admin, 'Before the stream', 'Late 1')

  const start = await hold(page, '**/api/chat/stream')
  await enter(page, sue)
  await page.getByRole('link', { name: /Late 1/ }).click()
  await chain(page).getByText('Before the stream').waitFor()
  await say(admin, conversation.id, 'while the stream is on its way')
  await page.getByLabel('Write a message').fill('my own behind it')
  await button(page, 'Send').click()
  await chain(page).getByText('my own behind it').waitFor()
  start()
  await chain(page).getByText('while the stream is on its way').waitFor()
  assert.deepEqual(await chain(page).locator('.message p').allInnerTexts(),
    ['Before the stream', 'while the stream is on its way', 'my own behind it'])
})

scene('breaks: a view whose script fails to load shows an error and can be retried', async ({ page }) => {
  await page.route('**/assets/devices-*.js', (route) => route.abort())
  await enter(page, await member('Ben'))
  await go(page, 'Devices')
  await page.getByRole('alert').getByText('could not be shown').waitFor()
  await look(page, 'view-broken')
  await go(page, 'Webhooks')
  await page.getByText('No webhooks yet').waitFor()
  await page.unroute('**/assets/devices-*.js')
  await go(page, 'Devices')
  await button(page, 'Try again').click()
  await page.getByText('No devices here').waitFor()
}, ['ERR_FAILED', 'Failed to fetch', 'error occurred'])

scene('breaks: the page reconnects after a restart of the host and keeps typed text', async ({ page }) => {
  const tom = await member('Tom')
  await login(admin)
  const { conversation } = await converse(tom, admin, 'Before the restart', 'Restart 1')
  let host = await another()

  try {
    const ahead = page.waitForResponse(/assets\/webhooks-.*js/)
    await page.goto(`${host.there}/console#/chat`)
    await logIn(page, tom)
    await page.getByRole('link', { name: /Restart 1/ }).click()
    await live(page).waitFor()
    await ahead
    host.hang()
    const since = Date.now()
    await go(page, 'Webhooks')
    await page.getByRole('alert').getByText('cannot be reached').waitFor()
    await page.goBack()
    await page.getByText('Reconnecting…').waitFor()
    figure('a host that hangs is noticed after', (Date.now() - since) / 1000, HANG_MAX_S, 's')
    await host.end('SIGKILL')
    await page.getByLabel('Write a message').fill('typed while there was no host')
    await button(page, 'Send').click()
    await page.getByRole('alert').getByText('still there').waitFor()
    await go(page, 'Webhooks')
    await button(page, 'Try again').waitFor()
    await say(admin, conversation.id, 'written on another host meanwhile')
    host = await another(host.port)
    await button(page, 'Try again').click()
    await page.getByText('No webhooks yet').waitFor()
    await page.goBack()
    await chain(page).getByText('written on another host meanwhile').waitFor()
    assert.equal(await page.getByLabel('Write a message').inputValue(), 'typed while there was no host')
    await live(page).waitFor()
    await button(page, 'Send').click()
    await chain(page).getByText('typed while there was no host').waitFor()
  } finally {
    await page.close()
    await host.end()
  }
}, ['Failed to fetch', 'ERR_CONNECTION', 'ERR_SOCKET_NOT_CONNECTED', 'ERR_INCOMPLETE', 'status of 503', 'ERR_EMPTY_RESPONSE'])

scene('breaks: files stay when the host hangs during their upload', async ({ page }) => {
  const tim = await member('Tim')
  await login(admin)
  await converse(tim, admin, 'Before the upload', 'Hang 1')
  const host = await another()

  try {
    await page.goto(`${host.there}/console#/chat`)
    await logIn(page, tim)
    await page.getByRole('link', { name: /Hang 1/ }).click()
    await live(page).waitFor()
    await page.locator('input[type=file]').setInputFiles([{ name: 'plate.txt', mimeType: 'text/plain', buffer: Buffer.alloc(3000, 'x') }])
    await page.getByText('plate.txt').waitFor()
    host.hang()
    await button(page, 'Send').click()
    await page.getByRole('alert').getByText('still there').waitFor()
    await button(page, 'Remove plate.txt').waitFor()
  } finally {
    await page.close()
    await host.end('SIGKILL')
  }
}, ['Failed to fetch', 'ERR_CONNECTION', 'ERR_ABORTED', 'status of 503', 'ERR_EMPTY_RESPONSE'])

scene('breaks: the next user on the same page does not see text typed by the previous one', async ({ page }) => {
  const ann = await member('Ann')
  await login(admin)
  await converse(ann, admin, 'Seen by both', 'Shared 1')

  await enter(page, ann)
  await page.getByRole('link', { name: /Shared 1/ }).click()
  await page.getByLabel('Write a message').fill('a thought of Ann alone')
  await button(page, 'Log out').click()
  await logIn(page, admin)
  await page.evaluate(() => { location.hash = '#/chat' })
  await page.getByRole('link', { name: new RegExp(`${ann.email} Shared 1`) }).click()
  await chain(page).getByText('Seen by both').waitFor()
  assert.equal(await page.getByLabel('Write a message').inputValue(), '')
})

scene('breaks: a login as somebody else in another tab does not change the account of the first one', async ({ page: one }) => {
  const [eva, ida] = [await member('Eva'), await member('Ida2')]
  const other = await one.context().newPage()

  await enter(one, eva)
  await other.goto(`${base}/console`)
  await button(other, 'Log out').click()
  await other.getByLabel('E-mail').waitFor()
  await enter(other, ida)
  await one.getByText('Your session has ended').waitFor() // the cookie is of the other account
  await one.reload()
  await one.getByRole('banner').getByText(ida.email).waitFor()
}, ['status of 401'])

scene('breaks: a login as somebody else after the end of a session begins with the overview', async ({ page }) => {
  const [una, ulf] = [await member('Una3'), await member('Ulf')]

  await enter(page, una, '#/devices')
  await page.getByText('No devices here').waitFor()
  await call('PUT', '/api/user/password', una.token, { current: una.password, new: 'another wording entirely' })
  await go(page, 'Webhooks')
  await again(page, ulf)
  await page.getByRole('heading', { name: 'Hello, Ulf' }).waitFor()
  assert.match(page.url(), /#\/$/)
}, ['status of 401'])

scene('breaks: on a slow network nothing is sent twice and progress is shown', async ({ page, dialog: form }) => {
  const sol = await member('Sol')

  await enter(page, sol, '#/devices')
  await page.route('**/api/**', async (route) => { await new Promise((resolve) => setTimeout(resolve, SLOW_MS)); await route.continue().catch(() => {}) })
  await button(page, 'Register a device').click()
  await form.getByLabel('Site').fill('Slow hill')
  await button(form, 'Save').dblclick()
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'Slow hill' }).waitFor()
  await go(page, 'Devices')
  await button(page, 'Register a device').click()
  await form.getByLabel('Site').fill('Left hill')
  await button(form, 'Save').click()
  await page.keyboard.press('Escape')
  const stored = page.waitForResponse((one) => one.request().method() === 'POST' && one.url().endsWith('/api/device'))
  await button(page, 'Discard').click()
  await go(page, 'Help')
  await stored
  await page.waitForTimeout(2 * SLOW_MS)
  assert.match(page.url(), /#\/help$/)
  await page.unroute('**/api/**')
  const [{ uuid, siteName }, ...others] = await call('GET', '/api/device', sol.token)
  assert.equal(others.length, 1)
  await to(page, `/devices/${uuid}`)
  await button(page, 'Delete').click()
  const pass = await hold(page, `**/api/device/${uuid}`)
  await confirm(form, siteName)
  await page.goBack()
  pass()
  await page.getByText(`${siteName} is deleted.`).waitFor()
  assert.match(page.url(), /#\/help$/)
  await go(page, 'Devices')
  await page.route('**/api/device', async (route) => { await route.fetch(); await route.abort() }, { times: 1 }) // the response is lost
  await button(page, 'Register a device').click()
  await form.getByLabel('Site').fill('Lost hill')
  await button(form, 'Save').click()
  await form.getByRole('alert').waitFor()
  await button(form, 'Save').click()
  await page.getByRole('heading', { name: 'Lost hill' }).waitFor()
  assert.equal((await call('GET', '/api/device', sol.token)).length, 2)
}, ['ERR_FAILED'])

scene('breaks: a refused file shows the reason and another one can be chosen', async ({ page }) => {
  const una = await member('Ute')

  await call('POST', '/api/device', una.token, { externalId: 'U-1', siteName: 'Upload yard', capacity: 5, countryCode: 'DE' })
  await enter(page, una, '#/devices/U-1')
  await page.getByLabel('Kind of document').selectOption('PROJECT_PHOTOS')
  const input = page.getByLabel('Add a document')
  await input.setInputFiles({ name: 'evil.exe', mimeType: 'text/plain', buffer: Buffer.from('MZ') })
  await page.getByText('A program is not a document.').waitFor()
  assert.ok(await button(page, 'Upload').isDisabled())
  await input.setInputFiles({ name: 'plate.png', mimeType: 'image/png', buffer: Buffer.alloc(TOO_LARGE) })
  await button(page, 'Upload').click()
  await page.getByRole('alert').getByText('larger than').waitFor()
  await look(page, 'device-upload-refused')
  await page.route('**/api/device/*', (route) => route.request().method() === 'PATCH' ? route.abort() : route.continue())
  await input.setInputFiles({ name: 'cut.pdf', mimeType: 'application/pdf', buffer: Buffer.from('%PDF-1.4 x') })
  await button(page, 'Upload').click()
  await page.getByRole('alert').getByText('cannot be reached').waitFor()
  await page.unroute('**/api/device/*')
  await page.getByLabel('Kind of document').selectOption('COD_PROOF')
  await input.setInputFiles({ name: 'proof.pdf', mimeType: 'application/pdf', buffer: Buffer.from('%PDF-1.4 x') })
  await button(page, 'Upload').click()
  await page.getByRole('row', { name: /proof.pdf/ }).waitFor()
  assert.equal(await page.getByRole('alert').count(), 0)
}, ['status of 413', 'ERR_FAILED'])

scene('breaks: very long names fit every view', async ({ page }) => {
  const leo = await member('Leo')

  await login(admin)
  await call('POST', '/api/device', leo.token, { externalId: LONG.slice(0, 240), siteName: LONG, capacity: 123456.75, countryCode: 'DE', serialNumber: LONG.slice(0, 100) })
  await converse(leo, admin, LONG.repeat(4), LONG)
  await call('POST', '/api/chat/webhooks', leo.token, { url: `https://${'a'.repeat(60)}.example/${LONG}`, events: ['message.new'] })
  await enter(page, leo)
  await page.getByRole('link', { name: /Longname/ }).click()
  await chain(page).getByText(LONG).waitFor()
  await look(page, 'long-chat')
  await go(page, 'Devices')
  await page.getByRole('link', { name: LONG }).waitFor()
  await look(page, 'long-devices')
  await page.getByRole('link', { name: LONG }).click()
  await page.getByText('No documents').waitFor()
  await look(page, 'long-device')
  await button(page, 'Edit').click()
  await look(page, 'long-device-edit')
  await button(page, 'Cancel').click()
  await go(page, 'Webhooks')
  await page.getByRole('link', { name: /Longname/ }).click()
  await button(page, 'Send a test').first().waitFor()
  await look(page, 'long-webhook')
  await to(page, '/webhooks')
  await page.getByRole('table').waitFor()
  await look(page, 'long-webhooks')
})
