# The benchmark of operating: the time from a start to the first response, the time of a reload, and a hundred reloads
# under the load of 32 connections. Sourced by bench/run.

reloads=100 starts=10
rest='auth, certificate, chat, device, health, metrics, reading' # all modules except webhook

# write_reload_conf MODULES: replaces the file by a rename, as an operator's editor does.
write_reload_conf() {
    sed "s/^modules: .*/modules: [$1]/" "$top/bench/conf.yaml" >"$work/new.yaml"
    printf 'device:\n  documents: "%s"\n' "$work/documents" >>"$work/new.yaml"
    mv "$work/new.yaml" "$conf"
}

# run_start ROUND: measures consecutive starts while PostgreSQL runs; $work/starts.ROUND gets the microseconds, one per line.
run_start() {
    local number

    end_child "$host_pid" 11 || true
    write_reload_conf "$rest, webhook"
    for ((number = 0; number < starts; number++)); do
        PORT=$host_port step node "$top/bench/start.js" "$program" serve --no-supervisor --config "$conf" \
            >>"$work/starts.$1" 2>>"$var/log/host.log" || die "a host did not start"
    done
    note_value "$1" start answer "$(sort -n "$work/starts.$1" | sed -n "$((starts / 2 + 1))p")" us
    start_host
}

# busbar_reload good|bad: reloads, and fails unless the result is the expected one. Its output is in $work/output.
busbar_reload() {
    local status=0

    step "$program" --config "$conf" reload >"$work/output" 2>&1 || status=$?
    case $1$status in
    good0 | bad1) ;;
    *) die "busbar reload ended with $status: $(tail -3 "$work/output")" ;;
    esac
}

# reload_often ROUND: every tenth file is broken. Of the others, one removes the webhook module and the next adds it.
reload_often() {
    local number began

    for ((number = 1; number <= reloads; number++)); do
        if [ $((number % 10)) -eq 0 ]; then
            write_reload_conf "$rest, no-such-module"
            busbar_reload bad
        elif [ $((number % 2)) -eq 1 ]; then
            write_reload_conf "$rest"
            busbar_reload good
        else
            write_reload_conf "$rest, webhook"
            began=$(date +%s%N)
            busbar_reload good
            echo $((($(date +%s%N) - began) / 1000)) >>"$work/reloads.$1"
        fi
        [ "$number" -ne 20 ] || resident "$host_pid" >"$work/rss"
    done
}

generations() {
    "$program" --config "$conf" status | grep -c '^generation'
}

wait_one_generation() {
    local tries=0

    until [ "$(generations)" -eq 1 ]; do
        [ "$tries" -lt 300 ] || die "generations are left over: $(generations)"
        tries=$((tries + 1))
        sleep 0.1
    done
}

run_reloads() {
    local load before

    TOKENS=$work/tokens wrk -t1 -c32 -d600 -s "$top/bench/lua/unread_count.lua" \
        "http://127.0.0.1:$host_port" >"$work/load" 2>&1 &
    load=$!
    sleep 1
    reload_often "$1"
    kill -INT "$load"
    wait "$load" || die "the load failed: $(tail -3 "$work/load")"
    # shellcheck disable=SC2046 # words are wanted
    set -- "$1" $(sed -n 's/^figures //p' "$work/load")
    wait_one_generation
    before=$(cat "$work/rss")
    note_value "$1" reload all "$(sort -n "$work/reloads.$1" |
        awk '{ t[NR] = $1 } END { print t[int((NR + 1) / 2)] }')" "us, the median of those that load all modules"
    note_value "$1" requests all "$6" "during the reloads"
    note_value "$1" failed all $(($7 + $8)) "of them"
    note_value "$1" memory after20 "$before" kB
    note_value "$1" memory after100 "$(resident "$host_pid")" kB
}

reload_report() {
    node "$top/bench/report_reload.js" "$work/results" "$rounds" "$reloads" "$starts" "$busy"
}

reload_bench() {
    local number

    [ -z "$quick" ] || starts=3 reloads=30
    build_host
    open_stage
    conf=$work/reload.yaml
    export BUSBAR_CONTROL=$run/control.sock
    write_reload_conf "$rest, webhook"
    seed_accounts
    start_host
    for ((number = 1; number <= rounds; number++)); do
        say "round $number of $rounds"
        run_start "$number"
        run_reloads "$number"
    done
    finish reload reload-notes.md
}
