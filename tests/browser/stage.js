/*
 * Browsers and actions in them: logging in, checking a view in all its appearances. Every test has
 * its own browser contexts. Any console message and any dialog fails the test.
 */
'use strict'
const assert = require('node:assert/strict')
const fs = require('node:fs')
const path = require('node:path')
const { test, before, after } = require('node:test')
const { chromium } = require('playwright-core')
const { base } = require('./service')

const axe = fs.readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8')
const pictures = process.env.BUSBAR_PICTURES
const BOTH = ['light', 'dark']
const SIZES = [[1440, 900, BOTH], [820, 1180, ['light']], [400, 860, BOTH]] // a laptop, a tablet and a phone
const OF_COLORS = ['color-contrast', 'link-in-text-block'] // the only rules whose result depends on the theme
const MORE_PX = 2400
const PATIENCE_MS = 100000 // a busy machine takes long; no test waits for the end of this time
const flags = ['--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync']
const wanted = process.argv.slice(2)
const consoles = new Map()
let browser

before(async () => {
  fs.mkdirSync(pictures, { recursive: true })
  browser = await chromium.launch({ executablePath: process.env.BUSBAR_CHROMIUM ?? '/usr/bin/chromium-headless-shell', args: flags, chromiumSandbox: Boolean(process.env.BUSBAR_SANDBOX) })
})
after(() => browser?.close())

/* Chromium itself logs failed requests; a test lists the ones it expects in `expected`. */
function watch (page, told, expected) {
  consoles.set(page, [])
  page.on('console', (message) => {
    consoles.get(page).push(message.text())
    if (message.type() === 'error' && !expected.some((words) => message.text().includes(words))) told.push(message.text())
  })
  page.on('response', async (answer) => {
    if (answer.status() < 400 || !answer.headers()['content-type']?.startsWith('application/json')) return
    const { errors = [] } = await answer.json().catch(() => ({})) // the page may be gone
    for (const { field, problem, code } of errors) if (!code) told.push(`${field}: "${problem}" has no code`)
  })
  page.on('pageerror', (error) => told.push(String(error)))
  page.on('dialog', (dialog) => { told.push(`dialogue: ${dialog.message()}`); dialog.dismiss() })
}

/* For a failed test, keeps pictures of its pages and all messages of their consoles. */
async function keepWhatIsShown (name, contexts) {
  const file = path.join(pictures, `failed-${name.replace(/\W+/g, '-').slice(0, 60)}`)
  const pages = contexts.flatMap((context) => context.pages())

  await Promise.all(pages.map((page, i) => page.screenshot({ path: `${file}-${i}.png` }).catch(() => {})))
  for (const page of pages) process.stdout.write(`# ${page.url()}: ${JSON.stringify(consoles.get(page))}\n`)
}

/*
 * scene(NAME, async ({ page, dialog, open }) => …): defines a test. `open(options)` returns another page, of a
 * new context; `dialog` is its open dialog; `expected` lists parts of the error messages that the browser's console may have.
 */
function scene (name, run, expected = []) {
  if (wanted.length > 0 && !wanted.some((part) => name.includes(part))) return
  test(name, { timeout: 10 * PATIENCE_MS }, async () => {
    const told = []
    const contexts = []
    const open = async (options = {}) => {
      const context = await browser.newContext({
        locale: 'en-GB', timezoneId: 'Europe/Berlin', viewport: { width: 1440, height: 900 }, reducedMotion: 'reduce', ...options
      })
      contexts.push(context)
      context.setDefaultTimeout(PATIENCE_MS)
      const page = await context.newPage()
      watch(page, told, expected)
      return page
    }
    try {
      const page = await open()
      await run({ open, page, dialog: page.getByRole('dialog') })
      assert.deepEqual(told, [], 'the console of the browser tells errors')
    } catch (error) {
      await keepWhatIsShown(name, contexts)
      throw error
    } finally {
      await Promise.all(contexts.map((context) => context.close()))
    }
  })
}

/* Reports a measured value with the test, in tap.log and in the output of ./test browser. */
function figure (what, value, most, unit) {
  fs.appendFileSync(path.join(pictures, 'figures.txt'), `${what}: ${Number(value.toPrecision(3))} ${unit} (at most ${most})\n`)
  assert.ok(value <= most, `${what}: ${value} ${unit}, at most ${most}`)
}

/* In any language. */
async function logIn (page, { email, password }) {
  const form = page.locator('form.login')
  await form.locator('[type=email]').fill(email)
  await form.locator('[type=password]').fill(password)
  await form.locator('[type=submit]').click()
}

async function enter (page, person, view = '#/chat') {
  await page.goto(`${base}/console/${view}`)
  await logIn(page, person)
  await page.getByRole('banner').waitFor()
}

async function go (page, view) {
  const menu = page.locator('.side .toggle') // on narrow screens
  if (await menu.isVisible()) await menu.click()
  await page.getByRole('navigation').getByRole('link', { name: view, exact: true }).click()
}

/* Goes to a view by its address; loading the page again would end the session. */
const to = (page, address) => page.evaluate((hash) => { location.hash = hash }, `#${address}`)

/* Holds the requests to a path until the returned function is called, which lets them pass or does something else. */
async function hold (page, path, next = (route) => route.continue()) {
  let pass
  const held = new Promise((resolve) => { pass = resolve })
  await page.route(path, async (route) => { await held; await next(route) })
  return pass
}

/* Tries to close the page, and fails unless the browser asks. From then on the test itself handles questions. */
async function asksToClose (page) {
  page.removeAllListeners('dialog')
  const [question] = await Promise.all([page.waitForEvent('dialog'), page.close({ runBeforeUnload: true })])
  assert.equal(question.type(), 'beforeunload')
  await question.dismiss()
}

/* Closes the page, and fails if the browser asks. */
async function closes (page) {
  page.on('dialog', (question) => assert.fail(question.type()))
  await Promise.all([page.waitForEvent('close'), page.close({ runBeforeUnload: true })])
}

/* Scrolls down a long table, which has only the rows near the window, until it has this one. */
async function scrollTo (page, row) {
  await page.locator('tbody tr').first().waitFor()
  while (await row.count() === 0) {
    await page.evaluate(() => new Promise((resolve) => {
      const main = document.querySelector('.frame > main')
      const end = main.scrollTop + main.clientHeight >= main.scrollHeight - 1
      main.scrollTop = end ? 0 : main.scrollTop + main.clientHeight
      requestAnimationFrame(() => requestAnimationFrame(resolve))
    }))
  }
  await row.scrollIntoViewIfNeeded()
}

/* Types into a search and presses Enter, so that the search does not wait for a pause. */
const find = (page, text, label = 'Search') => page.getByLabel(label).fill(text).then(() => page.getByLabel(label).press('Enter'))

const button = (page, name) => page.getByRole('button', { name, exact: true })
const chain = (page) => page.getByRole('log')

/* Types the name that a dialog asks for before an action that cannot be undone, and starts the action. */
async function confirm (dialog, name, action = 'Delete') {
  assert.ok(await button(dialog, action).isDisabled(), 'the name is not typed yet')
  await button(dialog, action).dispatchEvent('click')
  assert.ok(await dialog.isVisible(), 'a disabled button does nothing')
  await dialog.getByLabel('To confirm, type:').fill(name)
  await button(dialog, action).click()
}

/* Returns the problems found by axe-core as text, or an empty result. `only`: these rules. */
async function findings (page, only) {
  if (!await page.evaluate(() => 'axe' in globalThis)) await page.evaluate(axe)
  const { violations } = await page.evaluate((values) => globalThis.axe.run(document, { resultTypes: ['violations'], ...(values && { runOnly: { type: 'rule', values } }) }), only)
  return violations.flatMap(({ id, impact, help, nodes }) => nodes.map((node) => `${impact} ${id}: ${help}: ${node.html.slice(0, 160)}`))
}

/* Runs in the page. Returns the elements that end outside of the window, that scroll sideways or hide a
 * part of their content, except texts that end with an ellipsis, and contents wider than their cell. */
function cutElements () {
  const ARROW_PX = 36 // with the padding
  const LONG_PX = 240 // longer names of users may be cut
  const pen = document.createElement('canvas').getContext('2d')
  const end = document.documentElement.clientWidth
  const found = [...document.querySelectorAll('body *')].filter((each) => {
    if (each.closest('.hidden, .skip, svg, thead, [aria-hidden=true]') || !each.checkVisibility()) return false
    const { left, right, width } = each.getBoundingClientRect()
    if (width > 0 && (left < -1 || right > end + 1)) return true
    if (each.tagName === 'SELECT' && each.value !== '' && !each.matches('.organization')) {
      pen.font = getComputedStyle(each).font
      const text = pen.measureText(each.selectedOptions[0].text).width
      return text < LONG_PX && text > each.clientWidth - ARROW_PX
    }
    if (each.clientWidth === 0 || each.scrollWidth <= each.clientWidth + 1 || /^(INPUT|TEXTAREA)$/.test(each.tagName)) return false
    const { overflowX, textOverflow } = getComputedStyle(each)
    return (overflowX !== 'visible' || /^(TD|DD)$/.test(each.tagName)) && textOverflow !== 'ellipsis'
  })
  return found.filter((each) => !found.some((other) => other !== each && each.contains(other)))
    .map((each) => `cut off: ${each.outerHTML.slice(0, 160)}`)
}

/* Waits until nothing moves or loads: two frames after the last request. */
async function settle (page) {
  await page.waitForFunction(() => !document.querySelector('[aria-busy=true], .loading'))
  await page.evaluate(() => document.fonts.ready.then(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))))
}

/* Enlarges the window so that the picture has the whole view, up to a limit: main scrolls, the page
 * does not. */
async function grow (page, width, height) {
  await page.setViewportSize({ width, height })
  await settle(page)
  const more = await page.evaluate(() => {
    const main = document.querySelector('.frame > main')
    return main && !document.querySelector('[role=dialog]') ? main.scrollHeight - main.clientHeight : 0
  })
  if (more > 0) await page.setViewportSize({ width, height: height + Math.min(more, MORE_PX) })
  await settle(page)
}

/*
 * Checks a view on three sizes in light, and on the largest and the smallest in dark: axe-core finds no problem, and
 * nothing is cut off. All parts of a view are in one of these two.
 */
async function look (page, name) {
  const wrong = []
  for (const [width, height, themes] of SIZES) {
    await page.emulateMedia({ colorScheme: 'light' })
    await grow(page, width, height)
    for (const colorScheme of themes) {
      await page.emulateMedia({ colorScheme })
      await settle(page)
      await page.screenshot({ path: path.join(pictures, `${name}-${colorScheme}-${width}.png`) })
      const found = await findings(page, colorScheme === 'dark' ? OF_COLORS : undefined)
      wrong.push(...found.map((finding) => `${colorScheme} ${width}: ${finding}`))
    }
    wrong.push(...(await page.evaluate(cutElements)).map((finding) => `${width}: ${finding}`))
  }
  await page.emulateMedia({ colorScheme: 'light' })
  await page.setViewportSize({ width: 1440, height: 900 })
  assert.deepEqual(wrong, [], `${name} keeps people out`)
}

/* Checks a view as it is, without another size or theme. */
async function fits (page, name) {
  await settle(page)
  await page.screenshot({ path: path.join(pictures, `${name}.png`) })
  assert.deepEqual([...await page.evaluate(cutElements), ...await findings(page)], [], `${name} keeps people out`)
}

module.exports = { scene, enter, logIn, go, to, hold, asksToClose, closes, scrollTo, find, button, confirm, chain, look, fits, settle, findings, figure }
