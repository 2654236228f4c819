/* Invitations by an OrganizationAdmin; the tests of the API show that they work. */
'use strict'
const assert = require('node:assert/strict')
const { scene, enter, to, look, button } = require('./stage')
const { domain, member } = require('./service')

scene('invitations: an organization admin invites people into the own organization', async ({ page }) => {
  const boss = await member('Boss')
  const email = `colleague@${domain}`
  const form = page.getByRole('dialog', { name: 'Invite a person' })
  const path = '/api/organization/invitations'
  const send = async () => {
    const [sent] = await Promise.all([page.waitForRequest(`**${path}`), button(form, 'Invite a person').click()])
    return sent.postDataJSON()
  }

  await enter(page, boss, '#/account')
  const members = page.getByRole('region', { name: 'Accounts' })
  await members.getByRole('row', { name: `${boss.email} Boss Example Organization admin Active` }).waitFor()
  assert.equal(await members.getByRole('row').count(), 2) // with the head
  await button(page, 'Invite a person').click()
  await form.getByLabel('E-mail').fill(email)
  assert.deepEqual(await form.getByLabel('Role').locator('option').allInnerTexts(), ['Organization admin', 'Device owner', 'Buyer', 'User'])
  await form.getByLabel('Role').selectOption('Device owner')
  await look(page, 'account-invite')
  assert.deepEqual(await send(), { email, role: 'DeviceOwner', language: 'en' })
  await form.getByRole('alert').getByText('Invitations are disabled').waitFor() // on the host of these tests
  assert.equal(await form.getByLabel('E-mail').inputValue(), email)
  await page.route(`**${path}`, (route) => route.fulfill({ status: 201, json: { email } }))
  await send()
  await form.waitFor({ state: 'detached' })
  await page.getByRole('status').getByText(`${email} is invited.`).waitFor()
}, ['status of 409'])

scene('invitations: other roles are not offered any', async ({ page }) => {
  await enter(page, await member('Guest', 'Buyer'), '#/account')
  await page.getByRole('heading', { name: 'Display in this browser' }).waitFor()
  assert.equal(await button(page, 'Invite a person').count(), 0)
  await to(page, '/link/invite?token=0') // of a mail to another account
  await button(page, 'Choose the password').waitFor()
  await button(page, 'Go to the overview').click()
  await page.getByRole('banner').waitFor()
})
