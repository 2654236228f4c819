/* The page of the own account. */
'use strict'
const assert = require('node:assert/strict')
const { scene, enter, hold, go, to, look, button } = require('./stage')
const { domain, member, request, call, converse, say } = require('./service')
const { catalogue } = require('./test_texts')

const fill = async (page, current, next, again = next) => {
  const all = { 'Current password': current, 'New password (8 characters or more)': next, 'New password again': again }
  for (const [name, text] of Object.entries(all)) await page.getByLabel(name, { exact: true }).fill(text)
}
const change = async (page, ...passwords) => {
  await fill(page, ...passwords)
  await button(page, 'Change the password').click()
}
const status = async (email, password) => (await request('POST', '/api/auth/login', null, { username: email, password })).status

scene('account: a changed password replaces the old one at login', async ({ page }) => {
  const person = await member('Accanna')

  await enter(page, person)
  await page.getByRole('banner').getByRole('link', { name: person.email }).click()
  await page.getByRole('heading', { name: 'Account' }).waitFor()
  await page.locator('dl.facts').getByText('Accanna Example').waitFor()
  await page.locator('dl.facts').getByText(`Accanna at ${domain}`).waitFor()
  await look(page, 'account')
  await change(page, person.password, 'a wording that is new', 'a wording that differs')
  await page.getByText('The two new passwords differ.').waitFor()
  await page.getByLabel('New password (8 characters or more)', { exact: true }).fill('a wording that differs')
  await page.getByText('The two new passwords differ.').waitFor({ state: 'detached' })
  await change(page, 'certainly another one', 'a wording that is new')
  await page.getByText('The current password is wrong.').waitFor()
  await look(page, 'account-wrong')
  await change(page, person.password, 'tiny')
  await page.locator('[aria-invalid=true]').waitFor()
  assert.equal(await status(person.email, person.password), 200)
  await change(page, person.password, 'a wording that is new')
  await page.getByText('The password is changed.').waitFor()
  await change(page, 'a wording that is new', 'one more wording', 'a wording that differs')
  await page.getByText('The two new passwords differ.').waitFor()
  assert.equal(await page.getByText('The password is changed.').count(), 0)
  assert.notEqual(await status(person.email, person.password), 200)
  await go(page, 'Devices') // the session goes on
  await page.getByText('No devices here').waitFor()
  await button(page, 'Log out').click()
  await page.getByLabel('E-mail').waitFor()
  await enter(page, { ...person, password: 'a wording that is new' })
}, ['status of 401', 'status of 400'])

scene('account: changing the password after the session ended asks for a login', async ({ page }) => {
  const person = await member('Accend')

  await enter(page, person, '#/account')
  await fill(page, person.password, 'a wording that is new')
  await request('PUT', '/api/user/password', person.token, { current: person.password, new: 'another wording entirely' })
  await button(page, 'Change the password').dispatchEvent('click') // another request may have asked before, with a dialog
  await page.getByText('Your session has ended').waitFor()
}, ['status of 401'])

scene('account: the language can be changed without a login', async ({ page }) => {
  const person = await member('Acclang')

  await enter(page, person, '#/account')
  await change(page, 'certainly another one', 'a wording that is new')
  await page.getByText('The current password is wrong.').waitFor()
  await page.getByLabel('Language').selectOption('Deutsch')
  await page.getByText(catalogue('de').get('own.wrong')).waitFor()
  await page.getByRole('heading', { name: 'Konto' }).waitFor()
  assert.equal(await page.evaluate(() => document.documentElement.lang), 'de')
  await look(page, 'account-german')
  await go(page, 'Anlagen')
  await page.getByRole('heading', { name: 'Anlagen' }).waitFor()
  await page.reload()
  await page.getByRole('heading', { name: 'Anlagen' }).waitFor()
}, ['status of 401'])

scene('account: the name, the colors, the time zone and the form of times can be changed, and stay after a reload', async ({ page }) => {
  const person = await member('Accname')
  const color = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor)

  await enter(page, person, '#/account')
  await page.getByLabel('First name').fill('Ada')
  await button(page, 'Save').click()
  await page.getByRole('status').getByText('The name is saved.').waitFor()
  await page.locator('dl.facts').getByText('Ada Example').waitFor()
  const light = await color()
  await page.getByLabel('Theme').selectOption('Dark')
  assert.notEqual(await color(), light)
  const here = await page.getByRole('region', { name: 'Sessions' }).locator('time').first().innerText()
  await page.getByLabel('Time zone').selectOption('UTC')
  assert.notEqual(await page.getByRole('region', { name: 'Sessions' }).locator('time').first().innerText(), here)
  await page.reload()
  await page.locator('dl.facts').getByText('Ada Example').waitFor()
  assert.notEqual(await color(), light)
  assert.equal(await page.getByLabel('Time zone').inputValue(), 'UTC')
  await page.getByRole('banner').getByText('Times in UTC').waitFor()
  await call('POST', '/api/device', person.token, { externalId: 'AGO-1', siteName: 'Recent' })
  await page.getByLabel('Times').selectOption({ index: 1 })
  await look(page, 'account-relative')
  await page.evaluate(() => { location.hash = '#/devices/AGO-1' })
  await page.locator('dl.facts time', { hasText: /now|seconds? ago|minutes? ago/ }).first().waitFor()
  assert.match(await page.locator('dl.facts time').first().getAttribute('title'), /\d{4}, \d\d:\d\d:\d\d · .* UTC$/)
  const { id } = await call('POST', '/api/device', person.token, { externalId: 'Z-1', capacity: 20, commissioningDate: '2023-05-01' })
  const group = await call('POST', '/api/device-group', person.token, {
    name: 'Zoned', deviceIds: [id], frequency: 'yearly', start: '2026-01-01T00:00:00Z', end: '2098-12-31T23:00:00Z'
  })
  await call('POST', '/api/meter-reads/new/Z-1', person.token, {
    type: 'History', unit: 'kWh', reads: [{ startDate: '2026-03-31T00:00:00Z', endDate: '2026-04-01T00:00:00Z', value: 9 }]
  })
  const [asked] = await Promise.all([page.waitForRequest(/totals\?by=day/), to(page, '/devices/Z-1')])
  assert.match(decodeURIComponent(asked.url()), /timezone=UTC&start=2026-03-01T00:00:00.000Z&end=2026-04-01T00:00:00.000Z/)
  await page.locator('figcaption').getByText('9 kWh').waitFor()
  await to(page, `/groups/${group.id}`)
  await page.getByText('1 Jan 2026').waitFor()
  await button(page, 'Edit').click()
  assert.equal(await page.getByRole('dialog').getByLabel('End').inputValue(), '2098-12-31')
  const hook = await call('POST', '/api/chat/webhooks', person.token, { url: 'http://127.0.0.1:9/zone', events: [] })
  await to(page, `/webhooks/${hook.id}?since=2026-01-01T00:00:00.000Z`)
  assert.equal(await page.getByLabel('From').inputValue(), '2026-01-01T00:00')
  await page.getByLabel('From').fill('0020-01-31T00:00') // as when the year 2026 is being typed
  assert.equal(await page.getByLabel('From').inputValue(), '0020-01-31T00:00')
})

scene('account: a session of another browser can be ended', async ({ open, page }) => {
  const person = await member('Accsess')
  const other = await open({ userAgent: 'Mozilla/5.0 (Windows NT 10.0; rv:140.0) Gecko/20100101 Firefox/140.0' })

  await enter(other, person, '#/devices')
  await enter(page, person, '#/account')
  const rows = page.getByRole('region', { name: 'Sessions' }).getByRole('listitem')
  await rows.filter({ hasText: 'this session' }).getByText(/^Chrome, /).waitFor()
  await look(page, 'account-sessions')
  await button(page, 'End the session: Firefox, Windows').click()
  await button(page.getByRole('dialog'), 'End the session').click()
  await page.getByText('The session has ended.').waitFor()
  await go(other, 'Webhooks')
  await other.getByText('Your session has ended').waitFor()
  await go(page, 'Devices') // this session goes on
  await page.getByText('No devices here').waitFor()
}, ['status of 401'])

/* Keeps notifications in `shown` instead of showing them, and lets a test hide the page. Throws until a test sets `shown`. */
function stubNotifications (permission = 'default') {
  const answers = ['denied', 'granted']
  globalThis.Notification = class {
    static permission = permission
    static async requestPermission () { return (this.permission = answers.shift()) }
    constructor (title, { body } = {}) { globalThis.shown.push(Object.assign(this, { title, body })) }
    close () { globalThis.shown = [] }
  }
  Object.defineProperty(document, 'hidden', { get: () => Boolean(globalThis.away) })
}

scene('account: the browser notifies of messages while the page is hidden, if the user wants it', async ({ page }) => {
  const nils = await member('Nils')
  const nora = await member('Nora')
  const { conversation } = await converse(nora, nils, 'Before any notification', 'Notified 1')
  const wanted = page.getByRole('switch', { name: /Notify me/ })
  const shown = () => page.evaluate(() => globalThis.shown.map(({ title, body }) => [title, body]))

  await page.addInitScript(stubNotifications)
  await enter(page, nils, '#/account')
  assert.equal(await page.evaluate(() => Notification.permission), 'default', 'only the click asks')
  await wanted.click()
  await page.getByText('does not support notifications').waitFor()
  await page.evaluate(() => { globalThis.shown = [] })
  await wanted.click()
  await page.getByText('blocks notifications').waitFor()
  assert.equal(await wanted.isChecked(), false)
  const stream = page.waitForResponse('**/api/chat/stream')
  await wanted.click()
  await page.waitForFunction(() => document.querySelector('[role=switch]').checked)
  await stream
  const other = await page.context().newPage() // another tab waits for the lock
  await other.addInitScript(stubNotifications, 'granted')
  await other.goto(page.url())
  await other.evaluate(async () => { while ((await navigator.locks.query()).pending.length < 1) await new Promise((go) => setTimeout(go, 9)) })
  await look(page, 'account-notify')
  await say(nora, conversation.id, 'while the page is visible')
  await page.waitForFunction(() => document.title.startsWith('(2)'))
  assert.deepEqual(await shown(), [])
  await page.evaluate(() => { globalThis.away = true })
  await say(nils, conversation.id, 'an own message')
  await say(nora, conversation.id, 'while the page is hidden')
  await page.waitForFunction(() => globalThis.shown.length > 0)
  assert.deepEqual(await shown(), [[nora.email, 'New message']])
  await say(nora, conversation.id, `for @${nils.email}: hidden again`)
  await page.waitForFunction(() => globalThis.shown.length > 1)
  assert.deepEqual((await shown())[1], [nora.email, 'New message that mentions you'])
  await page.evaluate(() => globalThis.shown[0].onclick())
  await page.getByRole('log').getByText('while the page is hidden').waitFor()
  const pass = await hold(page, '**/unread-count/**') // until the token is refused
  const asked = page.waitForRequest('**/unread-count/**')
  await say(nora, conversation.id, 'before the logout')
  await page.waitForFunction(() => globalThis.shown.length > 0)
  const request = await asked
  await button(page, 'Log out').click()
  await page.getByLabel('E-mail').waitFor()
  pass()
  assert.equal((await request.response())?.status(), undefined, 'the logout aborts it')
  await enter(page, nora, '#/account')
  assert.deepEqual([await shown(), await wanted.isChecked()], [[], false])
})
