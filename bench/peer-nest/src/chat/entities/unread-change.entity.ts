import { Column, Entity, PrimaryColumn } from 'typeorm'

import { bigint } from './bigint'

/* The table has no key, and TypeORM wants one: these rows are only inserted and added up. */
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
