import { Column, Entity, PrimaryColumn } from 'typeorm'

import { bigint } from './bigint'

@Entity('chat_entry')
export class Entry {
  @PrimaryColumn({ name: 'conversation_id', type: 'bigint', transformer: bigint })
  conversationId!: number

  @PrimaryColumn({ type: 'bigint', transformer: bigint })
  seq!: number

  @Column({ type: 'uuid' })
  uuid!: string

  @Column({ type: 'text' })
  username!: string

  @Column({ name: 'chat_entry', type: 'text' })
  chatEntry!: string

  @Column({ name: 'created_at', type: 'timestamptz' })
  createdAt!: Date
}
