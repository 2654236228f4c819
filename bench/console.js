/*
 * Uses the console as a person does, in a new browser, and prints the times that the person waits, in microseconds, as
 * lines of "measure value": node console.js loopback|slow. `slow` is a network of 1.6 Mbit/s with a round trip of
 * 150 ms. Environment: BASE, BUSBAR_PASSWORD, and LAST, the beginning of the last message.
 */
'use strict'
const { chromium } = require('../tests/browser/node_modules/playwright-core')

const SLOW = { offline: false, latency: 150, downloadThroughput: 200000, uploadThroughput: 200000 } // bytes per second
const { BASE: base, BUSBAR_PASSWORD: password, LAST: last } = process.env

/* Collects the tasks of the main thread of at least 50 ms, and the events whose effect is visible only later. */
function observe () {
  globalThis.seen = { longtask: [], event: [] }
  for (const type of ['longtask', 'event']) {
    new PerformanceObserver((list) => {
      globalThis.seen[type].push(...list.getEntries().map(({ name, duration }) => ({ name, duration })))
    }).observe({ type, buffered: true, durationThreshold: 16 })
  }
}

/* Clicks a link, and returns the milliseconds until an element with the text is within the window. */
function clickUntil ([place, text]) {
  const began = performance.now()
  const shown = () => [...document.querySelectorAll('[role=log] *')].some((each) => {
    if (each.children.length > 0 || !each.textContent.startsWith(text)) return false
    const { top, bottom } = each.getBoundingClientRect()
    return top >= 0 && bottom <= innerHeight && bottom > top
  })

  document.querySelector(place).click()
  return new Promise((resolve) => {
    const look = () => shown() ? resolve(performance.now() - began) : requestAnimationFrame(look)
    look()
  })
}

async function measure (page) {
  const print = (name, ms) => console.log(name, Math.round(ms * 1000))
  const most = async (type) => Math.max(0, ...await page.evaluate((of) => {
    const found = globalThis.seen[of].filter(({ name }) => of === 'longtask' || /^(key|input|beforeinput)/.test(name))
    globalThis.seen[of] = []
    return found.map(({ duration }) => duration)
  }, type))

  await page.goto(`${base}/console/#/chat`)
  await page.getByLabel('E-mail').fill('person@bench.test')
  await page.getByLabel('Password').fill(password)
  await page.getByRole('button', { name: 'Log in' }).click()
  const link = page.getByRole('link', { name: /writer@bench.test/ })
  await link.waitFor()
  await page.waitForTimeout(1000) // what a person needs to find the conversation
  const place = `a[href="${await link.getAttribute('href')}"]`
  await most('longtask')
  print('open', await page.evaluate(clickUntil, [place, last]))
  await page.waitForTimeout(1000) // what still happens after the message is visible
  print('open-task', await most('longtask'))

  await page.getByRole('navigation').getByRole('link', { name: 'Devices', exact: true }).click()
  await page.getByText('Rooftop').first().waitFor()
  const search = page.getByLabel('Search by name or number')
  await most('event')
  await search.pressSequentially('rooftop 4711', { delay: 100 })
  await page.getByText('Rooftop 4711').waitFor()
  print('typing', await most('event'))
}

async function main () {
  const browser = await chromium.launch({ executablePath: '/usr/bin/chromium-headless-shell', args: ['--disable-gpu', '--no-first-run'], chromiumSandbox: false })
  try {
    const context = await browser.newContext({ locale: 'en-GB', viewport: { width: 1440, height: 900 } })
    const page = await context.newPage()
    await page.addInitScript(observe)
    if (process.argv[2] === 'slow') {
      const session = await context.newCDPSession(page)
      await session.send('Network.enable')
      await session.send('Network.emulateNetworkConditions', SLOW)
    }
    await measure(page)
  } finally {
    await browser.close()
  }
}

main().catch((error) => { console.error(error); process.exit(1) })
