import { Column, Entity, PrimaryColumn } from 'typeorm'

import { bigint } from './bigint'

@Entity('chat_unread')
export class Unread {
  @PrimaryColumn({ type: 'text' })
  email!: string

  @PrimaryColumn({ type: 'bigint', transformer: bigint })
  organisation!: number

  @PrimaryColumn({ type: 'boolean' })
  withheld!: boolean

  @Column({ type: 'bigint', transformer: bigint })
  messages!: number
}
