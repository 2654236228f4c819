"""The machines of the cluster test: network namespaces on one bridge, and the programs that run in them."""
import ctypes
import http.client
import json
import os
import pwd
import re
import shutil
import signal
import socket
import struct
import subprocess
import time
import urllib.error
import urllib.request

CLONE_NEWNET = 0x40000000
NETWORK = "10.77.0."
DATABASES = {"db1": 11, "db2": 12, "db3": 13}
PROXIES = {"lb1": 31, "lb2": 32}
HOSTS = {"app1": 41, "app2": 42}
STORES = {"redis1": 21, "redis2": 22}
BUCKET = {"s3": 61}
CLIENT = {"client": 51}
SERVICE = "postgres"  # the user of all programs
PASSWORDS = {f"{role}_PASSWORD": f"the-password-of-{role.lower()}" for role in ("POSTGRES", "REPLICATION", "BUSBAR", "REDIS")}


def address(name):
    return NETWORK + str({**DATABASES, **PROXIES, **HOSTS, **STORES, **BUCKET, **CLIENT}[name])


class Network:
    """A bridge in a namespace of its own; each machine is a namespace with an address on it."""

    def __init__(self, prefix):
        self.prefix = prefix
        self.made = []

    def namespace(self, name):
        return f"{self.prefix}-{name}"

    def run(self, *words, check=True):
        return subprocess.run(words, check=check, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def inside(self, name, *words, check=True):
        return self.run("ip", "netns", "exec", self.namespace(name), *words, check=check)

    def make(self):
        self.add("hub")
        self.inside("hub", "ip", "link", "add", "br0", "type", "bridge")
        self.inside("hub", "ip", "link", "set", "br0", "up")
        for name in {**DATABASES, **PROXIES, **HOSTS, **STORES, **BUCKET, **CLIENT}:
            self.add(name)
            space, hub = self.namespace(name), self.namespace("hub")
            self.run("ip", "link", "add", "eth0", "netns", space, "type", "veth", "peer", "name", name, "netns", hub)
            self.inside("hub", "ip", "link", "set", name, "master", "br0", "up")
            self.inside(name, "ip", "address", "add", f"{address(name)}/24", "dev", "eth0")
            self.inside(name, "ip", "link", "set", "eth0", "up")

    def add(self, name):
        self.run("ip", "netns", "add", self.namespace(name))
        self.made.append(name)
        self.inside(name, "ip", "link", "set", "lo", "up")

    def enter(self, name):
        """Moves this thread, and threads that it starts later, to the namespace."""
        libc = ctypes.CDLL(None, use_errno=True)
        with open(f"/run/netns/{self.namespace(name)}") as space:
            if libc.setns(space.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")

    def cut(self, name):
        """Cuts the machine off from all others."""
        self.inside("hub", "ip", "link", "set", name, "down")

    def join(self, name):
        self.inside("hub", "ip", "link", "set", name, "up")

    def block(self, name, ports=None, others=()):
        """Drops the machine's packets from and to TCP ports, or from and to other machines."""
        drops = [f"ip {side} {{ {', '.join(map(address, others))} }}" for side in ("saddr", "daddr") if others]
        drops = drops or [f"tcp {side} {{ {ports} }}" for side in ("sport", "dport")]
        for rule in ("add table inet cut", "add chain inet cut in { type filter hook input priority 0 ; }",
                     "add chain inet cut out { type filter hook output priority 0 ; }",
                     *(f"add rule inet cut {chain} {drop} drop" for chain in ("in", "out") for drop in drops)):
            self.inside(name, "nft", rule)

    def unblock(self, name):
        self.inside(name, "nft", "delete table inet cut")

    def remove(self):
        for name in self.made:
            self.run("ip", "netns", "delete", self.namespace(name), check=False)


class Programs:
    """Starts programs in namespaces, as the service's user, and ends them by their process ids."""

    def __init__(self, network, directory):
        self.network, self.directory = network, directory
        self.running = {}

    def start(self, key, machine, *words, **environment):
        log = open(f"{self.directory}/{key}.log", "ab")
        self.running[key] = subprocess.Popen(
            ["ip", "netns", "exec", self.network.namespace(machine), "setpriv", f"--reuid={SERVICE}",
             f"--regid={SERVICE}", "--init-groups", "--reset-env", "env", *(f"{k}={v}" for k, v in environment.items()),
             "PATH=/usr/sbin:/usr/bin:/sbin:/bin", *words],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/")

    def send(self, key, number):
        os.killpg(self.running[key].pid, number)  # busbar's supervisor, and the process that it supervises

    def end(self, key, number=signal.SIGTERM):
        process = self.running.pop(key)
        process.send_signal(number)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def end_all(self):
        for key in reversed(list(self.running)):
            self.end(key, signal.SIGKILL if key.startswith(("patroni", "etcd")) else signal.SIGTERM)
        for name in DATABASES:
            kill_postgres(self.data(name))

    def data(self, name):
        return f"{self.directory}/{name}/data"


def kill_postgres(data):
    """Kills the postmaster of the data directory and its children."""
    for pid in postgres_processes(data):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it ended when the postmaster did


def postgres_processes(data):
    try:
        with open(f"{data}/postmaster.pid") as file:
            postmaster = int(file.readline())
        with open(f"/proc/{postmaster}/task/{postmaster}/children") as file:
            return [postmaster, *map(int, file.read().split())]
    except (OSError, ValueError):
        return []


PATIENCE = [1]  # the limits of waiting and of outages are multiplied by this


def wait_until(what, condition, seconds=120):
    """Waits until the condition returns something true, and returns it. An exception counts as false."""
    end, last = time.monotonic() + seconds * PATIENCE[0], None
    while (began := time.monotonic()) < end:
        try:
            found = condition()
            if found:
                return found
        except (OSError, ValueError, KeyError, http.client.HTTPException, subprocess.TimeoutExpired) as error:
            last = error
        took = time.monotonic() - began
        time.sleep(min(max(0.1, 5 * took), 0.5))  # a condition that starts a program is checked less often
    raise AssertionError(f"{what}: not within {seconds * PATIENCE[0]} s ({last})")


def get_json(url, method="GET", body=None, seconds=5):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=seconds) as response:
        text = response.read().decode()
    try:
        return json.loads(text)
    except ValueError:
        return text


class Cluster:
    """etcd, Patroni, HAProxy, Redis with Sentinels, and hosts of busbar."""

    def __init__(self, network, programs, busbar, top):
        self.network, self.programs, self.busbar, self.top = network, programs, busbar, top
        self.directory, self.modules = programs.directory, f"{busbar}/lib/busbar/modules"
        self.postgres = max(os.listdir("/usr/lib/postgresql"), key=int)
        self.psql = f"/usr/lib/postgresql/{self.postgres}/bin/psql"  # without Debian's wrapper, a program in Perl

    def place(self, name):
        """Makes a private directory of the service's user."""
        path = f"{self.directory}/{name}"
        os.makedirs(path, mode=0o700, exist_ok=True)
        user = pwd.getpwnam(SERVICE)
        os.chown(path, user.pw_uid, user.pw_gid)
        return path

    def write(self, path, text):
        with open(path, "w") as file:
            file.write(text)
        user = pwd.getpwnam(SERVICE)
        os.chown(path, user.pw_uid, user.pw_gid)
        os.chmod(path, 0o600)
        return path

    def page(self, path, name, *replaced):
        """Returns a file of docs/cluster.md for a machine, with more texts replaced by others."""
        with open(f"{self.top}/docs/cluster.md") as file:
            text = re.search(rf"`{path}`.*?\n```\w*\n(.*?)```", file.read(), re.S).group(1)
        for old, new in (("NAME", name), ("ADDRESS", address(name)), *PASSWORDS.items(), *replaced):
            text = re.sub(rf"\b{old}\b" if re.fullmatch("[A-Z_]+", old) else re.escape(old), new, text)
        return text

    def statements(self):
        """Returns the statements of docs/cluster.md that make the role and the database."""
        with open(f"{self.top}/docs/cluster.md") as file:
            return [text.replace("BUSBAR_PASSWORD", PASSWORDS["BUSBAR_PASSWORD"])
                    for text in re.findall(r'^psql .* -c "((?:CREATE|GRANT) .*)"$', file.read(), re.M)]

    def start(self):
        for name in DATABASES:
            self.place(name)
            self.start_etcd(name)
        for name in DATABASES:
            self.start_patroni(name)
        for name in STORES:
            self.start_redis(name)
        self.programs.start("s3", "s3", shutil.which("node"), "--openssl-legacy-provider", f"{self.top}/tests/s3/server.js",
                            "9000", self.place("s3"), "busbar-documents", ADDRESS=address("s3"))
        wait_until("the primary", self.leader)
        wait_until("a synchronous standby", self.is_whole)
        for name in PROXIES:
            self.start_proxy(name)
        for name in DATABASES:
            self.start_sentinel(name)

    # ---- etcd and Patroni

    def start_etcd(self, name):
        lines = self.page("/etc/default/etcd", name, ("/var/lib/etcd", f"{self.directory}/{name}/etcd")).splitlines()
        self.programs.start(f"etcd-{name}", name, "etcd", **dict(line.split("=", 1) for line in lines))

    def write_patroni(self, name, tags=""):
        """Writes the configuration of a machine's Patroni, and returns its path."""
        place = f"{self.directory}/{name}"
        text = self.page("/etc/patroni/config.yml", name, ("/var/lib/postgresql/15/busbar", self.programs.data(name)),
                         ("/usr/lib/postgresql/15", f"/usr/lib/postgresql/{self.postgres}"),
                         ("/var/lib/postgresql/pgpass", f"{place}/pgpass"), ("/var/run/postgresql", place),
                         ("max_connections: 100", "max_connections: 100\n        shared_buffers: 64MB"))
        return self.write(f"{place}/patroni.yml", text + tags)

    def start_patroni(self, name):
        self.programs.start(f"patroni-{name}", name, "patroni", self.write_patroni(name))

    def reload_patroni(self, name, tags=""):
        self.write_patroni(name, tags)
        get_json(f"http://{address(name)}:8008/reload", "POST")

    def followers(self, name):
        """Returns the names of the servers that get the WAL from this one."""
        return (self.sql(name, "SELECT string_agg(application_name, ',') FROM pg_stat_replication"
                               " WHERE state = 'streaming'", "postgres") or "").split(",")

    def members(self, name):
        """Returns the members as the Patroni of a machine reports them. Only the primary's Patroni is up to date: a member of
        etcd that was cut off still returns the old state for some time."""
        return get_json(f"http://{address(name)}:8008/cluster", seconds=2)["members"]

    def roles(self):
        """Returns the names of the primary and the synchronous standby, or None while one is missing."""
        roles = {member["role"]: member["name"] for member in self.members(self.leader())}
        return (roles["leader"], roles["sync_standby"]) if {"leader", "sync_standby"} <= set(roles) else None

    def leader(self):
        """Returns the name of the server that runs as the primary."""
        for name in DATABASES:
            try:
                if get_json(f"http://{address(name)}:8008/primary", seconds=2):
                    return name
            except OSError:
                continue
        return None

    def described(self):
        """Returns what an operator would look at, for the report of a failure."""
        lines = []
        for name in DATABASES:
            try:
                lines += [f"{name}: {member}" for member in self.members(name)]
            except (OSError, KeyError, http.client.HTTPException) as error:
                lines.append(f"{name}: {error!r}")
            lines.append(f"{name}: " + str(self.sql(name, "SELECT pg_is_in_recovery(), current_setting("
                                                    "'synchronous_standby_names'), (SELECT count(*) FROM pg_stat_activity"
                                                    " WHERE wait_event = 'SyncRep'), (SELECT string_agg(application_name ||"
                                                    " ' ' || state || ' ' || sync_state || ' ' || coalesce(flush_lsn::text,"
                                                    " '?'), ', ') FROM pg_stat_replication)", "postgres", 3)))
        for name in HOSTS:
            lines.append(f"{name}: {self.not_ready_because(name) or 'ready'}")
        return "\n".join(lines)

    def set(self, name, **settings):
        """Changes settings of Patroni in the whole cluster."""
        get_json(f"http://{address(name)}:8008/config", "PATCH", settings)

    def is_whole(self):
        """Returns whether all members of etcd serve, both standbys follow the primary, and Patroni may promote one of them."""
        leader = self.leader()
        roles = {member["name"]: member["role"] for member in self.members(leader)}
        following = self.sql(leader, "SELECT string_agg(application_name || ' ' || sync_state, ',' ORDER BY application_name)"
                                     " FROM pg_stat_replication WHERE state = 'streaming' AND"
                                     " pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn) < 1048576", "postgres")
        return (sorted(roles.values()) == ["leader", "replica", "sync_standby"] and
                following == ",".join(f"{name} {'sync' if roles[name] == 'sync_standby' else 'async'}"
                                      for name in DATABASES if name != leader) and
                len({member["timeline"] for member in self.members(leader)}) == 1 and
                all(get_json(f"http://{address(name)}:2379/health")["health"] == "true" for name in DATABASES))

    def serves(self):
        """Returns whether all hosts are ready, the proxies use them and the primary, and Sentinel knows a whole Redis."""
        used = {("hosts", "host1"), ("hosts", "host2"), ("postgres", self.leader())}
        master = address(self.redis_master())
        return (all(self.is_ready(name) for name in HOSTS) and
                all({row for row in self.served(name) if row[0] != "unready"} == used for name in PROXIES) and
                "state=online" in self.redis(master, "info", "replication") and
                all(f"status=ok,address={master}:6379,slaves=1,sentinels=3" in self.redis(
                    address(name), "info", "sentinel", port=26379) for name in DATABASES))

    def sql(self, name, text, database="busbar", seconds=10, server=None):
        """Runs a statement from inside a machine, on its own server. Returns its output, or None if it failed."""
        found = subprocess.run(
            ["ip", "netns", "exec", self.network.namespace(name), "timeout", str(seconds), self.psql, "-XAtq", "-h",
             server or address(name), "-U", "postgres", "-d", database, "-c", text], capture_output=True, text=True,
            env={**os.environ, "PGPASSWORD": PASSWORDS["POSTGRES_PASSWORD"]})
        return None if found.returncode else found.stdout.strip()

    # ---- Redis

    def start_redis(self, name, master="redis1"):
        place = self.place(name)
        text = self.page("/etc/redis/redis.conf", name, ("/var/lib/redis", place))
        if name != master:
            text += f"replicaof {address(master)} 6379\n"
        self.programs.start(name, name, "redis-server", self.write(f"{place}/redis.conf", text))

    def start_sentinel(self, name):
        place = f"{self.directory}/{name}"
        text = self.page("/etc/redis/sentinel.conf", name, ("/var/lib/redis", place))
        self.programs.start(f"sentinel-{name}", name, "redis-server", self.write(f"{place}/sentinel.conf", text), "--sentinel")

    def redis(self, host, *words, port=6379):
        login = ["-a", PASSWORDS["REDIS_PASSWORD"], "--no-auth-warning"] if port == 6379 else []
        return subprocess.run(["redis-cli", "-h", host, "-p", str(port), *login, *words], capture_output=True, text=True,
                              timeout=10).stdout

    def redis_master(self):
        lines = self.redis(address("db1"), "sentinel", "get-master-addr-by-name", "main", port=26379).split()
        return next((name for name in STORES if lines and address(name) == lines[0]), None)

    # ---- HAProxy

    def start_proxy(self, name):
        place = self.place(name)
        self.write(f"{place}/postgres.cfg", self.page("/etc/haproxy/postgres.cfg", name))
        self.programs.start(name, name, "haproxy", "-W", "-f", f"{self.top}/conf/haproxy.cfg", "-f",
                            f"{place}/postgres.cfg", BUSBAR_HAPROXY_SOCKET=f"{place}/haproxy.sock",
                            BUSBAR_HOST1=f"{address('app1')}:8081", BUSBAR_HOST2=f"{address('app2')}:8081")

    # ---- busbar

    def configure(self, name, key):
        place = self.place(name)
        text = self.page("/etc/busbar/busbar.yaml", name, ("${BUSBAR_SECRET_KEY}", key),
                         ("${BUSBAR_S3_ACCESS_KEY}", "S3RVER"), ("${BUSBAR_S3_SECRET_KEY}", "S3RVER"),
                         ("https://s3.example.org", f"http://{address('s3')}:9000"),
                         ("/var/lib/busbar/documents", self.place(name + "/documents")),
                         ("modules: [", "modules: [audit, bulk, certificate, "), ("http:\n", "http:\n  client_percent: 100\n"))
        return self.write(f"{place}/busbar.yaml", text + f"""
control:
  socket: "{place}/control.sock"
log:
  format: logfmt
module_path: "{self.modules}"
bulk:
  files: "{self.place(name + '/bulk')}"
chat:
  retention_days: 1
auth:
  argon2_rounds: 1
  argon2_memory: 64
webhook:
  allow_networks: ["{NETWORK}0/24"]
""")

    def start_host(self, name):
        self.set_clock(name, 0)
        self.programs.start(name, name, f"{self.busbar}/bin/busbar", "--config", f"{self.directory}/{name}/busbar.yaml", "serve",
                            **self.clock(name))

    def clock(self, name):
        """Returns the variables with which a program uses the clock of a host."""
        return {"LD_PRELOAD": f"{os.path.dirname(self.busbar)}/tests/fault/torture.so",
                "TORTURE_FILE": f"{self.directory}/{name}/torture"}

    def set_clock(self, name, seconds):
        """Moves the clock of a host: the fifth number of struct torture (tests/fault/torture.h)."""
        file = os.open(f"{self.place(name)}/torture", os.O_RDWR | os.O_CREAT)
        os.fchmod(file, 0o666)
        os.truncate(file, 4096)
        os.pwrite(file, struct.pack("q", seconds), 4 * 8)  # the host has mapped the file
        os.close(file)

    def served(self, proxy):
        """Returns the backends of HAProxy and the servers to which they send requests."""
        with socket.socket(socket.AF_UNIX) as control:
            control.connect(f"{self.directory}/{proxy}/haproxy.sock")
            control.sendall(b"show stat\n")
            return set(re.findall(r"^(\w+),((?!BACKEND)\w+),[\d,]*UP", control.makefile().read(), re.M))

    def command(self, name, *words, **environment):
        """Runs a command of busbar; returns what it prints."""
        done = subprocess.run(
            ["ip", "netns", "exec", self.network.namespace(name), f"{self.busbar}/bin/busbar", "--config",
             f"{self.directory}/{name}/busbar.yaml", *words], capture_output=True, text=True,
            env={**os.environ, **environment})
        assert done.returncode == 0, f"busbar {' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout

    def is_ready(self, name):
        return bool(get_json(f"http://{address(name)}:8081/api/health/ready", seconds=2))

    def not_ready_because(self, name):
        """Returns the body of the host's 503, or an empty text if it is ready."""
        try:
            get_json(f"http://{address(name)}:8081/api/health/ready", seconds=2)
        except urllib.error.HTTPError as error:
            return error.read().decode()
        except OSError as error:
            return str(error)
        return ""
