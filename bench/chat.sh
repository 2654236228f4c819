# The benchmark of chat: pgbench, a peer in Node.js and busbar, which send the same statements; and a peer in
# NestJS, whose statements TypeORM makes. Sourced by bench/run.

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

# Starts the peer in NestJS. The secret that signs its tokens is new in each run, and only in the environment.
start_nest() {
    nest_port=$(free_port)
    (
        JWT_SECRET=$(random_hex 32)
        export JWT_SECRET
        node "$top/bench/peer-nest/dist/tokens.js" >"$work/tokens.nest" || exit
        export PORT=$nest_port PGHOST=$run PGUSER=busbar PGDATABASE=busbar NODE_ENV=production
        exec_child TERM "$(id -un)" node "$top/bench/peer-nest/dist/main.js"
    ) </dev/null >>"$var/log/nest.log" 2>&1 &
    nest_pid=$!
    wait_port "$nest_port" "$nest_pid" nest
}

# install_peer NAME: installs the packages of bench/NAME, unless they match its lock file.
install_peer() {
    local peer=$top/bench/$1

    [ ! "$peer/node_modules/.package-lock.json" -nt "$peer/package-lock.json" ] || return 0
    say "installing the peer's packages (npm ci in bench/$1)"
    step npm ci --prefix "$peer" --include=dev --ignore-scripts --no-audit --no-fund --loglevel=error >&2 ||
        die "npm ci failed in bench/$1; the reason is above"
}

install_nest() {
    local peer=$top/bench/peer-nest

    install_peer peer-nest
    [ -z "$(find "$peer/src" "$peer"/*.json -type f -newer "$peer/dist/main.js" -print -quit 2>&1)" ] || {
        say "compiling bench/peer-nest"
        rm -rf "$peer/dist"
        step npm run --silent build --prefix "$peer" >&2 || die "bench/peer-nest could not be compiled"
    }
}

# Copies the database with its accounts, and stores a million messages in one and ten thousand in the other. Hosts
# on both accept the same tokens, because the databases have the same signing key.
seed_chat() {
    unset BUSBAR_PASSWORD
    "$pg/createdb" -h "$run" -U postgres -O busbar -T busbar busbar_small ||
        die "the database could not be copied"
    sql busbar_small -qc 'UPDATE busbar_pause SET place = busbar_place()' ||
        die "the copy could not be resumed" # a clone is paused
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
    start_single
}

# Starts a host on the same data that does not share executions of statements.
start_single() {
    local conf=$work/single.yaml

    sed "s/^database:\$/&\n  gather: 1/" "$top/bench/conf.yaml" >"$conf"
    single_port=$(free_port)
    start_busbar busbar "$single_port" single
    single_pid=$started
    wait_port "$single_port" "$single_pid" single
}

# measure ROUND MEASURE WHO: NestJS warms up three times as long, because V8 compiles its code, and TypeORM's,
# only after thousands of requests.
measure() {
    local seconds=$seconds

    [ "$1/$3" != 0/nest ] || seconds=$((3 * seconds))
    case $3 in
    pgbench) run_pgbench "$1" "$2" ;;
    peer) run_wrk "$1" "$2" peer "$peer_port" "$peer_pid" ;;
    nest) run_wrk "$1" "$2" nest "$nest_port" "$nest_pid" ;;
    busbar)
        run_wrk "$1" "$2" busbar "$host_port" "$host_pid"
        check_sent "$2" "$host_port"
        ;;
    busbar-10,000) run_wrk "$1" "$2" busbar-10,000 "$small_port" "$small_pid" ;;
    esac
}

# in_turn ROUND NAME…: prints the names in the order of this round. Each round begins with a different name, and
# every other round has the reverse order, so that no program is always first or always follows the same one.
in_turn() {
    local round=$1 step=1 i
    shift
    local -a names=("$@")

    [ $((round % 2)) -eq 1 ] || step=-1
    for ((i = 0; i < $#; i++)); do
        printf '%s\n' "${names[(round + step * i + $#) % $#]}"
    done
}

chat_round() {
    local who
    local -a readers writers

    mapfile -t readers < <(in_turn "$1" pgbench peer nest busbar busbar-10,000)
    mapfile -t writers < <(in_turn "$1" pgbench peer nest busbar)
    checkpoint
    sql_file postgres busbar reset
    for who in "${readers[@]}"; do
        measure "$1" unread_count "$who"
    done
    for who in "${writers[@]}"; do
        sql_file postgres busbar reset
        measure "$1" post "$who"
    done
}

# Measures reads on 128 connections, at about half of the highest rate (few connections, or many that pause), and
# on one connection, which has no other request to share a statement with. The checkpoint first writes the pages
# that the posts changed.
few_round() {
    sql_file postgres busbar reset
    checkpoint
    connections=128 run_wrk "$1" unread_count busbar-128 "$host_port" "$host_pid"
    script=unread_count connections=6 run_wrk "$1" few busbar "$host_port" "$host_pid"
    script=half connections=64 run_wrk "$1" half busbar "$host_port" "$host_pid"
    script=unread_count connections=1 run_wrk "$1" alone busbar "$host_port" "$host_pid"
    script=unread_count connections=1 run_wrk "$1" alone single "$single_port" "$single_pid"
}

chat_report() {
    node "$top/bench/report.js" "$work/results" "$(cat "$work/resident.idle")" \
        "$(cat "$work/resident.load")" "$rounds" "$seconds" "$busy"
}

chat_bench() {
    local number

    check_statements || die "bench/sql and modules/chat have different statements: make them the same"
    build_host
    install_peer peer
    install_nest
    conf=$top/bench/conf.yaml
    open_stage
    seed_accounts
    seed_chat
    start_hosts
    start_peer
    start_nest
    say "warming up"
    chat_round 0
    sql_file busbar busbar posted
    for ((number = 1; number <= rounds; number++)); do
        say "round $number of $rounds"
        chat_round "$number"
        few_round "$number"
        run_stopped "$number"
    done
    peak "$host_pid" >"$work/resident.load"
    finish chat notes.md
}
