/*
 * Attacks on users of the console and the reference. Attacks on logs and the database are in the
 * integration tests (logs, injection). External texts come from BUSBAR_SHARED/cases if it exists.
 */
'use strict'
const assert = require('node:assert/strict')
const fs = require('node:fs')
const http = require('node:http')
const path = require('node:path')
const { scene, enter, go, to, scrollTo } = require('./stage')
const { base, domain, admin, login, member, request, call, converse, say } = require('./service')
const payloads = require('./payloads')
const { png } = require('./png')

const AT_A_TIME = 20
const SHOWN = 14 // messages that are on the page at once
const ACTIVE = 'script, img, svg:not(.lucide, .logo), iframe, object, embed, style, math, base, video, audio'
const KINDS = ['FORM_SF_02', 'SF_02C', 'METERING_EVIDENCE', 'SINGLE_LINE_DIAGRAM', 'PROJECT_PHOTOS', 'COD_PROOF']

/* Returns the big list of naughty strings, without blank ones. */
function naughty () {
  const file = path.join(process.env.BUSBAR_SHARED ?? path.join(__dirname, '../../../shared'), 'cases/blns/blns.base64.json')
  if (!fs.existsSync(file)) return []
  return JSON.parse(fs.readFileSync(file, 'utf8')).map((code) => Buffer.from(code, 'base64').toString('utf8')).filter((text) => text.trim() !== '')
}

/* Checks that no part of the text has become an element or has run. */
async function isText (page, part) {
  assert.equal(await page.locator(part).locator(ACTIVE).count(), 0)
  assert.equal(await page.evaluate(() => globalThis.hit), undefined)
}

/* Shows the whole list and scrolls through it; returns the texts of its cells. */
async function allCells (page) {
  const texts = new Set()

  await page.locator('tbody tr').first().waitFor()
  await page.waitForFunction(() => {
    const more = document.querySelector('.row.more button')
    more?.click() // does nothing while it is disabled
    return !more
  })
  for (let at = 0, most = 1; at < most; at += 800) {
    await page.locator('main').evaluate((main, top) => { main.scrollTop = top }, at)
    most = await page.locator('main').evaluate((main) => main.scrollHeight)
    await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))))
    await isText(page, 'main')
    for (const text of await page.locator('tbody td').allTextContents()) texts.add(text)
  }
  return texts
}

async function inTurns (list, each) {
  for (let at = 0; at < list.length; at += AT_A_TIME) await Promise.all(list.slice(at, at + AT_A_TIME).map(each))
}

const stored = (answer) => assert.ok([200, 201, 400, 409].includes(answer.status), String(answer.status))

scene('threats: naughty strings and script payloads in messages are shown as text', async ({ page }) => {
  const nia = await member('Nia')
  const texts = [...naughty(), ...payloads]

  for (let at = 0; at < texts.length; at += SHOWN) {
    const first = `part ${at} of the list`
    const some = texts.slice(at, at + SHOWN)
    const { conversation } = await converse(nia, admin, first, `Naughty part ${at}`)
    for (const text of some) await say(nia, conversation.id, text)
    if (at === 0) await enter(page, nia)
    await to(page, `/chat/${conversation.id}`)
    await page.getByRole('log').getByText(first, { exact: true }).waitFor()
    await page.waitForFunction((count) => document.querySelectorAll('.message').length === count, some.length + 1)
    assert.deepEqual(await page.locator('.message p').allTextContents(), [first, ...some])
    await isText(page, 'main')
  }
})

scene('threats: scripts in names of devices and conversations are shown as text', async ({ page }) => {
  const noa = await member('Noa')
  const texts = [...naughty(), ...payloads]

  await inTurns(texts, async (siteName) => stored(await request('POST', '/api/device', noa.token, { siteName: siteName.slice(0, 255), externalId: `N-${texts.indexOf(siteName)}` })))
  await inTurns(payloads, async (name) => stored(await request('POST', '/api/chat/conversations/start', noa.token, {
    participant1: noa.email, participant2: admin.email, username: noa.email, chatEntry: 'about it', deviceProjectName: name
  })))
  await enter(page, noa)
  await page.waitForFunction((count) => document.querySelectorAll('.list li small').length === count, payloads.length)
  const names = await page.locator('.list li small').allTextContents()
  for (const text of payloads) assert.ok(names.includes(text), text)
  await isText(page, 'main')
  await go(page, 'Devices')
  const devices = await call('GET', '/api/device?limit=1000', noa.token)
  const shown = await allCells(page)
  for (const { siteName, externalId } of devices) assert.ok(shown.has(siteName ?? externalId), JSON.stringify(siteName))
  await isText(page, 'main')
})

/* Adds files to devices, ten of each kind and all kinds on one, with every name that a form may
 * have. Returns the devices' ids. */
async function filed (person, names) {
  const devices = []
  for (let at = 0; at < names.length; at += 10) {
    const device = `FILES-${Math.floor(at / 10 / KINDS.length)}`
    const form = new FormData()
    for (const name of names.slice(at, at + 10)) form.append(KINDS[at / 10 % KINDS.length], new Blob(['no picture']), `${name.replace(/[\r\n/\\]/g, '_')}.pdf`)
    if (!devices.includes(device)) {
      await call('POST', '/api/device', person.token, { externalId: device, siteName: payloads[1] })
      devices.push(device)
    }
    stored(await request('PATCH', `/api/device/${device}`, person.token, form))
  }
  return devices
}

scene('threats: scripts in file names are shown as text and saved under safe names', async ({ page }) => {
  const fil = await member('Fil')
  const documents = page.getByRole('region', { name: 'Documents' }).locator('tbody tr')

  const devices = await filed(fil, [...payloads, ...naughty()])
  await enter(page, fil)
  for (const device of devices) {
    const known = await call('GET', `/api/device/${device}/documents`, fil.token)
    const names = known.sort((a, b) => b.createdAt.localeCompare(a.createdAt)).map(({ name }) =>
      name.replace(/[\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, '')) // they would change the direction of the text
    await to(page, `/devices/${device}`)
    await page.locator('dd').getByText(device, { exact: true }).waitFor()
    await page.waitForFunction((count) => document.querySelectorAll('.file').length === count, known.length)
    assert.deepEqual(await page.locator('.file > div').evaluateAll((list) => list.map((each) => each.firstChild.textContent)), names)
    await isText(page, 'main')
  }
  await to(page, `/devices/${devices[0]}`)
  await page.getByRole('heading', { level: 1, name: 'onerror' }).waitFor()
  for (let at = 0; at < 5; at++) {
    const [saved] = await Promise.all([page.waitForEvent('download'), documents.nth(at).getByRole('button', { name: 'Download' }).click()])
    assert.ok(!/[/\\]/.test(saved.suggestedFilename()), saved.suggestedFilename())
  }
  await page.getByRole('button', { name: 'Start a conversation' }).click()
  assert.equal(await page.getByRole('dialog').getByLabel('Device or site').inputValue(), payloads[1])
  await page.getByRole('button', { name: 'Cancel' }).click()
  await call('POST', '/api/device', fil.token, { externalId: 'PICTURE' })
  await to(page, '/devices/PICTURE')
  await page.getByText('No documents').waitFor()
  await page.getByLabel('Add a document').setInputFiles({ name: `${payloads[1]}.png`, mimeType: 'image/png', buffer: png(40, 40) })
  await page.getByLabel('Kind of document').selectOption('PROJECT_PHOTOS')
  await page.getByRole('button', { name: 'Upload', exact: true }).click()
  await page.getByRole('button', { name: /Look at/ }).click()
  await page.getByRole('dialog').getByRole('heading', { name: 'onerror' }).waitFor()
  await isText(page, 'body')
  await page.getByRole('button', { name: 'Close' }).click()
  await go(page, 'Bulk upload')
  await page.getByLabel('Drop a CSV file here').setInputFiles({ name: `${payloads[1].replaceAll('/', '_')}.csv`, mimeType: 'text/csv', buffer: Buffer.from(`externalId,siteName\n"${payloads[0]}","${payloads[3].replaceAll('"', '""')}"\n`) })
  await page.getByRole('button', { name: 'Upload and check' }).click()
  await page.getByRole('heading', { level: 1, name: 'onerror' }).waitFor()
  await page.getByLabel('Rows', { exact: true }).selectOption('all')
  await page.getByRole('row', { name: /hit=1/ }).first().waitFor()
  await isText(page, 'main')
})

scene('threats: scripts in webhook URLs are shown as text, and no URL is a link', async ({ page }) => {
  const urs = await member('Urs')

  for (const text of payloads) assert.equal((await request('POST', '/api/chat/webhooks', urs.token, { url: text, events: [] })).status, 400, text)
  await inTurns([...payloads, ...naughty()], async (text) => stored(await request('POST', '/api/chat/webhooks', urs.token, { url: `http://127.0.0.1:9999/${text.replaceAll(' ', '%20')}`, events: ['message.new'] })))
  const hooks = await call('GET', '/api/chat/webhooks?limit=1000', urs.token)
  assert.ok(hooks.length >= payloads.length)
  await enter(page, urs)
  await go(page, 'Webhooks')
  await page.getByRole('row', { name: /127\.0\.0\.1/ }).first().waitFor()
  const shown = await allCells(page)
  for (const { url } of hooks) assert.ok(shown.has(url), url)
  const targets = await page.locator('main a').evaluateAll((links) => links.map((link) => link.getAttribute('href')))
  for (const target of targets) assert.match(target, /^#\/(webhooks|help)/)
  await isText(page, 'main')
  const hook = hooks.find(({ url }) => url.includes('onerror'))
  await to(page, `/webhooks/${hook.id}`)
  await page.getByRole('heading', { level: 1, name: 'onerror' }).waitFor()
  await page.getByRole('button', { name: 'Edit' }).click()
  assert.equal(await page.getByLabel('Address').inputValue(), hook.url)
  await isText(page, 'body')
})

scene('threats: scripts in names of people and organizations are shown as text', async ({ page }) => {
  const text = payloads[1]
  const email = `amelie@${domain}`

  await call('POST', '/api/user/register', null, { firstName: text, lastName: payloads[0], email, password: 'the words of Amelie alone', orgName: `${text} of ${domain}` })
  await login(admin)
  await enter(page, admin)
  await go(page, 'Accounts')
  const row = page.getByRole('row', { name: new RegExp(email) })
  assert.ok((await row.innerText()).includes(`${text} ${payloads[0]}`))
  await row.getByRole('button', { name: 'Refuse' }).click()
  await isText(page, 'body')
  await page.getByRole('button', { name: 'Cancel' }).click()
  await page.getByRole('link', { name: 'Organizations' }).click()
  await page.getByText('acts for an organization').waitFor()
  await scrollTo(page, page.getByRole('cell', { name: `${text} of ${domain}` }))
  await isText(page, 'main')
})

scene('threats: a strict content security policy, and no inline scripts, handlers or styles', async () => {
  const page = await request('GET', '/console')
  const policy = page.headers.get('content-security-policy')
  const text = await page.text()

  for (const words of ["default-src 'self'", "object-src 'none'", "base-uri 'none'", "frame-ancestors 'none'"]) assert.ok(policy.includes(words), words)
  assert.ok(!/unsafe|https?:/.test(policy), policy)
  assert.equal(page.headers.get('referrer-policy'), 'no-referrer')
  assert.equal((await fetch(base, { redirect: 'manual' })).headers.get('location'), '/console')
  assert.ok(![...text.matchAll(/<script([^>]*)>([^<]*)<\/script>/g)].some(([, attributes, body]) => !attributes.includes('src=') || body.trim()))
  assert.ok(!/<style|\son\w+=|\sstyle=/.test(text))
})

scene('threats: other origins cannot read responses, and scripts cannot read the only cookie', async ({ page }) => {
  await login(admin)
  for (const origin of ['https://evil.example', 'null', `${base}.evil.example`]) {
    for (const [method, headers] of [['GET', {}], ['OPTIONS', { 'Access-Control-Request-Method': 'POST' }]]) {
      const answer = await request(method, '/api/auth/me', admin.token, undefined, { Origin: origin, ...headers })
      assert.equal(answer.headers.get('access-control-allow-origin'), null, origin)
      assert.equal(answer.headers.get('access-control-allow-credentials'), null, origin)
    }
  }
  await enter(page, admin)
  const [cookie, ...others] = await page.context().cookies()
  assert.deepEqual(others, [])
  const { name, path: where, httpOnly, secure, sameSite } = cookie
  assert.deepEqual({ name, where, httpOnly, secure, sameSite }, { name: 'busbar_refresh', where: '/api/auth/refresh', httpOnly: true, secure: true, sameSite: 'Strict' })
})

scene('threats: the token is in no storage, address or referrer', async ({ page }) => {
  const sent = []

  page.on('request', (each) => sent.push([each.url(), each.headers().referer]))
  await enter(page, admin)
  await go(page, 'Accounts')
  await page.getByRole('table').waitFor()
  assert.deepEqual(await page.evaluate(() => [localStorage.length, sessionStorage.length, document.cookie]), [0, 0, ''])
  for (const [url, referrer] of sent) {
    assert.ok(!url.includes('eyJ'), url)
    assert.ok(!referrer, `${url} was asked for with the referrer ${referrer}`)
  }
})

scene('threats: console and reference cannot be framed', async ({ page }) => {
  const other = http.createServer((_, response) =>
    response.writeHead(200, { 'Content-Type': 'text/html' }).end(`<iframe src="${base}/console"></iframe><iframe src="${base}/swagger"></iframe>`))

  await new Promise((resolve) => other.listen(0, '127.0.0.1', resolve))
  await page.goto(`http://127.0.0.1:${other.address().port}/`)
  await page.waitForLoadState('load')
  for (const at of [0, 1]) assert.equal(await page.frameLocator('iframe').nth(at).locator('#root, #swagger-ui, .swagger-ui').count(), 0)
  other.closeAllConnections()
  other.close()
}, ['frame', 'favicon', '404'])

scene('threats: the reference shows only its own document, whatever the address requests', async ({ page }) => {
  const asked = []

  page.on('request', (each) => asked.push(each.url()))
  await page.goto(`${base}/swagger?url=//evil.example/x.json&configUrl=//evil.example/c.json`)
  await page.getByText('/api/auth/login').first().waitFor()
  assert.deepEqual(asked.filter((url) => new URL(url).host !== new URL(base).host), [])
})
