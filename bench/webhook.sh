# The bench of webhooks. Sourced by bench/run; deliver.sh has the runs.

drain=100000 drain_hooks=100 open_rate=1000 fanout=1000 backlog=1000000

# The pairs that are compared change places with every round.
webhook_round() {
    local -a posting=(none one) isolation=(alone hanging) dead=(refused hanging)
    local i

    for i in "$1" $(($1 + 1)); do
        run_posting "$1" "${posting[i % 2]}"
    done
    run_drain "$1"
    run_open "$1"
    for i in "$1" $(($1 + 1)); do
        run_isolation "$1" "${isolation[i % 2]}"
    done
    run_fanout "$1"
    for i in "$1" $(($1 + 1)); do
        run_backlog "$1" "${dead[i % 2]}"
    done
}

webhook_report() {
    node "$top/bench/report_webhook.js" "$work/results" "$rounds" "$seconds" "$busy" \
        "$drain" "$drain_hooks" "$backlog"
}

webhook_bench() {
    local number

    [ -z "$quick" ] || drain=10000 backlog=100000
    build_host
    conf=$top/bench/webhook.yaml
    open_stage
    compile receiver
    compile limit -lcurl
    receiver_port=$(free_port) closed_port=$(free_port)
    seed_accounts
    add_account Admin admin
    say "seeding: 100,000 conversations with 10,000 messages"
    sql_file postgres busbar seed -v entries=10000
    start_host
    start_receiver
    say "warming up"
    run_open 0 3
    for ((number = 1; number <= rounds; number++)); do
        say "round $number of $rounds"
        webhook_round "$number"
    done
    finish webhook webhook-notes.md
}
