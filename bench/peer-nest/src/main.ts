/*
 * The peer in NestJS with which busbar is compared: NestJS on Express, TypeORM and passport-jwt as their
 * documentation shows them, one worker per core. It has no log of requests and no events.
 *
 * Environment: PORT, PGHOST, PGUSER, PGDATABASE; JWT_SECRET, which signs the tokens; POOL, the number of
 * connections of a worker.
 */
import 'reflect-metadata'
import cluster from 'node:cluster'
import { availableParallelism } from 'node:os'

import { ValidationPipe } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'

import { AppModule } from './app.module'

async function bootstrap (): Promise<void> {
  const app = await NestFactory.create(AppModule, { logger: ['error', 'fatal'], abortOnError: false })

  app.useGlobalPipes(new ValidationPipe())
  await app.listen(Number(process.env.PORT), '127.0.0.1')
}

if (cluster.isPrimary) {
  for (let core = 0; core < availableParallelism(); core++) cluster.fork()
  cluster.on('exit', () => process.exit(1))
  process.on('SIGTERM', () => process.exit(0))
} else {
  process.on('disconnect', () => process.exit(0))
  bootstrap().catch((error: Error) => {
    console.error(error.message)
    process.exit(1)
  })
}
