/* Choices for one browser: the density of the views, and a sound for new messages. */
'use strict'
const assert = require('node:assert/strict')
const { scene, enter, to, look } = require('./stage')
const { member, call, converse, say } = require('./service')

scene('preferences: the density can be changed, and stays after a reload', async ({ page }) => {
  const person = await member('Dense')
  const row = page.getByRole('row', { name: /Roof A/ })
  const height = async () => {
    await to(page, '/devices')
    await row.waitFor()
    return (await row.boundingBox()).height
  }

  for (const name of ['A', 'B', 'C']) await call('POST', '/api/device', person.token, { externalId: `DENSE-${name}`, siteName: `Roof ${name}` })
  await enter(page, person, '#/devices')
  const before = await height()
  await to(page, '/account')
  assert.equal(await page.getByLabel('Density').inputValue(), '', 'comfortable by default')
  await page.getByLabel('Density').selectOption('Compact')
  const after = await height()
  assert.ok(after < before - 5, `${after} px and ${before} px before`)
  await look(page, 'devices-compact')
  await page.reload()
  assert.equal(await height(), after)
  await to(page, '/account')
  await look(page, 'account-compact')
  await page.getByLabel('Density').selectOption('Comfortable')
  assert.equal(await height(), before)
})

/* Counts the tones instead of playing them. */
function stubSounds () {
  globalThis.tones = 0
  globalThis.AudioContext = class {
    state = 'running'
    currentTime = 0
    async resume () {}
    async close () {}
    createGain () { return { gain: {}, connect () {} } }
    createOscillator () { return { frequency: {}, connect () {}, start () { globalThis.tones++ }, stop () {} } }
  }
}

scene('preferences: a sound for new messages, if the user wants it', async ({ page }) => {
  const sid = await member('Sid')
  const sue = await member('Sue')
  const { conversation } = await converse(sue, sid, 'Before any sound', 'Sound 1')
  const wanted = page.getByRole('switch', { name: 'Play a sound for new messages' })
  const tones = () => page.evaluate(() => globalThis.tones)
  const unread = (n) => page.waitForFunction((text) => document.title.startsWith(text), `(${n})`)

  await page.addInitScript(stubSounds)
  await enter(page, sid, '#/account')
  await unread(1)
  await say(sue, conversation.id, 'without a sound')
  await unread(2)
  assert.deepEqual([await tones(), await wanted.isChecked()], [0, false], 'off by default')
  const stream = page.waitForResponse('**/api/chat/stream')
  await wanted.click()
  await page.waitForFunction(() => globalThis.tones === 2) // as an example
  await stream
  await look(page, 'account-sound')
  await say(sid, conversation.id, 'an own message')
  await say(sue, conversation.id, 'with a sound')
  await page.waitForFunction(() => globalThis.tones === 4)
  await unread(3)
  assert.equal(await tones(), 4, 'an own message has no sound')
  await Promise.all([page.waitForResponse('**/api/chat/stream'), page.reload()])
  await page.waitForFunction(() => document.querySelector('[role=switch]:checked') !== null)
  await unread(3)
  await page.clock.setFixedTime(Date.now()) // so these two messages arrive at the same time
  await say(sue, conversation.id, 'with a sound after the reload')
  await say(sue, conversation.id, 'at the same time')
  await page.waitForFunction(() => globalThis.tones === 2)
  await unread(5)
  const other = await page.context().newPage()
  await other.goto(page.url())
  await other.getByRole('switch', { name: 'Play a sound for new messages' }).click() // off in both tabs
  await page.clock.setFixedTime(Date.now() + 60000)
  await say(sue, conversation.id, 'without a sound again')
  await unread(6)
  assert.equal(await tones(), 2)
})
