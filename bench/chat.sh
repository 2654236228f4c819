# The bench of chat: pgbench, a peer in Node and busbar, the same statements. Sourced by bench/run.

start_peer() {
    peer_port=$(free_port)
    mkdir "$work/statements"
    statement unread_count >"$work/statements/unread_count"
    statement post >"$work/statements/post"
    (
        export PORT=$peer_port PGHOST=$run PGUSER=busbar PGDATABASE=busbar NODE_ENV=production
        export STATEMENTS=$work/statements
        exec_child TERM "$(id -un)" node "$top/bench/peer/server.js"
    ) </dev/null >>"$var/log/peer.log" 2>&1 &
    peer_pid=$!
    wait_port "$peer_port" "$peer_pid" peer
}

install_peer() {
    local lock=$top/bench/peer/package-lock.json modules=$top/bench/peer/node_modules

    [ ! "$modules/.package-lock.json" -nt "$lock" ] || return 0
    say "installing the peer's packages (npm ci in bench/peer)"
    step npm ci --prefix "$top/bench/peer" --no-audit --no-fund --loglevel=error >&2 ||
        die "npm ci failed in bench/peer; the reason is above"
}

# A copy of the database with its accounts: one gets a million messages, the other ten thousand.
# Hosts on both open the same tokens, as they share the signing key.
seed_chat() {
    unset BUSBAR_PASSWORD
    "$pg/createdb" -h "$run" -U postgres -O busbar -T busbar busbar_small ||
        die "the database could not be copied"
    say "seeding: 100,000 conversations, with 1,000,000 messages and with 10,000"
    sql_file postgres busbar seed -v entries=1000000
    sql_file postgres busbar_small seed -v entries=10000
}

start_hosts() {
    start_host
    sleep 2
    resident "$host_pid" >"$work/resident.idle"
    start_busbar busbar_small "$small_port" small
    small_pid=$started
    wait_port "$small_port" "$small_pid" small
}

measure() {
    case $3 in
    pgbench) run_pgbench "$1" "$2" ;;
    peer) run_wrk "$1" "$2" peer "$peer_port" "$peer_pid" ;;
    busbar)
        run_wrk "$1" "$2" busbar "$host_port" "$host_pid"
        check_sent "$2" "$host_port"
        ;;
    busbar-10,000) run_wrk "$1" "$2" busbar-10,000 "$small_port" "$small_pid" ;;
    esac
}

# A round begins with another one each time, so that nobody always comes after the same.
chat_round() {
    local i
    local -a readers=(pgbench peer busbar busbar-10,000) writers=(pgbench peer busbar)

    checkpoint
    sql_file postgres busbar reset
    for ((i = 0; i < 4; i++)); do
        measure "$1" unread_count "${readers[($1 + i) % 4]}"
    done
    for ((i = 0; i < 3; i++)); do
        sql_file postgres busbar reset
        measure "$1" post "${writers[($1 + i) % 3]}"
    done
}

chat_report() {
    node "$top/bench/report.js" "$work/results" "$(cat "$work/resident.idle")" \
        "$(cat "$work/resident.load")" "$rounds" "$seconds" "$busy"
}

chat_bench() {
    local number

    check_statements || die "bench/sql and modules/chat have drifted apart: make them the same"
    build_host
    install_peer
    conf=$top/bench/conf.yaml
    open_stage
    seed_accounts
    seed_chat
    start_hosts
    start_peer
    say "warming up"
    chat_round 0
    for ((number = 1; number <= rounds; number++)); do
        say "round $number of $rounds"
        chat_round "$number"
        run_stopped "$number"
    done
    peak "$host_pid" >"$work/resident.load"
    finish chat notes.md
}
