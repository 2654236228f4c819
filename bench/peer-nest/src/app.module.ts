import { Module } from '@nestjs/common'
import { TypeOrmModule } from '@nestjs/typeorm'

import { ChatModule } from './chat/chat.module'

@Module({
  imports: [
    TypeOrmModule.forRoot({
      type: 'postgres',
      host: process.env.PGHOST,
      username: process.env.PGUSER,
      database: process.env.PGDATABASE,
      poolSize: Number(process.env.POOL || 8),
      autoLoadEntities: true,
      retryAttempts: 0
    }),
    ChatModule
  ]
})
export class AppModule {}
