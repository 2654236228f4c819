# One module against others: how long reads of chat take while eight connections send requests of 10 ms of processor
# time to another module, without and with limits of that module. Sourced by bench/run.

# cpu_time of the module, in milliseconds per second
cpu_limits=(200 10)

# write_modules_conf [CPU_TIME]: replaces the file; without an argument the module has no limits.
write_modules_conf() {
    sed "s|^modules: .*|modules: [auth, chat, health, \"$work/busy.so\"]|" "$top/bench/conf.yaml" >"$work/new.yaml"
    [ $# -eq 0 ] || echo "module_limits: [{module: busy, requests: 8, cpu_time: $1}]" >>"$work/new.yaml"
    mv "$work/new.yaml" "$conf"
}

# read_during ROUND WHO: measures the reads of 16 connections with 10 ms between a response and the next request.
read_during() {
    local tokens=$work/tokens

    start_clock "$host_pid"
    wrk_figures paced -t1 -c16 -d"$seconds" "http://127.0.0.1:$host_port"
    [ $((refused + lost)) -eq 0 ] || die "$refused reads were refused and $lost were lost $2"
    record "$1" reads "$2" "$host_pid"
}

# burn_during ROUND WHO: the same while the module is used.
burn_during() {
    local burner

    TOKENS=$work/tokens wrk -t1 -c8 -d600 -s "$top/bench/lua/burn.lua" "http://127.0.0.1:$host_port" \
        >"$work/load" 2>&1 &
    burner=$!
    sleep 2
    read_during "$1" "$2"
    kill -INT "$burner"
    wait "$burner" || die "the load failed: $(tail -3 "$work/load")"
    # shellcheck disable=SC2046 # words are wanted
    set -- "$1" "$2" $(sed -n 's/^figures //p' "$work/load")
    note_value "$1" burnt "$2" "$(awk -v n=$(($7 - $8)) -v rate="$3" -v all="$7" 'BEGIN { print n * rate / all }')" \
        "requests of the module per second"
    [ "$("$program" --config "$conf" status | awk '/^module / { getline; print $1 }')" = busy ] ||
        die "busbar status does not show busy as the module with the most CPU time"
}

modules_report() {
    node "$top/bench/report_modules.js" "$work/results" "$rounds" "$seconds" "$busy" "${cpu_limits[@]}"
}

modules_bench() {
    local number limit

    build_host
    open_stage
    conf=$work/modules.yaml
    export BUSBAR_CONTROL=$run/control.sock
    # shellcheck disable=SC2046 # words are wanted
    step "${CC:-cc}" -O2 -std=gnu11 -D_GNU_SOURCE -fPIC -shared -I"$top/include" $(pkg-config --cflags jansson) \
        -o "$work/busy.so" "$top/tests/modules/module_busy.c" >&2 || die "the module could not be compiled"
    write_modules_conf
    seed_accounts
    start_host
    read_during 0 alone
    for ((number = 1; number <= rounds; number++)); do
        say "round $number of $rounds"
        write_modules_conf
        busbar_reload good
        read_during "$number" alone
        burn_during "$number" "without limits"
        for limit in "${cpu_limits[@]}"; do
            write_modules_conf "$limit"
            busbar_reload good
            burn_during "$number" "with $limit ms/s"
        done
    done
    finish modules modules-notes.md
}
