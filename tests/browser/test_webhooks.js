/* The webhooks panel, with a receiver that verifies its requests. */
'use strict'
const assert = require('node:assert/strict')
const { scene, enter, go, look } = require('./stage')
const { receiver } = require('./receiver')
const { admin, login, member, converse, say, call, request } = require('./service')

const button = (page, name) => page.getByRole('button', { name, exact: true })

/* Makes a webhook on the page; returns the secret shown. */
async function make (page, url) {
  await button(page, 'New webhook').click()
  await page.getByRole('dialog').getByLabel('Address').fill(url)
  await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click()
  const code = page.getByRole('dialog').locator('code')
  await code.waitFor()
  return code.innerText()
}

scene('webhooks: a webhook is created, tested, fails, is resent, changed, disabled and deleted', async ({ open }) => {
  const hook = await receiver()
  const wim = await member('Wim')
  const page = await open()

  try {
    await login(admin)
    await enter(page, wim)
    await go(page, 'Webhooks')
    await page.getByText('No webhooks yet').waitFor()
    await look(page, 'webhooks-empty')
    await button(page, 'New webhook').click()
    await look(page, 'webhooks-new')
    await button(page, 'Cancel').click()
    hook.secret = await make(page, hook.url)
    assert.match(hook.secret, /^[0-9a-f]{64}$/)
    await look(page, 'webhooks-secret')
    await button(page, 'Close').click()
    await look(page, 'webhooks')
    await page.getByRole('link', { name: hook.url }).click()
    await button(page, 'Edit').click()
    await page.getByLabel('all events').uncheck()
    assert.ok(await button(page, 'Save').isDisabled(), 'without an event it would get all of them')
    await look(page, 'webhook-no-event')
    await button(page, 'Cancel').click()
    assert.equal(await page.getByText(hook.secret).count(), 0, 'the secret is shown once')
    await button(page, 'Send a test').click()
    await page.getByText(/Answered 200 in/).waitFor()
    assert.deepEqual(hook.got, [{ event: 'ping', genuine: true }])
    hook.status = 500
    await button(page, 'Send a test').click()
    await page.getByText('The test failed').waitFor()
    await page.getByRole('row', { name: /Abandoned/ }).waitFor({ timeout: 15000 })
    hook.status = 200
    await page.getByText(/Attempts: 3/).click()
    await page.getByText('the receiver is ill').first().waitFor()
    await page.getByText('"event": "ping"').waitFor()
    await look(page, 'webhook')
    await page.locator('main').evaluate((main) => { main.scrollTop = main.scrollHeight })
    for (const language of ['Python', 'Go', 'PHP', 'Java', 'Node.js']) {
      await button(page, language).click()
      await page.locator('pre').filter({ hasText: /hmac/i }).last().waitFor()
    }
    await look(page, 'webhook-verify')
    await page.getByRole('combobox', { name: 'State' }).selectOption('delivered')
    await page.getByRole('row', { name: /Abandoned/ }).waitFor({ state: 'detached' })
    await page.getByRole('combobox', { name: 'State' }).selectOption('')
    await page.getByRole('combobox', { name: 'State' }).selectOption('abandoned')
    await button(page, 'Resend failed (24 h)').click()
    await page.getByRole('dialog').getByText('1 delivery').waitFor()
    await look(page, 'webhook-recover')
    await button(page.getByRole('dialog'), 'Cancel').click()
    const sent = hook.got.length
    hook.status = 500
    await button(page, 'Resend failed (24 h)').click()
    await button(page.getByRole('dialog'), 'Send again').click()
    await page.getByText('Sent again: 1.').waitFor()
    await page.getByRole('row', { name: /Abandoned/ }).getByText('Attempts: 6').waitFor({ timeout: 20000 }) // it fails once more
    assert.equal(hook.got.length, sent + 3)
    hook.status = 200
    await call('POST', `/api/chat/webhooks/${/webhooks\/(\d+)/.exec(page.url())[1]}/recover`, wim.token, { since: new Date(Date.now() - 3600000).toISOString() })
    await page.getByText('No delivery in this state').waitFor({ timeout: 20000 }) // updated without a click
    await page.getByRole('combobox', { name: 'State' }).selectOption('')
    await page.getByRole('row', { name: /Delivered/ }).nth(1).waitFor()
    await page.getByRole('link', { name: 'Webhooks' }).first().click()
    await page.getByRole('cell', { name: '100 %' }).waitFor()
    await look(page, 'webhooks-statistics')
    await page.getByRole('link', { name: hook.url }).click()
    const before = hook.got.length
    await button(page, 'New secret').click()
    await look(page, 'webhook-rotate')
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click()
    assert.equal(await page.getByRole('dialog').count(), 0, 'whoever asks for a new secret can think again')
    await button(page, 'New secret').click()
    await page.getByRole('dialog').getByRole('button', { name: 'New secret' }).click()
    hook.secret = await page.getByRole('dialog').locator('code').innerText()
    await button(page, 'Close').click()
    const { conversation } = await converse(wim, admin, 'What the webhook is told of', 'Hooked 1')
    await say(wim, conversation.id, 'and once more for the hook')
    while (hook.got.filter(({ event, genuine }) => event === 'message.new' && genuine).length === 0) await new Promise((resolve) => setTimeout(resolve, 50))
    assert.ok(hook.got.length > before)
    await button(page, 'Disable').click()
    await button(page, 'Enable').waitFor()
    await button(page, 'Edit').click()
    await look(page, 'webhook-edit')
    await button(page, 'Cancel').click()
    await button(page, 'Delete').click()
    await look(page, 'webhook-delete')
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
    await page.getByText('No webhooks yet').waitFor()
  } finally {
    hook.close()
  }
})

scene('webhooks: an Admin sees all webhooks; script URLs are refused, and no URL runs or is a link', async ({ open }) => {
  const yva = await member('Yva')
  const page = await open()

  await login(admin)
  for (const url of ['javascript:hit=1', 'data:text/html,<script>hit=1</script>']) {
    assert.equal((await request('POST', '/api/chat/webhooks', yva.token, { url, events: [] })).status, 400, url)
  }
  const url = 'http://127.0.0.1:9999/"><img%20src=x%20onerror=hit=1>'
  assert.equal((await request('POST', '/api/chat/webhooks', yva.token, { url, events: ['message.new'] })).status, 201)
  await enter(page, admin)
  await go(page, 'Webhooks')
  await page.getByRole('cell', { name: '%22%3E%3Cimg' }).first().waitFor()
  assert.equal(await page.locator('main img, main a[href^="javascript"], main a[href^="data"]').count(), 0)
  assert.equal(await page.evaluate(() => globalThis.hit), undefined)
  await look(page, 'webhooks-admin')
})

scene('webhooks: a short secret gives a warning', async ({ open }) => {
  const page = await open()

  await enter(page, await member('Sho'), '#/webhooks')
  await button(page, 'New webhook').click()
  await page.getByRole('dialog').getByLabel('Address').fill('http://127.0.0.1:9999/short')
  await page.getByRole('dialog').getByLabel(/^Secret/).fill('tiny')
  await button(page.getByRole('dialog'), 'Save').click()
  await button(page.getByRole('dialog'), 'Close').click()
  await page.getByRole('region', { name: 'Warnings' }).getByText(/secret/).waitFor()
})
