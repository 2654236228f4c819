#!/usr/bin/env python3
"""A receiver of busbar's webhooks: WEBHOOK_SECRET=... python3 receiver.py [port]
Answers 200 to requests signed with the secret and 401 to others. Needs only Python."""
import base64, hashlib, hmac, os, sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SECRET = os.environ["WEBHOOK_SECRET"]
KEY = base64.b64decode(SECRET[6:]) if SECRET.startswith("whsec_") else SECRET.encode()

def genuine(headers, body):
    at = headers.get("webhook-timestamp", "")
    signed = f"{headers.get('webhook-id')}.{at}.".encode() + body
    ours = b"v1," + base64.b64encode(hmac.digest(KEY, signed, hashlib.sha256))
    theirs = headers.get("webhook-signature", "").encode().split(b" ")
    fresh = at.isdigit() and abs(time.time() - int(at)) < 300
    digest = hmac.digest(SECRET.encode(), body, hashlib.sha256).hex().encode()
    plain = hmac.compare_digest(headers.get("x-webhook-signature", "").encode(), digest)
    standard = any([hmac.compare_digest(one, ours) for one in theirs])
    return fresh and standard and (plain or len(theirs) > 1)  # two while a secret is replaced

class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        good = genuine(self.headers, body)  # the exact bytes: verify first, parse afterwards
        self.send_response(200 if good else 401)
        self.send_header("Content-Length", "0")
        self.end_headers()
        seen = f"{self.headers['x-webhook-event']} {body.decode()}"
        print(seen if good else "refused: bad signature", flush=True)

    def log_message(self, *_):
        pass

port = int(sys.argv[1]) if len(sys.argv) > 1 else 9000
server = ThreadingHTTPServer(("127.0.0.1", port), Receiver)
print("receiver ready", flush=True)
server.serve_forever()
