import { Injectable } from '@nestjs/common'
import { InjectRepository } from '@nestjs/typeorm'
import { Repository } from 'typeorm'

import { Account } from './account.entity'

@Injectable()
export class AccountsService {
  constructor (@InjectRepository(Account) private readonly accounts: Repository<Account>) {}

  findOne (email: string): Promise<Account | null> {
    return this.accounts.findOneBy({ email })
  }
}
