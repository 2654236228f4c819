/* How a receiver verifies that a delivery is genuine, in five languages. */
import { useState } from 'react'

import { t } from '../texts/texts'

const snippets: Record<string, string> = {
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
}`
}

export function Verify () {
  const [language, setLanguage] = useState('Node.js')

  return (
    <section className='panel'>
      <div className='row between'>
        <h2>{t('hooks.verify')}: X-Webhook-Signature</h2>
        <div className='row' role='group' aria-label={t('hooks.verify')}>
          {Object.keys(snippets).map((name) => (
            <button key={name} type='button' className='button' aria-pressed={name === language} onClick={() => setLanguage(name)}>{name}</button>
          ))}
        </div>
      </div>
      <pre tabIndex={0}>{snippets[language]}</pre>
    </section>
  )
}
