# The benchmark of replicas: posts with the primary alone and with a synchronous standby; then pages of lists with the
# primary alone, with one standby and with two, while one connection posts. Sourced by bench/run. The servers share this
# machine, so the rate of the lists says little; the processor time of the primary shows what replicas take over.

# start_standby NUMBER: makes a standby that listens at the primary's directory, with the port 5432 + NUMBER.
start_standby() {
    local at=$data/standby$1 port=$((5432 + $1))

    as_service "$pg/pg_basebackup" -h "$run" -U postgres -D "$at" -R -c fast --no-sync >>"$var/log/standby.log" 2>&1 ||
        die "the standby could not be made: $(tail -3 "$var/log/standby.log")"
    (exec_child INT "$service_user" "$pg/postgres" -D "$at" -p "$port") </dev/null >>"$var/log/standby.log" 2>&1 &
    standby_pids+=" $!"
    until "$pg/pg_isready" -q -h "$run" -p "$port"; do
        kill -0 "${standby_pids##* }" 2>/dev/null || die "a standby does not start, see $var/log/standby.log"
        sleep 0.05
    done
}

# measure_posts WHO STANDBYS: posts on 32 connections. The setting synchronous_standby_names has the value STANDBYS.
measure_posts() {
    local number

    "$pg/psql" -X -q -h "$run" -U postgres -c "ALTER SYSTEM SET synchronous_standby_names = '$2'" \
        -c 'SELECT pg_reload_conf()' >/dev/null
    conf=$top/bench/conf.yaml
    start_host
    for ((number = 0; number <= rounds; number++)); do
        sql_file postgres busbar reset
        run_wrk "$number" post "$1" "$host_port" "$host_pid"
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
    local count load pid

    standby_pids=
    build_host
    conf=$top/bench/conf.yaml
    open_stage
    echo 'local replication all peer map=busbar' | as_service tee -a "$data/cluster/pg_hba.conf" >/dev/null
    "$pg/psql" -X -q -h "$run" -U postgres -c 'SELECT pg_reload_conf()' >/dev/null
    seed_accounts
    say "seeding: 100,000 conversations with 1,000,000 messages"
    unset BUSBAR_PASSWORD
    sql_file postgres busbar seed -v entries=1000000
    measure_posts single ''
    start_standby 1
    measure_posts standby '*'
    "$pg/psql" -X -q -h "$run" -U postgres -c 'ALTER SYSTEM RESET synchronous_standby_names' \
        -c 'SELECT pg_reload_conf()' >/dev/null
    start_standby 2
    for count in 0 1 2; do
        measure_replicas "$count"
    done
    for pid in $standby_pids; do
        kill -INT "$pid" && wait "$pid" || true
    done
}
