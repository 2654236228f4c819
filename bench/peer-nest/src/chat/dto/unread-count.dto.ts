import { IsEmail, MaxLength } from 'class-validator'

export class UnreadCountParams {
  @IsEmail()
  @MaxLength(254)
  email!: string
}

export interface UnreadCount {
  count: number
}
