// A receiver of busbar's webhooks: WEBHOOK_SECRET=… node receiver.js [port]
// Answers 200 to requests signed with the secret and 401 to others. Needs only Node.
const http = require('node:http');
const { createHmac, timingSafeEqual } = require('node:crypto');

const secret = process.env.WEBHOOK_SECRET || '';
const key = secret.startsWith('whsec_') ? Buffer.from(secret.slice(6), 'base64') : secret;
const mac = (k, encoding, ...parts) =>
  parts.reduce((hmac, part) => hmac.update(part), createHmac('sha256', k)).digest(encoding);
const equal = (a, b) => a.length === b.length && timingSafeEqual(a, b);
const same = (a, b) => equal(Buffer.from(a), Buffer.from(b));

function genuine(headers, body) {
  const at = headers['webhook-timestamp'] || '';
  const ours = 'v1,' + mac(key, 'base64', `${headers['webhook-id']}.${at}.`, body);
  const theirs = (headers['webhook-signature'] || '').split(' ');
  const fresh = Math.abs(Date.now() / 1000 - Number(at)) < 300;
  const plain = same(headers['x-webhook-signature'] || '', mac(secret, 'hex', body));
  const standard = theirs.filter((one) => same(one, ours)).length > 0;
  return fresh && standard && (plain || theirs.length > 1); // two while a secret is replaced
}

const server = http.createServer(async (request, response) => {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const body = Buffer.concat(chunks); // the exact bytes: verify first, parse afterwards
  const good = request.method === 'POST' && genuine(request.headers, body);
  response.writeHead(good ? 200 : 401).end();
  console.log(good ? `${request.headers['x-webhook-event']} ${body}` : 'refused: bad signature');
});
if (!secret) throw new Error('WEBHOOK_SECRET is not set');
server.listen(Number(process.argv[2] || 9000), '127.0.0.1', () => console.log('receiver ready'));
