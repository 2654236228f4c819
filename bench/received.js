/*
 * Waits until the receiver has COUNT requests to paths that begin with PREFIX, and prints
 * "requests messages p50 p99 max last". messages is the number of distinct webhook-ids, summed over the paths.
 * p50, p99 and max are microseconds since sentAt, of the slowest path. last is the time of the last request, in
 * milliseconds since 1970.
 *
 *     node received.js PORT PREFIX COUNT SECONDS
 *
 * Fails if the requests do not arrive within SECONDS. Does not wait for more than COUNT requests.
 */
'use strict'
const [port, prefix, count, seconds] = process.argv.slice(2)

async function get (path) {
  return (await fetch(`http://127.0.0.1:${port}${path}`)).json()
}

function us (ms) {
  return Math.max(0, Math.round(ms * 1000))
}

async function main () {
  const until = Date.now() + 1000 * seconds
  let got
  while ((got = (await get(`/count?${prefix}`)).requests) < count) {
    if (Date.now() > until) throw new Error(`only ${got} of ${count} deliveries came to ${prefix}`)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  const stats = await get('/stats')
  const paths = Object.entries(stats.paths).filter(([name]) => name.startsWith(prefix))
    .map(([, path]) => path)
  const sum = (of) => paths.reduce((total, path) => total + path[of], 0)
  const most = (of) => us(Math.max(...paths.map((path) => path[of])))
  console.log(sum('requests'), sum('ids'), most('p50'), most('p99'), most('max'), stats.lastMs)
}

main().catch((error) => { console.error(`received.js: ${error.message}`); process.exit(1) })
