/* Returns a PNG picture of this size in pixels: a color gradient. */
'use strict'
const zlib = require('node:zlib')

function crc32 (bytes) {
  let crc = ~0
  for (const byte of bytes) {
    crc ^= byte
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? crc >>> 1 ^ 0xedb88320 : crc >>> 1
  }
  return ~crc >>> 0
}

function chunk (type, data) {
  const body = Buffer.concat([Buffer.from(type), data])
  const out = Buffer.alloc(body.length + 8)
  out.writeUInt32BE(data.length)
  body.copy(out, 4)
  out.writeUInt32BE(crc32(body), body.length + 4)
  return out
}

function png (width, height) {
  const head = Buffer.alloc(13)
  head.writeUInt32BE(width)
  head.writeUInt32BE(height, 4)
  head.set([8, 2], 8) // 8 bits of red, green and blue
  const rows = Buffer.alloc(height * (width * 3 + 1))
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) rows.set([40 + 180 * x / width, 110, 220 - 160 * y / height], y * (width * 3 + 1) + 1 + x * 3)
  }
  return Buffer.concat([Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), chunk('IHDR', head), chunk('IDAT', zlib.deflateSync(rows)), chunk('IEND', Buffer.alloc(0))])
}

module.exports = { png }
