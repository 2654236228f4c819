import { IsEmail, IsString, Length, MaxLength } from 'class-validator'

export class CreateMessageDto {
  @IsEmail()
  @MaxLength(254)
  username!: string

  @IsString()
  @Length(1, 1048576)
  chatEntry!: string
}

export interface Message {
  uuid: string
  username: string
  chatEntry: string
  nextEntryUuid: null
  createdAt: Date
}
