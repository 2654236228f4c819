"""Clients of the cluster test. Each notes what was acknowledged, and the ledger is compared with the service at the end."""
import base64
import collections
import contextlib
import hashlib
import hmac
import http.client
import http.server
import json
import threading
import time
import uuid

from nodes import PATIENCE, PROXIES, address

SECRET = "the-secret-of-the-cluster"


class Failed(OSError):
    """There was no response, or one that says nothing about the request (503)."""


class Api:
    """Requests through the proxies, or to `servers`. After a failure the next request goes to the next one."""

    def __init__(self, token=None, servers=None):
        self.token, self.turn, self.headers = token, 0, {}
        self.servers = servers or [(name, 8080) for name in PROXIES]

    def call(self, method, path, body=None, seconds=12, **headers):
        name, port = self.servers[self.turn % len(self.servers)]
        connection = http.client.HTTPConnection(address(name), port, timeout=seconds)
        if self.token:
            headers.setdefault("Authorization", f"Bearer {self.token}")
        if body is not None and not isinstance(body, bytes):
            headers["Content-Type"], body = "application/json", json.dumps(body)
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            self.headers = response.headers
            text = response.read().decode()
        except (OSError, http.client.HTTPException) as error:
            self.turn += 1
            raise Failed(str(error)) from error
        finally:
            connection.close()
        if response.status >= 500:
            self.turn += response.status != 503
            raise Failed(f"{response.status} {text}")
        return response.status, json.loads(text) if text else None

    def must(self, method, path, body=None, status=200, seconds=90, **headers):
        """Repeats the request until the response has this status."""
        end = time.monotonic() + seconds * PATIENCE[0]
        while True:
            try:
                got, value = self.call(method, path, body, **headers)
                assert got == status, f"{method} {path}: {got} {value}"
                return value
            except Failed:
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)

    def upload(self, path, name, text):
        body = f'--part\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n{text}\r\n--part--\r\n'
        return self.must("POST", path, body.encode(), 201, **{"Content-Type": "multipart/form-data; boundary=part"})

    def login(self, email, password):
        self.token = self.must("POST", "/api/auth/login", {"username": email, "password": password})["accessToken"]
        return self


class Outage:
    """The longest time between two acknowledged writes of all clients, since mark()."""

    def __init__(self):
        self.lock = threading.Lock()
        self.mark()

    def mark(self):
        with self.lock:
            self.last, self.longest, self.count = time.monotonic(), 0.0, 0

    def written(self):
        with self.lock:
            now = time.monotonic()
            self.longest, self.last, self.count = max(self.longest, now - self.last), now, self.count + 1

    def read(self):
        with self.lock:
            return max(self.longest, time.monotonic() - self.last)


OFTEN, SELDOM = 0.1, 0.5  # seconds between two requests of a client that writes: when a fault happens, and otherwise


class Client(threading.Thread):
    pause = OFTEN

    def __init__(self, outage):
        super().__init__(daemon=True)
        self.outage, self.over, self.problem = outage, threading.Event(), None

    def run(self):
        try:
            while not self.over.is_set():
                self.step()
                time.sleep(self.pause)
        except Exception as error:  # reported by the checker
            self.problem = f"{type(self).__name__}: {error!r}"

    def send(self, *request, **headers):
        """Returns the status of the response and its value; None, None: there is no response, or 503."""
        try:
            status, value = self.api.call(*request, **headers)
        except Failed:
            status, value = None, None
        if status in (None, 409, 429):
            time.sleep(0.2)
        return status, value


class Poster(Client):
    """Sends messages to its conversation. A keyed one repeats each message until it is acknowledged."""

    def __init__(self, outage, api, email, started, keyed):
        super().__init__(outage)
        self.api, self.email, self.other, self.keyed = api, email, started["participant2"], keyed
        self.conversation, self.head = started["id"], started["headUuid"]
        self.acked, self.unknown, self.number = [], [], 0

    def step(self):
        self.number += 1
        text = f"{self.email} {self.number}"
        body = {"username": self.email, "chatEntry": text}
        headers = {"Idempotency-Key": f"key-{self.conversation}-{self.number}"} if self.keyed else {}
        while not self.over.is_set():
            status, value = self.send("POST", f"/api/chat/conversations/{self.conversation}/messages", body, **headers)
            if status == 201:
                self.outage.written()
                self.acked.append((text, value["uuid"], time.monotonic()))
                return
            assert status in (None, 409, 429), f"a message is answered {status} {value}"
            if not status and not self.keyed:
                break
        self.unknown.append(text)

    def check(self, api, lossy):
        """Compares the conversation with the ledger, except what was acknowledged in a `lossy` time and lost."""
        chain = read_chain(api, self.head)
        texts = [message["chatEntry"] for message in chain]
        acked = [text for text, *_ in self.acked]
        lost = [text for text, _, at in self.acked if text not in set(texts) and not is_in(lossy, at)]
        assert not lost, f"{len(lost)} acknowledged messages are lost, the first is {lost[0]!r}"
        assert len(set(texts)) == len(texts), "a message is stored twice"
        assert set(texts[1:]) <= set(acked) | set(self.unknown), "a message is stored that was not sent"
        places = {text: place for place, text in enumerate(texts)}
        order = [places[text] for text in acked if text in places]
        assert order == sorted(order), "messages are not in the order in which they were acknowledged"
        for one, other in zip(chain, chain[1:]):
            assert one["nextEntryUuid"] == other["uuid"], "the chain has a gap or a fork"
        unread = api.must("GET", f"/api/chat/unread-count/{self.other}")["count"]
        assert unread == len(chain), f"{unread} of {len(chain)} messages are counted as unread"


def is_in(times, at):
    return any(begin <= at <= end for begin, end in times)


def read_chain(api, head):
    chain, at = [], head
    while at:
        part = api.must("GET", f"/api/chat/chain/{at}")
        chain += part
        at = part[-1]["nextEntryUuid"]
    return chain


class Meter(Client):
    """Sends hourly readings of its device, each until it is acknowledged or found."""

    def __init__(self, outage, api, device):
        super().__init__(outage)
        self.api, self.device, self.hour, self.acked = api, device, 0, {}

    def step(self):
        day, hour = divmod(self.hour, 24)
        month, day = divmod(day, 28)
        start = f"{2024 + month // 12}-{month % 12 + 1:02}-{day + 1:02}T{hour:02}:00:00Z"
        end = f"{2024 + month // 12}-{month % 12 + 1:02}-{day + 1:02}T{hour:02}:59:00Z"
        body = {"type": "History", "unit": "Wh", "reads": [{"startDate": start, "endDate": end, "value": 100}]}
        status, value = self.send("POST", f"/api/meter-reads/new/{self.device}", body)
        assert status in (None, 200, 201, 409), f"a reading is answered {status} {value}"
        if status in (200, 201):
            self.outage.written()
        if status:
            self.acked[end] = time.monotonic()
            self.hour += 1

    def check(self, api, lossy):
        total = api.must("GET", f"/api/meter-reads/new/{self.device}/totals?by=year")
        watthours = sum(int(row.get("watthour", row.get("value", 0))) for row in total)
        lost = sum(is_in(lossy, at) for at in self.acked.values())
        assert 100 * (len(self.acked) - lost) <= watthours <= 100 * len(self.acked) + 100, \
            f"{len(self.acked)} readings of 100 Wh were acknowledged, {watthours} Wh are stored"


class Uploader(Client):
    """Registers devices with a document each. Every registration is repeated with its key until it is acknowledged."""

    pause, place = 1, None

    def __init__(self, outage, api):
        super().__init__(outage)
        self.api, self.acked = api, []

    def step(self):
        name = self.place or f"plant-{len(self.acked)}"
        self.place, content = name, json.dumps(hashlib.sha512(name.encode()).hexdigest() * 400)
        parts = (('name="deviceToRegister"', json.dumps({"externalId": name, "siteName": name, "capacity": 9})),
                 ('name="PROJECT_PHOTOS"; filename="photo"', content))
        body = "".join(f"--part\r\nContent-Disposition: form-data; {head}\r\n\r\n{text}\r\n" for head, text in parts)
        status, value = self.send("POST", "/api/device", (body + "--part--\r\n").encode(), **{
            "Content-Type": "multipart/form-data; boundary=part", "Idempotency-Key": name})
        assert status in (None, 201, 409, 429), f"an upload is answered {status} {value}"
        if status == 201:
            self.outage.written()
            self.acked.append((f"/api/device/{name}/documents/{value['documents'][0]['id']}", content, time.monotonic()))
            self.place = None

    def check(self, api, lossy):
        """Compares each document with the ledger."""
        for path, content, at in self.acked:
            assert is_in(lossy, at) or json.dumps(api.must("GET", path)) == content, f"{path} has another content"


class Receiver:
    """Receives webhooks, verifies their signatures, and notes the uuids of messages, for each path."""

    def __init__(self, port):
        self.uuids, self.paths, self.ids, self.repeated, self.forged = set(), {}, set(), 0, 0
        self.ordered, self.attempts = collections.defaultdict(list), collections.defaultdict(list)
        self.answers = threading.Event()  # while it is cleared, paths that begin with /slow get no response
        self.answers.set()
        lock, receiver = threading.Lock(), self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"  # hosts keep their connections

            def handle(self):
                with contextlib.suppress(ConnectionError):  # a host was killed, or its lease has ended
                    super().handle()

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                identity, at = self.headers["webhook-id"], self.headers["webhook-timestamp"]
                payload = json.loads(body)
                found = uuids_in(payload)
                digest = hmac.new(SECRET.encode(), f"{identity}.{at}.".encode() + body, hashlib.sha256).digest()
                with lock:
                    receiver.forged += f"v1,{base64.b64encode(digest).decode()}" not in self.headers["webhook-signature"].split()
                    receiver.repeated += (self.path, identity) in receiver.ids
                    receiver.ids.add((self.path, identity))
                    receiver.uuids.update(found)
                    receiver.paths.setdefault(self.path, set()).update(found)
                    receiver.ordered[self.path].append((payload.get("conversationId"), self.headers["webhook-sequence"],
                                                        identity))
                    receiver.attempts[self.path].append(time.monotonic())
                    fails = self.path.startswith("/fails") and len(receiver.attempts[self.path]) < 3
                if self.path.startswith("/slow"):
                    receiver.answers.wait()
                self.send_response(500 if fails else 200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        # many connections begin at once: the default of 5 drops some, which are tried again after 1 s, 3 s and 7 s
        http.server.ThreadingHTTPServer.request_queue_size = 1024
        self.server = http.server.ThreadingHTTPServer((address("client"), port), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


def uuids_in(value):
    """Returns every uuid in a payload."""
    if isinstance(value, dict):
        return {found for each in value.values() for found in uuids_in(each)}
    if isinstance(value, list):
        return {found for each in value for found in uuids_in(each)}
    try:
        return {str(uuid.UUID(value))} if isinstance(value, str) and len(value) == 36 else set()
    except ValueError:
        return set()


class Listener(Client):
    """Follows the live stream, and resumes by Last-Event-ID. Messages before a reset may be missing."""

    path, pause, seconds = "/api/chat/stream", 0.5, 3600  # until it connects again

    def __init__(self, outage, api):
        super().__init__(outage)
        self.api, self.last, self.got, self.streamed, self.resets, self.twice = api, None, set(), set(), 0, 0
        self.opened, self.reset_at = threading.Event(), 0.0

    def step(self):
        names = list(PROXIES)
        self.api.turn += 1
        connection = http.client.HTTPConnection(address(names[self.api.turn % len(names)]), 8080, timeout=20)
        headers = {"Authorization": f"Bearer {self.api.token}"}
        if self.last:
            headers["Last-Event-ID"] = self.last
        try:
            connection.request("GET", self.path, None, headers)
            response = connection.getresponse()
            if response.status == 200:
                self.opened.set()
                self.read(response)
        except (OSError, http.client.HTTPException):
            pass
        finally:
            connection.close()

    def read(self, response):
        event, data, last, until = "", "", self.last, time.monotonic() + self.seconds
        while not self.over.is_set() and time.monotonic() < until:
            line = response.readline()
            if not line:
                return
            line = line.decode().rstrip("\n")
            if line.startswith("id:"):
                last = line[3:].strip()
            elif line.startswith("event:"):
                event = line[6:].strip()
            elif line.startswith("data:"):
                data += line[5:]
            elif not line:
                if event:
                    self.take(event, json.loads(data))
                event, data, self.last = "", "", last

    def take(self, event, data):
        if event == "reset":
            self.resets, self.reset_at = self.resets + 1, time.monotonic()
        elif event == "message.new":
            found = uuids_in(data)
            self.twice += found <= self.streamed
            self.streamed |= found
            self.got |= found
