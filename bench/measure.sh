# Measures the rate, latency and CPU time of single runs. Every run adds a line to $work/results: round, measure, who,
# rate, p50 us, p99 us, max us, requests, CPU s of the server, of PostgreSQL, of the load generator. Sourced by
# bench/run.

# ticks PID: prints the CPU ticks used so far by a process and its children, including children that have ended. Reads
# all of /proc, because /proc/PID/task/PID/children may be incomplete.
ticks() {
    { cat /proc/[0-9]*/stat 2>/dev/null || true; } | awk -v server="$1" '
        { pid = $1; sub(/^.*\) /, "") }
        pid == server { sum += $12 + $13 + $14 + $15 }
        $2 == server { sum += $12 + $13 }
        END { print sum }'
}

# resident PID: prints the resident memory in kB; peak PID: prints its maximum so far.
resident() {
    awk '/^VmRSS/ { print $2 }' "/proc/$1/status"
}

peak() {
    awk '/^VmHWM/ { print $2 }' "/proc/$1/status"
}

# note ROUND MEASURE WHO FIGURES SERVER_S POSTGRES_S: adds a line; figures are rate p50 p99 max requests. Round 0 is the
# warm-up and adds no line.
note() {
    [ "$1" != 0 ] || return 0
    awk -v r="$1" -v m="$2" -v w="$3" -v f="$4" -v s="$5" -v p="$6" -v l="${load_s:-0}" 'BEGIN {
        OFS = "\t"; split(f, v, " ")
        print r, m, w, v[1], v[2], v[3], v[4], v[5], s, p, l }' >>"$work/results"
    load_s=0 # do not count it for the next run
    awk -v m="$2" -v w="$3" -v f="$4" -v s="$5" -v p="$6" 'BEGIN {
        split(f, v, " "); k = 10000 / v[5]
        printf "  %-13s %-14s %8.0f /s   p50 %6.2f ms  p99 %7.2f ms   CPU s/10,000: %.2f + %.2f\n",
            m, w, v[1], v[2] / 1000, v[3] / 1000, s * k, p * k }' >&2
}

# note_value ROUND MEASURE WHO NUMBER UNIT: adds a line for a number that is neither a rate nor a latency.
note_value() {
    [ "$1" != 0 ] || return 0
    printf '%s\t%s\t%s\t%s\t0\t0\t0\t1\t0\t0\n' "${@:1:4}" >>"$work/results"
    printf '  %-13s %-14s %8s %s\n' "${@:2}" >&2
}

# record ROUND MEASURE WHO SERVER_PID|-: adds a line with `figures` and the CPU seconds since start_clock.
record() {
    local server=0 postgres hertz

    hertz=$(getconf CLK_TCK)
    [ "$4" = - ] || server=$(($(ticks "$4") - before_server))
    postgres=$(($(ticks "$postgres_pid") - before_postgres))
    note "$1" "$2" "$3" "$figures" "$(awk "BEGIN { print $server / $hertz }")" \
        "$(awk "BEGIN { print $postgres / $hertz }")"
}

# Sets load_s to the CPU seconds of all load generators so far, which are this shell's children. Must not run in a
# subshell, which has no children.
load_seconds() {
    times >"$work/times"
    load_s=$(awk 'NR == 2 { gsub("[ms]", " "); print $1 * 60 + $2 + $3 * 60 + $4 }' "$work/times")
}

# loaded COMMAND…: runs the command, and sets load_s to the CPU seconds that it used.
loaded() {
    local before

    load_seconds
    before=$load_s
    "$@"
    load_seconds
    load_s=$(awk "BEGIN { print $load_s - $before }")
}

start_clock() {
    before_server=0
    [ "$1" = - ] || before_server=$(ticks "$1")
    before_postgres=$(ticks "$postgres_pid")
}

# run_pgbench ROUND MEASURE: runs bench/sql/MEASURE.sql, or $pgbench_file, and notes it as pgbench, or $pgbench_name.
# Latencies are of a twentieth of the transactions.
run_pgbench() {
    rm -f "$work"/pgbench.log*
    start_clock -
    loaded step "$pg/pgbench" -n -M prepared -c 8 -j 2 ${pgbench_set:+-D "$pgbench_set"} -T "$seconds" -h "$run" -U busbar \
        -f "${pgbench_file:-$top/bench/sql/$2.sql}" -l --log-prefix="$work/pgbench.log" --sampling-rate=0.05 busbar \
        >"$work/output" 2>&1 || die "pgbench failed: $(tail -3 "$work/output")"
    figures=$(cat "$work"/pgbench.log* | awk '{ print $3 }' | sort -n | awk -v out="$work/output" '
        { t[NR] = $1 }
        END { while ((getline line < out) > 0) {
                  if (line ~ /^tps/) { split(line, a, " "); rate = a[3] }
                  if (line ~ /actually processed/) { split(line, a, ": "); n = a[2] + 0 }
                  if (line ~ /failed transactions: [1-9]/) exit 1
              }
              print rate, t[int((NR + 1) / 2)], t[int(NR * 0.99) + 1], t[NR], n }') ||
        die "transactions of pgbench failed: $(cat "$work/output")"
    sleep 0.5 # wait until its backends have ended, so that their ticks are counted
    record "$1" "$2" "${pgbench_name:-pgbench}" -
}

# run_wrk ROUND MEASURE WHO PORT PID: runs wrk with $connections connections, or 32. A response other than 2xx ends the
# benchmark.
run_wrk() {
    local tokens=$work/tokens

    case $3 in
    peer) tokens= ;;
    nest) tokens=$work/tokens.nest ;;
    esac
    : >"$var/log/host.log"
    start_clock "$5"
    wrk_figures "${script:-$2}" -t1 -c"${connections:-32}" -d"$seconds" "http://127.0.0.1:$4"
    record "$1" "$2" "$3" "$5"
    [ "${lost:-0}" -eq 0 ] && [ "${refused:-0}" -eq 0 ] ||
        die "$3, $2: $refused responses were not 2xx and $lost requests were lost"
}

# apart NICE COMMAND…: replaces this shell with the command, in a separate session. Linux divides the processors between
# sessions first (sched(7), "The autogroup feature"), and the host has a separate session, too.
apart() {
    local nice=$1

    shift
    # shellcheck disable=SC2016 # the inner shell expands it
    exec setsid nice -n "$nice" sh -c '
        [ ! -e /proc/self/autogroup ] || echo "$0" >/proc/self/autogroup || exit
        exec "$@"' "$nice" "$@"
}

# wrk_figures SCRIPT ARGUMENT…: runs wrk, and sets figures, refused, lost. With `measured_apart`, a niceness, it runs in
# a separate session.
wrk_figures() {
    local script=$1 rest
    shift
    TOKENS=${tokens:-} loaded step ${measured_apart:+apart "$measured_apart"} wrk "$@" -s "$top/bench/lua/$script.lua" >"$work/output" 2>&1 ||
        die "wrk failed: $(tail -3 "$work/output")"
    rest=$(sed -n 's/^figures //p' "$work/output")
    [ -n "$rest" ] || die "wrk measured nothing: $(tail -3 "$work/output")"
    # shellcheck disable=SC2086 # words are wanted
    set -- $rest
    figures="$1 $2 $3 $4 $5" refused=$6 lost=$7
}

children() { # PID
    { cat /proc/[0-9]*/stat 2>/dev/null || true; } |
        awk -v parent="$1" '{ pid = $1; sub(/^.*\) /, "") } $2 == parent { print pid }'
}

signal_postgres() {
    # shellcheck disable=SC2046 # words are wanted
    kill "-$1" "$postgres_pid" $(children "$postgres_pid") 2>/dev/null || true
}

# run_stopped ROUND: measures the liveness while PostgreSQL is stopped and 32 connections wait for it, for longer than
# the deadline of a request (5 s).
run_stopped() {
    local load tokens=

    TOKENS=$work/tokens wrk -t1 -c32 -d12 --timeout 15s -s "$top/bench/lua/unread_count.lua" \
        "http://127.0.0.1:$host_port" >"$work/load" 2>&1 &
    load=$!
    sleep 1
    stopped=1
    signal_postgres STOP
    start_clock "$host_pid"
    wrk_figures health -t1 -c4 -d8 "http://127.0.0.1:$host_port"
    signal_postgres CONT
    stopped=
    record "$1" health stopped "$host_pid"
    wait "$load" || die "the load failed: $(tail -3 "$work/load")"
    [ "$refused" -eq 0 ] && [ "$lost" -eq 0 ] ||
        die "GET /api/health failed $refused times, and was lost $lost times"
}
