#!/usr/bin/env python3
"""Compares certificates with a model of them.

Makes a random platform over HTTP: devices, groups, readings that are on time, late or zero, readings that
are voided and sent again, devices that join and leave, groups that are renamed and end. It computes
independently which energy must be certified and which is carried. The host's export must be the same.

usage: certificate_model.py exact|kills STATE STEPS

exact   nobody else issues: each certificate and its entries must equal the model's
kills   runs of the job are killed, and others issue, too: only sums are compared
STATE   a file with the model's state; if it exists, the run continues from it
STEPS   stop after this step; the sums are compared after step MODEL_LAST

Environment: MODEL_URL, MODEL_TOKEN (of an OrganizationAdmin), MODEL_ADMIN (of an Admin), MODEL_ISSUE and
MODEL_SQL (commands, as JSON), MODEL_SEED, MODEL_DEVICES, MODEL_GROUPS, MODEL_DAYS (of a step), MODEL_LAST.

The platform uses the model's time: the SQL function certificate_model_now() returns it, and the host's
functions call it instead of clock_timestamp(). It is always earlier than the real time.
"""
import csv
import http.client
import io
import json
import os
import pickle
import random
import subprocess
import sys
import threading
import time
import urllib.parse
from collections import defaultdict
from datetime import datetime, timedelta, timezone

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
THRESHOLD = 1000
MONTHS = {"monthly": 1, "quarterly": 3, "yearly": 12}
LENGTHS = {"hourly": HOUR, "daily": DAY, "weekly": 7 * DAY}
LONGEST = {**LENGTHS, "monthly": 31 * DAY, "quarterly": 92 * DAY, "yearly": 366 * DAY}  # and an hour
KILOWATTS, YIELD, MARGIN = 1000, 2000, 1.2
EXACT_STEPS = 400
FOREVER, NEVER = datetime.max.replace(tzinfo=timezone.utc), datetime.min.replace(tzinfo=timezone.utc)


def text(at):
    return at.strftime("%Y-%m-%dT%H:%M:%S.000Z")


def months_later(start, months):
    """The same day, or the last one of a shorter month."""
    month = start.month - 1 + months
    year, month = start.year + month // 12, month % 12 + 1
    last = (datetime(year + month // 12, month % 12 + 1, 1) - DAY).day
    return start.replace(year=year, month=month, day=min(start.day, last))


class Group:
    def __init__(self, number, start, frequency):
        self.id, self.number, self.start, self.frequency = None, number, start, frequency
        self.end = FOREVER
        self.carry = 0
        self.carried = []  # (device, start, end, wh)
        self.accounted = defaultdict(int)  # (cycle's start, device)

    def cycle_at(self, number):
        if self.frequency in MONTHS:
            return months_later(self.start, number * MONTHS[self.frequency])
        return self.start + number * LENGTHS[self.frequency]

    def cycle_of(self, at):
        """Returns the number of the cycle that contains the end of a reading; a cycle excludes its start."""
        if self.frequency in MONTHS:
            number = ((at.year - self.start.year) * 12 + at.month - self.start.month) // MONTHS[self.frequency]
            number += 1
            while self.cycle_at(number) >= at:
                number -= 1
            return number
        return -((self.start - at) // LENGTHS[self.frequency]) - 1

    def bounds(self, number):
        return self.cycle_at(number), min(self.cycle_at(number + 1), self.end)

    def certifies(self, start, end, since):
        """Returns whether a reading counts: it begins at or after `since` and is no longer than a cycle."""
        return start >= since and end - start <= LONGEST[self.frequency] + HOUR

    def boundary(self, at):
        """Returns the first start of a cycle that is not before a time."""
        return self.start if at <= self.start else self.cycle_at(self.cycle_of(at) + 1)


class Device:
    def __init__(self, number):
        self.id, self.key = None, f"model-{number}"
        self.readings = []  # (type, start, end, wh, id), not voided
        self.late = []  # (type, start, end, wh), not sent yet
        self.spans = []  # (group's number, since, until); the last span may be open
        self.kilowatts = KILOWATTS


class Model:
    def __init__(self):
        self.random = random.Random(int(os.environ["MODEL_SEED"]))
        self.devices = [Device(i) for i in range(int(os.environ["MODEL_DEVICES"]))]
        self.groups = []
        self.step = 0
        self.days = float(os.environ["MODEL_DAYS"])
        self.start = self.now = None
        self.issued = []  # (group's number, start, end, wh, entries)
        self.histories = {}  # (device, start): [end, wh, cancelled], in their order
        self.cancelled = []
        self.measured = 0

    # ---- expected results ----

    def measured_in(self, group):
        """Returns the Wh by ended cycle and device, from readings of the time in which the device was in
        the group, and the total duration of these readings."""
        sums, lengths, now = defaultdict(int), defaultdict(timedelta), datetime.now(timezone.utc)
        for device in self.devices:
            for number, since, until in device.spans:
                if self.groups[number] is not group:
                    continue
                first, last = max(since, group.start), min(until, group.end)
                for kind, start, end, wh, _ in device.readings:
                    if kind == "Delta" and first < end <= last and group.certifies(start, end, first):
                        number = group.cycle_of(end)
                        if group.bounds(number)[1] <= now:
                            key = group.cycle_at(number), device.id
                            sums[key] += wh
                            lengths[key] += end - start
        return sums, lengths

    def ceiling(self, cycle, device, length):
        """Returns the most Wh that a device can generate in a cycle during its readings."""
        age = (cycle - self.commissioned()) / (365.25 * DAY)
        share = 0.995 ** (age - 1) if age > 1 else 1
        kilowatts = next(known.kilowatts for known in self.devices if known.id == device)
        return int(kilowatts * 1000 * (length / HOUR) * YIELD / 8760 * share * MARGIN)

    def commissioned(self):
        return (self.start - 30 * DAY).replace(hour=0, minute=0, second=0, microsecond=0)

    def issue_group(self, group):
        sums, lengths = self.measured_in(group)
        late = defaultdict(dict)
        for key in set(sums) | set(group.accounted):
            counts, known = sums[key], group.accounted[key]
            if counts > known:
                counts = min(counts, max(known, self.ceiling(*key, lengths[key])))
            if counts != known:
                late[key[0]][key[1]] = counts - known
                group.accounted[key] = counts
        for cycle in sorted(late):
            self.issue_cycle(group, cycle, late[cycle])

    def issue_cycle(self, group, cycle, late):
        start, end = group.bounds(group.cycle_of(cycle + timedelta(seconds=1)))
        total = group.carry + sum(late.values())
        issued = total // 1000 * 1000 if total >= THRESHOLD else 0
        entries = [(device, start, end, wh) for device, wh in late.items()]
        if not issued:
            group.carried += entries
        else:
            rest = total - issued
            most = min(late, key=lambda device: (-late[device], device))
            entries += group.carried + ([(most, start, end, -rest)] if rest else [])
            group.carried = [(most, start, end, rest)] if rest else []
            self.issued.append((group.number, start, end, issued, sorted(entries)))
        group.carry = total - issued

    def issue(self):
        for group in self.groups:
            self.issue_group(group)
        for device in self.devices:
            for kind, start, end, wh, _ in device.readings:
                if kind == "History" and wh >= THRESHOLD:
                    self.histories[device.id, start] = (end, wh)


class Platform:
    """The same platform on the host."""

    def __init__(self, model):
        self.model = model
        url = urllib.parse.urlparse(os.environ["MODEL_URL"])
        self.address = url.hostname, url.port
        self.local = threading.local()

    def call(self, method, path, body=None, token="MODEL_TOKEN", expect=(200, 201)):
        headers = {"Authorization": "Bearer " + os.environ[token], "Content-Type": "application/json"}
        if not hasattr(self.local, "connection"):
            self.local.connection = http.client.HTTPConnection(*self.address, timeout=600)
        sent = None if body is None else json.dumps(body)
        self.local.connection.request(method, path, sent, headers)
        answer = self.local.connection.getresponse()
        got = answer.read()
        if answer.status not in expect:
            raise SystemExit(f"{method} {path} {sent}: {answer.status} {got.decode()[:1000]}")
        return json.loads(got) if "json" in answer.headers.get("Content-Type", "") else got.decode()

    def sql(self, statement):
        subprocess.run(json.loads(os.environ["MODEL_SQL"]) + ["-qAtc", statement], check=True)

    def set_time(self):
        self.sql(f"UPDATE certificate_model_time SET at = '{text(self.model.now)}'")

    def issue(self, kill_after=None):
        process = subprocess.Popen(json.loads(os.environ["MODEL_ISSUE"]), stdout=subprocess.DEVNULL)
        if kill_after is None:
            if process.wait() != 0:
                raise SystemExit(f"issuing ended with {process.returncode}")
            return
        try:
            process.wait(kill_after)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def make_device(self, device):
        commissioned = self.model.commissioned().strftime("%Y-%m-%d")
        body = {"externalId": device.key, "capacity": KILOWATTS, "commissioningDate": commissioned}
        device.id = self.call("POST", "/api/device", body)["id"]

    def make_group(self, group, devices):
        body = {"name": f"Group {group.number}", "frequency": group.frequency, "start": text(group.start),
                "deviceIds": [device.id for device in devices]}
        group.id = self.call("POST", "/api/device-group", body)["id"]

    def send(self, device, readings):
        reads = [{"type": kind, "startDate": text(start), "endDate": text(end), "value": wh}
                 for kind, start, end, wh in readings]
        stored = self.call("POST", f"/api/meter-reads/new/{device.key}", {"unit": "Wh", "reads": reads})
        for reading, answer in zip(readings, stored["reads"]):
            device.readings.append((*reading, answer["id"]))

    def rate(self, device, kilowatts):
        self.call("PATCH", f"/api/device/{device.key}", {"capacity": kilowatts})
        device.kilowatts = kilowatts

    def void(self, device, reading):
        self.call("DELETE", f"/api/meter-reads/new/{device.key}/{reading[4]}", {"reason": "model"}, "MODEL_ADMIN")

    def export(self):
        return list(csv.DictReader(io.StringIO(self.call("GET", "/api/certificate-log/export.csv"))))


class Day:
    """The events of a step."""

    def __init__(self, model, platform):
        self.model, self.platform, self.random = model, platform, model.random

    def wh(self):
        kind = self.random.random()
        if kind < 0.2:
            return 0
        return self.random.randint(1, 900) if kind < 0.6 else self.random.randint(900, 4000)

    def readings_of(self, device, since, until):
        """Returns consecutive periods, some with gaps, of both types."""
        at, made = since, []
        while at < until:
            end = min(at + self.random.choice([6, 12, 24, 36]) * HOUR, until)
            if self.random.random() > 0.05:
                made.append(("History" if self.random.random() < 0.15 else "Delta", at, end, self.wh()))
            at = end
        return made

    def measure(self, device, seed, since, until):
        """Sends some of the readings, and some that earlier steps left."""
        chance = random.Random(seed)
        now = []
        for reading in self.readings[device.key] + device.late:
            (device.late_next if chance.random() < 0.15 else now).append(reading)
        device.late = device.late_next
        if now:
            self.platform.send(device, now)

    def post_all(self, since, until):
        self.readings = {device.key: self.readings_of(device, since, until) for device in self.model.devices}
        seeds = {device.key: self.random.random() for device in self.model.devices}
        todo = list(self.model.devices)
        failed = []

        def work():
            while todo and not failed:
                try:
                    device = todo.pop()
                except IndexError:
                    return
                try:
                    device.late_next = []
                    self.measure(device, seeds[device.key], since, until)
                except BaseException as error:  # reported by the main thread
                    failed.append(error)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failed:
            raise failed[0]

    def correct(self):
        device = self.random.choice(self.model.devices)
        if not device.readings:
            return
        reading = self.random.choice(sorted(device.readings, key=lambda r: (r[2], r[0])))
        self.platform.void(device, reading)
        device.readings.remove(reading)
        kind, start, end, wh, _ = reading
        known = self.model.histories.pop((device.id, start), None) if kind == "History" else None
        if known:
            self.model.cancelled.append((device.id, start, *known))
        if self.random.random() < 0.7:
            again = "History" if self.random.random() < 0.1 else kind
            self.platform.send(device, [(again, start, end, self.wh())])

    def free(self, device):
        """Returns whether a device is in no group, or in one that has ended."""
        if not device.spans or device.spans[-1][2] != FOREVER:
            return True
        return self.model.groups[device.spans[-1][0]].end <= self.model.now

    def joins(self, device, group, past):
        """Adds the span of a joining device; closes its span in a group that has ended."""
        if device.spans and device.spans[-1][2] == FOREVER:
            number, since, _ = device.spans.pop()
            end = self.model.groups[number].end
            if since < end:
                device.spans.append((number, since, end))
        untils = [until for _, _, until in device.spans]
        if past and not untils:
            since = NEVER
        else:
            since = group.boundary(max(untils + ([] if past else [self.model.now])))
        device.spans.append((group.number, since, FOREVER))

    def add_group(self):
        model = self.model
        free = [device for device in model.devices if self.free(device)]
        if not free:
            return
        frequency = self.random.choice(["daily", "daily", "weekly", "monthly", "quarterly"])
        start = model.start + self.random.randrange(0, max(1, int((model.now - model.start) / DAY))) * DAY
        group = Group(len(model.groups), start + self.random.choice([0, 5]) * HOUR, frequency)
        members = self.random.sample(free, self.random.randint(1, min(len(free), self.size)))
        self.platform.make_group(group, members)
        model.groups.append(group)
        for device in members:
            self.joins(device, group, True)

    def join(self):
        model = self.model
        free = [device for device in model.devices if self.free(device)]
        groups = [group for group in model.groups if group.end == FOREVER]
        if not free or not groups:
            return
        device, group = self.random.choice(free), self.random.choice(groups)
        self.platform.call("POST", f"/api/device-group/{group.id}/devices", {"deviceIds": [device.key]})
        self.joins(device, group, False)

    def leave(self):
        model = self.model
        members = [device for device in model.devices if not self.free(device)]
        if not members:
            return
        device = self.random.choice(members)
        number, since, _ = device.spans.pop()
        group = model.groups[number]
        self.platform.call("DELETE", f"/api/device-group/{group.id}/devices/{device.id}")
        until = min(group.boundary(model.now), group.end)
        if max(since, group.start) < until:
            device.spans.append((number, since, until))

    def change(self):
        groups = [group for group in self.model.groups if group.end == FOREVER]
        if not groups:
            return
        group = self.random.choice(groups)
        path = f"/api/device-group/{group.id}"
        if self.random.random() < 0.6 or len(groups) < 3:
            self.platform.call("PATCH", path, {"name": f"Renamed {self.model.step}"})
            return
        end = max(self.model.now, group.start) + self.random.randint(1, 60) * HOUR
        self.platform.call("PATCH", path, {"end": text(end)})
        group.end = end

    def run(self):
        model = self.model
        since, model.now = model.now, model.now + self.random.randint(1, 3) * model.days * DAY
        model.now = model.now.replace(minute=0, second=0, microsecond=0)
        self.platform.set_time()
        for device in model.devices:
            if device.kilowatts != KILOWATTS:
                self.platform.rate(device, KILOWATTS)
        self.size = max(3, 2 * len(model.devices) // int(os.environ["MODEL_GROUPS"]))
        self.post_all(since, model.now)
        many = max(1, len(model.devices) // 12)
        if sum(group.end == FOREVER for group in model.groups) < int(os.environ["MODEL_GROUPS"]):
            self.add_group()
        for _ in range(many):
            for chance, what in ((0.7, self.correct), (0.4, self.join), (0.3, self.leave)):
                if self.random.random() < chance:
                    what()
        if self.random.random() < 0.4:
            self.change()
        if model.exact and self.random.random() < 0.4:
            self.platform.rate(self.random.choice(model.devices), self.random.choice([0.05, 0.1, 1]))


# ---- comparing ----

def at_of(cell):
    return datetime.strptime(cell, "%Y-%m-%dT%H:%M:%S.%f%z")


def entry_of(row):
    return (int(row["deviceId"]), at_of(row["certificate_issuance_start"]), at_of(row["certificate_issuance_end"]),
            int(row["readvalue_watthour"]))


def fail(what, expected, got):
    raise SystemExit(f"{what}\nthe model has {expected}\nthe host has {got}")


def same(what, expected, got):
    expected, got = sorted(expected, key=repr), sorted(got, key=repr)
    if expected != got:
        fail(what, [x for x in expected if x not in got][:3], [x for x in got if x not in expected][:3])


def compare_exact(model, rows):
    numbers = {group.id: group.number for group in model.groups}
    certificates, carried = defaultdict(list), defaultdict(list)
    heads = {}
    for row in (row for row in rows if row["groupId"]):
        number, uid = numbers[int(row["groupId"])], row["certificateTransactionUID"]
        if row["status"] == "Carried":
            carried[number].append(entry_of(row))
            continue
        heads[uid] = (number, at_of(row["certificate_start"]), at_of(row["certificate_end"]),
                      int(row["issued_watthour"]))
        certificates[uid].append(entry_of(row))
    same("certificates of groups", model.issued,
         [(*head, sorted(certificates[uid])) for uid, head in heads.items()])
    for group in model.groups:
        same(f"carried by group {group.number}", group.carried, carried[group.number])


def compare_sums(model, rows, platform):
    """Checks that all measured energy is certified, carried, below the threshold, or above the device's ceiling."""
    by_group, by_cycle, by_certificate, heads = defaultdict(int), defaultdict(int), defaultdict(int), {}
    for row in (row for row in rows if row["groupId"]):
        device, start, _, wh = entry_of(row)
        by_cycle[int(row["groupId"]), start, device] += wh
        if row["status"] == "Carried":
            by_group[int(row["groupId"])] += wh
        else:
            by_certificate[row["certificateTransactionUID"]] += wh
            heads[row["certificateTransactionUID"]] = int(row["issued_watthour"])
    same("sums of certificates", heads.items(), by_certificate.items())
    total = certified = 0
    for group in model.groups:
        sums = group.accounted if model.exact else model.measured_in(group)[0]
        same(f"sums of group {group.number}", [(key, wh) for key, wh in sums.items() if wh],
             [(key[1:], wh) for key, wh in by_cycle.items() if key[0] == group.id and wh])
        total += sum(sums.values())
        carry = platform.call("GET", f"/api/device-group/{group.id}")["carriedWatthour"]
        if carry != by_group[group.id] or carry >= THRESHOLD:
            fail(f"carried by group {group.number}", by_group[group.id], carry)
    certified, carried = sum(heads.values()), sum(by_group.values())
    if certified + carried != total:
        fail("energy of groups", total, (certified, carried))
    return certified, carried


def compare_histories(model, rows):
    rows = [row for row in rows if not row["groupId"]]
    stored = {(device.id, start): (end, wh) for device in model.devices
              for kind, start, end, wh, _ in device.readings if kind == "History" and wh >= THRESHOLD}
    same("History", [(device, start, end, wh) for (device, start), (end, wh) in stored.items()],
         [entry_of(row) for row in rows if row["status"] != "Cancelled"])
    return sum(wh for _, wh in stored.values()), [entry_of(row) for row in rows if row["status"] == "Cancelled"]


def compare(model, platform, exact):
    model.issue()
    rows = platform.export()
    certified, carried = compare_sums(model, rows, platform)
    histories, cancelled = compare_histories(model, rows)
    if exact:
        same("cancelled", model.cancelled, cancelled)
        compare_exact(model, rows)
    measured = sum(wh for device in model.devices for _, _, _, wh, _ in device.readings)
    below = sum(wh for device in model.devices for kind, _, _, wh, _ in device.readings
                if kind == "History" and wh < THRESHOLD)
    return measured, certified + histories, carried, below


def begin(model, platform, steps):
    # The last step must not end after now; a step takes up to three days. A cycle is due when it has ended by the
    # real time, so the exact model begins so early that all its cycles, including quarters, ended long ago.
    steps = max(steps, EXACT_STEPS) if model.exact else steps
    model.start = datetime.now(timezone.utc).replace(hour=0, minute=0, second=0, microsecond=0)
    model.start -= (steps * 3 * model.days // 1 + 3) * DAY
    model.now = model.start
    for device in model.devices:
        platform.make_device(device)


def main():
    mode, state, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
    exact = mode == "exact"
    if os.path.exists(state):
        with open(state, "rb") as file:
            model = pickle.load(file)
    else:
        model = Model()
    model.exact = exact
    platform = Platform(model)
    last = int(os.environ["MODEL_LAST"])
    if model.start is None:
        begin(model, platform, last)
    first = model.step
    while model.step < steps:
        model.step += 1
        Day(model, platform).run()
        if not exact:
            platform.issue(kill_after=model.random.uniform(0.05, 0.6))
        elif model.random.random() < 0.5:
            platform.issue()
            model.issue()
        if exact and model.step % 8 == 0 and model.step < steps:
            platform.issue()
            compare(model, platform, exact)
    with open(state, "wb") as file:
        pickle.dump(model, file)
    if not exact and model.step < last:
        print(f"seed {os.environ['MODEL_SEED']}: steps {first + 1} to {model.step}")
        return
    if exact:
        platform.issue()
    else:
        while True:
            platform.issue()
            if settled(platform):
                break
            time.sleep(0.2)
    measured, certified, carried, below = compare(model, platform, exact)
    print(f"seed {os.environ['MODEL_SEED']}, {model.step} steps, {len(model.devices)} devices, "
          f"{len(model.groups)} groups: measured {measured} Wh, certified {certified}, carried {carried}, "
          f"below the threshold {below}, in no group {measured - certified - carried - below}")


def settled(platform):
    """Returns whether no work is left that a killed run had taken."""
    left = subprocess.run(json.loads(os.environ["MODEL_SQL"]) + [
        "-qAtc", "SELECT (SELECT count(*) FROM reading_device WHERE fresh_from IS NOT NULL)"
        " + (SELECT count(*) FROM certificate_look) + (SELECT count(*) FROM certificate_changed)"
        " + (SELECT count(*) FROM certificate_history)"
        " + (SELECT count(*) FROM certificate_due WHERE cycle_end <= now())"], check=True, capture_output=True)
    return int(left.stdout) == 0


if __name__ == "__main__":
    main()
