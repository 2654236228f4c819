/* A number over the last minutes: its current value, and a line of its history. */
export function Spark ({ title, values, show }: { title: string, values: number[], show: (value: number) => string }) {
  const last = values[values.length - 1]
  const most = Math.max(1e-9, ...values)
  const points = values
    .map((value, i) => `${values.length > 1 ? (i / (values.length - 1)) * 200 : 0},${38 - (value / most) * 34}`)
    .join(' ')

  return (
    <figure className='panel spark'>
      <figcaption>{title}</figcaption>
      <strong>{last === undefined ? '…' : show(last)}</strong>
      <svg viewBox='0 0 200 40' preserveAspectRatio='none' aria-hidden='true'><polyline points={points} /></svg>
    </figure>
  )
}
