/*
 * Builds dist/: the page, and in dist/assets/ the files that it uses. Each asset's name has a hash of its
 * content, so that browsers may cache it forever. Each file also has compressed versions next to it.
 */
'use strict'
const crypto = require('node:crypto')
const fs = require('node:fs')
const path = require('node:path')
const zlib = require('node:zlib')

const here = __dirname
const swagger = path.dirname(require.resolve('swagger-ui-dist/package.json'))
const files = {
  'swagger-ui-bundle.js': swagger,
  'swagger-ui.css': swagger,
  'favicon-32x32.png': swagger,
  'page.css': here,
  'page.js': here
}

function compress (file, bytes) {
  if (file.endsWith('.png')) return
  const level = { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 11 } }
  fs.writeFileSync(`${file}.br`, zlib.brotliCompressSync(bytes, level))
  fs.writeFileSync(`${file}.gz`, zlib.gzipSync(bytes, { level: 9 }))
}

function write (file, bytes) {
  fs.writeFileSync(file, bytes)
  compress(file, bytes)
}

/* Removes the line that names a source map, because maps are not served. */
function content (name) {
  const bytes = fs.readFileSync(path.join(files[name], name))
  if (name.endsWith('.png')) return bytes
  return Buffer.from(bytes.toString().replace(/\n?(\/\/|\/\*)# sourceMappingURL=.*\n?/g, '\n'))
}

function main () {
  const fresh = path.join(here, 'dist.new')
  let page = fs.readFileSync(path.join(here, 'page.html'), 'utf8')

  fs.rmSync(fresh, { recursive: true, force: true })
  fs.mkdirSync(path.join(fresh, 'assets'), { recursive: true })
  for (const name of Object.keys(files)) {
    const bytes = content(name)
    const hash = crypto.createHash('sha256').update(bytes).digest('hex').slice(0, 8)
    const { name: stem, ext } = path.parse(name)
    const hashed = `${stem}-${hash}${ext}`

    write(path.join(fresh, 'assets', hashed), bytes)
    page = page.replace(`{${name}}`, `/swagger/assets/${hashed}`)
  }
  write(path.join(fresh, 'index.html'), Buffer.from(page))
  fs.rmSync(path.join(here, 'dist'), { recursive: true, force: true })
  fs.renameSync(fresh, path.join(here, 'dist'))
}

main()
