/* Views for Admins only: accounts, and the state of the host. Runs last, because it ends all
 * sessions. */
'use strict'
const assert = require('node:assert/strict')
const { execFileSync } = require('node:child_process')
const { readFileSync } = require('node:fs')
const { scene, enter, go, look, scrollTo, find, button, confirm } = require('./stage')
const { another } = require('./host')
const { base, domain, admin, login, member, register, converse, request, call } = require('./service')

scene('accounts: approved with the warnings of the service, which stay until they are closed; refused, suspended', async ({ page }) => {
  const known = await member('Wilma')
  const pia = await register('Pia')
  const rex = await register('Rex')
  const row = (person) => page.getByRole('row', { name: new RegExp(person.email) })
  const status = async (person) => (await request('POST', '/api/auth/login', null, { username: person.email, password: person.password })).status
  const warning = page.getByRole('region', { name: 'Warnings' })

  await converse(known, pia, 'Written before the account was approved', 'Warned 1')
  await enter(page, admin)
  await go(page, 'Accounts')
  await row(pia).waitFor()
  assert.equal(await status(pia), 403)
  await look(page, 'accounts')
  await find(page, pia.email) // an approved account may be on a later page
  await button(row(pia), 'Approve').click()
  await button(row(pia), 'Suspend').waitFor()
  assert.equal(await status(pia), 200)
  await warning.getByText(pia.email).waitFor()
  await look(page, 'accounts-warning')
  await go(page, 'Chat')
  await warning.getByText(/conversation/).waitFor()
  await button(warning, 'Close').click()
  await warning.waitFor({ state: 'detached' })
  await go(page, 'Accounts')
  await find(page, rex.email)
  await button(row(rex), 'Refuse').click()
  await look(page, 'accounts-refuse')
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click()
  await button(row(rex), 'Refuse').click()
  await page.getByRole('dialog').getByRole('button', { name: 'Refuse' }).click()
  await row(rex).getByText('Deleted').waitFor()
  assert.equal(await status(rex), 401)
  await find(page, pia.email)
  await button(row(pia), 'Suspend').click()
  await button(page.getByRole('dialog'), 'Cancel').click()
  assert.equal(await status(pia), 200, 'a suspension that was not confirmed')
  await button(row(pia), 'Suspend').click()
  await look(page, 'accounts-suspend')
  await button(page.getByRole('dialog'), 'Suspend').click()
  await button(row(pia), 'Activate').waitFor()
  assert.equal(await status(pia), 403)
})

scene('accounts: the service searches; a change of a role asks for confirmation, and can be undone', async ({ page }) => {
  const person = await member('Accfind', 'Buyer')
  const asked = []
  const select = page.getByLabel(`Role: ${person.email}`)
  const role = async () => (await call('GET', `/api/admin/users/${person.id}`, admin.token)).role

  page.on('request', (request) => { if (request.url().includes('/api/admin/users?')) asked.push(new URL(request.url()).searchParams) })
  await enter(page, admin, '#/accounts')
  await page.getByRole('table').waitFor()
  asked.length = 0
  await page.getByLabel('Search').pressSequentially(`Accfind at ${domain}`)
  await page.getByRole('row').nth(1).getByText(person.email).waitFor()
  assert.equal(await page.getByRole('row').count(), 2)
  assert.ok(asked.length < 10, `${asked.length} requests for one search`)
  assert.ok(asked.every((values) => !values.has('after')))
  await select.focus()
  await page.keyboard.press('ArrowUp')
  await page.getByRole('dialog').getByText(person.email).waitFor()
  assert.equal(await role(), 'Buyer')
  await look(page, 'accounts-role')
  await button(page.getByRole('dialog'), 'Cancel').click()
  assert.equal(await select.inputValue(), 'Buyer')
  assert.equal(await role(), 'Buyer')
  await select.selectOption('Admin')
  await button(page.getByRole('dialog'), 'Change the role').click()
  await page.getByText(`${person.email} is now: Admin`).waitFor()
  assert.equal(await role(), 'Admin')
  await button(page, 'Undo').focus() // so that the message stays, also if the pointer passes over it
  await button(page, 'Undo').hover()
  await page.mouse.move(0, 0)
  await page.waitForTimeout(7000)
  await look(page, 'accounts-toast')
  await button(page, 'Undo').click()
  await page.waitForFunction((name) => document.querySelector(`select[aria-label="${name}"]`)?.value === 'Buyer', `Role: ${person.email}`)
  await page.getByLabel('Role', { exact: true }).selectOption('Admin')
  await page.getByText('No account matches').waitFor()
  await button(page, 'Clear the filters').click()
  await page.getByRole('row').nth(2).waitFor()
})

scene('audit: changes are listed, found by filters in the address, and exported', async ({ open, page }) => {
  const person = await member('Audrey')
  const rows = page.getByRole('table').getByRole('row')

  await call('PATCH', '/api/auth/me', person.token, { firstName: '<img src=x onerror=hit=1>' })
  assert.equal((await request('POST', '/api/admin/rotate-secret', person.token)).status, 403)
  await enter(page, admin)
  await go(page, 'Audit log')
  await page.getByLabel('E-mail or id of an account').fill(person.email)
  await page.getByLabel('Action').fill('auth/me')
  await page.waitForFunction(() => document.querySelectorAll('tbody tr').length === 1)
  await rows.nth(1).getByText('Succeeded').waitFor()
  await rows.nth(1).locator('summary').click()
  await rows.nth(1).getByText('"firstName": "<img src=x onerror=hit=1>"').waitFor()
  await look(page, 'audit')
  const address = page.url()
  const [saved] = await Promise.all([page.waitForEvent('download'), button(page, 'Export as CSV').click()])
  const lines = readFileSync(await saved.path(), 'utf8').trim().split('\r\n')
  assert.equal(lines.length, 2)
  assert.ok(lines[1].includes(`,${person.email},`), lines[1])
  await page.getByLabel('Action').fill('rotate')
  await rows.nth(1).getByText('Refused').waitFor()
  await page.getByLabel('Outcome').selectOption('unknown')
  await page.getByText('No record matches the filters.').waitFor()
  await look(page, 'audit-none')
  await page.getByRole('button', { name: 'Clear the filters' }).first().click()
  await rows.nth(2).waitFor()
  await page.getByRole('banner').getByLabel('Organization').selectOption(`Audrey at ${domain}`)
  await page.waitForFunction(() => {
    const all = [...document.querySelectorAll('tbody tr')]
    return all.length > 0 && all.every((row) => row.textContent.includes('Audrey at'))
  })
  await look(page, 'audit-organization')
  const other = await open()
  await enter(other, admin, new URL(address).hash)
  await other.waitForFunction(() => document.querySelectorAll('tbody tr').length === 1)
  assert.equal(await page.evaluate(() => globalThis.hit), undefined)
  await other.route('**/audit-log*', (route) => route.fulfill({ status: 404, json: { message: 'Path not found' } }))
  await button(other, 'Clear the filters').click()
  await other.getByText('its module “audit” is not loaded').waitFor()
  await look(other, 'audit-not-loaded')
}, ['status of 404'])

scene('accounts: an invitation without the setting shows the reason, and keeps the text', async ({ page }) => {
  const form = page.getByRole('dialog', { name: 'Invite a person' })

  await enter(page, admin, '#/accounts')
  await button(page, 'Invite a person').click()
  await form.getByLabel('E-mail').fill(`invited@${domain}`)
  const [sent] = await Promise.all([page.waitForRequest((one) => one.method() === 'POST' && one.url().endsWith('/api/admin/users')), button(form, 'Invite a person').click()])
  assert.deepEqual(Object.keys(sent.postDataJSON()), ['email', 'role', 'language'])
  await form.getByRole('alert').getByText('Invitations are disabled').waitFor()
  await look(page, 'accounts-invite')
  assert.equal(await form.getByLabel('E-mail').inputValue(), `invited@${domain}`)
}, ['status of 409'])

async function organizations () {
  const all = []
  for (let path = '/api/admin/organizations?limit=200'; path;) {
    const answer = await request('GET', path, admin.token)
    all.push(...await answer.json())
    path = /<([^>]+)>; rel="next"/.exec(answer.headers.get('link') ?? '')?.[1]
  }
  return all
}

scene('accounts: an ApiUser is linked to an organization and manages its own clients', async ({ page }) => {
  const api = await member('Apia', 'ApiUser')
  const others = (await organizations()).length
  for (let i = others; i < 130; i++) await register(`Many${i}`) // a longer table has only the rows near the window
  const org = await member('Orla')
  const name = `Orla at ${domain}`

  await enter(page, admin, '#/accounts/organizations')
  const actor = page.getByLabel(`Acts for it: ${name}`)
  await look(page, 'organizations')
  await scrollTo(page, actor)
  await actor.selectOption({ label: api.email })
  await button(page.getByRole('dialog'), 'Cancel').click()
  assert.equal(await actor.inputValue(), '0')
  await actor.selectOption({ label: api.email })
  await page.locator('main').evaluate((main) => { main.scrollTop = 0 }) // the row with an open dialog stays
  await look(page, 'organizations-actor')
  await button(page.getByRole('dialog'), 'Change it').click()
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  const found = (await organizations()).find(({ id }) => id === org.organization)
  assert.equal(found.apiUserId, api.id)
  await button(page, 'Log out').click()
  await page.getByLabel('E-mail').waitFor() // the logout is done, and leads to the front page
  await enter(page, api, '#/clients')
  await page.getByText('No API clients yet').waitFor()
  await button(page, 'New API client').click()
  await look(page, 'clients-new')
  await page.getByRole('dialog').getByLabel('Name').fill('nightly job <img src=x onerror=hit=1>')
  await button(page.getByRole('dialog'), 'Save').click()
  await page.getByRole('dialog').locator('code').nth(1).waitFor()
  const [id, secret] = await page.getByRole('dialog').locator('code').allInnerTexts()
  const body = { grant_type: 'client_credentials', client_id: id, client_secret: secret }
  assert.ok((await call('POST', '/api/auth/getAccess', null, body)).access_token)
  await page.getByRole('dialog').getByText(`curl -s -u '${id}:${secret}'`).waitFor()
  await look(page, 'clients-secret')
  await page.keyboard.press('Escape')
  await page.getByRole('dialog').getByText('cannot be shown again').waitFor()
  await button(page, 'Cancel').click()
  await page.getByText(secret, { exact: true }).waitFor()
  await button(page, 'Close').click()
  assert.equal(await page.getByText(secret).count(), 0, 'the secret is shown once')
  await look(page, 'clients')
  await button(page, 'Delete').click()
  await look(page, 'clients-delete')
  await confirm(page.getByRole('dialog'), 'nightly job <img src=x onerror=hit=1>')
  await page.getByText('No API clients yet').waitFor()
  const nameless = await call('POST', '/api/auth/clients', api.token, {})
  await page.reload()
  await button(page, 'Delete').click()
  await confirm(page.getByRole('dialog'), nameless.client_id)
  await page.getByText('No API clients yet').waitFor()
  assert.equal((await request('POST', '/api/auth/getAccess', null, body)).status, 401)
  assert.equal(await page.evaluate(() => globalThis.hit), undefined)
})

scene('status: the state of the host and its dependencies is shown', async ({ page }) => {
  await enter(page, admin)
  await go(page, 'Status')
  await page.getByText('Everything works').waitFor()
  await page.locator('dt', { hasText: /^PostgreSQL$/ }).waitFor()
  await page.getByText(/\d %$/).waitFor() // shown after the second look at the metrics
  await page.getByRole('region', { name: 'Modules' }).getByRole('row', { name: /^webhook \d+\.\d+\.\d+ / }).waitFor()
  await page.getByRole('row', { name: /Checks of passwords/ }).waitFor()
  const generation = () => page.getByRole('region', { name: 'Hosts' }).locator('td[data-label=Generation]').innerText()
  const before = Number(await generation())
  execFileSync(process.env.BUSBAR_PROGRAM, ['reload'], { stdio: 'pipe' })
  await page.locator('td[data-label=Generation]', { hasText: new RegExp(`^${before + 1}$`) }).waitFor()
  await look(page, 'status')
})

scene('status: each host behind an address is shown with its own numbers', async ({ page }) => {
  const { there, end } = await another()
  let turn = 0

  try {
    await page.route('**/metrics', async (route) => { // alternates like a load balancer
      if (++turn % 2 === 0) return route.continue()
      await route.fulfill({ response: await route.fetch({ url: `${there}/metrics` }) })
    })
    await enter(page, admin, '#/status')
    const rows = page.getByRole('region', { name: 'Hosts' }).locator('tbody tr')
    await rows.nth(1).waitFor()
    assert.equal(await page.getByRole('region', { name: 'Hosts' }).locator('[aria-current]').count(), 1)
    await button(rows.nth(1), 'Show').click()
    await page.locator('tr[aria-current]').nth(0).waitFor()
    assert.equal(await rows.nth(1).getAttribute('aria-current'), 'true')
    await page.getByText(/\d %$/).waitFor() // shown after the second look at this host
    await look(page, 'status-hosts')
  } finally {
    await page.close() // otherwise it sends requests to the stopping host, which responds with 503
    await end()
  }
})

scene('status: an error while reading the status is shown', async ({ page }) => {
  await page.route('**/openapi.json', (route) => route.abort())
  await page.route('**/metrics', (route) => route.abort())
  await enter(page, admin, '#/status')
  await page.getByRole('alert').nth(1).waitFor()
  await look(page, 'status-error')
}, ['ERR_FAILED'])

scene('accounts: a new signing secret ends all sessions, after a warning', async ({ page }) => {
  await enter(page, admin)
  await go(page, 'Accounts')
  await button(page, 'Rotate the signing secret').click()
  await page.getByRole('dialog').getByText('Every session').waitFor()
  await look(page, 'accounts-rotate')
  await confirm(page.getByRole('dialog'), new URL(base).host, 'Rotate the signing secret')
  await page.getByText('Your session has ended').waitFor()
  assert.equal((await request('GET', '/api/auth/me', admin.token)).status, 401)
  await login(admin)
  await page.goto(`${base}/swagger`)
  await page.getByText('busbar').first().waitFor()
}, ['status of 401'])
