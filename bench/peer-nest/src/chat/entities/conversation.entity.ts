import { Column, Entity, PrimaryColumn } from 'typeorm'

import { bigint } from './bigint'

@Entity('chat_conversation')
export class Conversation {
  @PrimaryColumn({ type: 'bigint', transformer: bigint })
  id!: number

  @Column({ type: 'bigint', nullable: true, transformer: bigint })
  organisation!: number | null

  @Column({ type: 'bigint', transformer: bigint })
  entries!: number

  @Column({ name: 'last_at', type: 'timestamptz' })
  lastAt!: Date

  @Column({ name: 'last_entry_uuid', type: 'uuid' })
  lastEntryUuid!: string

  @Column({ type: 'text' })
  participant1!: string

  @Column({ type: 'text' })
  participant2!: string

  @Column({ type: 'int' })
  unread1!: number

  @Column({ type: 'int' })
  unread2!: number

  @Column({ type: 'boolean' })
  withheld1!: boolean

  @Column({ type: 'boolean' })
  withheld2!: boolean

  @Column({ name: 'device_project_name', type: 'text', nullable: true })
  deviceProjectName!: string | null

  /* Incremented by the code that inserts the UnreadChange. */
  @Column({ type: 'bigint', transformer: bigint })
  counted!: number
}
