import { ValueTransformer } from 'typeorm'

/* pg gives a bigint as text; none of these goes beyond 2^53. */
export const bigint: ValueTransformer = {
  to: (value: number | null) => value,
  from: (text: string | null) => text === null ? null : Number(text)
}
