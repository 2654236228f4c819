# The tests of ./start, one function each, which returns 0 if the test passes. Sourced by ./test. All run in a copy of
# the sources in build/start, with a separate state; the build is shared.

start_names="pages commands owner idle signals port lock password"
start_pages="README.md docs/tour.md docs/devices.md docs/modules.md"

# Prints a port on which no program listens.
free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

need_start_tree() {
    tree=$top/build/start
    begin_with_gcc release
    rm -rf "$tree"
    mkdir -p "$tree"
    (cd "$top" && { git ls-files -z 2>/dev/null || find . -path ./build -prune -o -type f -print0; } |
        tar --null -T - -cf - 2>/dev/null) | tar -xf - -C "$tree" && ln -s "$top/build" "$tree/build" &&
        [ -x "$tree/start" ]
}

# started LOG: runs ./start in the background and waits until it is ready; sets start_pid.
started() {
    local tries=0

    : >"$1" # empty it now, because the child does it later, and the loop could read a line of an earlier start
    (cd "$tree" && exec ./start) >"$1" 2>&1 </dev/null &
    start_pid=$!
    until grep '^busbar ready' "$1" >/dev/null; do
        tries=$((tries + 1))
        kill -0 "$start_pid" 2>/dev/null && [ "$tries" -lt 6000 ] || {
            tail -20 "$1" >&2
            return 1
        }
        sleep 0.05
    done
}

# Stops a ./start that still runs because the tests were interrupted.
stop_started() {
    [ -z "${start_pid:-}" ] || kill -TERM "$start_pid" 2>/dev/null || true
}

ended() { # SECONDS: returns 0 if ./start ends in time, with status 0
    local left=$(($1 * 200)) status=0 # a busy machine takes ten times as long

    while kill -0 "$start_pid" 2>/dev/null && [ "$left" -gt 0 ]; do
        left=$((left - 1))
        sleep 0.05
    done
    ! kill -0 "$start_pid" 2>/dev/null || {
        kill -TERM "$start_pid"
        kill -TERM "$start_pid"
        wait "$start_pid"
        start_pid=
        return 1
    }
    wait "$start_pid" || status=$?
    start_pid=
    return "$status"
}

# Checks that start_pages, or another test, runs every page that has an `sh' block.
all_pages() {
    local page

    for page in $(cd "$top" && grep -l '^```sh$' README.md docs/*.md); do
        case $page in
        docs/operating.md) continue ;; # tested by ./test install operating
        docs/cluster.md) continue ;;   # tested by ./test cluster
        esac
        case " $start_pages " in
        *" $page "*) ;;
        *) say "no test runs the commands of $page" && return 1 ;;
        esac
    done
}

start_pages() {
    all_pages || return 1
    # shellcheck disable=SC2086 # words are wanted
    python3 "$tree/tests/start/blocks" "$tree" "$(free_port)" "$(free_port)" $start_pages >&2
}

# Returns 0 if mounts are not allowed and ./start reported it: the user busbar then cannot enter the checkout.
owner_is_told() { # LOG
    ! unshare --mount true 2>/dev/null && grep -q 'grants no mounts: the host runs as' "$1"
}

# If root runs ./start, the host runs as another user, which can still read the configuration at a reload.
start_owner() {
    local log=$tree/owner.log status=0 host

    BUSBAR_PORT=$(free_port) started "$log" || return 1
    host=$(cat "$tree/var/busbar.pid")
    [ "$(id -u)" -ne 0 ] || [ "$(stat -c %U "/proc/$host")" = busbar ] || owner_is_told "$log" || {
        say "the host runs as $(stat -c %U "/proc/$host")"
        status=1
    }
    BUSBAR_CONTROL=$tree/var/run/host/control.sock "$tree/build/release/root/bin/busbar" reload >&2 ||
        status=1
    kill -TERM "$start_pid"
    ended 20 || status=1
    return $status
}

# Commands find the host that ./start runs, and its configuration; secrets are hidden.
start_commands() {
    local log=$tree/commands.log status=0 said

    BUSBAR_PORT=$(free_port) started "$log" || return 1
    said=$(cd "$tree" && ./start status && ./start check && ./start migrate && ./start reload) ||
        status=1
    case $said in
    *"PostgreSQL responds"*"the database is up to date"*"0 steps applied now"*"generation 2 is live"*) ;;
    *) status=1 ;;
    esac
    said+=$(cd "$tree" && ./start check --print) || status=1
    case $said in
    *"$(cat "$tree/var/secret.key")"*) status=1 ;;
    *'keys: ["(hidden)"]'*) ;;
    *) status=1 ;;
    esac
    said+=$(cd "$tree" && BUSBAR_CONF=conf/none.yaml ./start check 2>&1) && status=1
    case $said in
    *conf/none.yaml*) ;;
    *) status=1 ;;
    esac
    [ "$(stat -c %a "$tree/var/environment")" = 600 ] || status=1
    [ "$status" -eq 0 ] || say "commands on a running ./start say: $said"
    kill -TERM "$start_pid"
    ended 20 || status=1
    said=$(cd "$tree" && ./start status 2>&1)
    case $said in
    *"no ./start runs with"*) ;;
    *) say "after its end a command says: $said" && status=1 ;;
    esac
    return $status
}

# Prints the process id of the worker of a supervisor.
worker_of() { # PID
    tr -d ' ' <"/proc/$1/task/$1/children"
}

# Prints the number of times that threads of a process have gone to sleep so far.
sleeps() { # PID
    cat /proc/"$1"/task/*/status | awk '/^voluntary_ctxt_switches/ { sum += $2 } END { print sum }'
}

# An idle host wakes fewer than ten times a second, and its pools have started no unneeded threads: except for the loops,
# no two threads have the same name. On a busy machine the work of one wake-up is split into several, so the best of
# six measurements counts.
start_idle() {
    local log=$tree/idle.log status=1 host before rate round twice

    BUSBAR_PORT=$(free_port) started "$log" || return 1
    host=$(worker_of "$(cat "$tree/var/busbar.pid")")
    [ "$(cat /proc/"$host"/task/*/comm | grep -cx busbar)" = 1 ] || {
        say "threads of the host have no names: $(cat /proc/"$host"/task/*/comm | tr '\n' ' ')"
        kill -TERM "$start_pid"
        ended 20
        return 1
    }
    for ((round = 0; round < 300; round++)); do # connections are made on threads that end afterwards
        cat /proc/"$host"/task/*/comm | grep -qx connector || break
        sleep 0.1
    done
    twice=$(cat /proc/"$host"/task/*/comm | sort | uniq -cd | grep -v ' loop$')
    [ -z "$twice" ] || {
        say "the idle host has threads that do the same: $twice"
        kill -TERM "$start_pid"
        ended 20
        return 1
    }
    sleep 6 # jobs run for the first time 5 s after the start
    for round in 1 2 3 4 5 6; do
        before=$(sleeps "$host")
        sleep 10
        rate=$((($(sleeps "$host") - before) / 10))
        say "the idle host wakes $rate times a second"
        if [ "$rate" -lt 10 ]; then
            status=0
            break
        fi
    done
    kill -TERM "$start_pid"
    ended 20 || status=1
    return $status
}

# A signal at any time after "busbar ready" stops ./start.
start_signals() {
    local log=$tree/signals.log round

    for round in 1 2 3 4 5 6 7 8; do
        BUSBAR_PORT=$(free_port) started "$log" || return 1
        kill -TERM "$start_pid"
        ended 20 || {
            say "the signal of round $round was lost"
            return 1
        }
    done
}

# ./start reports a used port before it does anything else.
start_port() {
    local port said

    port=$(free_port)
    python3 -c 'import socket, sys, time
s = socket.socket(); s.bind(("127.0.0.1", int(sys.argv[1]))); s.listen(); time.sleep(60)' "$port" &
    local holder=$!
    until (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do sleep 0.05; done
    said=$(cd "$tree" && BUSBAR_VAR=$tree/none BUSBAR_PORT=$port ./start 2>&1)
    kill "$holder"
    [ "$said" = "busbar: port $port is taken by another program; set BUSBAR_PORT" ] &&
        [ ! -e "$tree/none/postgres" ] || {
        say "with the port taken ./start says: $said"
        return 1
    }
}

# Other users cannot open the lock of the state directory, because they could block ./start with it. ./start waits for
# the lock of builds only if there is something to build, and reports that it waits.
start_lock() {
    local log=$tree/lock.log status=0 tries=0

    BUSBAR_PORT=$(free_port) started "$log" || return 1
    ! (cd "$tree" && ./start) >"$log.second" 2>&1 && grep -q 'already running' "$log.second" &&
        [ -s "$tree/var/busbar.pid" ] || status=1
    kill -TERM "$start_pid"
    ended 20 && [ "$(stat -c %a "$tree/var/lock")" = 600 ] && grep -qx 'busbar: ready after [0-9]* s' "$log" || return 1
    exec 7>"$top/build/.lock"
    flock 7
    BUSBAR_PORT=$(free_port) started "$log" 7>&- || status=1
    kill -TERM "$start_pid"
    ended 20 || status=1
    ! grep 'waiting for another build' "$log" >&2 || status=1
    echo "/* another comment */" >>"$tree/modules/console/module.c"
    (cd "$tree" && BUSBAR_PORT=$(free_port) exec ./start) >"$log" 2>&1 </dev/null 7>&- &
    start_pid=$!
    until grep -q 'waiting for another build' "$log"; do
        tries=$((tries + 1))
        kill -0 "$start_pid" 2>/dev/null && [ "$tries" -lt 1200 ] || {
            say "./start does not say that it waits for another build"
            status=1
            break
        }
        sleep 0.05
    done
    kill -TERM "$start_pid"
    ended 20 || true # 130: it was stopped
    exec 7>&-
    return "$status"
}

# The first start with a chosen password, in a directory whose name has an apostrophe. A later start without the
# variable names no password, because it knows none.
start_password() {
    local log=$tree/password.log status=0
    local -x BUSBAR_VAR=$tree/o\'brien

    BUSBAR_ADMIN_PASSWORD=chosen-by-the-operator BUSBAR_PORT=$(free_port) started "$log" || return 1
    kill -TERM "$start_pid"
    ended 20 || status=1
    BUSBAR_PORT=$(free_port) started "$log" || return 1
    kill -TERM "$start_pid"
    ended 20 || status=1
    grep -qx 'busbar: Admin: admin@example.com' "$log" && [ ! -e "$BUSBAR_VAR/admin.password" ] || {
        grep Admin "$log" >&2
        status=1
    }
    return "$status"
}
