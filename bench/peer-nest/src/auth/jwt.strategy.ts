import { createSecretKey } from 'node:crypto'

import { Injectable, UnauthorizedException } from '@nestjs/common'
import { PassportStrategy } from '@nestjs/passport'
import { ExtractJwt, Strategy } from 'passport-jwt'

import { Account } from './account.entity'
import { AccountsService } from './accounts.service'

export interface JwtPayload {
  sub: string
}

/*
 * The documentation passes the secret as text. jsonwebtoken 9 first tries to read a text as a public key, which
 * costs 0.4 ms of CPU per token, so this is a key object. @types/passport-jwt lacks key objects, so it is cast.
 */
const secretKey = createSecretKey(Buffer.from(process.env.JWT_SECRET ?? '')) as unknown as Buffer

/* A token may be valid longer than its account, so each request loads the account. */
@Injectable()
export class JwtStrategy extends PassportStrategy(Strategy) {
  constructor (private readonly accounts: AccountsService) {
    super({
      jwtFromRequest: ExtractJwt.fromAuthHeaderAsBearerToken(),
      ignoreExpiration: false,
      algorithms: ['HS256'],
      secretOrKey: secretKey
    })
  }

  async validate (payload: JwtPayload): Promise<Account> {
    const account = await this.accounts.findOne(payload.sub)

    if (account?.status !== 'Active') throw new UnauthorizedException()
    return account
  }
}
