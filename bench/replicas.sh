# The benchmark of replicas: posts with the primary alone and with a synchronous standby; then pages of lists with the
# primary alone, with one standby and with two, while one connection posts. Sourced by bench/run. The servers share this
# machine, so the rate of the lists says little; the processor time of the primary shows what replicas take over.

# make_standby NUMBER: makes a standby, and a slot so that the primary keeps its WAL while the standby is stopped.
make_standby() {
    as_service "$pg/pg_basebackup" -h "$run" -U postgres -D "$data/standby$1" -R -C -S "standby$1" -c fast --no-sync \
        >>"$var/log/standby.log" 2>&1 || die "the standby could not be created: $(tail -3 "$var/log/standby.log")"
}

# start_standby NUMBER: the standby listens in the directory of the primary's socket, with the port 5432 + NUMBER.
start_standby() {
    local port=$((5432 + $1))

    (exec_child INT "$service_user" "$pg/postgres" -D "$data/standby$1" -p "$port") \
        </dev/null >>"$var/log/standby.log" 2>&1 &
    standby_pids+=" $!"
    until "$pg/pg_isready" -q -h "$run" -p "$port"; do
        kill -0 "${standby_pids##* }" 2>/dev/null || die "a standby does not start, see $var/log/standby.log"
        sleep 0.05
    done
}

stop_standbys() {
    local pid

    for pid in $standby_pids; do
        kill -INT "$pid" && wait "$pid" || true
    done
    standby_pids=
}

# synchronous NAMES: makes commits wait for these standbys.
synchronous() {
    "$pg/psql" -X -q -h "$run" -U postgres -c "ALTER SYSTEM SET synchronous_standby_names = '$1'" \
        -c 'SELECT pg_reload_conf()' >/dev/null
}

# Waits until the standby has replayed everything, and makes a restartpoint of it.
checkpoint_standby() {
    until [ "$("$pg/psql" -X -A -t -h "$run" -U postgres \
        -c 'SELECT replay_lsn = pg_current_wal_lsn() FROM pg_stat_replication')" = t ]; do
        sleep 0.05
    done
    "$pg/psql" -X -q -h "$run" -p 5433 -U postgres -c CHECKPOINT
}

# measure_posts STANDBYS WHO: posts on 32 and on 128 connections, with STANDBYS as synchronous_standby_names. The
# checkpoints leave WAL files that both servers use again: making new ones would take up to 50 ms each.
measure_posts() {
    local connections

    synchronous "$1"
    for connections in 32 128; do
        sql_file postgres busbar reset
        checkpoint
        [ -z "$standby_pids" ] || checkpoint_standby
        run_wrk "$number" post "$2-$connections" "$host_port" "$host_pid"
    done
}

# Posts without and with a synchronous standby in turn. The standby runs only during its own rounds.
compare_posts() {
    local number

    conf=$top/bench/conf.yaml
    start_host
    for ((number = 0; number <= rounds; number++)); do
        measure_posts '' single
        start_standby 1
        measure_posts '*' standby
        synchronous ''
        stop_standbys
    done
    end_child "$host_pid" 11 || true
    host_pid=
}

# measure_replicas COUNT: starts a host that reads from this many standbys.
measure_replicas() {
    local number urls=

    for ((number = 1; number <= $1; number++)); do
        urls+="${urls:+, }\"host=$run port=$((5432 + number)) dbname=busbar user=busbar\""
    done
    conf=$work/replicas.yaml
    sed "/^  url: \"host=/a\\  replicas: [$urls]" "$top/bench/conf.yaml" >"$conf"
    start_host
    sleep 3 # until the host uses the standbys
    TOKENS=$work/tokens wrk -t1 -c1 -d$((seconds * rounds + 5)) -s "$top/bench/lua/post.lua" \
        "http://127.0.0.1:$host_port" >/dev/null 2>&1 &
    load=$!
    for ((number = 1; number <= rounds; number++)); do
        run_wrk "$number" list "replicas-$1" "$host_port" "$host_pid"
    done
    kill "$load" 2>/dev/null || true
    wait "$load" || true
    curl -sf "http://127.0.0.1:$host_port/api/health" >/dev/null || die "the host does not respond"
    "$program" --config "$conf" status | grep '^  replica' >&2 || true
    end_child "$host_pid" 11 || true
    host_pid=
}

replicas_bench() {
    local count load

    standby_pids=
    build_host
    conf=$top/bench/conf.yaml
    open_stage
    echo 'local replication all peer map=busbar' | as_service tee -a "$data/cluster/pg_hba.conf" >/dev/null
    "$pg/psql" -X -q -h "$run" -U postgres -c "ALTER SYSTEM SET min_wal_size = '1GB'" \
        -c 'SELECT pg_reload_conf()' >/dev/null
    seed_accounts
    say "seeding: 100,000 conversations with 1,000,000 messages"
    unset BUSBAR_PASSWORD
    sql_file postgres busbar seed -v entries=1000000
    make_standby 1
    compare_posts
    start_standby 1
    make_standby 2
    start_standby 2
    for count in 0 1 2; do
        measure_replicas "$count"
    done
    stop_standbys
}
