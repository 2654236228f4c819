/* Everything around the views: the first load, logging in and out, access to views by role. */
'use strict'
const assert = require('node:assert/strict')
const { scene, enter, logIn, go, to, look, figure } = require('./stage')
const { base, domain, admin, call, login, member } = require('./service')
const { catalogue } = require('./test_texts')

const FIRST_LOAD_MAX_KIB = 180
const FIRST_REQUESTS_MAX = 12

scene('shell: the first load is small, and few requests lead to the login', async ({ page }) => {
  const devtools = await page.context().newCDPSession(page)
  let bytes = 0
  let requests = 0

  await devtools.send('Network.enable')
  devtools.on('Network.loadingFinished', ({ encodedDataLength }) => { bytes += encodedDataLength })
  page.on('request', () => { requests++ })
  await page.goto(`${base}/console`)
  await page.getByLabel('E-mail').waitFor()
  const needed = requests
  await page.waitForLoadState('networkidle')
  assert.ok(bytes > 0 && needed > 0)
  figure('first load, compressed', bytes / 1024, FIRST_LOAD_MAX_KIB, 'KiB')
  figure('requests until one can log in', needed, FIRST_REQUESTS_MAX, 'requests')
})

scene('shell: login and logout work by keyboard, and a wrong password shows an error', async ({ page }) => {
  await page.goto(base)
  await look(page, 'login')
  await page.getByLabel('E-mail').focus()
  await page.keyboard.type(admin.email)
  await page.keyboard.press('Tab')
  await page.keyboard.type('certainly another one')
  await page.keyboard.press('Enter')
  await page.getByRole('alert').getByText('The e-mail or the password is wrong.').waitFor()
  await look(page, 'login-wrong')
  await page.getByLabel('Password').fill(admin.password)
  await page.keyboard.press('Enter')
  await page.getByRole('link', { name: 'Accounts' }).waitFor()
  assert.equal(await page.evaluate(() => localStorage.length + sessionStorage.length + document.cookie.length), 0)
  assert.ok(!page.url().includes('eyJ'))
  await page.getByRole('button', { name: 'Log out' }).click()
  await page.getByLabel('E-mail').waitFor()
}, ['status of 401'])

scene('shell: a registration shows that it waits for approval', async ({ page }) => {
  await page.goto(`${base}/console`)
  await page.getByRole('button', { name: 'Register' }).click()
  await look(page, 'register')
  await page.getByLabel('First name').fill('Ida')
  await page.getByLabel('Last name').fill('Example')
  await page.getByLabel('Organization').fill(`Ida of ${domain}`)
  await page.getByLabel('E-mail').fill(`ida@${domain}`)
  await page.getByLabel('Password').fill('tiny')
  await page.getByRole('button', { name: 'Send the registration' }).click()
  await page.locator('[aria-invalid=true]').waitFor()
  await page.getByLabel('Password').fill('long enough for Ida')
  await page.getByRole('button', { name: 'Send the registration' }).click()
  await page.getByText('has to approve it').waitFor()
  await page.getByRole('button', { name: 'Back to the login' }).click()
  await logIn(page, { email: `ida@${domain}`, password: 'long enough for Ida' })
  await page.getByRole('alert').getByText('pending approval').waitFor()
}, ['status of 400', 'status of 403'])

scene('shell: a forgotten password leads to a link, and a link that is not valid is refused', async ({ page }) => {
  for (const language of ['de', 'en']) {
    const texts = catalogue(language)
    await page.goto(`${base}/console/?lang=${language}`)
    await page.getByRole('button', { name: texts.get('link.forgot') }).click()
    await page.getByLabel(texts.get('login.email')).fill(`nobody@${domain}`)
    await page.getByRole('button', { name: texts.get('link.ask') }).click()
    await page.getByRole('alert').getByText(texts.get('problem.no_mails')).waitFor() // the tested host has no module mail
  }
  await look(page, 'forgot')
  await page.getByRole('button', { name: 'Back to the login' }).click()
  await page.goto(`${base}/console#/link/reset?token=${'0'.repeat(64)}`)
  await page.reload()
  await page.getByLabel('Password').fill('tiny')
  await page.getByRole('button', { name: 'Choose the password' }).click()
  await page.locator('[aria-invalid=true]').waitFor()
  await page.getByLabel('Password').fill('long enough for anybody')
  await page.getByRole('button', { name: 'Choose the password' }).click()
  await page.getByRole('alert').getByText('was used already or has expired').waitFor()
  await look(page, 'link')
  await page.getByRole('button', { name: 'Back to the login' }).click()
  await page.getByRole('button', { name: 'Log in' }).waitFor()
}, ['status of 409', 'status of 400'])

const VIEWS = ['Overview', 'Chat', 'Devices', 'Groups', 'Bulk upload', 'Certificates', 'Webhooks', 'API clients', 'Accounts', 'Status']
const OF_OWNERS = ['Overview', 'Chat', 'Devices', 'Groups', 'Bulk upload', 'Certificates', 'Webhooks']
const OF_ROLE = {
  Admin: [...OF_OWNERS, 'Accounts', 'Status'],
  OrganizationAdmin: OF_OWNERS,
  DeviceOwner: OF_OWNERS,
  Buyer: ['Overview', 'Chat', 'Certificates', 'Webhooks'],
  User: ['Overview', 'Chat', 'Webhooks'],
  ApiUser: [...OF_OWNERS, 'API clients']
}

for (const [role, views] of Object.entries(OF_ROLE)) {
  scene(`shell: ${role} logs in, and gets the views of the role`, async ({ page }) => {
    const person = await member(`Role${role}`, role === 'Buyer' || role === 'ApiUser' ? role : undefined)

    await call('PUT', `/api/admin/users/${person.id}`, admin.token, { role })
    await enter(page, person)
    const shown = (await page.getByRole('navigation').first().getByRole('link').allInnerTexts()).map((name) => name.trim())
    assert.deepEqual(shown.filter((name) => VIEWS.includes(name)), VIEWS.filter((name) => views.includes(name)))
    for (const name of views) { // each view works for the role: there is no error alert
      await go(page, name)
      await page.getByRole('heading', { level: 1 }).first().waitFor()
      await page.waitForFunction(() => !document.querySelector('.loading'))
      assert.equal(await page.getByRole('alert').count(), 0, name)
    }
    for (const name of VIEWS.filter((other) => !views.includes(other))) { // nor by the view's address
      await to(page, `/${name === 'API clients' ? 'clients' : name === 'Bulk upload' ? 'bulk' : name.toLowerCase()}`)
      await page.getByRole('heading', { name: 'Not for your role' }).waitFor()
    }
    await to(page, '/nonsense')
    await page.getByRole('heading', { name: 'No such page' }).waitFor()
    if (role === 'Buyer') await look(page, 'no-such-page')
  })
}

scene('shell: a session that ends with an open dialog asks for a login above it and keeps typed text', async ({ page }) => {
  const person = await member('Oda')
  const form = page.getByRole('dialog', { name: 'Register a device' })

  await enter(page, person, '#/devices')
  await page.getByRole('button', { name: 'Register a device' }).click()
  await form.getByLabel('Site').fill('Half a registration')
  await call('PUT', '/api/user/password', person.token, { current: person.password, new: 'another wording entirely' })
  await form.getByRole('button', { name: 'Save' }).click()
  await page.getByText('Your session has ended').waitFor()
  assert.equal(await page.getByLabel('E-mail').inputValue(), person.email)
  await look(page, 'session-ended')
  await page.keyboard.press('Escape')
  await logIn(page, { ...person, password: 'another wording entirely' })
  await page.getByText('Your session has ended').waitFor({ state: 'detached' })
  assert.equal(await form.getByLabel('Site').inputValue(), 'Half a registration')
  await form.getByRole('button', { name: 'Save' }).click()
  await page.getByRole('heading', { name: 'Half a registration' }).waitFor()
}, ['status of 401'])

scene('shell: the language can be chosen before the login, which shows the version and links to help', async ({ page }) => {
  await page.goto(`${base}/console`)
  await page.getByText(/^Version \d+\.\d+\.\d+$/).waitFor()
  await page.route('**/console/about', (route) => route.fulfill({ json: { contact: 'mailto:help@example.org', help: 'https://docs.example.org/', version: '1.0.0' } }))
  await page.reload()
  for (const [name, href] of [['Contact the operator', 'mailto:help@example.org'], ['Documentation', 'https://docs.example.org/']]) {
    const link = page.getByRole('link', { name })
    assert.equal(await link.getAttribute('href'), href)
    assert.equal(await link.getAttribute('target'), href.startsWith('mailto') ? null : '_blank')
  }
  await look(page, 'login-help')
  await page.getByRole('link', { name: 'Deutsch' }).click()
  await page.getByRole('heading', { name: 'Anmelden' }).waitFor()
  const [request] = await Promise.all([page.waitForRequest('**/api/auth/login'), logIn(page, { email: admin.email, password: 'certainly another one' })])
  await page.getByRole('alert').getByText('E-Mail oder Passwort ist falsch.').waitFor()
  assert.equal((await request.allHeaders())['accept-language'], 'de', 'mails have the language of the page')
  await page.getByRole('link', { name: 'English' }).click()
  await page.getByRole('heading', { name: 'Log in' }).waitFor()
}, ['status of 401'])

scene('shell: no text of the header is cut', async ({ page }) => {
  await enter(page, admin)
  const lines = await page.locator('.who > *').evaluateAll((all) => all.map((each) => {
    const { lineHeight, fontSize } = getComputedStyle(each)
    return parseFloat(lineHeight) / parseFloat(fontSize)
  }))
  assert.ok(lines.every((height) => height >= 1.37), `fonts such as Noto Sans need 1.362 of their size, and have ${lines}`)
})

scene('shell: the language of the browser selects German', async ({ open }) => {
  const page = await open({ locale: 'de-DE' })

  await login(admin)
  await page.goto(`${base}/console`)
  await logIn(page, admin)
  await page.getByRole('navigation').waitFor()
  assert.equal(await page.evaluate(() => document.documentElement.lang), 'de')
  await page.getByRole('link', { name: 'Anlagen', exact: true }).waitFor()
  await look(page, 'german')
  await page.route('**/api/device?*', async (route) => {
    const response = await route.fetch()
    await route.fulfill({ response, headers: { ...response.headers(), 'x-total-count': '1000' } })
  })
  for (const [link, heading] of [['Webhooks', 'Webhooks'], ['Anlagen', 'Anlagen'], ['Massenimport', 'Massenimport'], ['Zertifikate', 'Zertifikate'], ['Konten', 'Konten'], ['Status', 'Status']]) {
    await go(page, link)
    await page.getByRole('heading', { level: 1, name: heading }).waitFor()
    if (link === 'Anlagen') await page.getByText('1.000 Anlagen').waitFor()
    await look(page, `german-${link.toLowerCase()}`)
  }
})

scene('shell: Escape and Back ask before they discard a form with text in it', async ({ page }) => {
  const form = page.getByRole('dialog', { name: 'New conversation' })
  const question = page.getByRole('dialog', { name: 'Discard what you have typed?' })
  const [escape, back] = [() => page.keyboard.press('Escape'), () => page.goBack()]

  await enter(page, await member('Esc'), '#/devices')
  await go(page, 'Chat')
  await page.getByRole('button', { name: 'New conversation' }).click()
  await escape() // nothing was typed
  await form.waitFor({ state: 'detached' })
  await page.getByRole('button', { name: 'New conversation' }).click()
  await form.getByLabel('First message').fill('half a message')
  for (const [leave, stay] of [[escape, escape], [back, () => question.getByRole('button', { name: 'Go on editing' }).click()]]) {
    await leave()
    await question.waitFor()
    await stay()
    await question.waitFor({ state: 'detached' })
    assert.equal(await form.getByLabel('First message').inputValue(), 'half a message')
    await page.waitForURL(/#\/chat$/)
  }
  await back()
  await question.waitFor()
  await look(page, 'discard')
  await question.getByRole('button', { name: 'Discard' }).click()
  await page.waitForURL(/#\/devices$/)
})

scene('shell: a reload needs no login, an expired access token is replaced, and an overload does not end the session', async ({ page }) => {
  let refused = 0

  await enter(page, await member('Stay'), '#/devices')
  await page.getByText('No devices here').waitFor()
  await page.reload()
  await page.getByText('No devices here').waitFor()
  const overload = () => page.route('**/api/auth/refresh',
    (route) => route.fulfill({ status: 503, json: { message: 'Temporarily unavailable' } }), { times: 1 })
  await overload()
  await page.route('**/api/chat/webhooks?limit=200', (route) => refused++ > 1
    ? route.continue() : route.fulfill({ status: 401, json: { message: 'Unauthorized' } }))
  await go(page, 'Webhooks')
  await page.getByText('No webhooks yet').waitFor()
  assert.equal(refused, 3)
  assert.equal(await page.getByText('Your session has ended').count(), 0)
  await overload()
  await page.reload()
  await page.getByRole('alert').getByText('Temporarily unavailable').waitFor()
  await page.getByText('No webhooks yet').waitFor() // without a click
  assert.deepEqual(await page.evaluate(() => [localStorage.length, sessionStorage.length, document.cookie]), [0, 0, ''])
}, ['status of 401', 'status of 503'])
