import { ValueTransformer } from 'typeorm'

/* pg returns a bigint as text; none of these numbers exceeds 2^53. */
export const bigint: ValueTransformer = {
  to: (value: number | null) => value,
  from: (text: string | null) => text === null ? null : Number(text)
}
