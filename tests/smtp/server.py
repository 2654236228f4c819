"""An SMTP server for the tests, of aiosmtpd: stores each mail as a JSON file in a directory.

usage: server.py PORT DIRECTORY [--starttls CERTIFICATE KEY] [--tls CERTIFICATE KEY]
                 [--login USER PASSWORD]

With --login it takes mails only after a login. Recipients choose what it does: "refused…" is
refused for good, "later…" once for now, and a mail to "spam…" is refused after its text.
"""
import argparse
import email
import email.policy
import json
import os
import signal
import ssl
import time

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, LoginPassword

parser = argparse.ArgumentParser()
parser.add_argument("port", type=int)
parser.add_argument("directory")
parser.add_argument("--starttls", nargs=2)
parser.add_argument("--tls", nargs=2)
parser.add_argument("--login", nargs=2)
args = parser.parse_args()
deferred = set()


def context(pair):
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(*pair)
    return made


class Handler:
    async def handle_RCPT(self, server, session, envelope, address, options):
        if address.startswith("refused"):
            return "550 5.1.1 no such mailbox"
        if address.startswith("later") and address not in deferred:
            deferred.add(address)
            return "450 4.2.0 greylisted"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        if envelope.rcpt_tos[0].startswith("spam"):
            return "554 5.7.1 refused because of its text"
        mail = email.message_from_bytes(envelope.content, policy=email.policy.default)
        stored = {
            "from": envelope.mail_from,
            "to": envelope.rcpt_tos,
            "headers": {name: str(value) for name, value in mail.items()},
            "body": mail.get_content().replace("\r\n", "\n"),
            "raw": envelope.content.decode("utf-8", "replace"),
            "tls": session.ssl is not None or args.tls is not None,
            "login": session.authenticated,
        }
        name = os.path.join(args.directory, "%020d" % time.time_ns())
        with open(name + ".new", "w", encoding="utf-8") as out:
            json.dump(stored, out)
        os.rename(name + ".new", name + ".json")
        return "250 OK"


def authenticate(server, session, envelope, mechanism, data):
    good = (
        args.login is not None
        and isinstance(data, LoginPassword)
        and [data.login.decode(), data.password.decode()] == args.login
    )
    return AuthResult(success=good, handled=True if good else False)


options = {"hostname": "127.0.0.1", "port": args.port, "enable_SMTPUTF8": True}
if args.starttls:
    options.update(tls_context=context(args.starttls), require_starttls=True)
if args.tls:
    options.update(ssl_context=context(args.tls), auth_require_tls=False)
if args.login:
    options.update(authenticator=authenticate, auth_required=True)
controller = Controller(Handler(), **options)
controller.start()
signal.sigwait({signal.SIGTERM, signal.SIGINT})
controller.stop()
