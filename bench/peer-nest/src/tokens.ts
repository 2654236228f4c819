/*
 * Prints the tokens of u1@bench.test … u10000@bench.test in that order, one per line.
 * Environment: JWT_SECRET.
 */
import { JwtService } from '@nestjs/jwt'

const accounts = 10000
const service = new JwtService({
  secret: process.env.JWT_SECRET,
  signOptions: { algorithm: 'HS256', expiresIn: '1d' }
})
const lines = Array.from({ length: accounts }, (_, i) => service.sign({ sub: `u${i + 1}@bench.test` }))

process.stdout.write(lines.join('\n') + '\n')
