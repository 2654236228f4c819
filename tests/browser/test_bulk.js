/* A bulk upload whose file has bad rows, which are shown, corrected and sent again. */
'use strict'
const assert = require('node:assert/strict')
const fs = require('node:fs')
const { scene, enter, go, look } = require('./stage')
const { admin, member, call } = require('./service')

const file = (text) => ({ name: 'plants.csv', mimeType: 'text/csv', buffer: Buffer.from(text) })
const upload = async (page, text) => {
  await page.getByLabel('Drop a CSV file here').setInputFiles(file(text))
  await page.getByRole('button', { name: 'Upload and check' }).click()
}

scene('bulk: ignored columns and failed rows are shown before anything is stored; the rows can be downloaded and corrected', async ({ page }) => {
  const bo = await member('Bo')

  await enter(page, bo)
  await go(page, 'Bulk upload')
  await page.getByText('No uploads yet').waitFor()
  await look(page, 'bulk-empty')
  await page.getByLabel('Drop a CSV file here').setInputFiles({ ...file('no,csv'), name: 'plants.xlsx' })
  await page.getByRole('button', { name: 'Upload and check' }).click()
  await page.getByRole('alert').waitFor()
  await upload(page, 'externalId,siteName,capacity,countryCode,capcity,Farbe\nB-1,Dam,10,DE,1,\nB-2,Weir,-4,DE,,blue\nB-3,<img src=x onerror=hit=1>,7,XX,,\nB-4,Mill,5,AT,,\n')
  await page.getByText('2 rows can be stored, 2 cannot.').waitFor()
  for (const column of [/capcity/, /Farbe/]) await page.getByRole('region', { name: 'Warnings' }).getByText(column).waitFor()
  await page.getByRole('row', { name: /B-2/ }).waitFor()
  assert.equal((await call('GET', '/api/device', bo.token)).length, 0)
  await page.getByLabel('Rows', { exact: true }).selectOption('all')
  await page.getByRole('row', { name: /B-1/ }).waitFor()
  await look(page, 'bulk-checked')
  await page.getByRole('button', { name: 'Store 2 rows' }).click()
  await page.getByText('4 of 4 rows done').waitFor()
  await page.getByText('Finished', { exact: true }).waitFor()
  assert.equal(await page.getByText(/can be stored/).or(page.locator('header .badge.good')).count(), 0)
  assert.equal((await call('GET', '/api/device', bo.token)).length, 2)
  const [saved] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Failed rows as CSV' }).click()])
  const failed = fs.readFileSync(await saved.path(), 'utf8')
  assert.ok(failed.includes('B-2') && failed.includes('B-3') && !failed.includes('B-4'))
  await page.getByRole('link', { name: 'All uploads' }).click()
  await page.getByRole('row', { name: /plants.csv.*Finished 4 of 4 rows done; 2 stored, 2 failed/ }).waitFor()
  assert.equal(await page.locator('.badge.good').count(), 0, 'an upload with failed rows is not good')
  await look(page, 'bulk')
  await upload(page, failed.replace('-4', '4').replace('XX', 'AT'))
  await page.getByRole('button', { name: 'Store 2 rows' }).click()
  await page.getByText('2 of 2 rows done').waitFor()
  await page.getByText('No row has a problem').waitFor()
  await page.getByLabel('Rows', { exact: true }).selectOption('success')
  await page.getByRole('row', { name: /B-3/ }).waitFor()
  await look(page, 'bulk-finished')
  assert.equal((await call('GET', '/api/device', bo.token)).length, 4)
}, ['status of 400'])

scene('bulk: the rows of a cancelled upload can be downloaded and uploaded again', async ({ page }) => {
  await enter(page, await member('Cy'))
  await go(page, 'Bulk upload')
  await upload(page, 'externalId\nC-1\nC-2\n')
  await page.getByText('2 rows can be stored, 0 cannot.').waitFor()
  await page.getByRole('button', { name: 'Cancel the upload' }).click()
  await page.getByText('Cancelled', { exact: true }).first().waitFor()
  await page.getByText('0 stored, 2 not stored').waitFor()
  await page.getByRole('row', { name: /C-2.*Cancelled/ }).waitFor()
  const [saved] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Rows that are not stored, as CSV' }).click()])
  assert.match(fs.readFileSync(await saved.path(), 'utf8'), /C-1,not stored[^]*C-2,not stored/)
})

scene('bulk: the reason of the service for a cancelled upload is in the language of the page', async ({ open }) => {
  const page = await open({ locale: 'de-DE' })
  const person = await member('Lapsed')
  const form = new FormData()

  form.append('file', new Blob(['externalId\nL-1\n']), 'lapsed.csv')
  const { bulkUploadId: id } = await call('POST', '/api/bulk-upload?type=Devices', person.token, form)
  await call('POST', `/api/bulk-upload/${id}/cancel`, person.token)
  await page.route('**/bulk-upload-log/*?limit=1', async (route) => {
    const answer = await route.fetch()
    await route.fulfill({ response: answer, json: { ...await answer.json(), reason: 'the role', reasonCode: 'role_lost' } })
  })
  await enter(page, person, `#/bulk/${id}`)
  await page.getByText('Abgebrochen, weil die Rolle des Absenders').waitFor()
  await look(page, 'bulk-lapsed')
})

scene('bulk: another file clears the error of the previous one, and a stored row leads to its device', async ({ page, dialog: form }) => {
  const [person, other] = [await member('Bnext', 'ApiUser'), await member('Bother')]
  let refused = 0

  await call('POST', '/api/device', other.token, { externalId: 'N-1', siteName: 'Namesake' })
  await call('PUT', `/api/admin/organizations/${other.organization}`, admin.token, { apiUserId: person.id })
  await enter(page, person, '#/bulk')
  await page.getByRole('main').getByLabel('Organization').selectOption(String(person.organization))
  await page.getByLabel('Drop a CSV file here').setInputFiles({ ...file('PK\u0003\u0004 no text'), name: 'plants.xlsx' })
  await page.getByText('plants.xlsx').waitFor()
  await page.getByRole('button', { name: 'Upload and check' }).click()
  await page.getByRole('alert').waitFor()
  const dropped = await page.evaluateHandle(() => {
    const all = new DataTransfer()
    all.items.add(new File(['externalId\nN-1\n'], 'plants.csv', { type: 'text/csv' }))
    return all
  })
  await page.locator('.drop').dispatchEvent('drop', { dataTransfer: dropped })
  await page.getByRole('alert').waitFor({ state: 'detached' })
  assert.equal(await page.getByText('plants.csv').count(), 1, 'the file is named once')
  assert.equal(await page.locator('[type=file]').evaluate((field) => getComputedStyle(field).clipPath), 'inset(50%)', 'the field, which says that no file was chosen, is hidden')
  await look(page, 'bulk-chosen')
  await page.route('**/api/bulk-upload?type=*', async (route) => {
    await page.getByRole('progressbar', { name: 'Upload and check' }).waitFor()
    await (refused++ > 0 ? route.continue() : route.fulfill({ status: 401, json: { statusCode: 401, message: 'Unauthorized', error: 'Unauthorized' } }))
  })
  await page.getByRole('button', { name: 'Upload and check' }).click() // sends the file again with another token
  await page.getByRole('button', { name: 'Store 1 row' }).click()
  await page.getByText('Finished', { exact: true }).waitFor()
  await page.getByLabel('Rows', { exact: true }).selectOption('success')
  await page.getByRole('link', { name: 'N-1' }).click()
  await page.getByRole('heading', { name: 'N-1 Active' }).waitFor() // not the device of the other organization
  await page.goBack()
  assert.equal(await page.getByLabel('Rows', { exact: true }).inputValue(), 'success')
  await page.getByRole('link', { name: 'Look at the devices' }).waitFor()
  await page.route('**/bulk-upload-log/**', async (route) => {
    const response = await route.fetch()
    await route.fulfill({ response, json: { ...await response.json(), progress: { total: 8000, done: 8000, succeeded: 7999, failed: 1 } } })
  })
  await page.reload()
  await page.getByText('8,000 of 8,000 rows done; 7,999 stored, 1 failed').waitFor()
  await page.getByRole('button', { name: 'Delete' }).click()
  await form.getByText('What it has stored stays').waitFor()
  await form.getByRole('button', { name: 'Delete' }).click()
  await page.getByText('No uploads yet').waitFor()
}, ['status of 400', 'status of 401'])
