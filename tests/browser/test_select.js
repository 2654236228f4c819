/* Several rows at once: selecting them, the question, progress, and rows that were refused. */
'use strict'
const assert = require('node:assert/strict')
const fs = require('node:fs')
const { scene, enter, look, button, confirm } = require('./stage')
const { receiver } = require('./receiver')
const { admin, login, member, register, request, call, converse, say } = require('./service')

const selected = (page, n) => page.getByRole('group', { name: 'Actions for the selected rows' }).getByText(`${n} selected`)
const box = (page, name) => page.getByRole('checkbox', { name: `Select ${name}`, exact: true })

scene('select: accounts are approved, suspended and refused together', async ({ page, dialog }) => {
  const people = []
  for (const name of ['Qxselma', 'Qxselim', 'Qxselina']) people.push(await register(name))
  const bar = page.getByRole('group', { name: 'Actions for the selected rows' })
  const status = async ({ email, password }) => (await request('POST', '/api/auth/login', null, { username: email, password })).status

  await login(admin)
  await enter(page, admin, '#/accounts?search=Qxsel') // finds nobody of other scenes
  await box(page, people[0].email).check()
  await box(page, people[1].email).focus()
  await page.keyboard.press('Space')
  await selected(page, 2).waitFor()
  await look(page, 'accounts-selected')
  await button(bar, 'Approve (2)').click()
  await dialog.getByText('Approve 2 accounts? Their owners can log in at once.').waitFor()
  for (const { email } of people.slice(0, 2)) await dialog.getByText(email).waitFor()
  await look(page, 'accounts-approve-many')
  assert.equal(await status(people[0]), 403, 'nothing is sent before the answer')
  await button(dialog, 'Approve').click()
  await page.getByText('2 accounts are approved.').waitFor()
  await dialog.waitFor({ state: 'detached' })
  await selected(page, 2).waitFor({ state: 'detached' })
  assert.deepEqual([await status(people[0]), await status(people[1]), await status(people[2])], [200, 200, 403])
  await page.getByRole('checkbox', { name: 'Select all that are shown' }).check()
  await selected(page, 3).waitFor()
  await button(bar, 'Suspend (2)').click()
  await dialog.getByText('1 of the selected rows is left out').waitFor()
  await button(dialog, 'Suspend').click()
  await page.getByText('2 accounts are suspended.').waitFor()
  assert.deepEqual([await status(people[0]), await status(people[2])], [403, 403])
  await box(page, people[2].email).check()
  await button(bar, 'Refuse (1)').click()
  await button(dialog, 'Refuse').click()
  await page.getByText('1 account is refused.').waitFor()
  assert.equal(await status(people[2]), 401)
  const [saved] = await Promise.all([page.waitForEvent('download'), button(page, 'Export as CSV').click()])
  const lines = fs.readFileSync(await saved.path(), 'utf8').trim().split('\r\n')
  assert.equal(lines[0], 'id,email,firstName,lastName,role,status,organizationId,organization,createdAt')
  assert.ok(lines.some((line) => line.includes(`${people[2].email},Qxselina,Example,OrganizationAdmin,Deleted`)), lines.join('\n'))
})

/* Devices S-1 to S-6 of a new person, whose names are their ids. */
async function devices (person, n = 6) {
  for (let i = 1; i <= n; i++) await call('POST', '/api/device', person.token, { externalId: `S-${i}`, siteName: `Plant ${i}`, address: i === 1 ? '=1+1, "quoted";=2' : undefined, latitude: '-33.5', longitude: '1' })
}

scene('select: a refused device stays selected with the reason, and Shift selects a range', async ({ page, dialog }) => {
  const seb = await member('Seb')

  await devices(seb)
  await page.route('**/api/device/*', async (route) => {
    if (route.request().method() !== 'DELETE' || !route.request().url().endsWith(held)) return route.continue()
    await route.fulfill({ status: 409, json: { statusCode: 409, message: 'Conflict: the device has certificates', error: 'Conflict', success: false, requestId: 'x' } })
  })
  const held = (await call('GET', '/api/device/S-4', seb.token)).uuid
  await enter(page, seb, '#/devices')
  await box(page, 'Plant 1').click()
  await button(page, 'Clear the selection').click()
  assert.equal(await page.evaluate(() => document.activeElement.ariaLabel), 'Select all that are shown')
  await box(page, 'Plant 2').click()
  await box(page, 'Plant 5').click({ modifiers: ['Shift'] })
  await selected(page, 4).waitFor()
  await box(page, 'Plant 3').click()
  await selected(page, 3).waitFor()
  await button(page, 'Delete (3)').click()
  await dialog.getByText('Delete 3 devices, with all readings and documents?').waitFor()
  await look(page, 'devices-delete-many')
  await confirm(dialog, '3')
  await dialog.getByText('2 of 3 done').waitFor()
  await dialog.getByText('Plant 4: Conflict: the device has certificates.').waitFor()
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Close', 'the focus stays in the dialog')
  await look(page, 'devices-some-refused')
  await button(dialog, 'Close').click()
  await selected(page, 1).waitFor()
  assert.ok(await box(page, 'Plant 4').isChecked())
  await page.getByRole('link', { name: 'Plant 2' }).waitFor({ state: 'detached' })
  await button(page, 'Deactivate (1)').click()
  await button(dialog, 'Deactivate').click()
  await page.getByText('1 device is inactive.').waitFor()
  assert.deepEqual((await call('GET', '/api/device?status=All', seb.token)).map((one) => `${one.externalId} ${one.status}`),
    ['S-1 Active', 'S-3 Active', 'S-4 Inactive', 'S-6 Active'])
  await page.getByRole('link', { name: 'Plant 4' }).waitFor({ state: 'detached' })
  const [saved] = await Promise.all([page.waitForEvent('download'), button(page, 'Export as CSV').click()])
  const text = fs.readFileSync(await saved.path(), 'utf8')
  assert.match(text, /^uuid,externalId,siteName,/)
  assert.ok(text.includes('"\'=1+1, ""quoted"";\'=2",-33.5,1,'), text)
  assert.equal(text.trim().split('\r\n').length, 4)
}, ['status of 409'])

scene('select: the rest waits if the service is busy, and can be stopped', async ({ page, dialog }) => {
  const bea = await member('Bea')
  let [busy, sent] = [1, 0]

  await devices(bea)
  await enter(page, bea, '#/devices')
  await page.route('**/api/device/*', async (route) => {
    if (route.request().method() !== 'PATCH') return route.continue()
    if (busy-- > 0) return route.fulfill({ status: 429, headers: { 'Retry-After': seconds }, json: { statusCode: 429, message: 'Too many requests', error: 'Too Many Requests', requestId: 'x' } })
    sent++
    await route.continue()
  })
  let seconds = '2'
  await page.getByRole('checkbox', { name: 'Select all that are shown' }).check()
  await button(page, 'Deactivate (6)').click()
  const begun = Date.now()
  await button(dialog, 'Deactivate').click()
  await page.getByText('6 devices are inactive.').waitFor()
  assert.ok(Date.now() - begun >= 1900, 'Retry-After was not awaited')
  assert.equal(sent, 6)
  await page.getByLabel('Status').selectOption('Inactive')
  await box(page, 'Plant 6').waitFor()
  ;[busy, seconds] = [100, '60']
  await page.getByRole('checkbox', { name: 'Select all that are shown' }).check()
  await button(page, 'Activate (6)').click()
  await button(dialog, 'Activate').click()
  await dialog.getByText(/^The service is busy. The rest is sent in (60|59) s.$/).waitFor()
  await look(page, 'devices-waiting')
  await button(dialog, 'Stop').click()
  await dialog.getByText('2 were not tried and stay selected.').waitFor()
  await button(dialog, 'Close').click()
  await selected(page, 6).waitFor()
  assert.equal(sent, 6)
}, ['status of 429'])

scene('select: the end of the session stops the rest', async ({ page }) => {
  const eda = await member('Eda')
  const login = page.getByRole('dialog', { name: 'Log in' })

  await devices(eda)
  await enter(page, eda, '#/devices')
  await page.getByRole('checkbox', { name: 'Select all that are shown' }).check()
  await button(page, 'Delete (6)').click()
  await page.getByLabel('To confirm, type:').fill('6')
  await call('POST', '/api/auth/login', null, { username: eda.email, password: eda.password })
  await page.route('**/api/auth/refresh', (route) => route.fulfill({ status: 401, json: { statusCode: 401, message: 'Unauthorized', error: 'Unauthorized', requestId: 'x' } }))
  await page.route('**/api/device/*', (route) => route.fulfill({ status: 401, json: { statusCode: 401, message: 'Token revoked. Please log in again.', error: 'Unauthorized', requestId: 'x' } }))
  await button(page.getByRole('dialog'), 'Delete').click()
  await login.waitFor()
  await page.unroute('**/api/device/*')
  await login.getByLabel('Password').fill(eda.password)
  await button(login, 'Log in').click()
  await login.waitFor({ state: 'detached' })
  await page.getByText('2 were not tried and stay selected.').waitFor()
  await button(page.getByRole('dialog'), 'Close').click()
  await selected(page, 6).waitFor()
  assert.equal((await call('GET', '/api/device', (await call('POST', '/api/auth/login', null, { username: eda.email, password: eda.password })).accessToken)).length, 6)
}, ['status of 401'])

scene('select: a selection of deliveries is sent again, on a phone', async ({ open }) => {
  const hook = await receiver()
  const resa = await member('Resa')
  const page = await open({ viewport: { width: 400, height: 860 } })

  await login(admin)
  const { id, secret } = await call('POST', '/api/chat/webhooks', resa.token, { url: hook.url, events: ['message.new'] })
  hook.secret = secret
  const { conversation } = await converse(resa, admin, 'first', 'Resend 1')
  await say(resa, conversation.id, 'one')
  await enter(page, resa, `#/webhooks/${id}`)
  await button(page, 'Select the 1 row shown').waitFor()
  for (const text of ['two', 'three']) await say(resa, conversation.id, text)
  while (hook.got.length < 3) await new Promise((resolve) => setTimeout(resolve, 50))
  await button(page, 'Select all 3 rows shown').click()
  await page.getByRole('checkbox', { name: /^Select message.new/ }).first().uncheck()
  await selected(page, 2).waitFor()
  await look(page, 'webhook-selected')
  await button(page, 'Resend (2)').click()
  await page.getByRole('dialog').getByText(`Send 2 deliveries to ${hook.url} again?`).waitFor()
  await button(page.getByRole('dialog'), 'Resend').click()
  await page.getByText('2 deliveries are sent again.').waitFor()
  while (hook.got.length < 5) await new Promise((resolve) => setTimeout(resolve, 50))
  await new Promise((resolve) => setTimeout(resolve, 500))
  assert.equal(hook.got.length, 5)
})

/* ---- changes by others ---- */

scene('devices: a change that comes between the question and the save is not overwritten', async ({ page, dialog: form }) => {
  const ivy = await member('Ivy')
  const matches = []

  await call('POST', '/api/device', ivy.token, { externalId: 'MATCH-1', siteName: 'Between', serialNumber: 'S-0' })
  await enter(page, ivy, '#/devices/MATCH-1')
  await button(page, 'Edit').click()
  await form.getByLabel('Serial number').fill('S-mine')
  await page.route('**/api/device/*', async (route) => {
    if (route.request().method() === 'PATCH') {
      matches.push(route.request().headers()['if-match'])
      if (matches.length === 1) await call('PATCH', '/api/device/MATCH-1', ivy.token, { serialNumber: 'S-other' })
      if (matches.length === 2) await call('PATCH', '/api/device/MATCH-1', ivy.token, { siteName: 'Renamed' })
    }
    await route.continue()
  })
  await button(form, 'Save').click()
  await form.getByRole('alert').getByText('Serial number: S-other').waitFor()
  assert.equal((await call('GET', '/api/device/MATCH-1', ivy.token)).serialNumber, 'S-other')
  await button(form, 'Save my values anyway').click() // another field changes meanwhile: no question
  await form.waitFor({ state: 'detached' })
  const { serialNumber, siteName } = await call('GET', '/api/device/MATCH-1', ivy.token)
  assert.deepEqual({ serialNumber, siteName }, { serialNumber: 'S-mine', siteName: 'Renamed' })
  assert.equal(matches.length, 3)
  assert.equal(new Set(matches).size, 3)
}, ['status of 412'])

scene('webhooks: a setting that somebody else has changed is not overwritten without a question', async ({ page }) => {
  const ida = await member('Idaconflict')
  const { id } = await call('POST', '/api/chat/webhooks', ida.token, { url: 'https://example.org/one', events: ['message.new'], name: 'First' })

  await enter(page, ida, `#/webhooks/${id}/edit`)
  await page.getByLabel('Name').fill('Mill pond')
  await call('PATCH', `/api/chat/webhooks/${id}`, ida.token, { name: 'Theirs', description: 'unchanged by me' })
  await button(page, 'Save').click()
  await page.getByRole('alert').getByText('Name: Theirs').waitFor()
  await look(page, 'webhook-conflict')
  assert.equal((await call('GET', `/api/chat/webhooks/${id}`, ida.token)).name, 'Theirs')
  await button(page, 'Save my values anyway').click()
  await page.getByRole('heading', { level: 1, name: 'Mill pond' }).waitFor()
  const { name, description } = await call('GET', `/api/chat/webhooks/${id}`, ida.token)
  assert.deepEqual({ name, description }, { name: 'Mill pond', description: 'unchanged by me' })
})
