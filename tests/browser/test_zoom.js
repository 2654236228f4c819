/* All views at 200 % zoom, which has half the width and twice the pixels. */
'use strict'
const { scene, to, enter, fits, button } = require('./stage')
const { admin, request, call, register, member, converse, say } = require('./service')
const { grouped } = require('./test_groups')

/* The addresses of all views with something in them, and a text of each. */
async function addresses () {
  const person = await member('Perzoom', 'ApiUser')
  const token = person.token
  const group = await grouped(person, 'PZ-1', [4000])
  const { conversation } = await converse(person, admin, 'Is it large enough?', 'PZ-1')
  const hook = await call('POST', '/api/chat/webhooks', token, { url: 'http://127.0.0.1:9/a/path/of/some/length', events: [] })
  const form = new FormData()

  form.append('file', new Blob(['externalId,capacity\nPZ-2,5\nPZ-3,-5\n']), 'plants.csv')
  const job = await (await request('POST', '/api/bulk-upload?type=Devices', token, form)).json()
  await say(admin, conversation.id, 'It is.')
  await call('POST', `/api/chat/webhooks/${hook.id}/test`, token, { event: 'ping' })
  const [{ id: delivery }] = await call('GET', `/api/chat/webhooks/${hook.id}/deliveries`, token)
  const hooked = [['', 'Deliveries'], ['/replay', 'Period'], ['/settings', 'Replaces the secret'], ['/verify', 'Standard Webhooks'], ['/edit', 'Description'], [`/deliveries/${delivery}`, 'Attempt 1']]
  return [
    [person, [['overview', 'PZ-1'], ['chat', 'It is.'], [`chat/${conversation.id}`, 'Live'], ['devices', 'PZ-1'], ['devices/PZ-1', 'Coverage'], ['groups', 'Group PZ-1'], [`groups/${group.id}`, 'Shared with'], ['bulk', 'plants.csv'], [`bulk/${job.bulkUploadId}`, 'PZ-3'], ['certificates', 'Export as CSV'], ['clients', 'No API clients'], ['account', 'Sessions'], ['webhooks', '/a/path'], ['webhooks/events', 'Example'], ...hooked.map(([part, text]) => [`webhooks/${hook.id}${part}`, text])]],
    [admin, [['overview', 'Unread messages'], ['accounts', 'Approve'], ['accounts/organizations', 'An API user that acts'], ['audit', 'Succeeded'], ['status', 'Everything works'], ['nonsense', 'No such page']]]
  ]
}

scene('zoom: at 200 % zoom nothing is cut off in any view', async ({ open }) => {
  await register('Perpending')
  for (const [person, views] of await addresses()) {
    const page = await open({ viewport: { width: 720, height: 450 }, deviceScaleFactor: 2 })
    await enter(page, person)
    for (const [address, text] of views) {
      await to(page, `/${address}`)
      await page.getByRole('main').getByText(text).filter({ visible: true }).first().waitFor()
      await fits(page, `zoom-${address.replace(/\W/g, '-')}`)
    }
    await button(page, 'Menu').click()
    await fits(page, `zoom-menu-${person.id ?? 'admin'}`)
  }
}, ['status of 404'])
