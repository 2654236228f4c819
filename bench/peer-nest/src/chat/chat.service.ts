import { randomUUID } from 'node:crypto'

import { ForbiddenException, Injectable, NotFoundException } from '@nestjs/common'
import { InjectRepository } from '@nestjs/typeorm'
import { DataSource, EntityManager, Repository } from 'typeorm'

import { CreateMessageDto, Message } from './dto/message.dto'
import { Conversation } from './entities/conversation.entity'
import { Entry } from './entities/entry.entity'
import { UnreadChange } from './entities/unread-change.entity'
import { Unread } from './entities/unread.entity'

@Injectable()
export class ChatService {
  constructor (
    @InjectRepository(Unread) private readonly unread: Repository<Unread>,
    private readonly dataSource: DataSource
  ) {}

  /* One statement, because the host's job may move a change into the totals between two statements. */
  async unreadCount (email: string): Promise<number> {
    const sums = await this.unread.createQueryBuilder('u')
      .select('coalesce(sum(u.messages), 0)', 'totals')
      .addSelect((query) => query.select('coalesce(sum(c.messages), 0)').from(UnreadChange, 'c')
        .where('c.email = :email AND NOT c.withheld'), 'changes')
      .where('u.email = :email AND NOT u.withheld', { email })
      .getRawOne<{ totals: string, changes: string }>()

    return Math.max(Number(sums?.totals) + Number(sums?.changes), 0)
  }

  /* insert() and not save(): the new rows have keys, and save() would first look for rows with these keys. */
  post (conversationId: number, { username, chatEntry }: CreateMessageDto): Promise<Message> {
    const entry = { conversationId, uuid: randomUUID(), username, chatEntry, createdAt: new Date() }

    return this.dataSource.transaction(async (manager) => {
      const conversation = await this.lock(manager, conversationId, username)

      this.count(conversation, username, entry.uuid)
      await manager.save(conversation)
      await manager.insert(Entry, { ...entry, seq: conversation.entries })
      await manager.insert(UnreadChange, this.change(conversation, username))
      return { uuid: entry.uuid, username, chatEntry, nextEntryUuid: null, createdAt: entry.createdAt }
    })
  }

  private async lock (manager: EntityManager, id: number, username: string): Promise<Conversation> {
    const conversation = await manager.findOne(Conversation,
      { where: { id }, lock: { mode: 'pessimistic_write' } })

    if (!conversation) throw new NotFoundException('Conversation not found')
    if (![conversation.participant1, conversation.participant2].includes(username)) {
      throw new ForbiddenException('username takes no part in this conversation')
    }
    return conversation
  }

  private count (conversation: Conversation, username: string, uuid: string): void {
    conversation.entries++
    conversation.counted++
    conversation.lastEntryUuid = uuid
    conversation.lastAt = new Date(Math.max(conversation.lastAt.getTime() + 1, Date.now()))
    if (conversation.participant1 === username) conversation.unread2++
    else conversation.unread1++
  }

  /* Adds one to the unread messages of the participant who did not write the message. */
  private change (conversation: Conversation, username: string): UnreadChange {
    const { participant1, participant2, withheld1, withheld2 } = conversation
    const by1 = participant1 === username

    return {
      email: by1 ? participant2 : participant1,
      organisation: conversation.organisation ?? 0,
      withheld: by1 ? withheld2 : withheld1,
      name: conversation.deviceProjectName,
      messages: 1,
      at: conversation.lastAt
    }
  }
}
