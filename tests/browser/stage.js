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
const WIDTHS = [1280, 400]
const MORE_PX = 2400
const PATIENCE_MS = 100000 // a busy machine takes long; no test waits for the end of this time
const flags = ['--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync']
const wanted = process.argv.slice(2)
const consoles = new Map()
let browser

before(async () => {
  fs.mkdirSync(pictures, { recursive: true })
  browser = await chromium.launch({ executablePath: process.env.BUSBAR_CHROMIUM ?? '/usr/bin/chromium', args: flags, chromiumSandbox: Boolean(process.env.BUSBAR_SANDBOX) })
})
after(() => browser?.close())

/* Chromium itself logs failed requests; a test lists the ones it expects in `expected`. */
function watch (page, told, expected) {
  consoles.set(page, [])
  page.on('console', (message) => {
    consoles.get(page).push(message.text())
    if (message.type() === 'error' && !expected.some((words) => message.text().includes(words))) told.push(message.text())
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
 * scene(NAME, async ({ open }) => …): defines a test. `open(options)` returns a page of a new
 * context; `expected` lists parts of the error messages that the browser's console may have.
 */
function scene (name, run, expected = []) {
  if (wanted.length > 0 && !wanted.some((part) => name.includes(part))) return
  test(name, { timeout: 10 * PATIENCE_MS }, async () => {
    const told = []
    const contexts = []
    const open = async (options = {}) => {
      const context = await browser.newContext({
        locale: 'en-GB', timezoneId: 'Europe/Berlin', viewport: { width: 1280, height: 800 }, acceptDownloads: true, ...options
      })
      contexts.push(context)
      context.setDefaultTimeout(PATIENCE_MS)
      const page = await context.newPage()
      watch(page, told, expected)
      return page
    }
    try {
      await run({ open })
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

async function enter (page, person, view = '#/chat') {
  await page.goto(`${base}/console/${view}`)
  await page.getByLabel('E-mail').fill(person.email)
  await page.getByLabel('Password').fill(person.password)
  await page.getByRole('button', { name: 'Log in' }).click()
  await page.getByRole('banner').waitFor()
}

async function go (page, view) {
  const menu = page.locator('.side .toggle') // on narrow screens
  if (await menu.isVisible()) await menu.click()
  await page.getByRole('navigation').getByRole('link', { name: view, exact: true }).click()
}

/* Goes to a view by its address; loading the page again would end the session. */
const to = (page, address) => page.evaluate((hash) => { location.hash = hash }, `#${address}`)

/* Scrolls down a long table, which has only the rows near the window, until it has this one. */
async function scrollTo (page, row) {
  await page.locator('tbody tr').first().hover()
  while (await row.count() === 0) await page.mouse.wheel(0, 1500)
  await row.scrollIntoViewIfNeeded()
}

const button = (page, name) => page.getByRole('button', { name, exact: true })
const chain = (page) => page.getByRole('log')

/* Returns the problems found by axe-core as text, or an empty result. */
async function findings (page) {
  await page.evaluate(axe)
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }))
  return violations.flatMap(({ id, impact, help, nodes }) => nodes.map((node) => `${impact} ${id}: ${help}: ${node.html.slice(0, 160)}`))
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

/* Checks a view in light and dark, wide and narrow: axe-core finds no problem, and the view fits
 * the width. */
async function look (page, name) {
  const wrong = []
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
    for (const width of WIDTHS) {
      await grow(page, width, width === 400 ? 860 : 800)
      await page.screenshot({ path: path.join(pictures, `${name}-${colorScheme}-${width}.png`) })
      const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)
      if (over > 0) wrong.push(`${colorScheme} ${width}: ${over} px wider than the window`)
      wrong.push(...(await findings(page)).map((finding) => `${colorScheme} ${width}: ${finding}`))
    }
  }
  await page.emulateMedia({ colorScheme: 'light' })
  await page.setViewportSize({ width: 1280, height: 800 })
  assert.deepEqual(wrong, [], `${name} keeps people out`)
}

module.exports = { scene, enter, go, to, scrollTo, button, chain, look, settle, findings, figure }
