# The benchmark of crowds: how idle and slow connections affect other clients. Sourced by bench/run.

idle_count=5000 slow_count=500
declare -A slow=([headers]='-H' [bodies]='-B' [readers]='-X')

# The idle timeout must exceed the length of a run, so that idle connections stay open.
write_load_conf() {
    conf=$work/load.yaml
    sed "s/^http:\$/&\n  idle_timeout: $((seconds * 2 + 120))/" "$top/bench/conf.yaml" >"$conf"
}

# others ROUND WITH: measures accounts that read their counts, at a rate far below the host's limit, so that the
# latency shows waiting and not a lack of processor time.
others() {
    local tokens=$work/tokens

    : >"$var/log/host.log"
    start_clock "$host_pid"
    wrk_figures paced -t1 -c32 -d"$seconds" "http://127.0.0.1:$host_port"
    record "$1" others "$2" "$host_pid"
    [ "$refused" -eq 0 ] && [ "$lost" -eq 0 ] ||
        die "during $2: $refused responses were not 2xx and $lost requests were lost"
}

# wait_line PATTERN FILE PID: waits for a line in a file that the process writes.
wait_line() {
    local tries=0

    until grep -q "$1" "$2"; do
        kill -0 "$3" 2>/dev/null && [ "$tries" -lt 600 ] || die "no '$1': $(tail -3 "$2")"
        tries=$((tries + 1))
        sleep 0.1
    done
}

run_idle() {
    local holder before

    before=$(resident "$host_pid")
    node "$top/bench/idle.js" "$host_port" "$idle_count" >"$work/idle" 2>&1 &
    holder=$!
    wait_line '^all open' "$work/idle" "$holder"
    others "$1" idle
    note_value "$1" resident idle "$(resident "$host_pid")" "kB with $idle_count idle, $before before"
    kill -TERM "$holder"
    wait "$holder" || die "idle connections were closed: $(tail -3 "$work/idle")"
}

open_ones() {
    ss -Htn state established "( dport = :$host_port )" | wc -l
}

wait_slow() {
    local tries=0

    until [ "$(open_ones)" -ge $((slow_count * 9 / 10)) ]; do
        kill -0 "$2" 2>/dev/null && [ "$tries" -lt 150 ] ||
            die "slowhttptest ($1) has only $(open_ones) connections: $(tail -8 "$work/slow")"
        tries=$((tries + 1))
        sleep 0.1
    done
}

# run_slow ROUND headers|bodies|readers: slowhttptest's own duration exceeds the run; it is killed after the run.
run_slow() {
    local -a arguments=(-c "$slow_count" -r 250 -l $((seconds + 30)) -i 5 -p 3
        -u "http://127.0.0.1:$host_port/api/health")
    local tester

    [ "$2" != bodies ] || arguments+=(-t POST -s 8192 -x 10)
    [ "$2" != readers ] || arguments+=(-w 64 -y 256 -n 5 -z 32 -k 10)
    slowhttptest "${slow[$2]}" "${arguments[@]}" </dev/null >"$work/slow" 2>&1 &
    tester=$!
    wait_slow "$2" "$tester"
    others "$1" "$2"
    kill -TERM "$tester" 2>/dev/null || true
    wait "$tester" 2>/dev/null || true
}

load_round() {
    others "$1" alone
    run_idle "$1"
    others "$1" 'alone again'
    run_slow "$1" headers
    run_slow "$1" bodies
    run_slow "$1" readers
}

load_report() {
    node "$top/bench/report_load.js" "$work/results" "$rounds" "$seconds" "$busy" "$idle_count" \
        "$slow_count"
}

load_bench() {
    local number

    need_packages slowhttptest iproute2
    ulimit -n "$(ulimit -Hn)"
    build_host
    conf=$top/bench/conf.yaml
    open_stage
    write_load_conf
    seed_accounts
    start_host
    say "warming up"
    others 0 alone
    for ((number = 1; number <= rounds; number++)); do
        say "round $number of $rounds"
        load_round "$number"
    done
    finish load load-notes.md
    end_child "$host_pid" 11 || true
    host_pid=
    against_part
}
