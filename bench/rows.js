/*
 * Writes a file for a bulk upload to standard output: node rows.js devices|reads|mixed ROWS [DEVICES]. Readings are
 * hourly, of devices d1, d2, …: device by device, or mixed, hour by hour.
 */
'use strict'

const [what, rows, devices] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])]
const out = []
const hour = 3600000
const first = Date.UTC(2016, 0, 1)
const time = (ms) => new Date(ms).toISOString().slice(0, 19) + 'Z'

function device (n) {
  return `PLANT-${n},"Rooftop ${n}, north side of the hall",DE,2024-05-01,${n % 900 + 0.5},` +
    `"Industriestrasse ${n % 300}, 10${String(n % 1000).padStart(3, '0')} Berlin, Germany, entrance ` +
    `by the yard",52.${5000 + n % 4000},13.${4000 + n % 5000},ES100,TC110,SN-${4711 + n},` +
    'Europe/Berlin,1000'
}

function reading (n, start) {
  return `d${n},History,${time(start)},${time(start + hour)},${n % 50 + 1.5},kWh`
}

out.push(what === 'devices'
  ? 'externalId,siteName,countryCode,commissioningDate,capacity,address,latitude,longitude,' +
    'fuelCode,deviceTypeCode,serialNumber,timezone,yieldValue'
  : 'externalId,type,startDate,endDate,value,unit')
for (let i = 0; i < rows; i++) {
  const each = rows / devices
  const place = what === 'mixed'
    ? [i % devices, Math.floor(i / devices)]
    : [Math.floor(i / each), i % each]

  out.push(what === 'devices' ? device(i) : reading(place[0] + 1, first + place[1] * hour))
}
process.stdout.write(out.join('\n') + '\n')
