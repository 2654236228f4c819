/* The webhooks panel, with a receiver that verifies its requests. */
'use strict'
const assert = require('node:assert/strict')
const fs = require('node:fs')
const { scene, enter, go, to, look, button, confirm } = require('./stage')
const { receiver } = require('./receiver')
const { admin, login, member, converse, say, call } = require('./service')

/* Closes the dialog with the secret, which asks whether the secret is stored. */
async function keep (page) {
  await page.getByLabel('I have stored the secret').check()
  await button(page.getByRole('dialog'), 'Close').click()
  await page.getByRole('dialog').waitFor({ state: 'detached' })
}

/* Makes a webhook on the page; returns the secret shown. */
async function make (page, url) {
  await button(page, 'New webhook').click()
  await page.getByLabel('Address').fill(url)
  await button(page, 'Save').click()
  const code = page.getByRole('dialog').locator('code')
  await code.waitFor()
  return code.innerText()
}

/* A webhook made by the API, with a receiver that expects its secret. */
async function made (person, hook, members = {}) {
  const one = await call('POST', '/api/chat/webhooks', person.token, { url: hook.url, events: [], ...members })
  hook.secret = one.secret
  return one
}

/* Sends a test from the dialog, and closes it once it shows the result; Escape asks nothing, because nothing is lost. */
async function test (page, result, event) {
  await button(page, 'Send a test').first().click()
  const dialog = page.getByRole('dialog')
  if (event) await dialog.getByLabel('Event').selectOption(event)
  await button(dialog, 'Send').click()
  await dialog.getByText(result).waitFor()
  await page.keyboard.press('Escape')
  await dialog.waitFor({ state: 'detached' })
}

const until = async (condition) => { while (!condition()) await new Promise((resolve) => setTimeout(resolve, 50)) }

scene('webhooks: a webhook is created, tested, fails, is replayed, disabled, deleted, and gone', async ({ open }) => {
  const hook = await receiver()
  const wim = await member('Wim')
  const page = await open()

  try {
    await login(admin)
    await enter(page, wim)
    await go(page, 'Webhooks')
    await page.getByText('No webhooks yet').waitFor()
    await look(page, 'webhooks-empty')
    hook.secret = await make(page, hook.url)
    assert.match(hook.secret, /^[0-9a-f]{64}$/)
    await look(page, 'webhooks-secret')
    await keep(page)
    await page.getByRole('heading', { level: 1, name: hook.url }).waitFor()
    assert.equal(await page.getByText(hook.secret).count(), 0, 'the secret is shown once')
    const [, id] = /webhooks\/(\d+)/.exec(page.url())
    await look(page, 'webhook-new')
    await test(page, /Answered 200 in/)
    await page.getByRole('row', { name: /Delivered/ }).waitFor()
    assert.deepEqual(hook.got, [{ event: 'ping', genuine: true }])
    hook.status = 500
    await test(page, 'The test failed: it answered 500.', 'message.new')
    await page.getByRole('row', { name: /Abandoned.*Status 500/ }).waitFor()
    await page.getByRole('combobox', { name: 'State' }).selectOption('abandoned')
    await page.getByRole('row', { name: /Delivered/ }).waitFor({ state: 'detached' })
    await page.getByRole('link', { name: 'Replay' }).last().click()
    await page.getByRole('combobox', { name: 'Event' }).selectOption('message.new')
    assert.match(page.url(), /replay\?event=message\.new$/)
    await page.getByText('1 delivery matches.').waitFor()
    assert.deepEqual(await call('GET', `/api/admin/audit-log?account=${wim.email}&action=replay`, admin.token), [])
    await look(page, 'webhook-replay')
    await button(page, 'Send again').click()
    await page.getByRole('dialog').getByText('Send 1 delivery').waitFor()
    await look(page, 'webhook-replay-ask')
    await button(page.getByRole('dialog'), 'Cancel').click()
    const sent = hook.got.length
    await button(page, 'Send again').click()
    await button(page.getByRole('dialog'), 'Send again').click()
    await page.getByText('1 of 1 sent').waitFor()
    await until(() => hook.got.length === sent + 3) // it fails once more
    hook.status = 200
    await call('POST', `/api/chat/webhooks/${id}/recover`, wim.token, { since: new Date(Date.now() - 3600000).toISOString() })
    await page.getByRole('link', { name: 'Deliveries' }).click()
    await page.getByRole('row', { name: /Delivered/ }).nth(1).waitFor() // updated without a click
    await look(page, 'webhook')
    await page.getByRole('link', { name: 'Verify' }).click()
    for (const language of ['Python', 'Go', 'PHP', 'Java', 'curl', 'Node.js']) {
      await button(page, language).click()
      await page.locator('code').filter({ hasText: /hmac/i }).last().waitFor()
    }
    await look(page, 'webhook-verify')
    await page.getByRole('link', { name: 'Webhooks' }).first().click()
    await page.getByRole('cell', { name: '100 %' }).waitFor()
    await look(page, 'webhooks-statistics')
    await page.getByRole('link', { name: hook.url }).click()
    await page.getByRole('link', { name: 'Settings' }).click()
    await look(page, 'webhook-settings')
    await button(page, 'Copy').click()
    await button(page, 'New secret').click()
    await button(page.getByRole('dialog'), 'Cancel').click()
    assert.equal(await page.getByRole('dialog').count(), 0, 'whoever asks for a new secret can think again')
    await button(page, 'New secret').click()
    await button(page.getByRole('dialog'), 'New secret').click()
    await page.getByText('The secret is shown only now').waitFor()
    hook.secret = await page.getByRole('dialog').locator('code').innerText()
    await keep(page)
    const { conversation } = await converse(wim, admin, 'What the webhook is told of', 'Hooked 1')
    await say(wim, conversation.id, 'and once more for the hook')
    await until(() => hook.got.some(({ event, genuine }) => event === 'message.new' && genuine))
    hook.hangs = true
    await page.getByRole('link', { name: 'Deliveries' }).click()
    await test(page, 'The receiver has not responded yet.')
    await page.getByRole('row', { name: /Queued ping/ }).waitFor()
    await page.getByRole('link', { name: 'Settings' }).click()
    let held
    await page.route(`**/api/chat/webhooks/${id}`, (route) => { if (route.request().method() === 'PATCH') held = route; else void route.continue() })
    await button(page, 'Disable').click()
    await page.getByText('This webhook is off.').waitFor() // before the service has answered
    await until(() => held)
    await held.continue()
    await page.unroute(`**/api/chat/webhooks/${id}`)
    await button(page, 'Undo').focus() // so that the message stays
    await look(page, 'webhook-off')
    await button(page, 'Undo').click()
    await page.getByText('This webhook is off.').waitFor({ state: 'detached' })
    await button(page, 'Delete').click()
    await look(page, 'webhook-delete')
    await confirm(page.getByRole('dialog'), new URL(hook.url).host)
    await page.getByText('No webhooks yet').waitFor()
    await to(page, `/webhooks/${id}`)
    await page.getByText('This webhook is not there').waitFor()
    assert.equal(await button(page, 'Send a test').count(), 0)
    await look(page, 'webhook-gone')
  } finally {
    hook.close()
  }
}, ['status of 404'])

scene('webhooks: Escape does not close the secret, which can be saved as a file; a short one gives a warning', async ({ open }) => {
  const page = await open()
  const secret = 'tiny'

  await enter(page, await member('Esc'), '#/webhooks/new')
  await page.getByLabel('Address').fill('http://127.0.0.1:9999/secret')
  await page.locator('summary').filter({ hasText: 'Signature' }).click()
  await page.getByLabel(/^Secret/).fill(secret)
  await button(page, 'Save').click()
  for (let i = 0; i < 3; i++) await page.keyboard.press('Escape')
  await page.getByRole('dialog').getByText(secret, { exact: true }).waitFor()
  assert.ok(await button(page.getByRole('dialog'), 'Close').isDisabled(), 'nobody has said that the secret is stored')
  const [file] = await Promise.all([page.waitForEvent('download'), button(page, 'Download as .env').click()])
  assert.equal(fs.readFileSync(await file.path(), 'utf8'), `WEBHOOK_SECRET=${secret}\n`)
  await keep(page)
  await page.getByRole('region', { name: 'Warnings' }).getByText(/secret/).waitFor()
})

/* Returns the webhook as the service has it. */
const stored = (person, id) => call('GET', `/api/chat/webhooks/${id}`, person.token)

scene('webhooks: the form sets, shows and clears every feature', async ({ open }) => {
  const person = await member('Fea')
  const page = await open()
  const save = async (id) => {
    await button(page, 'Save').click()
    await page.getByRole('heading', { level: 1, name: 'Orders' }).waitFor()
    return stored(person, id)
  }
  const edit = (id) => to(page, `/webhooks/${id}/edit`).then(() => button(page, 'Save').waitFor())
  const part = (name) => page.locator('summary').filter({ hasText: name })

  const { id } = await call('POST', '/api/chat/webhooks', person.token, { url: 'https://platform.example.org/hook', events: ['message.new'] })
  await enter(page, person, `#/webhooks/${id}/edit`)
  await look(page, 'webhook-edit')
  await page.getByLabel('Name (optional)').fill('Orders')
  await page.getByLabel('Description').fill('For the warehouse')
  await part('Filter').click()
  await page.getByLabel('Condition as JSON').fill('{"deviceProjectName": ')
  await page.getByText('This is not a JSON object.').waitFor()
  assert.ok(await button(page, 'Save').isDisabled())
  await page.getByLabel('Condition as JSON').fill('{"deviceProjectName":{"$startsWith":"Rooftop"}}')
  await button(page, 'Format').click()
  await part('Retries').click()
  await page.getByLabel('Own delays').check()
  await page.getByLabel('Delays, such as').fill('10s, 25h')
  await page.getByText('1 to 16 delays').waitFor()
  await page.getByLabel('Delays, such as').fill('10s 10m, 1h')
  await page.getByText('4 attempts in all').waitFor()
  await page.getByLabel('Disable it when it keeps failing').check()
  await page.getByLabel('Time', { exact: true }).fill('36')
  await page.getByLabel('Unit').first().selectOption('h')
  await part('Rate and order').click()
  await page.getByLabel('Limit the rate').check()
  await page.getByLabel('Attempts', { exact: true }).fill('25')
  await page.getByLabel('Unit').last().selectOption('minute')
  await page.getByLabel('Keep the order').check()
  await part('Login to the receiver').click()
  await page.getByLabel('Kind').selectOption('basic')
  await page.getByLabel('User name').fill('busbar')
  await page.getByLabel('Password').fill('a long secret of the receiver')
  await part('Headers').click()
  await button(page, 'Add a header').click()
  await page.getByLabel('Name of the header').fill('X-Tenant')
  await page.getByLabel('Value of the header').fill('the north tenant')
  await part('Signature').click()
  await page.getByLabel('Both').check()
  await look(page, 'webhook-edit-all')
  const whole = await save(id)
  assert.equal(whole.name, 'Orders')
  assert.equal(whole.description, 'For the warehouse')
  assert.deepEqual(whole.filter, { deviceProjectName: { $startsWith: 'Rooftop' } })
  assert.deepEqual(whole.retryPolicy, { delays: [10, 600, 3600] })
  assert.deepEqual(whole.disablePolicy, { after: '36h' })
  assert.deepEqual(whole.rateLimit, { limit: 25, per: 'minute' })
  assert.equal(whole.ordering, 'key')
  assert.deepEqual(whole.authentication, { type: 'basic', username: 'busbar', password: '****iver' })
  assert.deepEqual(whole.headers, { 'X-Tenant': '****nant' })
  assert.equal(whole.signature, 'both')
  await page.getByRole('link', { name: 'Settings' }).click()
  for (const text of ['10s, 10m, 1h', 'after 36h of failures', '25 per minute', 'X-Tenant: ****nant', 'busbar']) await page.getByText(text).first().waitFor()
  await look(page, 'webhook-settings-all')
  await edit(id)
  const [{ postDataJSON }] = await Promise.all([
    page.waitForRequest((request) => request.method() === 'PATCH').then((request) => ({ postDataJSON: request.postDataJSON() })),
    page.getByLabel('Description').fill('').then(() => button(page, 'Save').click())
  ])
  assert.deepEqual(postDataJSON, { description: null }, 'only what was changed is sent, and no masked secret')
  await page.getByRole('heading', { level: 1, name: 'Orders' }).waitFor()
  await edit(id)
  await page.getByLabel('Condition as JSON').fill('')
  await page.getByLabel('Default: again').check()
  for (const label of ['Disable it when it keeps failing', 'Limit the rate', 'Keep the order']) await page.getByLabel(label).uncheck()
  await page.getByLabel('Kind').selectOption('none')
  await button(page, 'Enter the headers again').click()
  await button(page, 'Remove').click()
  await page.getByLabel('With the secret').check()
  const bare = await save(id)
  for (const name of ['description', 'filter', 'retryPolicy', 'disablePolicy', 'rateLimit', 'ordering', 'authentication', 'headers', 'signature']) assert.equal(bare[name], undefined, name)
})

scene('webhooks: a refused value is shown once, at its field; the last event cannot be unticked into all', async ({ open }) => {
  const person = await member('Ref')
  const page = await open()

  await enter(page, person, '#/webhooks/new')
  await page.getByLabel('Address').fill('http://10.0.0.1/private')
  await page.getByLabel('only these').check()
  assert.ok(await button(page, 'Save').isDisabled(), 'without an event it would get all of them')
  await page.getByText('Choose at least one event').waitFor()
  await page.getByLabel('message.new').check()
  await page.locator('summary').filter({ hasText: 'Filter' }).click()
  await page.getByLabel('Condition as JSON').fill('{"message":{"$like":"x"}}')
  await button(page, 'Save').click()
  await page.getByText('Not saved. See the marked fields.').waitFor()
  assert.equal(await page.getByText('url:').count(), 0)
  assert.equal(await page.locator('.problem').count(), 1)
  await page.getByLabel('Address').fill('http://127.0.0.1:9999/hook')
  await button(page, 'Save').click()
  await page.locator('.problem').filter({ hasText: 'message.$like' }).waitFor()
  await look(page, 'webhook-refused')
}, ['status of 400'])

scene('webhooks: deliveries are filtered in the address, exported, and each has a page; a filter is tested against them', async ({ open }) => {
  const hook = await receiver()
  const person = await member('Del')
  const page = await open()
  const asked = []

  try {
    await login(admin)
    const { id } = await made(person, hook, { headers: { 'X-Tenant': 'the north tenant' } })
    const { conversation } = await converse(person, admin, 'A first delivery', 'Deliver 1')
    await until(() => hook.got.length === 1)
    hook.status = 503
    await say(person, conversation.id, 'one that fails')
    await enter(page, person, `#/webhooks/${id}`)
    const failed = page.getByRole('row', { name: /Abandoned.*message.new.*:\d\d:\d\d.*Status 503/ }) // times with seconds
    await failed.waitFor()
    await page.getByRole('combobox', { name: 'Event' }).selectOption('message.new')
    await page.getByRole('row', { name: /conversation.created/ }).waitFor({ state: 'detached' })
    await button(page, 'More filters').click()
    await page.getByLabel('Response status').fill('50')
    await page.getByText('A status has three digits').waitFor()
    await failed.waitFor()
    await page.getByLabel('Response status').fill('200')
    await page.getByText('No delivery matches.').waitFor()
    await page.getByLabel('Response status').fill('503')
    await failed.waitFor()
    page.on('request', (request) => { if (/deliveries\?.*error=/.test(request.url())) asked.push(request.url()) })
    await page.getByLabel('Error contains').pressSequentially('nothing like it', { delay: 20 })
    await page.getByText('No delivery matches.').waitFor()
    assert.ok(asked.length <= 3, `${asked.length} requests for 15 characters`)
    await page.getByLabel('Error contains').fill('')
    await page.getByLabel('From').fill('2020-01-01T00:00')
    await failed.waitFor()
    await look(page, 'webhook-deliveries')
    assert.match(page.url(), /event=message\.new&code=503&since=2019-12-31T23/)
    const [file] = await Promise.all([page.waitForEvent('download'), button(page, 'Export as CSV').click()])
    assert.equal(fs.readFileSync(await file.path(), 'utf8').trim().split('\n').length, 2)
    await page.getByRole('link', { name: 'message.new' }).click()
    await page.getByRole('heading', { level: 1, name: 'message.new' }).waitFor()
    for (const text of ['Attempt 3', 'the receiver is ill', 'X-Tenant', '"one that fails"', 'webhook-signature']) await page.getByText(text).first().waitFor()
    await look(page, 'webhook-delivery')
    const address = new URL(page.url()).hash
    assert.match(address, /^#\/webhooks\/\d+\/deliveries\/\d+$/)
    hook.status = 200
    await button(page, 'Resend').click()
    await page.getByText('The delivery is sent again.').waitFor()
    await page.getByRole('heading', { level: 1, name: /Delivered/ }).waitFor()
    await page.goBack()
    await page.getByText('No delivery matches.').waitFor() // the filters are still there, and it has 200 now
    await button(page, 'Clear the filters').click()
    await page.getByRole('row', { name: /Delivered/ }).nth(1).waitFor()
    await to(page, `/webhooks/${id}?status=Nonsense`)
    await page.getByRole('alert').waitFor()
    await page.getByRole('row', { name: /Delivered/ }).nth(1).waitFor()
    await to(page, `/webhooks/${id}/edit`)
    await page.locator('summary').filter({ hasText: 'Filter' }).click()
    await page.getByLabel('Condition as JSON').fill('{"conversation":{"deviceProjectName":{"$startsWith":"Deliver"}}}')
    await button(page, 'Test with the latest 100 events').click()
    await page.getByText('1 of the latest 2 events match.').waitFor()
    await look(page, 'webhook-filter')
    assert.equal((await stored(person, id)).filter, undefined, 'a test changes nothing')
    const other = await open()
    await enter(other, person, address)
    await other.getByRole('heading', { level: 1, name: 'message.new' }).waitFor()
  } finally {
    hook.close()
  }
}, ['status of 400'])

scene('webhooks: the head of a failing webhook shows since when, its last error, and the chart', async ({ open }) => {
  const hook = await receiver()
  const person = await member('Hea')
  const page = await open()

  try {
    await login(admin)
    const { id } = await made(person, hook, { disablePolicy: { after: '1h' } })
    const { conversation } = await converse(person, admin, 'Before it fails', 'Health 1')
    await until(() => hook.got.length === 1)
    hook.status = 500
    await say(person, conversation.id, 'it fails from now on')
    await enter(page, person, `#/webhooks/${id}`)
    await page.getByText('Every attempt has failed since').waitFor()
    await page.getByRole('region', { name: 'Health' }).getByRole('link', { name: 'Status 500' }).waitFor()
    await page.getByRole('link', { name: /1 Delivered, 1 Abandoned|1 Abandoned/ }).last().waitFor()
    await look(page, 'webhook-failing')
    await to(page, '/webhooks')
    await page.getByRole('row', { name: /Failing/ }).waitFor()
    await go(page, 'Overview')
    await page.getByRole('link', { name: '1 webhook is failing' }).waitFor()
    await page.getByRole('navigation').locator('em.bad').getByText('1', { exact: true }).waitFor()
    await look(page, 'overview-failing')
    hook.status = 410
    await say(person, conversation.id, 'and it is gone')
    await to(page, `/webhooks/${id}`)
    await page.getByText('Disabled, because the receiver answered 410 (gone).').waitFor()
    await look(page, 'webhook-disabled')
    hook.status = 200
    await button(page, 'Enable').click()
    await page.getByText('Disabled, because').waitFor({ state: 'detached' })
    await page.getByRole('link', { name: /Delivered/ }).last().click() // a bar of the chart
    await page.waitForFunction(() => /since=.*until=/.test(location.hash))
  } finally {
    hook.close()
  }
})

scene('webhooks: an Admin sees all webhooks, and no URL runs or is a link', async ({ open }) => {
  const yva = await member('Yva')
  const page = await open()

  await login(admin)
  const url = 'http://127.0.0.1:9999/"><img%20src=x%20onerror=hit=1>'
  await call('POST', '/api/chat/webhooks', yva.token, { url, events: ['message.new'] })
  await enter(page, admin)
  await go(page, 'Webhooks')
  await page.getByRole('cell', { name: '%22%3E%3Cimg' }).first().waitFor()
  assert.equal(await page.locator('main img, main a[href^="javascript"], main a[href^="data"]').count(), 0)
  assert.equal(await page.evaluate(() => globalThis.hit), undefined)
  await look(page, 'webhooks-admin')
})

scene('webhooks: a half-filled form asks before it is left; a program can fetch the events as a consumer', async ({ open }) => {
  const person = await member('Pol')
  const page = await open()
  const question = page.getByRole('dialog', { name: 'Discard what you have typed?' })

  await enter(page, person, '#/webhooks')
  await button(page, 'New webhook').click()
  await page.getByLabel('Name (optional)').fill('Lost')
  for (const leave of [() => go(page, 'Devices'), () => to(page, '/groups'), () => page.goBack()]) {
    await leave()
    await button(question, 'Go on editing').click()
    await page.waitForURL(/webhooks\/new/)
  }
  await page.getByRole('link', { name: 'Cancel' }).click()
  await button(question, 'Discard').click()
  await button(page, 'New webhook').click()
  await page.getByLabel('Your software fetches them').check()
  assert.equal(await page.getByLabel('Address').or(page.getByText('Retries')).count(), 0)
  await page.getByLabel('Name (optional)').fill('Fetched')
  await look(page, 'webhook-new-poll')
  await button(page, 'Save').click()
  await test(page, 'The event can be fetched now.')
  await page.getByRole('row', { name: /Queued.*ping/ }).waitFor()
  const path = `/api/chat/webhooks/${/webhooks\/(\d+)/.exec(page.url())[1]}`
  const { offset } = await call('GET', `${path}/events`, person.token)
  await call('POST', `${path}/commit`, person.token, { consumer: 'archive', offset })
  await page.getByRole('link', { name: 'Consumers' }).click()
  await page.getByRole('row', { name: new RegExp(`archive.*${offset}`) }).waitFor()
  await look(page, 'webhook-consumers')
  await button(page, 'Delete').click()
  await button(page.getByRole('dialog'), 'Delete').click()
  await page.getByText('No program has committed an offset yet.').waitFor()
})
