/* Groups of devices, the organizations with which they are shared, and their certificates. */
'use strict'
const assert = require('node:assert/strict')
const { scene, enter, go, to, look, button, confirm } = require('./stage')
const { member, call, day } = require('./service')

/* Makes a group of one device with a daily Delta reading of each value, in Wh; the last one ends yesterday. */
async function grouped (person, name, values) {
  const { id } = await call('POST', '/api/device', person.token, { externalId: name, capacity: 20, commissioningDate: '2023-05-01' })
  const start = day(values.length + 1)
  const group = await call('POST', '/api/device-group', person.token, { name: `Group ${name}`, deviceIds: [id], frequency: 'daily', start })
  const reads = values.map((value, i) => ({ startDate: day(values.length + 1 - i), endDate: day(values.length - i), value }))

  await call('POST', `/api/meter-reads/new/${name}`, person.token, { type: 'Delta', unit: 'Wh', reads })
  return group
}

/* Waits for the certificates of a group: the job that issues them runs every ten seconds. */
async function issued (person, group, wattHours) {
  for (;;) {
    const [total] = await call('GET', `/api/certificate-log/totals?by=group&groupId=${group}`, person.token)
    if (total?.succeeded_watthour === wattHours) return
    await new Promise((resolve) => setTimeout(resolve, 250))
  }
}

scene('groups: the entries of a certificate are one row that unfolds', async ({ page }) => {
  const nora = await member('Nora')
  const group = await grouped(nora, 'carried-1', [600, 600, 800, 2000])

  await issued(nora, group.id, 4000)
  await enter(page, nora)
  await go(page, 'Certificates')
  const table = page.getByRole('region', { name: 'Certificates' })
  await table.getByRole('row').nth(3).waitFor()
  assert.equal(await table.getByRole('row').count(), 4, 'a row for each certificate, and the head')
  const row = table.getByRole('row', { name: /3 entries/ })
  await row.getByRole('cell', { name: '1 kWh', exact: true }).waitFor()
  await button(row, '3 entries').click()
  const rest = table.getByRole('row', { name: /Rest below a whole kWh/ })
  await rest.getByRole('cell', { name: '-200 Wh' }).waitFor()
  await page.getByText('4 kWh issued').waitFor()
  await look(page, 'certificates-entries')
  const slider = page.getByRole('slider', { name: 'Issued energy by month' })
  await slider.focus()
  assert.match(await slider.getAttribute('aria-valuetext'), /20\d\d: [\d.]+ kWh/)
  await to(page, '/certificates?status=Nonsense') // a wrong filter keeps the list
  await page.getByRole('alert').waitFor()
  await row.waitFor()
  const long = await grouped(nora, 'long-1', [...Array(24).fill(40), 1000]) // more entries than on a page of a device
  await issued(nora, long.id, 1000)
  await to(page, '/devices/long-1')
  await table.getByRole('cell', { name: /May be incomplete/ }).waitFor()
  await button(page, 'Show more').click()
  await table.getByRole('cell', { name: '1 kWh', exact: true }).waitFor()
  await go(page, 'Groups')
  await page.getByRole('row', { name: /Group long-1.*960 Wh/ }).getByRole('link').click()
  await page.locator('dl.facts > div', { hasText: 'Carried energy' }).getByText('960 Wh').waitFor()
  await page.route('**/api/certificate-log?*', (route) => route.continue({ url: route.request().url().replace('limit=200', 'limit=1') }))
  await page.reload()
  await go(page, 'Certificates')
  await button(page, 'Show more').waitFor()
  assert.equal(await table.getByRole('row').count(), 2)
  await page.getByText('5 kWh issued').waitFor() // the chart does not depend on how much of the list is shown
}, ['status of 400'])

scene('groups: a group is made, gets another device, is shared and ended', async ({ page, dialog: form }) => {
  const olga = await member('Olga')
  const buyer = await member('Ben', 'Buyer')

  for (const siteName of ['North field', 'South field', 'West field']) await call('POST', '/api/device', olga.token, { externalId: siteName, siteName, capacity: 8 })
  await enter(page, olga)
  await go(page, 'Groups')
  await page.getByText('No groups yet').waitFor()
  await look(page, 'groups-empty')
  await button(page, 'New group').click()
  await button(form, 'Save').click()
  await form.locator('[aria-invalid=true]').first().waitFor()
  await form.getByRole('textbox', { name: 'Name' }).fill('Fields')
  await form.getByLabel('Cycle').selectOption('daily')
  await form.getByLabel('Search by name or number').fill('nor')
  await form.getByLabel('Search by name or number').press('Enter') // does not send the form
  await form.getByLabel('South field').waitFor({ state: 'detached' })
  await form.getByLabel('North field').check()
  await form.getByLabel('Search by name or number').fill('')
  await form.getByLabel('South field').check()
  await form.getByText('Devices: 2 chosen').waitFor()
  await look(page, 'groups-new')
  await button(form, 'Save').click()
  await page.getByRole('heading', { name: 'Fields' }).waitFor()
  await page.getByRole('link', { name: 'South field' }).waitFor()
  await button(page, 'Add devices').click()
  await form.getByLabel('West field').check()
  assert.equal(await form.getByRole('checkbox').count(), 1, 'devices of the group are not offered')
  await button(form, 'Save').click()
  await page.getByRole('link', { name: 'West field' }).waitFor()
  await page.getByRole('row', { name: /North field/ }).getByRole('button', { name: 'Remove' }).click()
  await form.getByText('until the end of the current cycle').waitFor()
  await button(form, 'Cancel').click()
  await page.getByRole('row', { name: /North field/ }).getByRole('button', { name: 'Remove' }).click()
  await button(form, 'Remove').click()
  await page.getByRole('link', { name: 'North field' }).waitFor({ state: 'detached' })
  await page.getByLabel('Number of the organization').fill(String(buyer.organization))
  await button(page, 'Share').click()
  await page.getByRole('cell', { name: `Organization ${buyer.organization}` }).waitFor()
  assert.equal((await call('GET', '/api/device-group/shared', buyer.token))[0].name, 'Fields')
  await page.locator('[type=number]:focus').waitFor()
  const group = page.url().replace(/.*\//, '')
  assert.deepEqual(Object.keys((await call('GET', `/api/device-group/${group}/share`, olga.token))[0]), ['organizationId', 'sharedAt'], 'a number has no name')
  await look(page, 'group')
  await button(page, 'Stop sharing').click()
  await button(form, 'Stop sharing').click()
  await page.getByRole('cell', { name: `Organization ${buyer.organization}` }).waitFor({ state: 'detached' })
  await button(page, 'Edit').click()
  await form.getByRole('textbox', { name: 'Name' }).fill('All fields')
  await button(form, 'Save').click()
  await page.getByRole('heading', { name: 'All fields' }).waitFor()
  await page.getByRole('link', { name: 'All groups' }).click()
  await page.getByRole('row', { name: /All fields.*Daily.*2/ }).waitFor()
  await look(page, 'groups')
  await page.getByRole('link', { name: 'All fields' }).click()
  await button(page, 'Delete').click()
  await confirm(form, 'All fields')
  await page.getByText('No groups yet').waitFor()
}, ['status of 400'])

module.exports = { grouped, issued }
