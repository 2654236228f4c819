import { Module } from '@nestjs/common'
import { TypeOrmModule } from '@nestjs/typeorm'

import { AuthModule } from '../auth/auth.module'
import { ChatController } from './chat.controller'
import { ChatService } from './chat.service'
import { Conversation } from './entities/conversation.entity'
import { Entry } from './entities/entry.entity'
import { UnreadChange } from './entities/unread-change.entity'
import { Unread } from './entities/unread.entity'

@Module({
  imports: [AuthModule, TypeOrmModule.forFeature([Conversation, Entry, Unread, UnreadChange])],
  controllers: [ChatController],
  providers: [ChatService]
})
export class ChatModule {}
