/* The catalogs of the console: each language has every text with the same values, and the sources
 * contain no other texts. */
'use strict'
const assert = require('node:assert/strict')
const fs = require('node:fs')
const path = require('node:path')
const { scene } = require('./stage')

const web = path.join(__dirname, '../../modules/console/web/src')
const LANGUAGES = ['en', 'de']
const SAME = /^(busbar|client_id|client_secret)$/ // proper names

/* Returns the entries of a catalog, parsed from its source: 'key': 'text'. */
function catalogue (language) {
  const source = fs.readFileSync(path.join(web, 'texts', `${language}.ts`), 'utf8')
  return new Map([...source.matchAll(/'([A-Za-z]+(?:\.[A-Za-z0-9_]+)+)': '((?:[^'\\]|\\.)*)'/g)].map(([, key, text]) => [key, text]))
}

const valuesOf = (text) => [...text.matchAll(/\{(\w+)\}/g)].map(([, name]) => name).sort()

function sources () {
  return fs.readdirSync(web, { recursive: true }).filter((file) => /\.tsx?$/.test(file) && !/^(texts\/(en|de)\.ts|api\/)/.test(file))
    .map((file) => [file, fs.readFileSync(path.join(web, file), 'utf8')])
}

scene('texts: every language has every text, with the same values', async () => {
  const [first, ...others] = LANGUAGES.map(catalogue)

  assert.ok(first.size > 200, `${first.size} texts`)
  for (const other of others) {
    assert.deepEqual([...other.keys()].sort(), [...first.keys()].sort())
    for (const [key, text] of first) {
      assert.ok(other.get(key).trim(), key)
      assert.deepEqual(valuesOf(other.get(key)), valuesOf(text), key)
    }
  }
})

scene('texts: texts that depend on a number contain it, and get a number', async () => {
  const all = sources().map(([, source]) => source).join('\n')

  for (const language of LANGUAGES) {
    for (const [key, text] of catalogue(language)) {
      for (const [, name] of text.matchAll(/\{(\w+)\|[^|}]+\|[^|}]+\}/g)) assert.ok(valuesOf(text).includes(name) && !new RegExp(`'${key}', \\{[^}]*\\b${name}: as`).test(all), `${language} ${key}`)
      assert.ok(!/[{}]/.test(text.replace(/\{\w+(\|[^{}|]+\|[^{}|]+)?\}/g, '')), `${language} ${key}`)
    }
  }
})

scene('texts: every text is used', async () => {
  const all = sources().map(([, source]) => source).join('\n')
  const groups = [...all.matchAll(/(?:t\(`([\w.]+\.)\$|named\('(\w+))/g)].map(([, prefix, group]) => prefix ?? `${group}.`)

  for (const key of catalogue('en').keys()) {
    assert.ok(all.includes(`'${key}'`) || groups.some((group) => key.startsWith(group)), `${key} is not used`)
  }
})

scene('texts: every code of the host has a text with its parameter', async () => {
  const reference = fs.readFileSync(path.join(__dirname, '../../docs/reference.md'), 'utf8')
  const rows = [...reference.matchAll(/^\| `(\w+)` \| [^|]+ \|(?: `(\w+)`)? \|$/gm)]
  const texts = catalogue('en')

  assert.ok(rows.length > 30)
  for (const [, code, param] of rows) assert.deepEqual([...new Set(valuesOf(texts.get(`problem.${code}`) ?? ''))], param ? [param] : [], code)
})

scene('texts: no text is outside of the catalogs', async () => {
  const found = []

  for (const [file, source] of sources().filter(([name]) => name.endsWith('.tsx'))) {
    const code = source.replace(/\/\*[\s\S]*?\*\//g, '')
    for (const [, text] of code.matchAll(/<\/?[A-Za-z][^<>{}]*>([^<>{}();=]*[A-Za-z]{2,}[^<>{}();=]*)<\/?[A-Za-z]/g)) found.push([file, text.trim()])
    for (const [, text] of code.matchAll(/\b(?:title|aria-label|placeholder|alt|label)='([^']+)'/g)) found.push([file, text])
  }
  assert.deepEqual(found.filter(([, text]) => !SAME.test(text)), [])
})

scene('texts: every response of the service goes through the function that shows warnings', async () => {
  const places = ['api/client.ts', 'api/stream.ts']
  const others = fs.readdirSync(web, { recursive: true }).map(String).filter((file) => /\.tsx?$/.test(file) && !places.includes(file))

  for (const file of others) assert.ok(!/\bfetch\(|XMLHttpRequest|\.json\(\)/.test(fs.readFileSync(path.join(web, file), 'utf8')), file)
})

module.exports = { catalogue }
