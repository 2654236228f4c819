import { Column, Entity, PrimaryColumn } from 'typeorm'

import { bigint } from './bigint'

/* TypeORM requires a key, but the table has none. Rows are only inserted and summed, so any key works. */
@Entity('chat_unread_change')
export class UnreadChange {
  @PrimaryColumn({ type: 'text' })
  email!: string

  @Column({ type: 'bigint', transformer: bigint })
  organisation!: number

  @Column({ type: 'boolean' })
  withheld!: boolean

  @Column({ type: 'text', nullable: true })
  name!: string | null

  @Column({ type: 'bigint', transformer: bigint })
  messages!: number

  @PrimaryColumn({ type: 'timestamptz' })
  at!: Date
}
