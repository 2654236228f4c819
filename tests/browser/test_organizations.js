/* Accounts that act for several organizations choose one, and see the names of all. */
'use strict'
const assert = require('node:assert/strict')
const { scene, enter, go, look, button, chain } = require('./stage')
const { domain, admin, login, member, say, call } = require('./service')

const nameOf = (person) => `${person.name} at ${domain}`
const sentTo = (page, path) => page.waitForRequest((request) => request.method() === 'POST' && request.url().includes(path))

/* Returns an ApiUser that acts for its own organization and for another one. */
async function actor (name, other) {
  const api = await member(name, 'ApiUser')

  await call('PUT', `/api/admin/organizations/${other.organization}`, admin.token, { apiUserId: api.id })
  return api
}

scene('organizations: an ApiUser of two organizations chooses one for a new device and for the list', async ({ page, dialog: form }) => {
  const other = await member('Orgother')
  const api = await actor('Orgapi', other)
  const header = page.getByRole('banner').getByLabel('Organization')

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

scene('organizations: an ApiUser of two organizations starts a conversation for one; names and organizations are shown', async ({ page, dialog: form }) => {
  const other = await member('Orgtalk')
  const api = await actor('Orgtalkapi', other)
  const row = page.locator('.chat .list a')

  await enter(page, api, '#/chat')
  await button(page, 'New conversation').click()
  await form.getByLabel('With').fill(other.email)
  await form.getByLabel('First message').fill('For the other organization')
  await form.getByLabel('Organization').selectOption(nameOf(other))
  await button(form, 'Send').click()
  await chain(page).getByText('For the other organization').waitFor()
  await row.getByText(nameOf(other)).waitFor()
  assert.equal(await page.getByText('Orgtalk Example').count(), 0, 'nobody learns a name from an e-mail')
  const [{ id, organizationId }] = await call('GET', '/api/chat/conversations', api.token)
  assert.equal(organizationId, other.organization)
  await say(other, id, 'Here I am')
  await chain(page).locator('.author').getByText('Orgtalk Example').waitFor()
  await row.getByText(`Orgtalk Example ${other.email}`).waitFor()
  await page.getByRole('heading', { name: 'Orgtalk Example' }).waitFor()
  await look(page, 'organizations-chat')
  await call('POST', '/api/chat/conversations/start', api.token, {
    participant1: api.email, participant2: `nobody@${domain}`, username: api.email, chatEntry: 'To nobody', organizationId: other.organization
  })
  await row.getByText('To nobody').waitFor()
  await Promise.all([page.waitForResponse(/conversations\?.*search=orgtalk.ex/), page.getByLabel('Search by person or device').fill('orgtalk ex')])
  await row.getByText('To nobody').waitFor({ state: 'detached' })
  await row.getByText('Here I am').waitFor()
  await page.getByRole('banner').getByLabel('Organization').selectOption(nameOf(api))
  await page.getByText('No conversation matches').waitFor()
})

scene('organizations: an OrganizationAdmin reads and shares a conversation of its organization', async ({ page }) => {
  const boss = await member('Orgboss')

  await login(admin)
  await call('POST', '/api/chat/conversations/start', admin.token, {
    participant1: admin.email, participant2: `customer@${domain}`, username: admin.email, chatEntry: 'To your customer', organizationId: boss.organization
  })
  await enter(page, boss, '#/chat')
  await page.getByText('No conversations yet').waitFor()
  await button(page, 'Organization').click()
  await page.getByRole('link', { name: /To your customer/ }).click()
  await page.getByText('so you can only read it').waitFor()
  await button(page, 'Share').click()
  await button(page.getByRole('dialog'), 'Share').click()
  await page.getByText('The conversation is shared.').waitFor()
})

scene('organizations: an Admin chooses the organization of a bulk upload, and of the list', async ({ page }) => {
  const [owner, other] = [await member('Orgowner'), await member('Orgnoowner')]

  await login(admin)
  await call('POST', '/api/device', owner.token, { externalId: 'OWN-1', siteName: 'Owned roof' })
  const header = page.getByRole('banner').getByLabel('Organization')
  const chosen = ({ organization }) => page.getByRole('main').getByLabel('Organization').locator(`option:checked[value="${organization}"]`)
  await enter(page, admin, '#/bulk')
  await header.selectOption(nameOf(other))
  await chosen(other).waitFor({ state: 'attached' })
  await header.selectOption(nameOf(owner))
  await chosen(owner).waitFor({ state: 'attached' })
  await page.getByLabel('Drop a CSV file here').setInputFiles({ name: 'reads.csv', mimeType: 'text/csv', buffer: Buffer.from('externalId,startDate,endDate,value,unit,type\nOWN-1,2026-01-01T00:00:00Z,2026-01-02T00:00:00Z,5,kWh,History\n') })
  const [sent] = await Promise.all([sentTo(page, '/api/bulk-upload'), button(page, 'Upload and check').click()])
  assert.equal(new URL(sent.url()).searchParams.get('organizationId'), String(owner.organization))
  await page.getByText(/row can be stored|rows can be stored/).waitFor()
  await look(page, 'organizations-admin')
  await page.getByRole('link', { name: 'All uploads' }).click()
  await page.getByRole('row', { name: new RegExp(`reads.csv.*${nameOf(owner)}`) }).waitFor()
  await header.selectOption(nameOf(other))
  await page.getByText('No uploads yet').waitFor()
})
