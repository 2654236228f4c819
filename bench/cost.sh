# The cost of messages, deliveries and readings: CPU time, bytes of tables and indexes, WAL. Sourced by bench/run.

cost_count=50000 cost_rate=1000

write_cost_conf() {
    conf=$work/cost.yaml
    sed -e 's/^modules: .*/modules: [auth, chat, health, webhook, device, reading]/' "$top/bench/conf.yaml" >"$conf"
    printf '\nwebhook:\n  allow_networks: ["127.0.0.0/8"]\n\ndevice:\n  documents: "%s"\n' "$work/documents" >>"$conf"
}

# Prints the bytes of all tables with their indexes, and the bytes of WAL written so far.
stored_and_logged() {
    sql busbar -AtF ' ' -c "SELECT sum(pg_total_relation_size(oid)), pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')
        FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
}

# cost_of ROUND NAME COMMAND…: runs the command, which sets the fifth value of `figures` to the number of objects that
# it made, and notes the CPU time, bytes and bytes of WAL of an object. The measured WAL begins after a checkpoint, so
# it contains whole pages, as in an installation after each checkpoint.
cost_of() {
    local round=$1 name=$2 stored logged stored_after logged_after each
    shift 2

    checkpoint
    read -r stored logged <<<"$(stored_and_logged)"
    start_clock "$host_pid"
    "$@"
    record "$round" "$name" busbar "$host_pid"
    read -r stored_after logged_after <<<"$(stored_and_logged)"
    each=${figures##* }
    note_value "$round" bytes "$name" $(((stored_after - stored) / each)) bytes
    note_value "$round" wal "$name" $(((logged_after - logged) / each)) "bytes of WAL"
}

cost_messages() {
    post "$cost_rate" "$cost_count"
    figures=$posted
}

# Waits until the outcomes are recorded.
cost_deliveries() {
    cost_messages
    until [ "$(sql busbar -Atc 'SELECT count(*) FROM webhook_outcome')" -ge "$cost_count" ]; do
        sleep 0.2
    done
}

cost_round() {
    first=0
    sql_file postgres busbar reset
    clear_all
    cost_of "$1" message cost_messages
    sql_file postgres busbar reset
    hooks same 1 "http://127.0.0.1:$receiver_port/fast/cost"
    cost_of "$1" delivery cost_deliveries
    hooks clear
    sql busbar -c 'TRUNCATE reading, reading_device' || die "the readings could not be removed"
    cost_of "$1" batch send_readings 1000 4
    cost_of "$1" reading send_readings 1 32
}

cost_report() {
    node "$top/bench/report_cost.js" "$work/results" "$rounds" "$busy" "$cost_count"
}

cost_bench() {
    local number

    [ -z "$quick" ] || cost_count=5000
    page=docs/scaling.md
    build_host
    open_stage
    write_cost_conf
    compile_receiver
    receiver_port=$(free_port)
    seed_accounts
    say "seeding: 100,000 conversations with 10,000 messages, 1,000 devices"
    sql_file postgres busbar seed -v entries=10000
    sql_file busbar busbar devices
    add_account Admin admin
    start_host
    log_in admin admin
    for ((number = 1; number <= rounds; number++)); do
        say "round $number of $rounds"
        cost_round "$number"
    done
    finish cost cost-notes.md
}
