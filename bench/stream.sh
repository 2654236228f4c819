# The benchmark of the live stream. Sourced by bench/run.

streams=2000

# listen ROUND WHO LISTENERS CONVERSATIONS COPIES RATE: measures one message a second to each stream.
listen() {
    start_clock "$host_pid"
    step "$work/stream" "$host_port" "$3" "$work/tokens" "$streams" "$4" "$5" "$6" "$seconds" \
        >"$work/listened" || die "events are missing"
    figures=$(cat "$work/listened")
    record "$1" stream "$2" "$host_pid"
    note_value "$1" resident "$2" "$(($(peak "$host_pid") / 1024))" MiB
}

stream_round() {
    listen "$1" pairs "$work/tokens" $((streams / 2)) 2 $((streams / 2))
    listen "$1" admin "$work/admin" 1 "$streams" 1
}

stream_report() {
    node "$top/bench/report_stream.js" "$work/results" "$rounds" "$seconds" "$busy" "$streams"
}

stream_bench() {
    local number

    build_host
    conf=$top/bench/conf.yaml
    open_stage
    compile stream
    seed_accounts
    add_account Admin admin
    say "seeding: 100,000 conversations with 1,000,000 messages"
    sql_file postgres busbar seed -v entries=1000000
    sql_file postgres busbar stream -v pairs=$((streams / 2))
    ulimit -n 8192
    start_host
    log_in admin admin
    say "warming up"
    stream_round 0
    for ((number = 1; number <= rounds; number++)); do
        say "round $number of $rounds"
        stream_round "$number"
    done
    finish stream stream-notes.md
}
