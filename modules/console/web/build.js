/*
 * Builds dist/: the page, and in dist/assets/ its scripts, styles and pictures. Each asset's name has a hash
 * of its content, so that browsers may cache it forever. Each file also has compressed versions next to it.
 */
import fs from 'node:fs'
import path from 'node:path'
import zlib from 'node:zlib'

import * as esbuild from 'esbuild'

const made = await esbuild.build({
  entryPoints: ['src/main.tsx', 'src/icon.svg'],
  outdir: 'dist.new/assets',
  entryNames: '[name]-[hash]',
  chunkNames: '[name]-[hash]',
  assetNames: '[name]-[hash]',
  publicPath: '/console/assets',
  bundle: true,
  splitting: true,
  inject: ['src/shared.ts'],
  format: 'esm',
  target: 'es2022',
  jsx: 'automatic',
  minify: true,
  metafile: true,
  legalComments: 'none',
  loader: { '.svg': 'copy' },
  define: { 'process.env.NODE_ENV': '"production"' }
})

function compress (file) {
  const bytes = fs.readFileSync(file)
  const level = { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 11 } }

  fs.writeFileSync(`${file}.br`, zlib.brotliCompressSync(bytes, level))
  fs.writeFileSync(`${file}.gz`, zlib.gzipSync(bytes, { level: 9 }))
}

const outputs = Object.keys(made.metafile.outputs)
const main = outputs.find((file) => made.metafile.outputs[file].entryPoint === 'src/main.tsx')
const files = {
  script: main,
  style: made.metafile.outputs[main].cssBundle,
  icon: outputs.find((file) => /icon-.*\.svg$/.test(file))
}
let page = fs.readFileSync('index.html', 'utf8')

for (const [name, file] of Object.entries(files)) page = page.replace(`{${name}}`, `/console/assets/${path.basename(file)}`)
fs.writeFileSync('dist.new/index.html', page)
for (const file of [...outputs, 'dist.new/index.html']) compress(file)
fs.rmSync('dist', { recursive: true, force: true })
fs.renameSync('dist.new', 'dist')
