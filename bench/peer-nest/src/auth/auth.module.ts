import { Module } from '@nestjs/common'
import { PassportModule } from '@nestjs/passport'
import { TypeOrmModule } from '@nestjs/typeorm'

import { Account } from './account.entity'
import { AccountsService } from './accounts.service'
import { JwtStrategy } from './jwt.strategy'

@Module({
  imports: [TypeOrmModule.forFeature([Account]), PassportModule],
  providers: [AccountsService, JwtStrategy]
})
export class AuthModule {}
