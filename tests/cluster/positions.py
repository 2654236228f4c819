"""Clients that keep something of one PostgreSQL server across a promotion: positions in streams, chains and lists, offsets,
tokens, refresh tokens and idempotency keys. Each checks that nothing was missed, repeated or answered wrongly."""
import random
import re
import threading
import time

from clients import Api, Client, Failed, Listener, read_chain
from nodes import HOSTS, wait_until

LIMIT = 20  # rows per page


class Keeper(Client):
    """A client that repeats each request until it has an answer, which must have the expected status."""

    pause = 0.1  # also between pages

    def __init__(self, api):
        super().__init__(None)
        self.api, self.count = api, 0

    def ask(self, method, path, body=None, statuses=(200,), **headers):
        while not self.over.is_set():
            got, value = self.send(method, path, body, **headers)
            if got not in (None, 429):
                assert got in statuses, f"{method} {path} is answered {got} {value}"
                return value
        raise Failed("the test is over")

    def step(self):
        try:
            self.turn()
            self.count += 1
        except Failed:
            assert self.over.is_set()

    def missed(self, stored):
        """Returns what the client does not have yet. `stored`: the uuids of messages."""
        return set()


class Follower(Listener):
    """Follows the stream, connects again every few seconds, and reads the chains again after a reset."""

    seconds = 3

    def __init__(self, api, heads):
        super().__init__(None, api)
        self.heads, self.count = heads, 0

    def take(self, event, data):
        super().take(event, data)
        self.count += 1
        assert not self.twice, "a stream repeated a message"
        if event == "reset":
            self.streamed.clear()
            threading.Thread(target=self.read_chains, daemon=True).start()

    def read_chains(self):
        for head in self.heads:
            self.got |= {message["uuid"] for message in read_chain(Api(self.api.token), head)}

    def missed(self, stored):
        return stored - self.got


class Pager(Keeper):
    """Reads a list page by page. Each pass has every row of the pass before it, and none twice."""

    def __init__(self, api, path, key, moves=False):
        super().__init__(api)
        self.path, self.key, self.moves, self.rows = path, key, moves, set()

    def turn(self):
        path, rows = f"{self.path}{'&' if '?' in self.path else '?'}limit={LIMIT}", []
        while path:
            rows += [row[self.key] for row in self.ask("GET", path)]
            found = re.match(r"<([^>]*)>", self.api.headers["Link"] or "")
            path = found and found.group(1)
            time.sleep(self.pause)
        assert len(set(rows)) == len(rows), f"{self.path}: a row is on two pages"
        gone = self.rows - set(rows)
        assert self.moves or not gone, f"{self.path}: {len(gone)} rows of an earlier pass are missing, such as {min(gone)}"
        self.rows = set(rows)


class Poller(Keeper):
    """Reads a polled webhook. Events repeat only until their commit is acknowledged. `loses`: offsets may be lost."""

    def __init__(self, api, webhook, loses):
        super().__init__(api)
        self.webhook, self.loses, self.got, self.committed = webhook, loses, set(), 0

    def turn(self):
        value = self.ask("GET", f"{self.webhook}/events?wait=2&limit={10 * LIMIT}")  # keeps up on a busy machine, too
        offsets = [event["offset"] for event in value["events"]]
        assert offsets == sorted(set(offsets)), "polled events are not in order"
        assert self.loses or not offsets or offsets[0] > self.committed, "a committed event is polled again"
        self.got |= {event["payload"]["message"]["uuid"] for event in value["events"]}
        if offsets:  # 400: the event was lost with the old primary
            self.ask("POST", f"{self.webhook}/commit", {"offset": offsets[-1]}, (200, 400) if self.loses else (200,))
            self.committed = offsets[-1]

    def missed(self, stored):
        return stored - self.got


class Session(Keeper):
    """An account that is suspended and activated, and logs in and out. Each host knows it within seconds."""

    def __init__(self, admin, account, login):
        super().__init__(admin)
        self.account, self.login, self.ended = account, login, []
        self.hosts = [Api(None, [(host, 8081)]) for host in HOSTS]
        admin.must("PUT", f"/api/admin/users/{account}", {"status": "Active"})  # if the previous session has suspended it

    def turn(self):
        token = self.login().token
        self.expect(token, 200)
        for status, expected in (("Suspended", 403), ("Active", 200)):
            self.ask("PUT", f"/api/admin/users/{self.account}", {"status": status})
            self.expect(token, expected)
        self.ask("POST", "/api/auth/logout", Authorization=f"Bearer {token}")
        self.ended.append(token)
        for old in self.ended:
            self.expect(old, 401)

    def expect(self, token, status):
        """Uses the token at each host until the response has the status. A host without a database may refuse with 503."""
        for host in self.hosts:
            host.token = token
            wait_until(f"a token is answered {status}", lambda: self.answers(host, status), 5)

    @staticmethod
    def answers(host, status):
        try:
            return host.call("GET", "/api/auth/me")[0] in (status, 429)
        except Failed:
            return True


class Refresher(Keeper):
    """Stays logged in with a refresh token, although it does not use every second response."""

    def __init__(self, email, password):
        super().__init__(Api())
        self.ask("POST", "/api/auth/login", {"username": email, "password": password, "remember": True})
        self.keep()

    def keep(self):
        self.cookie = self.api.headers["Set-Cookie"].split(";")[0]

    def turn(self):
        try:
            self.api.call("POST", "/api/auth/refresh", None, 0.05, Cookie=self.cookie)
        except Failed:  # the response is lost, because it usually takes longer than 0.05 s
            pass
        self.ask("POST", "/api/auth/refresh", Cookie=self.cookie)
        self.keep()
        time.sleep(0.3)


class Starter(Keeper):
    """Starts conversations, each with a key, until it has the response twice. Both must be the same."""

    def __init__(self, api, email):
        super().__init__(api)
        self.email = email

    def turn(self):
        name = f"Keyed {self.count}"
        body = {"username": self.email, "participant1": self.email, "participant2": "keyed@cluster.test",
                "chatEntry": name, "deviceProjectName": name}
        answers = [self.ask("POST", "/api/chat/conversations/start", body, (201,), **{"Idempotency-Key": name})
                   for _ in range(2)]
        assert answers[0] == answers[1], f"a key has two results: {answers}"

    def missed(self, stored):
        names = [row["deviceProjectName"] for row in self.api.must("GET", f"/api/chat/conversations/user/{self.email}")]
        return {number for number in range(self.count) if names.count(f"Keyed {number}") != 1}


class Archive(Keeper):
    """Starts conversations that are archived at once. Each chain stays as it was, whenever it is read."""

    pause, email = 3, "old@cluster.test"

    def __init__(self, api, age):
        super().__init__(api)
        self.age, self.chains, self.idle = age, {}, threading.Lock()

    def turn(self):
        with self.idle:
            body = {"username": self.email, "participant1": self.email, "participant2": "past@cluster.test",
                    "chatEntry": "first", "deviceProjectName": f"Old {self.count}"}
            talk = self.ask("POST", "/api/chat/conversations/start", body, (201,),
                            **{"Idempotency-Key": f"old {self.count}"})["conversation"]
            for number in range(4):
                self.ask("POST", f"/api/chat/conversations/{talk['id']}/messages", {
                    "username": self.email, "chatEntry": f"message {number}"}, (201,),
                    **{"Idempotency-Key": f"old {self.count} {number}"})
            self.chains[talk["headUuid"]] = read_chain(self.api, talk["headUuid"])
            self.age(talk["id"], 100000 - self.count)
        if self.count % 5 == 0:
            self.compare(random.choice(list(self.chains)))

    def compare(self, head):
        assert read_chain(self.api, head) == self.chains[head], f"the archived chain {head} has changed"


class Upload(Listener):
    """Confirms a bulk upload of readings, and follows its stream."""

    def __init__(self, api, device, rows):
        super().__init__(None, api)
        lines = [f"2025-{1 + n // 480:02}-{1 + n // 24 % 20:02}T{n % 24:02}:" for n in range(rows)]
        csv = "externalId,type,unit,startDate,endDate,value\n" + "".join(
            f"{device},History,Wh,{line}00:00Z,{line}59:00Z,2000\n" for line in lines)
        self.job = api.upload("/api/bulk-upload?type=Reads", "file.csv", csv)["bulkUploadId"]
        self.path, self.rows, self.count, self.succeeded = f"/api/bulk-upload/{self.job}/stream", rows, 0, 0
        api.must("POST", f"/api/bulk-upload/{self.job}/confirm")

    def take(self, event, data):
        progress, self.count = data["progress"], self.count + 1
        assert progress["succeeded"] >= self.succeeded, "a bulk upload went backwards"
        assert event != "ended" or progress["succeeded"] == self.rows, f"not all rows are stored: {data}"
        self.succeeded = progress["succeeded"]

    def missed(self, stored):
        return set() if self.succeeded == self.rows else {self.job}
