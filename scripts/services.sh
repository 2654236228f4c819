# A private PostgreSQL cluster and a private Redis on unix sockets, below the state directory that
# open_state() (lib.sh) chose. Sourced by lib.sh.

# ---- PostgreSQL ----------------------------------------------------------------------------------

# postgres_programs [VERSION]: prints the directory of the PostgreSQL programs of this version, or of the newest one. A
# package that is installed comes before the programs that ./start has taken from one.
postgres_programs() {
    local at newest=

    for at in "$postgres_place"/lib/postgresql/${1:-*}/bin /usr/lib/postgresql/${1:-*}/bin; do
        ! "$at/postgres" --version >/dev/null 2>&1 || newest=$at
    done
    [ -n "$newest" ] && printf '%s\n' "$newest"
}

# Sets `pg` to the directory of the PostgreSQL programs: of the cluster's version, or the newest ones for a new cluster.
find_postgres() {
    local version=

    [ ! -e "$data/cluster/PG_VERSION" ] || version=$(cat "$data/cluster/PG_VERSION")
    pg=$(postgres_programs "$version") ||
        die "PostgreSQL${version:+ $version, which the cluster in $data needs,} is not installed:
apt-get install postgresql${version:+-$version}"
}

# Makes the cluster in cluster.new and renames it when it is complete.
make_cluster() {
    local new=$data/cluster.new

    [ ! -d "$data/cluster" ] || return 0
    local began=$SECONDS
    say "making a PostgreSQL cluster in $data"
    rm -rf "$new"
    as_service "$pg/initdb" -D "$new" -U postgres --auth=peer --encoding=UTF8 --locale=C.UTF-8 \
        --no-instructions >"$var/log/initdb.log" 2>&1 || die "initdb failed, see $var/log/initdb.log"
    printf 'CREATE ROLE busbar LOGIN\nCREATE DATABASE busbar OWNER busbar\n' |
        as_service "$pg/postgres" --single -D "$new" postgres >>"$var/log/initdb.log" 2>&1 ||
        die "the database could not be created, see $var/log/initdb.log"
    echo "include 'busbar.conf'" | as_service tee -a "$new/postgresql.conf" >/dev/null &&
        as_service mv "$new" "$data/cluster" || die "the new cluster could not be put in $data"
    say "made the cluster in $((SECONDS - began)) s"
}

# Writes settings for a small machine: little memory, and no data lost in a crash.
write_cluster_settings() {
    as_service tee "$data/cluster/busbar.conf" >/dev/null <<END
# Written by ./start at each start.
listen_addresses = ''
unix_socket_directories = '$run'
unix_socket_permissions = 0777 # the mode of the directory and peer authentication restrict access
max_connections = 100
shared_buffers = 128MB
fsync = on
synchronous_commit = on
full_page_writes = on
wal_compression = lz4
max_wal_size = 1GB
checkpoint_completion_target = 0.9
random_page_cost = 1.1
jit = off
timezone = 'UTC'
log_timezone = 'UTC'
log_min_messages = warning
log_line_prefix = '%m [%p] '
END
    echo 'local all all peer map=busbar' | as_service tee "$data/cluster/pg_hba.conf" >/dev/null
    printf 'busbar %s %s\n' "$(id -un)" busbar "$(id -un)" postgres "$service_user" postgres \
        "${host_user:-$(id -un)}" busbar |
        sort -u | as_service tee "$data/cluster/pg_ident.conf" >/dev/null
}

# Removes lock files that a kill -9 or a power failure left. Their process id may belong to another process now, so the
# function checks the program and the directory of that process.
clear_stale_locks() {
    local file pid

    for file in "$data/cluster/postmaster.pid" "$run/.s.PGSQL.5432.lock"; do
        [ -e "$file" ] || continue
        pid=$(head -1 "$file")
        pid=${pid#-}
        case "$(readlink "/proc/$pid/exe" 2>/dev/null)" in
        */postgres*) [ "$(readlink "/proc/$pid/cwd")" != "$data/cluster" ] || continue ;;
        esac
        rm -f "$file" "${file%.lock}"
    done
}

start_postgres() {
    local tries=0

    open_data
    find_postgres
    make_cluster
    write_cluster_settings
    clear_stale_locks
    if [ -e "$data/cluster/postmaster.pid" ]; then
        say "stopping a PostgreSQL that an earlier start left running"
        as_service "$pg/pg_ctl" -D "$data/cluster" -m fast -w -t 30 stop >/dev/null || true
    fi
    trim_log "$var/log/postgres.log"
    until run_postgres; do # backends of a killed server keep its shared memory for a moment
        tries=$((tries + 1))
        [ "$tries" -lt 20 ] && tail -5 "$var/log/postgres.log" | grep 'shared memory block' >/dev/null ||
            die "PostgreSQL does not start, see $var/log/postgres.log:
$(tail -5 "$var/log/postgres.log")"
        sleep 0.5
    done
}

# Starts the server and waits until it accepts connections. Returns 1 if it ended instead.
run_postgres() {
    (exec_child INT "$service_user" "$pg/postgres" -D "$data/cluster") \
        </dev/null >>"$var/log/postgres.log" 2>&1 &
    postgres_pid=$!
    while kill -0 "$postgres_pid" 2>/dev/null; do
        ! "$pg/pg_isready" -q -h "$run" -d postgres || return 0
        sleep 0.05
    done
    wait "$postgres_pid" || true
    postgres_pid=
    return 1
}

# Stops the server of the lock file, not postgres_pid, because somebody may have restarted it by hand.
stop_postgres() {
    [ -n "${postgres_pid:-}" ] || return 0
    if [ -e "$data/cluster/postmaster.pid" ]; then
        as_service "$pg/pg_ctl" -D "$data/cluster" -m fast -w -t 20 stop >/dev/null 2>&1 ||
            as_service "$pg/pg_ctl" -D "$data/cluster" -m immediate -w -t 5 stop >/dev/null 2>&1 ||
            say "PostgreSQL could not be stopped, see $var/log/postgres.log"
    fi
    wait "$postgres_pid" 2>/dev/null || true
    postgres_pid=
}

# ---- Redis ---------------------------------------------------------------------------------------

# Redis writes no file, because its data may be lost. If memory is short, it first evicts keys with an expiry time. Only
# the host uses it, so it runs as the host's user if `host_user` is set.
start_redis() {
    local socket=$run/redis.sock user=$service_user tries=0

    [ -z "${host_user:-}" ] || user=$host_user socket=$run/host/redis.sock
    redis_socket=$socket
    [ ! -S "$socket" ] || timeout 2 redis-cli -s "$socket" shutdown nosave \
        >/dev/null 2>&1 || true
    trim_log "$var/log/redis.log"
    (exec_child TERM "$user" redis-server --port 0 --unixsocket "$socket" \
        --unixsocketperm 700 --save '' --appendonly no --maxmemory 64mb \
        --maxmemory-policy volatile-ttl --dir "${socket%/*}" --daemonize no) \
        </dev/null >>"$var/log/redis.log" 2>&1 &
    redis_pid=$!
    until [ "$(timeout 1 redis-cli -s "$socket" ping 2>/dev/null)" = PONG ]; do
        tries=$((tries + 1))
        [ "$tries" -lt 200 ] && kill -0 "$redis_pid" 2>/dev/null ||
            die "Redis does not start, see $var/log/redis.log: $(tail -3 "$var/log/redis.log")"
        sleep 0.05
    done
}

stop_redis() {
    [ -n "${redis_pid:-}" ] || return 0
    end_child "$redis_pid" 5 || true
    redis_pid=
}

# ---- both ----------------------------------------------------------------------------------------

# end_child PID SECONDS: sends SIGTERM and waits; sends SIGKILL after SECONDS or when a second signal has set
# `impatient`. Returns the child's exit status.
end_child() {
    local left=$(($2 * 20))

    kill -TERM "$1" 2>/dev/null || true
    while kill -0 "$1" 2>/dev/null && [ "$left" -gt 0 ] && [ -z "${impatient:-}" ]; do
        sleep 0.05
        left=$((left - 1))
    done
    kill -KILL "$1" 2>/dev/null || true
    wait "$1" 2>/dev/null
}

# trim_log FILE: renames a log of 10 MB or more, so that a new one is started.
trim_log() {
    [ ! -e "$1" ] || [ "$(stat -c %s "$1")" -lt 10485760 ] || mv -f "$1" "$1.old"
}
