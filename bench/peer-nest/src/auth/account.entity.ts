import { Column, Entity, PrimaryColumn } from 'typeorm'

@Entity('auth_account')
export class Account {
  @PrimaryColumn({ type: 'bigint' })
  id!: string

  @Column({ type: 'text' })
  email!: string

  @Column({ type: 'text' })
  role!: string

  @Column({ type: 'text' })
  status!: string
}
