import {
  Body, Controller, ForbiddenException, Get, Param, ParseIntPipe, Post, Request, UseGuards
} from '@nestjs/common'
import { AuthGuard } from '@nestjs/passport'

import { Account } from '../auth/account.entity'
import { ChatService } from './chat.service'
import { CreateMessageDto, Message } from './dto/message.dto'
import { UnreadCount, UnreadCountParams } from './dto/unread-count.dto'

interface Authenticated {
  user: Account
}

@Controller('api/chat')
@UseGuards(AuthGuard('jwt'))
export class ChatController {
  constructor (private readonly chat: ChatService) {}

  @Get('unread-count/:email')
  async unreadCount (@Request() request: Authenticated,
    @Param() { email }: UnreadCountParams): Promise<UnreadCount> {
    if (email !== request.user.email) throw new ForbiddenException()
    return { count: await this.chat.unreadCount(email) }
  }

  @Post('conversations/:id/messages')
  post (@Request() request: Authenticated, @Param('id', ParseIntPipe) id: number,
    @Body() message: CreateMessageDto): Promise<Message> {
    if (message.username !== request.user.email) throw new ForbiddenException()
    return this.chat.post(id, message)
  }
}
