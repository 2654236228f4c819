#!/usr/bin/env python3
"""A model of deliveries: filters, order, retries, rate limits and disabling, compared with running hosts.

The program starts PostgreSQL, hosts of busbar and a receiver. Clients post messages and readings while hosts and
PostgreSQL are killed, stopped and restarted. The responses of the receiver follow from the seed. At the end, the
deliveries that the API lists and the requests that the receiver got have to be what the model predicts:

* Each acknowledged event has one delivery of each webhook whose filter matches it, and no other webhook.
* A delivery was delivered, or abandoned after exactly the attempts of the retry policy. No attempt came before its
  delay. An attempt is repeated only in rounds with faults.
* Within a webhook and key, webhook-sequence counts the events in order, and a request came only after the previous
  delivery was settled.
* Attempts of a webhook with a rate limit started no faster than the limit.
* Only webhooks with a disable policy are disabled, because the receiver asked for it, and get no events then.
"""

import argparse
import asyncio
import collections
import ctypes
import http.client
import json
import os
import pwd
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
import filter_model

ADMIN, PASSWORD = "admin@model.example", "the password of the model"
TIMEOUT_S = 1  # webhook.timeout
DEFAULT_DELAYS = [1, 2]  # webhook.retry_delays
RETRY_AFTER_S = 2
ROUNDING_S = 0.01  # the product's times are whole milliseconds
STUCK_S = 300  # without an arrival, while deliveries wait
EVENTS = ["message.new", "reading.accepted"]
ANSWERS = {  # kind: (status, further headers); hang and reset have no response
    "ok": (200, ""), "slow": (200, ""), "error": (500, ""), "later": (503, f"Retry-After: {RETRY_AFTER_S}\r\n"),
    "gone": (410, ""), "disable": (500, "webhook-delivery: disable\r\n")}
FAULTS = ["slow"] * 4 + ["error"] * 6 + ["later"] * 2 + ["reset"] * 3 + ["hang"] * 2 + ["gone"]
FAULTS_OF_POLICY = ["error"] * 30 + ["gone", "disable"]


class Webhook:
    """A webhook as the model chose it; hook 0 gets everything, and its receiver never fails."""

    def __init__(self, number, rng, samples, rates):
        plain = number == 0
        self.number, self.path, self.cycles = number, None, []
        self.events = EVENTS if plain or rng.random() < 0.7 else [rng.choice(EVENTS)]
        self.filter = None if plain or rng.random() < 0.3 else make_filter(rng, samples)
        self.ordered = not plain and rng.random() < 0.4
        self.delays = rng.choice([None, None, [1], [1, 1], [1, 2, 1]])
        self.policy = not plain and rng.random() < 0.2
        self.rate = None if plain or rng.random() < 0.8 else rng.choice(rates)
        self.fault_share = 0 if plain else rng.choice([0, 0.02, 0.06] if self.ordered else [0, 0.05, 0.3])
        if self.policy:
            self.fault_share = min(self.fault_share, 0.05)

    def body(self, url):
        body = {"url": f"{url}/{self.number}", "events": self.events, "filter": self.filter,
                "ordering": "key" if self.ordered else None,
                "retryPolicy": {"delays": self.delays} if self.delays else None,
                "disablePolicy": {"after": "1h"} if self.policy else None,
                "rateLimit": {"limit": self.rate[0], "per": self.rate[1]} if self.rate else None}
        return {name: value for name, value in body.items() if value is not None}

    def wants(self, name, payload):
        return name in self.events and (self.filter is None or filter_model.matches(payload, self.filter))


def nested(path, condition):
    for name in reversed(path.split(".")):
        condition = {name: condition}
    return condition


def make_filter(rng, samples):
    """Returns a filter that matches some of the samples and not others."""
    values = {"message.chatEntry": [], "message.username": [], "deviceProjectName": [], "conversationId": [],
              "value": [], "externalId": [], "type": [], "missing": [1]}
    for _, payload in samples:
        flat = {**payload, **{f"message.{k}": v for k, v in payload.get("message", {}).items()}}
        for path in values:
            if path in flat:
                values[path].append(flat[path])
    while True:
        parts = [nested(path, filter_model.operators(rng, 0, values[path]))
                 for path in rng.sample(list(values), rng.randint(1, 3))]
        made = rng.choice([parts[0], {"$or": parts}, {"$and": parts}, {"$not": parts[0]}])
        share = sum(filter_model.matches(payload, made) for _, payload in samples) / len(samples)
        if 0.1 < share < 0.9 and filter_model.patterns(made) <= 10 and len(json.dumps(made)) < 8000:
            return made


# ---- the programs


def preserve():
    """In a child: it ends with this program."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Postgres:
    def __init__(self, directory):
        version = max(os.listdir("/usr/lib/postgresql"), key=int)
        self.bin, self.data = f"/usr/lib/postgresql/{version}/bin", f"{directory}/data"
        self.directory, self.user = directory, "postgres" if os.getuid() == 0 else None
        if self.user:
            os.chown(directory, pwd.getpwnam(self.user).pw_uid, pwd.getpwnam(self.user).pw_gid)
        self.run("initdb", "-D", self.data, "-U", "busbar", "-A", "trust", "-E", "UTF8", "--no-sync", "--locale=C.UTF-8")
        self.start()
        self.sql("CREATE DATABASE busbar", "postgres")

    def run(self, *words, **more):
        return subprocess.run([f"{self.bin}/{words[0]}", *words[1:]], user=self.user, cwd="/", check=True,
                              capture_output=True, text=True, **more).stdout

    def start(self):
        with open(f"{self.directory}/postgres.log", "ab") as log:
            self.process = subprocess.Popen(
                [f"{self.bin}/postgres", "-D", self.data, "-c", "listen_addresses=", "-c",
                 f"unix_socket_directories={self.directory}", "-c", "fsync=off", "-c", "max_connections=200", "-c",
                 "jit=off", "-c", "log_min_messages=warning"],
                user=self.user, cwd="/", stdout=log, stderr=log, preexec_fn=preserve)
        wait_until("PostgreSQL", lambda: self.sql("SELECT 1", "postgres") == "1")

    def restart(self):
        """Restarts PostgreSQL after an immediate or a fast shutdown."""
        self.process.send_signal(signal.SIGQUIT if self.process.pid % 2 else signal.SIGINT)
        self.process.wait()
        self.start()

    def sql(self, text, database="busbar"):
        try:
            return self.run("psql", "-XAtqw", "-h", self.directory, "-U", "busbar", "-d", database, "-c", text).strip()
        except subprocess.CalledProcessError:
            return None  # PostgreSQL is restarting


class Host:
    def __init__(self, program, directory, name):
        self.program, self.name, self.log = program, name, f"{directory}/{name}.log"
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.conf, self.process = f"{directory}/{name}.yaml", None
        modules = os.path.realpath(f"{os.path.dirname(program)}/../lib/busbar/modules")
        with open(self.conf, "w") as file:
            file.write(f"""
http: {{listen: "127.0.0.1:{self.port}"}}
database: {{url: "host={directory} dbname=busbar user=busbar"}}
secrets: {{keys: ["{'0f' * 32}"]}}
control: {{socket: "{directory}/{name}.control"}}
module_path: "{modules}"
modules: [auth, chat, health, device, reading, webhook]
auth: {{argon2_memory: 64, argon2_rounds: 1}}
webhook:
  allow_networks: ["127.0.0.0/8"]
  timeout: {TIMEOUT_S}
  retry_delays: {DEFAULT_DELAYS}
""")

    def command(self, *words, **environment):
        subprocess.run([self.program, "-c", self.conf, *words], check=True, env={**os.environ, **environment},
                       stdout=subprocess.DEVNULL)

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([self.program, "-c", self.conf, "serve", "--no-supervisor"], stdout=log,
                                            stderr=log, preexec_fn=preserve)

    def end(self, number):
        self.process.send_signal(number)
        return self.process.wait()

    def listens(self):
        with socket.socket() as client:
            return not client.connect_ex(("127.0.0.1", self.port))

    def crashed(self):
        with open(self.log, errors="replace") as log:
            return re.search(r".*(AddressSanitizer|LeakSanitizer|: runtime error: |level=fatal).*", log.read())


def wait_until(what, condition, seconds=300):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.1)


class Api:
    """Requests to any host, repeated until one answers. Each has a key, so that it has one effect."""

    def __init__(self, hosts, rng, token=None):
        self.hosts, self.rng, self.token, self.connections = hosts, rng, token, {}

    def call(self, method, path, body=None, status=200, key=None):
        headers = {"Content-Type": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        if key:
            headers["Idempotency-Key"] = key
        end = time.monotonic() + 300
        while True:
            port = self.rng.choice(self.hosts).port
            connection = self.connections.setdefault(port, http.client.HTTPConnection("127.0.0.1", port, timeout=5))
            try:
                connection.request(method, path, None if body is None else json.dumps(body), headers)
                response = connection.getresponse()
                text = response.read()
            except (OSError, http.client.HTTPException):
                connection.close()
                time.sleep(0.1)
            else:
                if response.status == status:
                    return json.loads(text), response.headers
                if response.status not in (409, 429) and response.status < 500:
                    raise AssertionError(f"{method} {path}: {response.status} {text.decode()}")
                time.sleep(0.05)
            if time.monotonic() > end:
                raise AssertionError(f"{method} {path}: no response {status}")

    def pages(self, path):
        while path:
            items, headers = self.call("GET", path)
            yield from items
            following = re.match(r'<([^>]*)>; rel="next"', headers.get("Link", ""))
            path = following and following[1]


# ---- the receiver

Arrival = collections.namedtuple("Arrival", "number sequence at kind answered")  # answered: [time], or [] if not yet


class Connection(asyncio.Protocol):
    def __init__(self, receiver):
        self.receiver, self.bytes = receiver, b""

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.bytes += data
        head, found, rest = self.bytes.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines[1:])} if found else {}
        length = int(headers.get("content-length", 0))
        if not found or len(rest) < length:
            return
        self.bytes = rest[length:]
        arrival = self.receiver.take(int(lines[0].split(" ")[1][1:]), headers, rest[:length])
        if arrival.kind == "reset":
            arrival.answered.append(time.monotonic())
            self.transport.abort()
        elif arrival.kind != "hang":
            asyncio.get_running_loop().call_later(0.2 if arrival.kind == "slow" else 0, self.answer, arrival)

    def answer(self, arrival):
        status, more = ANSWERS[arrival.kind]
        arrival.answered.append(time.monotonic())
        self.transport.write(f"HTTP/1.1 {status} X\r\nContent-Length: 0\r\n{more}\r\n".encode())


class Receiver(threading.Thread):
    """Gets the requests. The response follows from the seed, the webhook, the event and the number of the attempt."""

    def __init__(self, seed):
        super().__init__(daemon=True)
        self.seed, self.hooks, self.count, self.url = seed, [], 0, None
        self.arrivals = collections.defaultdict(list)  # by webhook and event
        self.events = {}  # webhook-id: (name, payload, token)

    def run(self):
        asyncio.run(self.serve())

    async def serve(self):
        server = await asyncio.get_running_loop().create_server(lambda: Connection(self), "127.0.0.1", 0, backlog=1024)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        await server.serve_forever()

    def take(self, number, headers, body):
        now, event, attempt = time.monotonic(), headers["webhook-id"], int(headers["x-webhook-attempt"])
        if event not in self.events:
            payload = json.loads(body)
            self.events[event] = (headers["x-webhook-event"], payload, token_of(payload))
        kind, hook = "ok", self.hooks[number]
        if hook.fault_share:
            rng = random.Random(f"{self.seed} {number} {self.events[event][2]} {attempt}")
            if rng.random() < hook.fault_share:
                kind = rng.choice(FAULTS_OF_POLICY if hook.policy and rng.random() < 0.5 else FAULTS)
        sequence = headers.get("webhook-sequence")
        arrival = Arrival(attempt, sequence and int(sequence), now, kind, [])
        self.arrivals[number, event].append(arrival)
        self.count += 1
        return arrival


# ---- the clients


def token_of(payload):
    """Returns the client's name of an event: its key, and its place in the order of the key."""
    if "message" in payload:
        return tuple(map(int, re.search(r"#(\d+)\.(\d+)#", payload["message"]["chatEntry"]).groups()))
    return int(payload["externalId"][5:]), int(time.mktime(time.strptime(payload["endDate"][:19], "%Y-%m-%dT%H:%M:%S"))
                                               - START) // 60


START = time.mktime(time.strptime("2026-01-01", "%Y-%m-%d"))


class Client:
    """Posts the events of one key, a conversation or a device, one after the other."""

    def __init__(self, number, api, seed):
        self.number, self.api, self.rng, self.count = number, api, random.Random(f"{seed} client {number}"), 0
        self.is_device, self.id = number % 4 == 3, None
        self.posts = {}  # token: (begun, acknowledged)

    def open(self):
        if self.is_device:
            self.api.call("POST", "/api/device", {"externalId": f"meter{self.number}", "capacity": 1000,
                                                  "commissioningDate": "2025-12-01"}, 201, f"device {self.number}")
            return
        body = {"participant1": ADMIN, "participant2": f"shop{self.number}@model.example", "username": ADMIN,
                "chatEntry": "first", "deviceProjectName": f"Roof {self.number % 5}"}
        made, _ = self.api.call("POST", "/api/chat/conversations/start", body, 201, f"talk {self.number}")
        self.id = made["conversation"]["id"]

    def payload(self, token):
        """Returns the body of the next request, and the name and payload of the event that it raises."""
        if self.is_device:
            times = [time.strftime("%Y-%m-%dT%H:%M:00.000Z", time.localtime(START + 60 * (token[1] + i))) for i in (-1, 0)]
            read = {"type": "Delta", "startDate": times[0], "endDate": times[1], "value": self.rng.randint(1, 100),
                    "unit": "Wh"}
            return read, "reading.accepted", {**read, "externalId": f"meter{self.number}", "count": 1}
        size = self.rng.choices([0, 3000, 17000], [94, 4, 2])[0]
        entry = f"{self.rng.choice(filter_model.WORDS)}{self.rng.choice(['red', 'blue', 'ab'])} #{token[0]}.{token[1]}#"
        message = {"username": self.rng.choice([ADMIN, f"shop{self.number}@model.example"]),
                   "chatEntry": entry + "x" * size}
        return message, "message.new", {"conversationId": self.id, "message": message,
                                        "deviceProjectName": f"Roof {self.number % 5}"}

    def post(self):
        self.count += 1
        token = (self.number, self.count)
        body = self.payload(token)[0]
        path = (f"/api/meter-reads/new/meter{self.number}" if self.is_device
                else f"/api/chat/conversations/{self.id}/messages")
        begun = time.monotonic()
        self.api.call("POST", path, body, 201, f"event {token}")
        self.posts[token] = (begun, time.monotonic())

    def run(self, count, pause, problems):
        try:
            for _ in range(count):
                time.sleep(self.rng.uniform(0, 2 * pause))
                self.post()
        except AssertionError as error:
            problems.append(str(error))


class Trial:
    def __init__(self, options, directory):
        self.seed, self.problems, self.rounds = options.seed, [], []
        self.rng = random.Random(f"{options.seed} trial")
        self.postgres = Postgres(directory)
        self.hosts = [Host(os.path.realpath(options.busbar), directory, f"host{n}") for n in range(options.hosts)]
        self.receiver = Receiver(options.seed)
        self.over = threading.Event()

    def api(self, name, token=None):
        return Api(self.hosts, random.Random(f"{self.seed} {name}"), token)

    def login(self, email):
        body = {"username": email, "password": PASSWORD}
        return self.api("login").call("POST", "/api/auth/login", body)[0]["accessToken"]

    def prepare(self, hooks, keys, minutes):
        self.hosts[0].command("migrate")
        self.hosts[0].command("user", "add", "--role", "Admin", "--email", ADMIN, BUSBAR_PASSWORD=PASSWORD)
        for host in self.hosts:
            host.start()
        self.receiver.start()
        token = self.login(ADMIN)
        owner = {"firstName": "Given", "lastName": "Family", "email": "owner@model.example", "password": PASSWORD,
                 "orgName": "Plant", "organizationType": "Developer"}
        made, _ = self.api("register").call("POST", "/api/user/register", owner, 201)
        self.api("activate", token).call("PUT", f"/api/admin/users/{made['id']}", {"status": "Active"})
        owns = self.login(owner["email"])
        self.clients = [Client(number, self.api(f"api {number}", owns if number % 4 == 3 else token), self.seed)
                        for number in range(keys)]
        for client in self.clients:
            client.open()
        samples = [self.rng.choice(self.clients).payload((0, n + 1))[1:] for n in range(300)]
        # attempts limited per minute wait for a minute after each change of the owner
        rates = [(20, "second"), (50, "second")] + ([(900, "minute")] if minutes else [])
        self.hooks = self.receiver.hooks = [Webhook(number, self.rng, samples, rates) for number in range(hooks)]
        self.owner = self.api("owner", token)
        for hook in self.hooks:
            made, _ = self.owner.call("POST", "/api/chat/webhooks", hook.body(self.receiver.url), 201, f"hook {hook.number}")
            hook.path = f"/api/chat/webhooks/{made['id']}"
            hook.cycles = [(0, 0)]
        self.watcher = threading.Thread(target=self.watch, args=(self.api("watch", token),), daemon=True)
        self.watcher.start()
        return sum(hook.wants(*sample) for hook in self.hooks for sample in samples) / len(samples)

    def watch(self, api):
        """Activates disabled webhooks again, after a while."""
        paths = {int(hook.path.split("/")[-1]): hook for hook in self.hooks}
        while not self.over.wait(1):
            for state in api.pages("/api/chat/webhooks?limit=1000"):
                hook = paths[state["id"]]
                if not state["active"]:
                    if not hook.policy or state.get("disabledReason") not in ("gone", "requested"):
                        self.problems.append(f"webhook {hook.number} is disabled: {state}")
                    seen = time.monotonic()
                    time.sleep(0.5)
                    sent, wall = time.monotonic(), time.time()
                    api.call("PATCH", hook.path, {"active": True})
                    hook.cycles.append((seen, sent))
                    hook.enabled = wall

    # ---- faults

    def kill(self, host):
        host.end(signal.SIGKILL)
        time.sleep(self.rng.uniform(0, 2))
        host.start()

    def stop(self, host):
        """Suspends the host for longer than its lease, or only for a moment."""
        host.process.send_signal(signal.SIGSTOP)
        time.sleep(self.rng.choice([1, 9, 11]))
        host.process.send_signal(signal.SIGCONT)

    def terminate(self, host):
        wait_until("the host", host.listens)  # earlier, SIGTERM would end it at once
        status = host.end(signal.SIGTERM)
        if status:
            self.problems.append(f"{host.name} ended with status {status}")
        host.start()

    def restart(self, _):
        self.postgres.restart()

    def fault(self):
        time.sleep(self.rng.uniform(0.5, 3))
        self.rng.choice([self.kill, self.kill, self.stop, self.terminate, self.restart])(self.rng.choice(self.hosts))

    def round(self, posts, faults):
        """Posts events, with faults meanwhile, and waits until all deliveries are settled."""
        began, each = time.monotonic(), -(-posts // len(self.clients))
        threads = [threading.Thread(target=client.run, args=(each, 6.0 * faults / each, self.problems))
                   for client in self.clients]
        for thread in threads:
            thread.start()
        for _ in range(faults):
            self.fault()
        for thread in threads:
            thread.join()
        self.settle()
        self.rounds.append((began, time.monotonic(), faults))
        print(f"model: {posts} events, {faults} faults, {self.receiver.count} requests up to now, "
              f"{time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)

    def settle(self):
        last, count = time.monotonic(), 0
        while self.postgres.sql("SELECT (SELECT count(*) FROM webhook_queued) + (SELECT count(*) FROM"
                                " webhook_expansion)") != "0":
            if self.receiver.count != count:
                last, count = time.monotonic(), self.receiver.count
            if time.monotonic() - last > STUCK_S:
                stuck = self.postgres.sql("SELECT q.*, w.key, d.sequence, h.url, h.active FROM webhook_queued q"
                                          " LEFT JOIN webhook_waiting w USING (id) JOIN webhook_delivery d ON d.id = q.id"
                                          " JOIN webhook_hook h ON h.id = q.webhook ORDER BY q.id LIMIT 20")
                raise AssertionError(f"deliveries are stuck:\n{stuck}")
            time.sleep(1)

    # ---- the comparison

    def expect(self, holds, *words):
        if not holds:
            self.problems.append(" ".join(map(str, words)))

    def check(self):
        events = self.receiver.events
        posts = {token: times for client in self.clients for token, times in client.posts.items()}
        tokens = collections.Counter(token for _, _, token in events.values())
        self.expect(tokens.keys() == posts.keys() and max(tokens.values()) == 1, "events:", len(tokens), "instead of",
                    len(posts), "or one event has two ids")
        deliveries = self.repeated = 0
        for hook in self.hooks:
            listed = {}
            for delivery in self.owner.pages(f"{hook.path}/deliveries?limit=200"):
                self.expect(delivery["eventId"] not in listed, "two deliveries of", hook.number, delivery)
                listed[delivery["eventId"]] = delivery
            self.expect(listed.keys() <= events.keys(), "webhook", hook.number, "has unknown events")
            deliveries += len(listed)
            self.check_selection(hook, listed, posts)
            for event, delivery in listed.items():
                self.check_delivery(hook, delivery, self.receiver.arrivals[hook.number, event])
            self.check_order(hook, listed)
            self.check_rate(hook, listed)
            self.check_disabling(hook, listed)
        return deliveries

    def check_selection(self, hook, listed, posts):
        asked = [arrival.answered[0] for event in listed for arrival in self.receiver.arrivals[hook.number, event]
                 if arrival.kind in ("gone", "disable") and arrival.answered]
        for event, (name, payload, token) in self.receiver.events.items():
            wants, begun, acked = hook.wants(name, payload), *posts.get(token, (0, 0))
            if hook.policy and wants and event not in listed:  # it may have been disabled
                self.expect(any(at < acked for at in asked), "webhook", hook.number, "missed", token)
            else:
                self.expect(wants == (event in listed), "webhook", hook.number, "filter", json.dumps(hook.filter), "got"
                            if event in listed else "missed", token)
            self.expect(event not in listed or not any(seen < begun and acked < sent for seen, sent in hook.cycles),
                        "webhook", hook.number, "was disabled and got", token)

    def check_delivery(self, hook, delivery, arrivals):
        attempts, delays = delivery["attempts"], hook.delays or DEFAULT_DELAYS
        where = f"webhook {hook.number}, event {self.receiver.events[delivery['eventId']][2]}, {delivery['id']}:"
        self.expect(delivery["status"] in ("delivered", "abandoned") and attempts, where, delivery["status"])
        self.expect([attempt["number"] for attempt in attempts] == list(range(1, len(attempts) + 1)), where, "numbers",
                    attempts)
        known = 0
        for number, attempt in enumerate(attempts, 1):
            same = [arrival for arrival in arrivals if arrival.number == number]
            late = is_late(attempt)
            success = attempt["status"] is not None and attempt["status"] < 300
            known += bool(same)
            self.expect(success == (number == len(attempts) and delivery["status"] == "delivered"), where, number, attempt)
            self.expect(late or any(attempt["status"] == ANSWERS.get(arrival.kind, (None,))[0] for arrival in same), where,
                        "attempt", number, attempt, same)
            if number == len(attempts):
                break
            delay = max(delays[number - 1], RETRY_AFTER_S if attempt["status"] == 503 else 0) if number <= len(delays) else 0
            start, following = seconds(attempt), seconds(attempts[number])
            self.expect(following - start >= delay + (TIMEOUT_S if late else 0) - ROUNDING_S, where, "attempt", number + 1,
                        "too early", attempts)
            answered = [at for arrival in same for at in arrival.answered]
            arrived = [arrival.at for arrival in arrivals if arrival.number == number + 1]
            if answered and arrived and not late:
                self.expect(min(arrived) - min(answered) >= delay - ROUNDING_S, where, "attempt", number + 1, "arrived early")
        if delivery["status"] == "abandoned":
            self.expect(len(attempts) == len(delays) + 1 or attempts[-1]["status"] == 410, where, "attempts", attempts)
        self.expect(len(attempts) <= len(delays) + 1, where, "too many attempts", attempts)
        if len(arrivals) > known:
            self.repeated += len(arrivals) - known
            faults = [faults for began, end, faults in self.rounds if began <= arrivals[0].at <= end]
            self.expect(faults and faults[0], where, "repeated without a fault", arrivals, attempts)

    def check_order(self, hook, listed):
        keys = collections.defaultdict(list)
        for event in listed:
            keys[self.receiver.events[event][2][0]].append((self.receiver.events[event][2][1], event))
        for key, events in keys.items():
            settled = arrived = 0
            for place, (number, event) in enumerate(sorted(events), 1):
                arrivals, attempts = self.receiver.arrivals[hook.number, event], listed[event]["attempts"]
                where = f"webhook {hook.number}, key {key}, event {number}:"
                for arrival in arrivals:
                    self.expect(arrival.sequence == (place if hook.ordered else None), where, "sequence", arrival.sequence,
                                "instead of", place)
                if not hook.ordered or not attempts:
                    continue
                self.expect(seconds(attempts[0]) >= settled - ROUNDING_S, where, "sent before the previous one was settled")
                settled = seconds(attempts[-1]) + (TIMEOUT_S if is_late(attempts[-1]) else 0)
                # the receiver may see an attempt that timed out after the next delivery
                seen = [arrival for arrival in arrivals
                        if arrival.number > len(attempts) or not is_late(attempts[arrival.number - 1])]
                if seen:
                    self.expect(min(arrival.at for arrival in seen) >= arrived, where, "came too early")
                    arrived = max([arrival.at for arrival in seen] + [min(
                        [at for arrival in seen if arrival.number == len(attempts) for at in arrival.answered], default=0)])

    def check_rate(self, hook, listed):
        if not hook.rate:
            return
        limit, period = hook.rate[0], 60 if hook.rate[1] == "minute" else 1
        times = sorted(seconds(attempt) for delivery in listed.values() for attempt in delivery["attempts"])
        for first, last in zip(times, times[limit:]):
            self.expect(last - first >= period - ROUNDING_S, "webhook", hook.number, limit + 1, "attempts in", last - first)

    def check_disabling(self, hook, listed):
        state, _ = self.owner.call("GET", hook.path)
        asked = [seconds(attempt) for delivery in listed.values() for attempt in delivery["attempts"]
                 if attempt["status"] == 410]
        self.expect(state["active"], "webhook", hook.number, "is disabled", state)
        if hook.policy and asked:
            self.expect(max(asked) < getattr(hook, "enabled", 0), "webhook", hook.number, "was not disabled by status 410")


def seconds(attempt):
    """Returns the start of an attempt."""
    whole, part = attempt["at"].rstrip("Z").split(".")
    return time.mktime(time.strptime(whole, "%Y-%m-%dT%H:%M:%S")) + int(part) / 1000


def is_late(attempt):
    """Returns whether an attempt timed out."""
    return attempt["status"] is None and attempt["durationMs"] >= TIMEOUT_S * 1000


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("busbar", help="the program, in the directory bin of an installation")
    parser.add_argument("--seed", type=int, default=random.randrange(1000000))
    parser.add_argument("--deliveries", type=int, default=5000)
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--webhooks", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3, help="each second round has faults")
    parser.add_argument("--faults", type=int, default=3, help="of a round")
    parser.add_argument("--keep", action="store_true", help="keep the directory with the logs")
    options = parser.parse_args()
    os.environ["TZ"] = "UTC"
    time.tzset()
    directory = tempfile.mkdtemp(prefix="busbar-model.")
    os.chmod(directory, 0o711)
    print(f"model: seed {options.seed}, logs in {directory}", file=sys.stderr, flush=True)
    trial, failed, deliveries = Trial(options, directory), True, 0
    try:
        each = trial.prepare(options.webhooks, 24, options.rounds > 3)
        kinds = [options.faults * (number % 2) for number in range(options.rounds)]
        parts = [5 if faults else 1 for faults in kinds]
        for faults, part in zip(kinds, parts):
            trial.round(int(options.deliveries / each * part / sum(parts)) + 1, faults)
        trial.over.set()
        trial.watcher.join()
        deliveries = trial.check()
        for host in trial.hosts:
            status = host.end(signal.SIGTERM)
            trial.expect(not status and not host.crashed(), host.name, "ended with", status, host.crashed())
        failed = bool(trial.problems)
    except AssertionError as error:
        trial.problems.append(str(error))
    finally:
        for host in trial.hosts:
            if host.process and host.process.poll() is None:
                host.end(signal.SIGKILL)
        trial.postgres.process.send_signal(signal.SIGQUIT)
        trial.postgres.process.wait()
        with open(f"{directory}/postgres.log", errors="replace") as log:
            deadlocks = log.read().count("deadlock detected")
        if not failed and not options.keep:
            shutil.rmtree(directory)
    for problem in trial.problems[:20]:
        print(f"model: FAILED: {problem}", file=sys.stderr)
    print(f"model: seed {options.seed}: {deliveries} deliveries, {trial.receiver.count} requests, "
          f"{getattr(trial, 'repeated', 0)} of them repeated, {deadlocks} deadlocks, {len(trial.problems)} disagreements")
    return failed


if __name__ == "__main__":
    sys.exit(main())
