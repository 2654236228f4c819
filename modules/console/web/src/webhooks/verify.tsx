/* How a receiver verifies that a delivery is genuine: with the secret in five languages, and with a public key. */
import { useState } from 'react'

import type { Webhook } from '../api/types'
import { t } from '../texts/texts'
import { Copy } from '../ui/ui'
import { pathOf, urlOf } from './parts'

const HEADER = 'X-Webhook-Signature'

const secret: Record<string, string> = {
  'Node.js': `const { createHmac, timingSafeEqual } = require('node:crypto')

function genuine (body, signature, secret) { // body: the bytes as they came
  const own = createHmac('sha256', secret).update(body).digest()
  const given = Buffer.from(signature, 'hex')
  return given.length === own.length && timingSafeEqual(own, given)
}`,
  Python: `import hashlib, hmac

def genuine(body: bytes, signature: str, secret: str) -> bool:
    own = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(own, signature)`,
  Go: `func genuine(body []byte, signature, secret string) bool {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	given, err := hex.DecodeString(signature)
	return err == nil && hmac.Equal(mac.Sum(nil), given)
}`,
  PHP: `function genuine(string $body, string $signature, string $secret): bool {
    return hash_equals(hash_hmac('sha256', $body, $secret), $signature);
}`,
  Java: `static boolean genuine(byte[] body, String signature, String secret) throws Exception {
    Mac mac = Mac.getInstance("HmacSHA256");
    mac.init(new SecretKeySpec(secret.getBytes(StandardCharsets.UTF_8), "HmacSHA256"));
    return MessageDigest.isEqual(mac.doFinal(body), HexFormat.of().parseHex(signature));
}`,
  curl: `# signs a body as the service does, and sends it to your receiver
body='{"event":"ping"}'
signature=$(printf %s "$body" | openssl dgst -sha256 -hmac "$WEBHOOK_SECRET" -hex | sed 's/.* //')
curl -H 'Content-Type: application/json' -H "X-Webhook-Signature: $signature" -d "$body" {url}`
}

const publicKey = `const { createPublicKey, verify } = require('node:crypto')

// key: a member of "keys" at the address above; body: the bytes as they came
function genuine (key, headers, body) {
  const text = Buffer.concat([Buffer.from(\`\${headers['webhook-id']}.\${headers['webhook-timestamp']}.\`), body])
  const given = headers['webhook-signature'].split(' ').filter((each) => each.startsWith('v1a,'))
  const known = createPublicKey({ key, format: 'jwk' })
  return given.some((each) => verify(null, text, known, Buffer.from(each.slice(4), 'base64')))
}`

export function Verify ({ hook }: { hook: Webhook }) {
  const [language, setLanguage] = useState('Node.js')
  const signature = hook.signature ?? 'hmac'

  return (
    <>
      {signature !== 'ed25519' && (
        <section className='panel'>
          <div className='row between'>
            <h2>{HEADER}</h2>
            <div className='row' role='group' aria-label={t('hooks.verify')}>
              {Object.keys(secret).map((name) => (
                <button
                  key={name}
                  type='button'
                  className='button'
                  aria-pressed={name === language}
                  onClick={() => setLanguage(name)}
                >
                  {name}
                </button>
              ))}
            </div>
          </div>
          <p className='soft'>{t('hooks.verifySecret')}</p>
          <Copy text={(secret[language] ?? '').replace('{url}', () => urlOf(hook))} />
        </section>
      )}
      {signature !== 'hmac' && (
        <section className='panel'>
          <h2>{t('hooks.signature.ed25519')}</h2>
          <p className='soft'>{t('hooks.verifyKey')}</p>
          <Copy text={location.origin + pathOf(hook, 'jwks')} />
          <Copy text={publicKey} />
        </section>
      )}
    </>
  )
}
