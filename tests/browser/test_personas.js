/*
 * The first day and a working day of each kind of user, through the menu, buttons and links alone: only the first
 * address is entered.
 */
'use strict'
const assert = require('node:assert/strict')
const fs = require('node:fs')
const { scene, enter, logIn, to, look, fits, settle, find, button, chain } = require('./stage')
const { base, day, domain, admin, call, login, register, member, converse, say } = require('./service')
const { receiver } = require('./receiver')
const { png } = require('./png')
const { grouped, issued } = require('./test_groups')
const { catalogue } = require('./test_texts')

const TABS = 150 // presses of Tab until an element has the focus
const orgOf = ({ name }) => `${name} at ${domain}`
const rowOf = (page, text) => page.getByRole('row', { name: new RegExp(text) })
const link = (page, name) => page.getByRole('link', { name, exact: true })
const csv = (text) => ({ name: 'plants.csv', mimeType: 'text/csv', buffer: Buffer.from(text) })
const english = (key) => catalogue('en').get(key)
const german = (key) => catalogue('de').get(key)

/* Registers on the first page, as a stranger does. */
async function join (page, name, as, t = english) {
  const person = { name, email: `${name.toLowerCase()}@${domain}`, password: `the words of ${name} alone` }
  const fields = { firstName: name, lastName: 'Example', orgName: orgOf(person), password: person.password }

  await page.goto(base)
  await button(page, t('register.title')).click()
  await page.getByLabel(t('register.as')).selectOption(t(`register.${as}`))
  for (const [key, value] of Object.entries(fields)) await page.getByLabel(t(`register.${key}`)).fill(value)
  await page.getByLabel(t('login.email')).fill(person.email)
  await button(page, t('register.do')).click()
  await page.getByText(t('register.done')).waitFor()
  await button(page, t('register.back')).click()
  return person
}

/* Approves a registration for the Admin. */
async function approve (person) {
  if (!admin.token) await login(admin)
  const [{ id, organizationId }] = await call('GET', `/api/admin/users?search=${encodeURIComponent(person.email)}`, admin.token)
  await call('PUT', `/api/admin/users/${id}`, admin.token, { status: 'Active' })
  return login(Object.assign(person, { id, organization: organizationId }))
}

const begin = (page, person) => enter(page, person, '')

const clicks = async (...all) => { for (const each of all) await each.click() }
const taps = async (...all) => { for (const each of all) await each.tap() }

const menu = (page, name) => link(page.getByRole('navigation').first(), name)

const leave = (page) => button(page, 'Log out').click().then(() => page.getByLabel('E-mail').waitFor())

async function write (page, to, text) {
  const form = page.getByRole('dialog')

  await button(page, 'New conversation').click()
  await form.getByLabel('With').fill(to)
  await form.getByLabel('First message').fill(text)
  await button(form, 'Send').click()
  await chain(page).getByText(text).waitFor()
}

async function fill (form, values) {
  for (const [name, value] of Object.entries(values)) await form.getByLabel(name, { exact: true }).fill(value)
  await button(form, 'Save').click()
}

async function addDevice (page, values) {
  await button(page, 'Register a device').click()
  await fill(page.getByRole('dialog'), { 'Capacity (kW)': '20', Commissioned: '2023-05-01', ...values })
  await page.getByRole('heading', { level: 1, name: values.Site }).waitFor()
}

scene('personas: an Admin lets people in, gives a role, reads conversations and looks after the service', async ({ page, dialog }) => {
  const [ann, bob, platform] = [await member('Perann'), await member('Perbob'), await member('Peract', 'ApiUser')]
  const newcomer = await register('Perwait')

  await converse(ann, bob, 'Between Ann and Bob', 'Roof of Ann')
  await begin(page, admin)
  await page.getByRole('link', { name: /wait.* for approval/ }).click()
  await find(page, newcomer.email)
  await button(rowOf(page, newcomer.email), 'Approve').click()
  await page.getByText(`${newcomer.email} is active.`).waitFor()
  await page.getByLabel(`Role: ${newcomer.email}`).selectOption('Device owner')
  await button(dialog, 'Change the role').click()
  await page.getByText(`${newcomer.email} is now: Device owner`).waitFor()
  await link(page, 'Organizations').click()
  await find(page, orgOf(newcomer))
  await page.getByLabel(`Acts for it: ${orgOf(newcomer)}`).selectOption(platform.email)
  await button(dialog, 'Change it').click()
  await dialog.waitFor({ state: 'detached' })
  await clicks(menu(page, 'Chat'), button(page, 'All'))
  await page.getByLabel('Search by person or device').fill('Roof of Ann')
  await page.getByRole('link', { name: /Between Ann and Bob/ }).click()
  await chain(page).getByText('Between Ann and Bob').waitFor()
  await write(page, newcomer.email, 'Welcome')
  await menu(page, 'Audit log').click()
  await page.getByLabel('E-mail or id of an account').fill(admin.email)
  await page.getByLabel('Action').fill('users')
  await page.getByText(`/api/admin/users/${newcomer.id}`, { exact: true }).first().waitFor()
  for (const name of ['Devices', 'Groups', 'Bulk upload', 'Certificates', 'Webhooks']) {
    await menu(page, name).click()
    await page.getByRole('heading', { level: 1, name }).waitFor()
  }
  await menu(page, 'Status').click()
  await page.getByText('Everything works').waitFor()
  await menu(page, 'Accounts').click()
  await find(page, newcomer.email)
  await clicks(button(rowOf(page, newcomer.email), 'Suspend'), button(dialog, 'Suspend'))
  await button(page.getByRole('listitem').filter({ hasText: 'is suspended' }), 'Undo').click()
  await rowOf(page, newcomer.email).getByText('Active').waitFor()
  await leave(page)
})

/* Makes a webhook on the page, tests it, and looks at the delivery. */
async function hooked (page) {
  const dialog = page.getByRole('dialog')
  const hook = await receiver()

  await clicks(menu(page, 'Webhooks'), button(page, 'New webhook'))
  await fill(page, { Address: hook.url })
  await page.getByLabel('I have stored the secret').check()
  await clicks(button(dialog, 'Close'), page.getByRole('button', { name: 'Send a test' }).first(), button(dialog, 'Send'))
  await dialog.getByText(/Answered 200/).waitFor()
  await clicks(button(dialog, 'Close'), rowOf(page, 'Delivered').getByRole('link').first())
  await page.getByRole('heading', { level: 1, name: /Delivered/ }).waitFor()
}

scene('personas: an operator connects a program, and works for two organizations', async ({ page, dialog }) => {
  const other = await member('Perother')
  const person = await join(page, 'Peroperator', 'ApiUser')
  const chosen = page.getByRole('banner').getByLabel('Organization')

  await approve(person)
  await call('PUT', `/api/admin/organizations/${other.organization}`, admin.token, { apiUserId: person.id })
  await logIn(page, person)
  await page.getByRole('link', { name: /Create an API client/ }).click() // the first thing of What to do next
  await button(page, 'New API client').click()
  await fill(dialog, { Name: 'nightly job' })
  await dialog.locator('code').nth(1).waitFor()
  const [id, secret] = await dialog.locator('code').allInnerTexts()
  assert.ok((await call('POST', '/api/auth/getAccess', null, { grant_type: 'client_credentials', client_id: id, client_secret: secret })).access_token)
  await button(dialog, 'Close').click()
  await chosen.selectOption(orgOf(other))
  await menu(page, 'Devices').click()
  await addDevice(page, { 'External id': 'PO-1', Site: 'Roof of the other' })
  await button(page, 'Add a reading').click()
  await fill(dialog, { Start: `${day(1)}T10:00`, End: `${day(1)}T11:00`, Energy: '9000' })
  await dialog.getByText(/plausible ceiling/).first().waitFor()
  await fill(dialog, { Energy: '5' })
  await page.getByText('The reading is stored.').waitFor()
  await button(page, 'Refused').click()
  await rowOf(page, '9 MWh.*plausible ceiling').waitFor()
  await chosen.selectOption(orgOf(person))
  await menu(page, 'Bulk upload').click()
  await page.getByLabel('Drop a CSV file here').setInputFiles(csv('externalId,siteName\nPO-2,Mill\nPO-3,Weir\n'))
  await clicks(button(page, 'Upload and check'), button(page, 'Store 2 rows'))
  await page.getByText('2 of 2 rows done').waitFor()
  await link(page, 'Look at the devices').click()
  await rowOf(page, 'Mill').waitFor()
  assert.equal(await page.getByText('Roof of the other').count(), 0)
  await chosen.selectOption('All organizations')
  await rowOf(page, `Roof of the other.*${orgOf(other)}`).waitFor()
  await hooked(page)
}, ['status of 400', 'status of 409'])

scene('personas: a device owner registers, adds a device with its papers and a group, and gets certificates', async ({ page, dialog }) => {
  const buyer = await member('Perbuys', 'Buyer')
  const person = await join(page, 'Perowner', 'Developer')

  await logIn(page, person)
  await page.getByRole('alert').getByText('pending approval').waitFor()
  await approve(person)
  await button(page, 'Log in').click()
  await page.getByText('Register your first device').waitFor()
  await look(page, 'overview-new')
  await page.getByRole('link', { name: 'Register your first device' }).click()
  await addDevice(page, { 'External id': 'PW-1', Site: 'Barn roof' })
  await page.getByLabel('Kind of document').selectOption('Proof of commissioning')
  await page.getByLabel('Add a document').setInputFiles({ name: 'proof.pdf', mimeType: 'application/pdf', buffer: Buffer.from('%PDF-1.4 x') })
  await button(page, 'Upload').click()
  await rowOf(page, 'proof.pdf').waitFor()
  await clicks(menu(page, 'Groups'), button(page, 'New group'))
  await dialog.getByLabel('Cycle').selectOption('Daily')
  await dialog.getByLabel('Barn roof').check()
  await fill(dialog, { Name: 'Barns', Start: day(5) })
  await page.getByRole('heading', { name: 'Barns' }).waitFor()
  const group = /groups\/(\d+)/.exec(page.url())[1]
  await page.getByLabel('Number of the organization').fill(String(buyer.organization))
  await button(page, 'Share').click()
  await page.getByRole('cell', { name: `Organization ${buyer.organization}` }).waitFor()
  await clicks(link(page, 'Barn roof'), button(page, 'Add a reading'))
  await dialog.getByLabel('Type').selectOption('Delta: certified with the group of the device')
  await fill(dialog, { 'Start (empty: the end of the previous reading)': `${day(3)}T10:00`, End: `${day(3)}T20:00`, Energy: '50' })
  await page.getByText('The reading is stored.').waitFor()
  await issued(person, group, 50000)
  await menu(page, 'Certificates').click()
  await page.getByRole('cell', { name: '50 kWh', exact: true }).waitFor()
  await menu(page, 'Overview').click()
  await rowOf(page, 'Barn roof').getByText('50 kWh').waitFor()
  await page.getByLabel(/^Energy in certificates by month/).first().waitFor()
  await menu(page, 'Devices').click()
  await rowOf(page, 'Barn roof').locator('time').waitFor() // of the last reading
  await look(page, 'devices-latest')
  await menu(page, 'Chat').click()
  await write(page, buyer.email, 'The first certificate is there.')
  await leave(page)
}, ['status of 403'])

scene('personas: a buyer gets a group shared, sees and exports its certificates, and answers', async ({ page }) => {
  const person = await join(page, 'Perbuyer', 'Buyer')
  const owner = await member('Persells')
  const [group, other] = [await grouped(owner, 'PB-1', [4000, 4000]), await grouped(owner, 'PB-2', [1000])]

  await approve(person)
  await logIn(page, person)
  await page.getByText('as soon as an organization shares a group').waitFor()
  await look(page, 'overview-buyer')
  await menu(page, 'Certificates').click()
  const words = await page.getByText(/number of your organization: \d+/).innerText()
  await look(page, 'certificates-buyer-empty')
  await link(page, 'Write to an organization').click()
  await write(page, owner.email, words)
  await issued(owner, group.id, 8000)
  await issued(owner, other.id, 1000)
  for (const { id } of [group, other]) await call('POST', `/api/device-group/${id}/share`, owner.token, { organizationId: Number(/: (\d+)/.exec(words)[1]) })
  const [{ id }] = await call('GET', '/api/chat/conversations', owner.token)
  await menu(page, 'Certificates').click()
  await say(owner, id, 'It is shared now.')
  await page.waitForFunction(() => document.title.startsWith('(1) '))
  await page.reload()
  await page.getByRole('cell', { name: '4 kWh', exact: true }).first().waitFor()
  await page.getByText('8 kWh issued').waitFor()
  await look(page, 'certificates-buyer')
  await page.getByLabel('Group', { exact: true }).selectOption('Group PB-2')
  await page.getByText('1 kWh issued').waitFor()
  await page.getByRole('cell', { name: '4 kWh', exact: true }).waitFor({ state: 'detached' })
  await page.getByRole('cell', { name: '1 kWh', exact: true }).waitFor()
  await link(page.getByRole('row', { name: /1 kWh/ }), /20\d\d/).click()
  await page.getByText('1 kWh (1,000 Wh)').waitFor()
  await look(page, 'certificate')
  await page.evaluate(() => { window.print = () => { window.printed = true } })
  await button(page, 'Print or save as PDF').click()
  await page.waitForFunction(() => window.printed)
  await page.emulateMedia({ media: 'print', colorScheme: 'dark' })
  await fits(page, 'certificate-print')
  assert.ok(!await page.getByRole('banner').isVisible(), 'a certificate is printed without the navigation')
  assert.equal(await page.evaluate(() => getComputedStyle(document.documentElement).colorScheme), 'light')
  const pdf = (await page.pdf({ path: `${process.env.BUSBAR_PICTURES}/certificate.pdf`, preferCSSPageSize: true })).toString('latin1')
  assert.equal(pdf.match(/\/Type \/Page\b/g).length, 1, 'a certificate is one page')
  assert.match(pdf, /MediaBox \[0 0 59[456]\.?\d* 84[12]/, 'a certificate is printed on A4')
  await page.emulateMedia({ media: 'screen', colorScheme: 'light' })
  await link(page, 'All certificates').click()
  await page.getByLabel('Group', { exact: true }).selectOption('Group PB-1')
  await page.getByText('8 kWh issued').waitFor()
  await page.getByLabel('From').fill(day(9))
  const [saved] = await Promise.all([page.waitForEvent('download'), button(page, 'Export as CSV').click()])
  assert.equal(fs.readFileSync(await saved.path(), 'utf8').trim().split('\r\n').length, 3)
  await menu(page, 'Overview').click()
  await page.locator('figure', { hasText: 'Energy in certificates by month' }).getByText('9 kWh').first().waitFor()
  await clicks(link(page, '1 unread message'), page.getByRole('link', { name: /It is shared now/ }))
  await page.getByLabel('Write a message').fill('Thank you')
  await page.keyboard.press('Enter')
  await chain(page).getByText('Thank you').waitFor()
  await page.waitForFunction(() => !document.title.startsWith('('))
  await page.getByRole('banner').getByRole('link', { name: person.email }).click()
  await page.getByLabel('Theme').selectOption('Dark')
  await leave(page)
})

scene('personas: on a phone a person answers, photographs a plant and looks at the readings', async ({ open }) => {
  const page = await open({ viewport: { width: 400, height: 800 }, hasTouch: true, isMobile: true })
  const person = await member('Perphone')
  const view = async (name) => {
    await taps(button(page, 'Menu'), link(page.getByRole('navigation'), name))
  }

  await issued(person, (await grouped(person, 'PP-1', [4000, 4000])).id, 8000)
  await converse(admin, person, 'Which inverter is it?', 'PP-1')
  await begin(page, person)
  await fits(page, 'phone-overview')
  assert.ok((await page.getByRole('banner').boundingBox()).height <= 60, 'the navigation is one line')
  await button(page, 'Menu').tap()
  await page.keyboard.press('Escape')
  assert.equal(await button(page, 'Menu').getAttribute('aria-expanded'), 'false')
  await page.getByRole('banner').getByRole('link', { name: '1 unread message' }).tap()
  await fits(page, 'phone-chat')
  await page.getByRole('link', { name: /Which inverter/ }).tap()
  await page.getByLabel('Write a message').fill('The one by the door')
  await button(page, 'Send').tap()
  await chain(page).getByText('The one by the door').waitFor()
  await fits(page, 'phone-conversation')
  await link(page, 'All conversations').tap()
  await view('Devices')
  await link(page, 'PP-1').tap()
  await page.getByLabel('Kind of document').selectOption('Photographs')
  await page.getByLabel('Add a document').setInputFiles({ name: 'roof.png', mimeType: 'image/png', buffer: png(640, 400) })
  await taps(button(page, 'Upload'), button(page, 'Look at roof.png'))
  await page.getByRole('img', { name: 'roof.png' }).waitFor()
  await taps(button(page.getByRole('dialog'), 'Close'), button(page, 'Table'))
  await page.getByRole('cell', { name: '4 kWh' }).first().waitFor()
  await fits(page, 'phone-device')
  await button(page, 'Edit').tap()
  const sizes = await page.locator('input, select').evaluateAll((all) => all.map((each) => parseFloat(getComputedStyle(each).fontSize)))
  assert.ok(Math.min(...sizes) >= 16, 'iOS zooms into smaller fields')
  await fits(page, 'phone-edit')
  await fill(page.getByRole('dialog'), { Address: 'Mill lane 1' })
  await page.getByText('Mill lane 1').waitFor()
  for (const name of ['Groups', 'Certificates', 'Bulk upload', 'Webhooks']) {
    await view(name)
    await page.getByRole('heading', { level: 1, name }).waitFor()
    await fits(page, `phone-${name.toLowerCase().replace(' ', '-')}`)
  }
  await taps(button(page, 'Menu'), button(page, 'Log out'))
  await page.getByLabel('E-mail').waitFor()
}, ['status of 401'])

/* Presses Tab until the element has the focus, which must be visible. */
async function tabTo (page, target, key = 'Tab') {
  await target.waitFor()
  for (let i = 0; !await target.evaluate((each) => each === document.activeElement); i++) {
    assert.ok(i < TABS, `the keyboard does not reach ${target}`)
    await page.keyboard.press(key)
  }
  assert.notEqual(await target.evaluate((each) => getComputedStyle(each).outlineStyle), 'none', 'the focus is visible')
}

scene('personas: with the keyboard alone a device is registered and changed, and a conversation begins', async ({ page, dialog: form }) => {
  const person = await member('Perkeys')
  const type = async (target, text) => { await tabTo(page, target); await page.keyboard.type(text) }
  const press = async (target, key) => { await tabTo(page, target, key); await page.keyboard.press('Enter') }
  const view = (name) => press(menu(page, name), 'Shift+Tab')

  await page.goto(base)
  await type(page.getByLabel('E-mail'), person.email)
  await type(page.getByLabel('Password'), person.password)
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'Hello, Perkeys' }).waitFor()
  await press(link(page, 'Skip to the content'))
  assert.equal(await page.evaluate(() => document.activeElement.id), 'content')
  await press(link(page, 'Register your first device'))
  await press(button(page, 'Register a device'))
  await type(form.getByLabel('Site'), 'Keyboard hill')
  await form.locator('option', { hasText: 'Germany' }).waitFor({ state: 'attached' })
  const country = form.getByLabel('Country')
  await country.focus()
  while (await country.evaluate(({ selectedOptions }) => selectedOptions[0].text !== 'Germany')) await page.keyboard.press('ArrowDown')
  await press(button(form, 'Save'))
  await page.getByRole('heading', { name: 'Keyboard hill' }).waitFor()
  await page.getByText('Germany').waitFor()
  await press(button(page, 'Edit'))
  await page.keyboard.press('Escape')
  await form.waitFor({ state: 'detached' })
  await page.waitForFunction(() => document.activeElement.textContent === 'Edit')
  await page.keyboard.press('Enter')
  await type(form.getByLabel('Serial number'), 'S-1')
  await page.keyboard.press('Enter')
  await page.getByText('S-1').waitFor()
  await view('Chat')
  await press(button(page, 'New conversation'))
  await type(form.getByLabel('With'), admin.email)
  await type(form.getByLabel('First message'), 'Typed without a mouse')
  await press(button(form, 'Send'))
  await chain(page).getByText('Typed without a mouse').waitFor()
  await press(button(page, 'Log out'), 'Shift+Tab')
  await page.getByLabel('E-mail').waitFor()
})

/* Fails if the page shows a text that only the English catalog has, other than a name of the API in <code>. */
async function isGerman (page) {
  const known = new Set(catalogue('de').values())
  const service = fs.readFileSync(`${__dirname}/../../modules/console/web/src/texts/service.ts`, 'utf8')
  const foreign = [...catalogue('en').values(), ...[...service.matchAll(/^ {4}'(.*?)': '/gm)].map(([, text]) => text)]
    .filter((text) => !known.has(text))

  await settle(page)
  assert.deepEqual(await page.evaluate((texts) => {
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
    const shown = [...document.querySelectorAll('[aria-label], [title], [placeholder]')]
      .flatMap((each) => [each.ariaLabel, each.title, each.placeholder])
    while (walker.nextNode()) if (!walker.currentNode.parentElement.closest('code')) shown.push(walker.currentNode.data.trim())
    return shown.filter((text) => texts.includes(text))
  }, foreign), [])
}

scene('personas: in German a person registers, corrects a form and sees every view; so does an Admin', async ({ open }) => {
  const page = await open({ locale: 'de-DE' })
  const form = page.getByRole('dialog')
  const person = await join(page, 'Perdeutsch', 'Developer', german)
  const walk = async () => {
    for (const each of await page.getByRole('navigation').first().getByRole('link').all()) {
      if (await each.getAttribute('target') === null) await each.click()
      await page.getByRole('heading', { level: 1 }).first().waitFor()
      await isGerman(page)
    }
  }

  await approve(person)
  await logIn(page, person)
  await clicks(link(page, 'Melden Sie Ihre erste Anlage an'), button(page, 'Anlage anmelden'))
  await form.getByLabel('Standort').fill('Mühle')
  await form.getByLabel('Leistung').fill('0')
  await button(form, 'Speichern').click()
  await form.getByText('muss größer als 0 sein').waitFor()
  await isGerman(page)
  await form.getByLabel('Leistung').fill('2.5')
  await button(form, 'Speichern').click()
  await page.getByText('2,5 kW').waitFor()
  await isGerman(page)
  await walk()
  await button(page, 'Abmelden').click()
  await logIn(page, admin)
  await page.getByRole('navigation').waitFor()
  await walk()
  for (const event of ['message.new', 'webhook.disabled', 'bulk.finished']) {
    await to(page, `/webhooks/events/${event}`)
    await page.getByRole('heading', { level: 2, name: event }).waitFor()
    await isGerman(page)
  }
}, ['status of 400'])

scene('personas: without a network typed text stays, and is stored when the network is back', async ({ page, dialog: form }) => {
  const person = await member('Peroffline')
  const box = page.getByLabel('Write a message')

  await converse(admin, person, 'Are you there?', 'Valley')
  const ahead = page.waitForResponse(/assets\/devices-.*js/)
  await begin(page, person)
  await ahead
  await clicks(menu(page, 'Chat'), page.getByRole('link', { name: /Are you there/ }))
  await page.getByText('Live', { exact: true }).waitFor()
  await page.context().setOffline(true)
  await page.getByText('Reconnecting…').waitFor()
  await box.fill('written in the valley')
  await page.keyboard.press('Enter')
  await page.getByRole('alert').getByText('still there').waitFor()
  await menu(page, 'Devices').click()
  await page.getByRole('alert').getByText('cannot be reached').waitFor()
  await look(page, 'offline')
  await page.context().setOffline(false)
  await page.getByText('No devices here').waitFor() // without a click
  await button(page, 'Register a device').click()
  await page.context().setOffline(true)
  await fill(form, { Site: 'Valley' })
  await form.getByRole('alert').getByText('cannot be reached').waitFor()
  await page.context().setOffline(false)
  await button(form, 'Save').click()
  await page.getByRole('heading', { name: 'Valley' }).waitFor()
  assert.equal((await call('GET', '/api/device', person.token)).length, 1)
  await clicks(menu(page, 'Chat'), page.getByRole('link', { name: /Are you there/ }))
  assert.equal(await box.inputValue(), 'written in the valley')
  await box.press('Enter')
  await chain(page).getByText('written in the valley').waitFor()
}, ['ERR_INTERNET_DISCONNECTED', 'Failed to fetch', 'ERR_NETWORK'])

scene('personas: in two tabs one login is enough, changes do not collide, and one logout ends both', async ({ page: one }) => {
  const person = await member('Pertabs')
  const form = (page) => page.getByRole('dialog')

  await converse(admin, person, 'In both tabs', 'Tab 1')
  await begin(one, person)
  const two = await one.context().newPage()
  await two.goto(`${base}/console#/certificates`)
  await two.getByRole('heading', { name: 'Certificates' }).waitFor()
  assert.match(await two.title(), /^(\(1\) )?Certificates/)
  await menu(two, 'Devices').click()
  await two.waitForFunction(() => document.title.startsWith('(1) Devices'))
  await addDevice(two, { Site: 'Twice', 'Serial number': 'S-0' })
  await clicks(menu(one, 'Devices'), link(one, 'Twice'))
  for (const page of [one, two]) await button(page, 'Edit').click()
  await fill(form(one), { 'Serial number': 'S-one' })
  await form(one).waitFor({ state: 'detached' })
  await fill(form(two), { 'Serial number': 'S-two' })
  await form(two).getByText('Serial number: S-one').waitFor()
  await look(two, 'device-conflict')
  await button(form(two), 'Save my values anyway').click()
  await two.getByText('S-two').waitFor()
  for (const page of [one, two]) await page.waitForFunction(() => document.title.startsWith('(1) '))
  await clicks(menu(one, 'Chat'), one.getByRole('link', { name: /In both tabs/ }))
  await chain(one).getByText('In both tabs').waitFor()
  await menu(two, 'Chat').click()
  await two.waitForFunction(() => !document.title.startsWith('('))
  await two.getByRole('link', { name: /In both tabs/ }).click()
  await one.getByLabel('Write a message').fill('from the first')
  await one.keyboard.press('Enter')
  await chain(two).getByText('from the first').waitFor()
  await two.getByLabel('Write a message').fill('half a sentence')
  await leave(one)
  await one.reload()
  await one.getByRole('heading', { name: 'Log in' }).waitFor()
  await button(two, 'Send').click()
  await two.getByText('Your session has ended').waitFor()
  await two.getByLabel('Password').fill(person.password)
  await button(two, 'Log in').click()
  assert.equal(await two.getByLabel('Write a message').inputValue(), 'half a sentence')
  await two.waitForFunction(() => document.activeElement?.closest('#content')) // the focus is not lost
  await button(two, 'Send').click()
  await chain(two).getByText('half a sentence').waitFor()
}, ['status of 401'])
