# Shared by all benchmarks: starts and stops private PostgreSQL, Redis and hosts, chooses ports, makes accounts, and
# writes the page of results. Sourced by bench/run.

page=docs/benchmarks.md # where the sections are; `bench/run cost` and `growth` have another page
stopping= impatient= stopped= step_pid= work= var=
host_pid= small_pid= single_pid= peer_pid= nest_pid= receiver_pid= postgres_pid= redis_pid=

on_signal() {
    [ -z "$stopping" ] || impatient=1
    stopping=1
    [ -z "$step_pid" ] || kill -TERM "$step_pid" 2>/dev/null || true
    exit 130
}

stop_all() {
    local status=$? pid

    set +e
    trap '' INT TERM HUP
    [ -z "$stopped" ] || signal_postgres CONT
    for pid in $(jobs -p); do
        case " $postgres_pid $redis_pid $host_pid $small_pid $single_pid $peer_pid $nest_pid $receiver_pid " in
        *" $pid "*) ;;
        *) kill -TERM "$pid" 2>/dev/null ;;
        esac
    done
    for pid in $host_pid $small_pid $single_pid $peer_pid $nest_pid $receiver_pid; do
        end_child "$pid" 11
    done
    stop_redis
    stop_postgres
    [ -z "$var" ] || close_sockets
    let_services_be
    [ -z "$work" ] || remove_state
    exit "$status"
}

# PostgreSQL's data may be in another directory, which PostgreSQL's user can access; var/postgres is then a link.
remove_state() {
    [ ! -L "$var/postgres" ] || rm -rf "$(readlink "$var/postgres")"
    rm -rf "$work"
}

# Prints a port on which no program listens.
free_port() {
    local port

    while port=$((20000 + RANDOM % 10000)); do
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
    done
    printf '%s\n' "$port"
}

wait_port() {
    local tries=0

    until (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; do
        kill -0 "$2" 2>/dev/null && [ "$tries" -lt 300 ] ||
            die "$3 does not start: $(tail -5 "$var/log/$3.log")"
        tries=$((tries + 1))
        sleep 0.1
    done
}

sql() {
    local database=$1
    shift
    "$pg/psql" -X -q -h "$run" -U busbar -d "$database" "$@"
}

sql_file() {
    step "$pg/psql" -X -q -h "$run" -U "$1" -d "$2" -f "$top/bench/sql/$3.sql" "${@:4}" \
        >/dev/null || die "bench/sql/$3.sql failed"
}

start_busbar() {
    (
        export BUSBAR_DATABASE=$1 BUSBAR_PORT=$2
        exec_child TERM "$(id -un)" "$program" serve --no-supervisor --config "$conf"
    ) </dev/null >>"$var/log/$3.log" 2>&1 &
    started=$!
}

# Other work on the same cores makes figures useless, so the report shows the load average before the first run.
look_around() {
    read -r busy _ </proc/loadavg
    [ "${busy%.*}" -eq 0 ] ||
        say "this machine is busy (load average $busy): the figures will be unreliable"
}

build_host() {
    need_packages "${build_packages[@]}" "${run_packages[@]}" wrk
    if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
        need_packages nodejs npm
    fi
    build release --disable-tests CFLAGS="-O2 -g1 -fno-plt"
    program=$top/build/release/root/bin/busbar
}

compile() {
    step "${CC:-cc}" -O2 -std=gnu11 -D_GNU_SOURCE -o "$work/$1" "$top/bench/$1"/*.c "${@:2}" >&2 ||
        die "bench/$1 could not be compiled"
}

# Not below /tmp, which is often in memory: a commit must write to a disk.
open_stage() {
    work=$(mktemp -d "${TMPDIR:-/var/tmp}/busbar-bench.XXXXXX")
    chmod 711 "$work"
    open_state "$work/var"
    open_sockets
    start_postgres
    "$pg/psql" -X -q -h "$run" -U postgres -c 'ALTER SYSTEM SET autovacuum = off' \
        -c 'SELECT pg_reload_conf()' >"$work/output" || die "autovacuum could not be turned off"
    start_redis
    export BUSBAR_MODULES=$top/build/release/root/lib/busbar/modules
    export BUSBAR_PGHOST=$run BUSBAR_REDIS=$run/redis.sock
    BUSBAR_SECRET_KEY=$(random_hex 32)
    export BUSBAR_SECRET_KEY
    host_port=$(free_port) small_port=$(free_port)
    export BUSBAR_PORT=$host_port BUSBAR_DATABASE=busbar
}

start_host() {
    start_busbar busbar "$host_port" host
    host_pid=$started
    wait_port "$host_port" "$host_pid" host
}

# Creates the tables and a password, which all accounts made later share.
migrate_database() {
    BUSBAR_PASSWORD=$(random_hex 12)
    export BUSBAR_PASSWORD
    step "$program" --config "$conf" migrate >&2 || die "migrating failed"
}

add_account() {
    step "$program" --config "$conf" user add --role "$1" --email "$2@bench.test" >&2 ||
        die "the account of $2 could not be created"
}

# Makes 10,000 accounts with the same password as the accounts of add_account, and writes the tokens of their sessions
# to $work/tokens. Starts a host for the logins, and stops it.
seed_accounts() {
    say "seeding: 10,000 accounts and their sessions"
    migrate_database
    add_account User u1
    sql_file busbar busbar accounts
    start_host
    PORT=$host_port step node "$top/bench/login.js" >"$work/tokens" || die "the logins failed"
    end_child "$host_pid" 11 || true
    host_pid=
}

# log_in ACCOUNT FILE: logs in, and writes the token to $work/FILE.
log_in() {
    curl -sf "http://127.0.0.1:$host_port/api/auth/login" -H 'Content-Type: application/json' \
        -d "{\"username\":\"$1@bench.test\",\"password\":\"$BUSBAR_PASSWORD\"}" |
        sed 's/.*"accessToken":"\([^"]*\)".*/\1/' >"$work/$2"
    [ -s "$work/$2" ] || die "the account of $1 could not log in"
}

# Makes a checkpoint, so that PostgreSQL makes none during the round. The program that posts first after a checkpoint
# writes whole pages to the WAL. The order changes with each round, so at most one of three rounds of a program is
# affected, and the median ignores it.
checkpoint() {
    "$pg/psql" -X -q -h "$run" -U postgres -d busbar -c CHECKPOINT || die "no checkpoint was made"
}

# write_section NAME FILE: replaces the section of one benchmark in $page, which is between two comments, or appends it.
write_section() {
    awk -v name="$1" -v file="$2" '
        function put(   line) {
            print "<!-- bench/run " name " -->\n"
            while ((getline line < file) > 0)
                print line
            done = 1
        }
        $0 == "<!-- bench/run " name " -->" { put(); skip = 1 }
        $0 == "<!-- end -->" { skip = 0 }
        !skip
        END { if (!done) { print ""; put(); print "<!-- end -->" } }' "$top/$page" >"$work/page.md" ||
        die "$page could not be read"
    cp "$work/page.md" "$top/$page"
    say "written to $page"
}

# finish NAME NOTES: prints the output of NAME_report, and writes it with the notes to the page unless --quick.
# webhook_hosts writes the section of `bench/run webhook --hosts`.
finish() {
    "$1_report" >"$work/report.md" || die "the results could not be read: $work/results"
    cat "$work/report.md"
    [ -z "$quick" ] || return 0
    cat "$top/bench/$2" >>"$work/report.md"
    write_section "${1/_/ --}" "$work/report.md"
}
