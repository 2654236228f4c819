/* Saves objects as a CSV file (RFC 4180) with a header. */

const FORMULA = /(^|[;,|\t\r\n])([ "]*)(?=[=+\-@＝＋－＠])/g // also in a spreadsheet with another separator

/* Formulas get an apostrophe, as in the exports of the service. */
function cell (value: unknown): string {
  if (value === null || value === undefined) return ''
  const given = String(value)
  const text = /^[+-]?[\d.]+$/.test(given) ? given : given.replace(/^(?=[\t\r\n])/, "'").replace(FORMULA, "$1$2'")
  return /[",;|\t\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

export function saveCsv<Item> (name: string, items: Item[], columns: [string, (item: Item) => unknown][]) {
  const lines = [columns.map(([title]) => title), ...items.map((item) => columns.map(([, of]) => cell(of(item))))]
  const link = document.createElement('a')
  const text = lines.map((line) => `${line.join(',')}\r\n`).join('')

  link.href = URL.createObjectURL(new Blob([text], { type: 'text/csv' }))
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 60000)
}
