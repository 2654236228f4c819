/* Chat between two people: each sees the other's messages, whatever they contain and whatever
 * fails. */
'use strict'
const assert = require('node:assert/strict')
const { execFileSync } = require('node:child_process')
const fs = require('node:fs')
const os = require('node:os')
const path = require('node:path')
const { scene, enter, logIn, go, hold, asksToClose, closes, button, look, figure, chain } = require('./stage')
const { base, admin, login, member, converse, say, call } = require('./service')

const MANY = 10000
const SHOWN_MAX = 200
const SLOW_MS = 15000 // between two requests of a slow poll, at least
const LEFT_MS = 120000

const unreadOf = async ({ email, token }) => (await call('GET', `/api/chat/unread-count/${encodeURIComponent(email)}`, token)).count
const send = (page) => page.getByRole('button', { name: 'Send', exact: true }).click()

/* Opens another tab, which repeats no request after a time. */
async function withoutPolls (page) {
  const other = await page.context().newPage()
  await other.addInitScript(() => { window.setInterval = () => 0 })
  return other
}

/* Posts the messages from number `from` to the one before `end`, up to 50 at once. */
async function sayMany (person, { id }, from, end, textOf) {
  for (let at = from; at < end; at += 50) await Promise.all(Array.from({ length: Math.min(50, end - at) }, (_, i) => say(person, id, textOf(at + i))))
}

scene('chat: two users exchange messages live, and unread ones are marked', async ({ open }) => {
  const ada = await member('Ada')
  await login(admin)
  await converse(ada, admin, 'The feed-in meter of bay 3 shows half of the inverter. Is that plausible?', 'Rooftop 7')
  const hers = await open()
  const his = await open()

  await enter(his, admin)
  const row = his.getByRole('link', { name: `${ada.email} Rooftop 7` })
  await row.getByText('1 unread').waitFor()
  await enter(hers, ada)
  await hers.getByRole('link', { name: /Rooftop 7/ }).click()
  await row.click()
  await chain(his).getByText('The feed-in meter of bay 3').waitFor()
  await his.getByLabel('Write a message').fill('Two phases were swapped last week; send me the photo of the plate.')
  await his.keyboard.press('Control+Enter')
  await chain(hers).getByText('Two phases were swapped').waitFor()
  await hers.getByLabel('Write a message').fill('Here it comes.')
  await send(hers)
  await chain(his).getByText('Here it comes.').waitFor()
  await chain(hers).getByRole('listitem').filter({ hasText: 'Here it comes.' }).getByText('Read', { exact: true }).waitFor()
  assert.equal(await his.getByLabel('Write a message').inputValue(), '')
  assert.match(await chain(his).locator('time').first().getAttribute('title'), /^\d{4}-\d\d-\d\d .* UTC$/)
  await look(his, 'chat')
  await his.getByRole('button', { name: 'New conversation' }).click()
  await look(his, 'chat-start')
})

/*
 * Lets time pass for a page that nobody uses. Returns how often it requested each path. The stream is not counted: the
 * host's clock is slower than the page's, so the stream seems to be silent, and the page opens it again.
 */
async function leftAlone (page, ms) {
  const asked = new Map()
  const pathOf = (request) => new URL(request.url()).pathname
  const polls = (request) => !/^\/api\/(chat\/(stream|chain\/.*)|health)$/.test(pathOf(request))
  let open = 0
  const begun = (request) => {
    if (!polls(request)) return
    open++
    asked.set(pathOf(request), (asked.get(pathOf(request)) ?? 0) + 1)
  }
  const ended = (request) => { if (polls(request)) open-- }

  page.on('request', begun).on('requestfinished', ended).on('requestfailed', ended)
  for (let passed = 0; passed < ms; passed += 5000) {
    await page.clock.runFor(5000)
    do await new Promise((resolve) => setTimeout(resolve, 50)); while (open > 0)
  }
  page.off('request', begun).off('requestfinished', ended).off('requestfailed', ended)
  return asked
}

scene('chat: a page that is left alone sends only slow polls, and nothing while it is hidden', async ({ page }) => {
  const [ike, ilse] = [await member('Ike'), await member('Ilse')]
  const { conversation } = await converse(ilse, ike, 'Before the break', 'Idle 1')
  const most = LEFT_MS / SLOW_MS + 1

  await page.clock.install()
  await enter(page, ike, `#/chat/${conversation.id}`)
  await chain(page).getByText('Before the break').waitFor()
  await page.getByText('Live', { exact: true }).waitFor()
  while (await unreadOf(ike) > 0) await new Promise((resolve) => setTimeout(resolve, 50))
  for (const view of ['Conversations', 'Hello, Ike']) {
    await page.getByRole('heading', { name: view }).waitFor()
    const asked = await leftAlone(page, LEFT_MS)
    assert.ok(asked.size > 0 && [...asked.values()].every((times) => times <= most), `${view}: ${JSON.stringify([...asked])}`)
    await go(page, 'Overview')
  }
  await page.evaluate(() => {
    Object.defineProperty(document, 'visibilityState', { value: 'hidden' })
    document.dispatchEvent(new Event('visibilitychange'))
  })
  assert.deepEqual([...await leftAlone(page, LEFT_MS)], [])
})

scene('chat: the state of an own message and the unread counts of conversations are shown', async ({ page }) => {
  const lea = await member('Lea')
  const kai = await member('Kai')
  const { conversation } = await converse(lea, kai, 'Is the inverter back?', 'Hangar 2')
  await say(lea, conversation.id, 'And the second one?')
  const own = (text) => chain(page).getByRole('listitem').filter({ hasText: text })

  await enter(page, kai)
  await page.getByRole('link', { name: /Hangar 2/ }).getByText('2 unread').waitFor()
  await page.getByRole('link', { name: /Hangar 2/ }).click()
  const pass = await hold(page, '**/messages')
  await page.getByLabel('Write a message').fill('Both are, since noon.')
  await send(page)
  await own('Both are').getByText('Sending…').waitFor()
  assert.equal(await page.evaluate(() => document.activeElement.id), 'entry', 'the next message can be typed')
  pass()
  await own('Both are').getByText('Sent', { exact: true }).waitFor()
  await call('PATCH', `/api/chat/conversations/${conversation.id}/read`, lea.token, { email: lea.email })
  await own('Both are').getByText('Read', { exact: true }).waitFor()
})

scene('chat: messages are marked as unread from one on, in every tab', async ({ page }) => {
  const rob = await member('Rob')
  const { conversation } = await converse(admin, rob, 'The first of three', 'Pier 9')
  await say(admin, conversation.id, 'The second of three')
  await say(admin, conversation.id, 'The third of three')
  const other = await withoutPolls(page)

  await enter(page, rob, `#/chat/${conversation.id}`)
  await chain(page).getByText('The third of three').waitFor()
  while (await unreadOf(rob) > 0) await new Promise((resolve) => setTimeout(resolve, 50))
  await other.goto(page.url().replace(/#.*/, '#/chat')) // the browser is logged in
  await other.getByRole('link', { name: /Pier 9/ }).waitFor()
  const second = chain(page).getByRole('listitem').filter({ hasText: 'The second of three' })
  const marks = chain(page).getByRole('button', { name: /^Mark unread from here: .+, .+ 20\d\d/ })
  assert.equal(await marks.count(), 3)
  assert.equal(await marks.and(page.locator('[tabindex="0"]')).count(), 1, 'Tab reaches one of them')
  await chain(page).focus()
  await page.keyboard.press('Tab')
  await page.keyboard.press('ArrowUp')
  await second.locator(':focus').press('Enter')
  await page.getByRole('link', { name: /Pier 9/ }).getByText('2 unread').waitFor()
  await page.waitForFunction(() => /^\(2\) /.test(document.title))
  assert.equal(await unreadOf(rob), 2)
  await other.getByRole('link', { name: /Pier 9/ }).getByText('2 unread').waitFor()
  await other.close()
  await page.getByRole('link', { name: /Pier 9/ }).click()
  await chain(page).getByRole('listitem').filter({ hasText: 'New messages' }).getByText('The second of three').waitFor()
  await look(page, 'chat-marked-unread')
})

scene('chat: a mention is marked for the mentioned person only', async ({ page, open }) => {
  const mia = await member('Mia')
  const gus = await member('Gus')
  const { conversation } = await converse(mia, gus, `Ask @${gus.email.toUpperCase()}, not @${mia.email}, x@${gus.email} or @${gus.name}@other.example.`, 'Mentioned')
  const hers = await open()

  await enter(page, gus, `#/chat/${conversation.id}`)
  await chain(page).getByText('Ask').waitFor()
  assert.deepEqual(await chain(page).locator('mark').allTextContents(), [`@${gus.email.toUpperCase()}`])
  await enter(hers, mia, `#/chat/${conversation.id}`)
  await chain(hers).getByText('Ask').waitFor()
  assert.deepEqual(await chain(hers).locator('mark').allTextContents(), [`@${mia.email}`])
})

scene('chat: a message that was posted elsewhere arrives with the stream', async ({ page }) => {
  const eve = await member('Eve')
  const { conversation } = await converse(eve, admin, 'Listening begins here', 'Wind 1')

  await enter(page, eve)
  await page.getByRole('link', { name: /Wind 1/ }).click()
  await page.getByText('Live', { exact: true }).waitFor()
  const reads = []
  page.on('request', (request) => { if (request.method() === 'GET' && request.url().includes('/messages')) reads.push(request.url()) })
  for (let i = 0; i < 5; i++) {
    await say(eve, conversation.id, `posted elsewhere, number ${i}`)
    await chain(page).getByText(`posted elsewhere, number ${i}`).waitFor()
  }
  assert.deepEqual(reads, [], 'the messages came with the stream')
})

scene('chat: files are attached, removed, sent and downloaded', async ({ open }) => {
  const max = await member('Max')
  await login(admin)
  const { conversation } = await converse(max, admin, 'Please send the type plate.', 'Wind 3')
  const [his, hers] = [await open(), await open({ locale: 'de-DE' })]
  const text = (name, size) => ({ name, mimeType: 'text/plain', buffer: Buffer.alloc(size, 'x') })

  await enter(his, max, `#/chat/${conversation.id}`)
  await enter(hers, admin, `#/chat/${conversation.id}`)
  await hers.getByText('Live', { exact: true }).waitFor()
  const chooser = his.locator('input[type=file]')
  await chooser.setInputFiles([text('plate.txt', 3000), text('wrong.txt', 10)])
  await his.getByRole('button', { name: 'Remove wrong.txt' }).click()
  await chooser.setInputFiles([text('huge.bin', 10485761)])
  await his.getByText('huge.bin is larger than 10 MiB.').waitFor()
  await his.getByLabel('Write a message').evaluate((box) => { // a pasted picture
    const data = new DataTransfer()
    data.items.add(new File([Uint8Array.from(atob('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=='), (c) => c.charCodeAt(0))], 'pixel.png', { type: 'image/png' }))
    box.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true }))
  })
  assert.equal(await his.getByRole('list', { name: 'Files of the message' }).getByRole('listitem').count(), 2)
  const described = await his.locator('#entry').evaluate((box) => box.getAttribute('aria-describedby').split(' ').map((id) => document.getElementById(id).textContent).join(' '))
  assert.match(described, /plate\.txt.*pixel\.png.*Enter/, 'a screen reader reads the files with the box')
  await look(his, 'chat-files')
  await send(his)
  await chain(his).getByRole('button', { name: /plate\.txt/ }).waitFor()
  await his.getByText('Sending…').waitFor({ state: 'detached' })
  assert.equal(await his.locator('.warnings li').count(), 0, 'a message needs no text')
  await chain(hers).getByRole('button', { name: /plate\.txt/ }).waitFor()
  const [download] = await Promise.all([hers.waitForEvent('download'), chain(hers).getByRole('button', { name: /plate\.txt/ }).click()])
  assert.equal(download.suggestedFilename(), 'plate.txt')
  await chain(hers).locator('canvas').waitFor()
  await hers.getByRole('link', { name: /Wind 3/ }).getByText('plate.txt, pixel.png').waitFor()
  await look(hers, 'chat-attachments')
})

scene('chat: dropped, pasted and chosen files stay when a request fails', async ({ page }) => {
  const mia = await member('Mia')
  await login(admin)
  const { conversation } = await converse(mia, admin, 'Please send the folder.', 'Wind 4')
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'busbar-drop-'))
  const file = (name) => { fs.writeFileSync(path.join(folder, name), name); return path.join(folder, name) }
  const files = page.getByRole('list', { name: 'Files of the message' }).getByRole('listitem')
  const box = page.getByLabel('Write a message')

  await enter(page, mia, `#/chat/${conversation.id}`)
  const { x, y } = await box.boundingBox()
  const mouse = await page.context().newCDPSession(page)
  const drag = (type, left = x + 9) => mouse.send('Input.dispatchDragEvent',
    { type, x: left, y: y + 9, data: { items: [], files: [folder, file('dropped.txt')], dragOperationsMask: 1 } })
  for (const type of ['dragEnter', 'dragOver', 'drop']) await drag(type, 9) // outside of the conversation
  await drag('dragEnter')
  await drag('dragOver')
  await page.locator('.dropping').waitFor()
  await drag('drop')
  await page.getByText('Folders cannot be attached.').waitFor()
  await files.filter({ hasText: 'dropped.txt' }).waitFor()
  assert.equal(await page.locator('.dropping').count(), 0)
  const isText = await box.evaluate((element) => { // the text of a table, and a picture of it
    const data = new DataTransfer()
    data.items.add(new File(['x'], 'table.png', { type: 'image/png' }))
    data.setData('text/plain', 'cell')
    data.setData('text/html', '<b>cell</b>')
    return element.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true }))
  })
  assert.ok(isText && await files.count() === 1, 'the text is pasted')
  await box.fill('all of it')
  const [chooser] = await Promise.all([page.waitForEvent('filechooser'),
    page.getByRole('button', { name: 'Attach files' }).press('Enter')])
  await chooser.setFiles(file('chosen.txt'))
  await files.nth(1).waitFor()
  await page.route('**/attachments', (route) => route.abort())
  await page.keyboard.press('Enter') // the box has the focus again
  await page.getByRole('alert').getByText('still there').waitFor()
  assert.equal(await box.inputValue(), 'all of it')
  assert.equal(await files.count(), 2)
  await look(page, 'chat-files-not-sent')
  await page.unroute('**/attachments')
  await send(page)
  await chain(page).getByRole('button', { name: /chosen\.txt/ }).waitFor()
  await chain(page).getByRole('button', { name: /dropped\.txt/ }).waitFor()
  assert.equal(await files.count(), 0)
  fs.rmSync(folder, { recursive: true })
}, ['ERR_FAILED'])

scene('chat: others see who is typing, until the message arrives', async ({ open }) => {
  const zoe = await member('Zoe')
  await login(admin)
  const { conversation } = await converse(zoe, admin, 'Who types?', 'Wind 2')
  const [hers, his] = [await open(), await open({ locale: 'de-DE' })]
  const requests = []

  hers.on('request', (one) => { if (one.url().endsWith('/typing')) requests.push(one.url()) })
  await enter(hers, zoe, `#/chat/${conversation.id}`)
  await enter(his, admin, `#/chat/${conversation.id}`)
  await his.getByText('Live', { exact: true }).waitFor()
  const end = await his.locator('.compose').boundingBox()
  await hers.getByLabel('Write a message').pressSequentially('I do.')
  await his.getByRole('status').filter({ hasText: /Zoe.* schreibt …|zoe.* schreibt …/ }).waitFor()
  assert.deepEqual(await his.locator('.compose').boundingBox(), end)
  assert.equal(requests.length, 1)
  await look(his, 'chat-typing')
  await send(hers)
  await chain(his).getByText('I do.').waitFor()
  await his.getByText('schreibt …').waitFor({ state: 'detached' })
})

scene('chat: a conversation is started from the page, about a device', async ({ page }) => {
  const ivo = await member('Ivo')

  await enter(page, ivo)
  await page.getByText('No conversations yet').waitFor()
  await look(page, 'chat-empty')
  await page.getByRole('button', { name: 'New conversation' }).click()
  const dialogue = page.getByRole('dialog')
  await dialogue.getByLabel('With').fill(admin.email)
  await dialogue.getByLabel('Device or site').fill('Barn roof')
  await dialogue.getByLabel('First message').fill('Which form is wanted for a barn?')
  await dialogue.getByRole('button', { name: 'Send' }).click()
  await chain(page).getByText('Which form is wanted').waitFor()
  await page.getByRole('heading', { name: admin.email }).waitFor()
  await page.getByLabel('Search by person or device').fill('nothing like it')
  await page.getByText('No conversation matches').waitFor()
})

scene('chat: Enter sends, Shift+Enter starts a line, the box grows, and ``` encloses code', async ({ page }) => {
  const una = await member('Enna')
  const { conversation } = await converse(una, admin, 'A first line for the box', 'Box 1')
  const box = page.getByLabel('Write a message')

  await enter(page, una, `#/chat/${conversation.id}`)
  await box.fill('one')
  const before = (await box.boundingBox()).height
  for (let lines = 0; lines < 4; lines++) await page.keyboard.press('Shift+Enter')
  await page.keyboard.type('five')
  assert.ok((await box.boundingBox()).height > before)
  await look(page, 'chat-lines')
  await page.keyboard.press('Enter')
  await chain(page).getByText('five').waitFor()
  assert.equal(await chain(page).locator('.message p').last().textContent(), 'one\n\n\n\nfive')
  assert.equal(await box.inputValue(), '')
  await box.fill('Try\n```sh\ncurl -s https://meter.example/\n```\nplease')
  await page.keyboard.press('Enter')
  assert.equal(await chain(page).locator('.message code').last().textContent(), 'curl -s https://meter.example/')
  await look(page, 'chat-code')
  await page.evaluate(() => { location.hash = '#/account' })
  await page.getByLabel('Messages', { exact: true }).selectOption({ index: 1 })
  await page.goBack()
  await box.fill('a first line')
  await page.keyboard.press('Enter')
  await page.keyboard.type('a second line')
  await page.keyboard.press('Control+Enter')
  assert.equal(await chain(page).locator('.message p', { hasText: 'second line' }).last().textContent(), 'a first line\na second line')
})

scene('chat: a reload of the host does not interrupt the stream', async ({ page }) => {
  const ole = await member('Ole')
  const { conversation } = await converse(ole, admin, 'Before the reload', 'Reload 1')

  await enter(page, ole)
  await page.getByRole('link', { name: /Reload 1/ }).click()
  await page.getByText('Live', { exact: true }).waitFor()
  execFileSync(process.env.BUSBAR_PROGRAM, ['reload'], { stdio: 'pipe' })
  await say(ole, conversation.id, 'written right behind the reload')
  await chain(page).getByText('written right behind the reload').waitFor()
  await page.getByText('Live', { exact: true }).waitFor()
  assert.equal(await chain(page).getByText('written right behind the reload').count(), 1)
})

scene('chat: of ten thousand messages the page contains only the visible ones', async ({ page }) => {
  const max = await member('Max')
  const { conversation } = await converse(max, admin, 'number 0 of very many', 'Archive')
  await sayMany(max, conversation, 1, MANY, (i) => `number ${i} of very many`)
  await enter(page, max)
  await page.getByRole('link', { name: /Archive/ }).click()
  await chain(page).getByText('of very many').last().waitFor()
  await page.waitForLoadState('networkidle', { timeout: 2000 }).catch(() => {}) // the live stream stays open
  await chain(page).hover()
  const first = chain(page).getByText('number 0 of very many')
  let shown = 0
  while (await first.count() === 0) {
    await page.mouse.wheel(0, -6000)
    shown = Math.max(shown, await chain(page).getByText('of very many').count())
  }
  figure('messages in the page while ten thousand scroll', shown, SHOWN_MAX, 'messages')
  assert.equal(await unreadOf(max), 0)
  const day = await chain(page).locator('.day').first().innerText()
  await page.mouse.wheel(0, 6000) // the separator leaves the window
  await chain(page).locator('.now').getByText(day).waitFor()
})

scene('chat: a message counts as read once it is visible, and the chain scrolls to a sent one', async ({ page }) => {
  const nia = await member('Nelly')
  const tom = await member('Theo')
  const { conversation } = await converse(nia, tom, 'number 0 of a hundred', 'Scrolled 1')
  for (let i = 1; i < 100; i++) await say(nia, conversation.id, `number ${i} of a hundred`)
  const until = async (count) => { while (await unreadOf(tom) !== count) await new Promise((resolve) => setTimeout(resolve, 100)) }

  await page.route('**/conversations/*/read', (route) => route.abort(), { times: 1 })
  const pass = await hold(page, '**/api/chat/chain/**') // a slow connection
  await enter(page, tom)
  await page.getByRole('link', { name: /Scrolled 1/ }).click()
  await page.getByText('Live', { exact: true }).waitFor()
  assert.equal(await unreadOf(tom), 100, 'messages that have not come are not read')
  pass()
  await chain(page).getByText('number 99 of a hundred').waitFor()
  await until(0)
  await chain(page).hover()
  const top = chain(page).getByText('number 60 of a hundred')
  while (!await top.isVisible() || await chain(page).evaluate((box) => box.scrollHeight - box.scrollTop - box.clientHeight < 600)) await page.mouse.wheel(0, -400)
  await say(nia, conversation.id, 'written while he reads above')
  await page.getByRole('button', { name: '1 new message' }).waitFor()
  await page.waitForFunction(() => /^\(1\) /.test(document.title))
  assert.equal(await unreadOf(tom), 1)
  await look(page, 'chat-new-message')
  await page.getByRole('button', { name: '1 new message' }).click()
  await chain(page).getByText('written while he reads above').waitFor()
  await until(0)
  await page.waitForFunction(() => !document.title.startsWith('('))
  while (await chain(page).evaluate((box) => box.scrollHeight - box.scrollTop - box.clientHeight < 600)) await page.mouse.wheel(0, -400)
  await page.getByLabel('Write a message').fill('sent from above')
  await page.keyboard.press('Control+Enter')
  const own = chain(page).getByText('sent from above')
  await own.waitFor()
  await page.waitForFunction((box) => box.scrollHeight - box.scrollTop - box.clientHeight < 60, await chain(page).elementHandle())
}, ['ERR_FAILED'])

scene('chat: the window does not scroll with many conversations', async ({ page }) => {
  const ned = await member('Ned')
  const amy = await member('Amy')
  for (let i = 0; i < 40; i++) await converse(ned, amy, `Unread ${i}`, `Plant ${i}`)

  await enter(page, amy)
  await page.getByRole('link', { name: /Plant 0/ }).waitFor()
  assert.equal(await page.evaluate(() => document.documentElement.scrollHeight - document.documentElement.clientHeight), 0)
})

scene('chat: a long conversation opens at its end with one page, and earlier pages come while scrolling up', async ({ page }) => {
  const pia = await member('Pia')
  const { conversation } = await converse(pia, admin, 'number 0 of four hundred', 'Long 1')
  await sayMany(pia, conversation, 1, 400, () => 'one of four hundred')
  await say(pia, conversation.id, 'the last of four hundred')
  const pages = []
  page.on('request', (request) => { if (request.url().includes('/api/chat/chain/')) pages.push(new URL(request.url()).search) })
  await enter(page, pia)
  await page.getByRole('link', { name: /Long 1/ }).click()
  await chain(page).getByText('the last of four hundred').waitFor()
  await page.getByText('Live', { exact: true }).waitFor()
  assert.equal(pages[0], '?order=desc&limit=100')
  assert.ok(pages.slice(1).every((search) => search.includes('after=401')), pages.join())
  await chain(page).hover()
  const first = chain(page).getByText('number 0 of four hundred')
  while (await first.count() === 0) await page.mouse.wheel(0, -1500)
  await first.scrollIntoViewIfNeeded()
  await page.getByRole('button', { name: 'Newest message' }).click()
  await chain(page).getByText('the last of four hundred').waitFor()
  await say(pia, conversation.id, 'after the last of four hundred')
  await chain(page).getByText('after the last of four hundred').waitFor()
})

scene('chat: the text does not move while an earlier page arrives', async ({ page }) => {
  const pim = await member('Pim')
  const { conversation } = await converse(pim, admin, 'number 0 of three hundred', 'Anchor 1')
  for (let i = 1; i < 300; i++) await say(pim, conversation.id, `number ${i} of three hundred`)

  const pass = await hold(page, '**/api/chat/chain/**before=*')
  await enter(page, pim, `#/chat/${conversation.id}`)
  await chain(page).getByText('number 299 of').waitFor()
  await chain(page).hover()
  const top = chain(page).getByText('number 201 of three hundred') // the first message whose predecessor is known
  while (await top.count() === 0 || await chain(page).evaluate((box) => box.scrollTop > 0)) await page.mouse.wheel(0, -1500)
  const before = (await top.boundingBox()).y
  const [earlier, today] = [await button(page, 'Show earlier messages').boundingBox(), await page.locator('.jump.now span').boundingBox()]
  assert.ok(today.y >= earlier.y + earlier.height, 'the day does not cover the button')
  await page.screenshot({ path: `${process.env.BUSBAR_PICTURES}/chat-earlier.png` })
  pass()
  await chain(page).getByText('number 199 of three hundred').waitFor({ state: 'attached' })
  await page.waitForTimeout(300)
  assert.ok(Math.abs((await top.boundingBox()).y - before) < 3)
})

scene('chat: an Admin sees, searches and shares all conversations', async ({ open, page }) => {
  const cora = await member('Cora')
  const carl = await member('Carl')
  const { conversation } = await converse(cora, carl, 'Between the two of us', 'Private 1')

  await login(admin)
  await enter(page, admin)
  await page.getByRole('button', { name: 'All', exact: true }).click()
  await page.getByLabel('Search by person or device').fill('PRIVATE 1')
  const row = page.getByRole('link', { name: new RegExp(`${cora.email}.*Private 1`) })
  await row.getByText('Between the two of us').waitFor()
  await row.click()
  await chain(page).getByText('Between the two of us').waitFor()
  assert.match(page.url(), /all=1&search=PRIVATE\+1/)
  await look(page, 'chat-all')
  await page.getByLabel('Search in messages').fill('between the two')
  await page.getByRole('link', { name: /^Cora Example, Carl Example Private 1 · Cora at .* Cora Example: Between the two of us$/ }).waitFor()
  await look(page, 'chat-all-found')
  await page.getByLabel('Search in messages').fill('')
  await page.getByRole('button', { name: 'Share' }).click()
  await look(page, 'chat-share')
  await page.getByRole('dialog').getByRole('button', { name: 'Share' }).click()
  await page.getByText('The conversation is shared.').waitFor()
  const other = await open()
  await enter(other, admin, `#/chat/${conversation.id}`) // an address that somebody sent
  await chain(other).getByText('Between the two of us').waitFor()
  const hers = await open()
  await enter(hers, cora, `#/chat/${conversation.id}`)
  await chain(hers).getByText('Between the two of us').waitFor()
  assert.equal(await button(hers, 'Share').count(), 1)
  const his = await open()
  await enter(his, carl, `#/chat/${conversation.id}`)
  await chain(his).getByText('Between the two of us').waitFor()
  await button(his, 'Close conversation').waitFor()
  assert.equal(await button(his, 'Share').count(), 0) // the conversation belongs to her organization
  const nobody = await open()
  await enter(nobody, await member('Cleo'), `#/chat/${conversation.id}`)
  await nobody.getByText('This conversation is not there').waitFor()
})

scene('chat: a conversation is closed and reopened, in every tab, and a message reopens it', async ({ page, open }) => {
  const cleo = await member('Cleo', 'Buyer')
  const { conversation } = await converse(cleo, await login(admin), 'Is it done?', 'Closing 1')
  const rowOf = (one) => one.getByRole('link', { name: /Closing 1/ })
  const closedIn = (one) => rowOf(one).getByText('Closed', { exact: true })
  const other = await withoutPolls(page)

  await enter(page, admin, `#/chat/${conversation.id}?state=open`)
  await rowOf(page).waitFor()
  await other.goto(page.url().replace(/#.*/, '#/chat?search=Closing+1')) // the browser is logged in
  await rowOf(other).waitFor()
  await page.bringToFront()
  await page.getByRole('button', { name: 'Close conversation' }).press('Enter')
  await page.getByRole('button', { name: 'Undo' }).click()
  await page.getByText('The conversation is open again.').waitFor()
  await rowOf(page).waitFor()
  await page.getByRole('button', { name: 'Close conversation' }).click()
  await page.getByText('The next message reopens it.').waitFor()
  await rowOf(page).waitFor({ state: 'detached' })
  await chain(page).getByText('Is it done?').waitFor()
  await closedIn(other).waitFor()
  await look(other, 'chat-closed')
  await page.getByLabel('State').selectOption('Closed')
  await rowOf(page).waitFor()
  assert.match(page.url(), /state=closed/)
  await look(page, 'chat-closed-open')
  const hers = await open()
  await enter(hers, cleo, `#/chat/${conversation.id}`)
  await closedIn(hers).waitFor()
  assert.equal(await hers.getByRole('button', { name: /Reopen|Close conversation/ }).count() + await hers.getByLabel('State').count(), 0)
  await hers.getByLabel('Write a message').fill('Not yet.')
  await send(hers)
  await closedIn(hers).waitFor({ state: 'detached' })
  await page.getByText('No conversation matches.').waitFor()
  await page.getByRole('button', { name: 'Close conversation' }).waitFor()
})

scene('chat: the list shows the last message and its time', async ({ page }) => {
  const lou = await member('Lou')
  const { conversation } = await converse(lou, admin, 'The first of the list', 'Listed 1')
  const row = page.getByRole('link', { name: /Listed 1/ })

  await enter(page, lou)
  await row.getByText('You: The first of the list').waitFor()
  assert.match(await row.locator('time').innerText(), /^\d\d:\d\d$/)
  await login(admin)
  await say(admin, conversation.id, 'an answer for the list')
  await row.getByText('an answer for the list', { exact: true }).waitFor()
  await row.getByText('1 unread').waitFor()
  await look(page, 'chat-list')
  await row.click()
  await chain(page).getByRole('listitem').filter({ hasText: 'an answer for the list' }).getByText('New messages').waitFor()
  await look(page, 'chat-unread-line')
})

scene('chat: web addresses in messages are links, and nothing else', async ({ page }) => {
  const lin = await member('Lin')
  const { conversation } = await converse(lin, admin, 'See (https://meter.example/a?b=1&c=2). Not javascript:hit=1 or ftp://x.example', 'Links 1')

  await say(lin, conversation.id, 'http://<script>hit=1</script> https://')
  await enter(page, lin, `#/chat/${conversation.id}`)
  await chain(page).getByText('See (').waitFor()
  const links = await chain(page).locator('a').evaluateAll((all) => all.map(({ href, rel, target }) => ({ href, rel, target })))
  assert.deepEqual(links, [{ href: 'https://meter.example/a?b=1&c=2', rel: 'noopener noreferrer', target: '_blank' }])
})

scene('chat: a message being sent is still shown after another view, and one that failed can be sent from the box', async ({ page }) => {
  const pen = await member('Pen')
  const { conversation } = await converse(pen, admin, 'Before the slow line', 'Pending 1')

  await enter(page, pen, `#/chat/${conversation.id}`)
  await page.getByText('Live', { exact: true }).waitFor()
  const pass = await hold(page, '**/messages')
  await page.getByLabel('Write a message').fill('sent on a slow line')
  await page.keyboard.press('Enter')
  await go(page, 'Webhooks')
  await page.getByText('No webhooks yet').waitFor()
  await page.goBack()
  await chain(page).getByRole('listitem').filter({ hasText: 'sent on a slow line' }).getByText('Sending…').waitFor()
  pass()
  await chain(page).getByRole('listitem').filter({ hasText: 'sent on a slow line' }).getByText('Sent', { exact: true }).waitFor()
  await page.unroute('**/messages')
  const drop = await hold(page, '**/messages', (route) => route.abort())
  await page.getByLabel('Write a message').fill('lost on the line')
  await page.keyboard.press('Enter')
  await go(page, 'Webhooks')
  drop()
  await page.getByText('No webhooks yet').waitFor()
  await page.goBack()
  await page.getByRole('alert').getByText('still there').waitFor()
  assert.equal(await page.getByLabel('Write a message').inputValue(), 'lost on the line')
  await look(page, 'chat-not-sent')
  await page.unroute('**/messages')
  await send(page)
  await chain(page).getByText('lost on the line').waitFor()
}, ['ERR_FAILED'])

scene('chat: messages written while another one is sent wait, and keep their order and files', async ({ page }) => {
  const ren = await member('Ren')
  const { conversation } = await converse(ren, admin, 'Before the queue', 'Queue 1')
  const box = page.getByLabel('Write a message')
  const file = { name: 'third.txt', mimeType: 'text/plain', buffer: Buffer.from('of the third') }

  await enter(page, ren, `#/chat/${conversation.id}`)
  await page.getByText('Live', { exact: true }).waitFor()
  const pass = await hold(page, '**/messages')
  await box.fill('first')
  await box.press('Enter')
  await box.fill('second')
  await box.press('Enter')
  assert.equal(await box.inputValue(), '')
  await box.fill('third')
  await page.locator('input[type=file]').setInputFiles([file])
  await send(page)
  await box.fill('fourth')
  await box.press('Enter')
  await box.fill('not sent yet')
  const line = (text) => chain(page).getByRole('listitem').filter({ hasText: text })
  await line('first').getByText('Sending…').waitFor()
  for (const text of ['second', 'third.txt', 'fourth']) await line(text).getByText('Waiting…').waitFor()
  await look(page, 'chat-queue')
  pass()
  await line('fourth').getByText('Sent', { exact: true }).waitFor()
  assert.equal(await chain(page).getByText(/Waiting…|Sending…/).count(), 0)
  assert.equal(await box.inputValue(), 'not sent yet')
  const stored = await call('GET', `/api/chat/chain/${conversation.headUuid}`, ren.token)
  assert.deepEqual(stored.slice(1).map(({ chatEntry, attachments = [] }) => [chatEntry, ...attachments.map(({ name }) => name)]),
    [['first'], ['second'], ['third', 'third.txt'], ['fourth']])
})

scene('chat: a message that fails stops the ones after it, and all are sent in their order later', async ({ page }) => {
  const kim = await member('Kim')
  const { conversation } = await converse(kim, admin, 'Before the failures', 'Queue 2')
  const box = page.getByLabel('Write a message')
  const problem = page.getByRole('alert')
  const line = (text) => chain(page).getByRole('listitem').filter({ hasText: text })
  const failing = async (...texts) => {
    const drop = await hold(page, '**/messages', (route) => route.abort())
    for (const text of texts) {
      await box.fill(text)
      await box.press('Enter')
    }
    return drop
  }

  await enter(page, kim, `#/chat/${conversation.id}`)
  await page.getByText('Live', { exact: true }).waitFor()
  let drop = await failing('one', 'two')
  await box.fill('three')
  drop()
  await problem.getByText('Send tries again').waitFor()
  await line('one').getByText('Not sent').waitFor()
  await line('two').getByText('Waiting…').waitFor()
  assert.equal(await box.inputValue(), 'three')
  await look(page, 'chat-queue-stopped')
  await page.unroute('**/messages')
  await send(page)
  await line('three').getByText('Sent', { exact: true }).waitFor()
  assert.equal(await problem.count(), 0)

  drop = await failing('four', 'five')
  drop()
  await problem.getByText('It is sent before the 1 waiting message.').waitFor()
  assert.equal(await box.inputValue(), 'four')
  await line('five').getByText('Waiting…').waitFor()
  await look(page, 'chat-queue-returned')
  await page.unroute('**/messages')
  await box.fill('4')
  await box.press('Enter')
  await line('five').getByText('Sent', { exact: true }).waitFor()

  drop = await failing('six', 'seven')
  drop()
  await problem.waitFor()
  await page.unroute('**/messages')
  await box.fill('') // the message is given up, the other one is not
  await send(page)
  await line('seven').getByText('Sent', { exact: true }).waitFor()
  const stored = await call('GET', `/api/chat/chain/${conversation.headUuid}`, kim.token)
  assert.deepEqual(stored.slice(1).map(({ chatEntry }) => chatEntry), ['one', 'two', 'three', '4', 'five', 'seven'])
}, ['ERR_FAILED'])

scene('chat: ten files that could not be sent, and files chosen meanwhile, stay two messages', async ({ page }) => {
  const jan = await member('Jan')
  const { conversation } = await converse(jan, admin, 'Send all of them.', 'Wind 5')
  const some = (name, count) => Array.from({ length: count }, (_, i) => ({ name: `${name}-${i}.txt`, mimeType: 'text/plain', buffer: Buffer.from(`${i}`) }))
  const files = page.getByRole('list', { name: 'Files of the message' }).getByRole('listitem')

  await enter(page, jan, `#/chat/${conversation.id}`)
  await page.getByText('Live', { exact: true }).waitFor()
  const drop = await hold(page, '**/attachments', (route) => route.abort())
  await page.locator('input[type=file]').setInputFiles(some('early', 10))
  await send(page)
  await page.locator('input[type=file]').setInputFiles(some('late', 9))
  await page.locator('input[type=file]').setInputFiles(some('more', 2))
  await page.getByText('A message can have up to 10 files.').waitFor()
  drop()
  await page.getByRole('alert').getByText('Send tries again').waitFor()
  assert.equal(await files.count(), 10)
  await look(page, 'chat-files-two-messages')
  await page.unroute('**/attachments')
  await send(page)
  await chain(page).getByRole('button', { name: /more-0/ }).waitFor()
  const stored = await call('GET', `/api/chat/chain/${conversation.headUuid}`, jan.token)
  assert.deepEqual(stored.slice(1).map(({ attachments }) => [attachments.length, attachments[0].name]), [[10, 'early-0.txt'], [10, 'late-0.txt']])
}, ['ERR_FAILED'])

scene('chat: the browser asks before a page with unsent files or messages is closed', async ({ page }) => {
  const eli = await member('Eli')
  const { conversation } = await converse(eli, admin, 'Before the page is closed', 'Unload 1')
  const box = page.getByLabel('Write a message')

  await enter(page, eli, `#/chat/${conversation.id}`)
  await page.locator('input[type=file]').setInputFiles([{ name: 'plan.txt', mimeType: 'text/plain', buffer: Buffer.from('plan') }])
  await box.press('a') // browsers ask only after the user has done something in the page
  await asksToClose(page)
  const passFiles = await hold(page, '**/attachments')
  const pass = await hold(page, '**/messages')
  await send(page)
  await page.getByText('Sending…').waitFor()
  await asksToClose(page)
  await box.fill('one more')
  await box.press('Enter')
  passFiles()
  await chain(page).getByRole('listitem').filter({ hasText: 'one more' }).getByText('Sending…').waitFor()
  await asksToClose(page)
  pass()
  await page.getByText('Sending…').waitFor({ state: 'detached' })
  await closes(page)
})

scene('chat: a logout asks and ends an upload, which leaves the draft of the next user alone', async ({ page, dialog }) => {
  const pia = await member('Pia')
  await login(admin)
  const { conversation } = await converse(pia, admin, 'Who uses this computer?', 'Shared 1')
  const box = page.getByLabel('Write a message')
  const ended = new Promise((resolve) => page.on('requestfailed', (one) => { if (one.url().endsWith('/attachments')) resolve() }))

  await enter(page, pia, `#/chat/${conversation.id}`)
  const drop = await hold(page, '**/attachments', (route) => route.abort())
  await box.fill('private words')
  await page.locator('input[type=file]').setInputFiles([{ name: 'private.txt', mimeType: 'text/plain', buffer: Buffer.from('private') }])
  await send(page)
  await page.getByText('Sending…').waitFor()
  await button(page, 'Log out').click()
  await look(page, 'chat-logout')
  await button(dialog, 'Cancel').click()
  await page.getByText('Sending…').waitFor()
  await button(page, 'Log out').click()
  await button(dialog, 'Log out').click()
  await ended
  await logIn(page, admin)
  await page.getByRole('banner').waitFor()
  await page.evaluate((id) => { location.hash = `#/chat/${id}` }, conversation.id)
  const pass = await hold(page, '**/messages')
  await box.fill('of the next user')
  await box.press('Enter')
  await page.getByText('Sending…').waitFor()
  drop()
  await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))))
  assert.equal(await box.inputValue(), '')
  assert.equal(await page.getByText('private').count(), 0)
  assert.equal(await page.getByRole('alert').count(), 0)
  pass()
  await chain(page).getByRole('listitem').filter({ hasText: 'of the next user' }).getByText('Sent', { exact: true }).waitFor()
}, ['ERR_FAILED'])

scene('toasts: a refusal has its own mark, and no message hides a part of the view', async ({ page }) => {
  const tim = await member('Tim')
  await login(admin)
  const { conversation } = await converse(tim, admin, 'Before the toasts', 'Toast 1')
  const hides = () => page.evaluate(() => {
    const [own, ...others] = ['.toasts', 'main', '.side'].map((one) => document.querySelector(one).getBoundingClientRect())
    return others.some(({ left, right, top, bottom }) =>
      own.left < right && own.right > left && own.top < bottom && own.bottom > top) || own.bottom > innerHeight
  })

  await enter(page, admin, `#/chat/${conversation.id}`)
  for (const [width, height] of [[1440, 900], [820, 1180], [400, 860]]) {
    await page.setViewportSize({ width, height })
    await page.locator('input[type=file]').setInputFiles([{ name: 'huge.bin', mimeType: 'text/plain', buffer: Buffer.alloc(10485761, 'x') }])
    const refusal = page.locator('.toasts li').filter({ hasText: 'huge.bin is larger than 10 MiB.' }).last()
    await refusal.locator('.lucide-circle-alert').waitFor()
    assert.equal(await page.locator('.toasts .lucide-check').count(), 0)
    assert.equal(await hides(), false)
    await refusal.getByRole('button', { name: 'Dismiss' }).click()
  }
  await page.setViewportSize({ width: 1440, height: 900 })
  await button(page, 'Close conversation').click()
  await page.locator('.toasts .lucide-check').waitFor()
  await page.locator('input[type=file]').setInputFiles([{ name: 'huge.bin', mimeType: 'text/plain', buffer: Buffer.alloc(10485761, 'x') }])
  await page.locator('.toasts .lucide-circle-alert').waitFor()
  assert.equal(await hides(), false)
  await page.locator('.toasts .bad').getByRole('button', { name: 'Dismiss' }).focus() // so that the message stays
  await look(page, 'chat-toasts')
})

scene('toasts: an open dialog has the messages, which hide none of its buttons', async ({ page, dialog }) => {
  const uta = await member('Uta')
  const { conversation } = await converse(uta, admin, 'Before the dialog', 'Toast 2')
  const dismiss = button(dialog, 'Dismiss')
  const refused = () => page.locator('input[type=file]').setInputFiles([{ name: 'huge.bin', mimeType: 'text/plain', buffer: Buffer.alloc(10485761, 'x') }])

  await enter(page, uta, `#/chat/${conversation.id}`)
  await refused()
  await button(page, 'New conversation').click()
  await dialog.locator('.toasts').getByText('huge.bin is larger than 10 MiB.').waitFor()
  await dialog.getByLabel('With').and(page.locator(':focus')).waitFor()
  await dismiss.focus() // so that the message stays
  await look(page, 'toast-dialog')
  await dismiss.click()
  await dismiss.waitFor({ state: 'detached' })
  await dialog.and(page.locator(':focus')).waitFor()
  await dialog.getByLabel('First message').fill('half a message')
  await refused()
  await page.keyboard.press('Escape')
  const question = page.getByRole('dialog', { name: 'Discard what you have typed?' })
  await button(question, 'Dismiss').focus()
  assert.equal(await page.locator('.toasts').count(), 1)
  await button(question, 'Discard').click()
  await page.locator('.frame > .toasts').getByText('huge.bin').waitFor()
  await page.setViewportSize({ width: 400, height: 860 })
  await go(page, 'Devices')
  await button(page, 'Register a device').click()
  await dismiss.focus()
  await look(page, 'toast-long-dialog')
  await page.setViewportSize({ width: 400, height: 860 })
  await dismiss.click({ trial: true })
  await button(dialog, 'Save').click({ trial: true })
})

scene('chat: a search finds messages, marks the words, and opens the conversation at the message', async ({ page }) => {
  const finn = await member('Finn')
  const { conversation } = await converse(finn, admin, 'number 0 of three hundred', 'Found 1')
  await say(finn, conversation.id, 'The Invoice of <b>March</b> for the (inverter) is here')
  await sayMany(finn, conversation, 2, 300, () => 'one of three hundred')
  await converse(finn, admin, 'Another invoice', 'Found 2')
  const box = page.getByLabel('Search in messages')
  const row = page.getByRole('link', { name: /Found 1/ })
  const found = page.locator('.found a')

  await enter(page, finn)
  await box.fill('inv march <b>')
  await row.getByText('You: The Invoice of <b>March</b>').waitFor()
  assert.equal(await found.count(), 1)
  assert.deepEqual(await row.locator('mark').allInnerTexts(), ['Inv', 'b', 'March', 'b', 'inv'])
  assert.match(page.url(), /#\/chat\?q=inv\+march/)
  await look(page, 'chat-found')
  await box.focus() // by keyboard alone
  await page.keyboard.press('Tab')
  await page.keyboard.press('Enter')
  const message = chain(page).locator('.wanted')
  await message.getByText('The Invoice of').waitFor()
  await page.getByText('Live', { exact: true }).waitFor()
  await page.waitForFunction(() => {
    const item = document.querySelector('[role=log] .wanted')
    const [log, own] = [item?.closest('[role=log]').getBoundingClientRect(), item?.getBoundingClientRect()]
    return item && own.top >= log.top && own.bottom <= log.bottom
  })
  assert.match(page.url(), new RegExp(`#/chat/${conversation.id}/2\\?q=inv`))
  await look(page, 'chat-found-message')
  await page.getByRole('button', { name: 'Newest message' }).click()
  await chain(page).getByText('one of three hundred').last().waitFor()
  await page.goBack()
  await box.fill('invoice')
  await page.waitForFunction(() => document.querySelectorAll('.found a').length === 2)
  assert.match(await found.first().innerText(), /Found 2/)
  await box.fill('nowhere')
  await page.getByText('No message contains words that begin with the words you entered.').waitFor()
  await look(page, 'chat-not-found')
  await box.fill('')
  await page.getByRole('link', { name: /Found 2/ }).waitFor()
})

scene('chat: an address of a message opens it in a long conversation, and nothing counts as read before it is seen', async ({ open }) => {
  const mona = await member('Mona')
  const jon = await member('Jon')
  const { conversation } = await converse(mona, jon, 'number 0 of two hundred', 'Linked 1')
  for (let i = 1; i < 200; i++) await say(mona, conversation.id, `number ${i} of two hundred`)
  const page = await open({ locale: 'de-DE', viewport: { width: 400, height: 860 } })

  await page.goto(`${base}/console/?lang=en#/chat/${conversation.id}/101`)
  await logIn(page, jon)
  const message = chain(page).locator('.wanted')
  await message.getByText('number 100 of two hundred').waitFor()
  await page.getByText('Live', { exact: true }).waitFor()
  assert.ok(await message.isVisible())
  assert.equal(await unreadOf(jon), 200)
  await chain(page).hover()
  while (await chain(page).getByText('number 0 of two hundred').count() === 0) await page.mouse.wheel(0, -1500)
  await page.getByRole('button', { name: 'Newest message' }).click()
  await chain(page).getByText('number 199 of two hundred').waitFor()
  while (await unreadOf(jon) !== 0) await new Promise((resolve) => setTimeout(resolve, 100))
  /* A message arrives before the first page. */
  const other = await page.context().newPage()
  let release
  await other.route('**/api/chat/chain/**', async (route) => { await new Promise((resolve) => { release = resolve }); await route.continue() })
  await other.goto(`${base}/console/?lang=en#/chat/${conversation.id}/101`)
  await other.getByText('Live', { exact: true }).waitFor()
  while (!release) await other.waitForTimeout(50)
  await say(mona, conversation.id, 'number 200 of two hundred')
  await other.waitForTimeout(1000)
  release()
  await chain(other).locator('.wanted').getByText('number 100 of two hundred').waitFor()
  await page.evaluate((id) => { location.hash = `#/chat/${id}/9999` }, conversation.id) // after the end
  await chain(page).getByText('number 200 of two hundred').waitFor()
})
