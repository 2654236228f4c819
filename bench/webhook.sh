# The benchmark of webhooks. Sourced by bench/run; deliver.sh has the runs.

drain=100000 drain_hooks=100 open_rate=1000 fanout=1000 backlog=1000000 waiting=10000000
many=30000 hosts_of_drains=(1 10 100 1000) cost_seconds=20

# The order within each compared pair changes with every round.
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

webhook_hosts_report() {
    node "$top/bench/report_hosts.js" "$work/results" "$rounds" "$busy" "$many"
}

# webhook_hosts ROUND: runs the drains to one and to many addresses one after the other.
webhook_hosts() {
    local scheme count

    for scheme in http https; do
        for count in "${hosts_of_drains[@]}"; do
            run_hosts "$1" "$count" "$scheme"
        done
    done
}

webhook_cost() {
    local -a with=(none one)
    local i

    run_cost "$1" idle
    for i in "$1" $(($1 + 1)); do
        run_cost "$1" "${with[i % 2]}"
    done
}

# webhook_part ROUND: runs the parts of a round that the options select.
webhook_part() {
    if [ -n "$only_drain" ]; then
        run_drain "$1"
    elif [ -n "$only_cost" ]; then
        webhook_cost "$1"
    elif [ -n "$only_hosts" ]; then
        webhook_hosts "$1"
    elif [ -n "$only_waiting" ]; then
        run_waiting "$1"
    else
        webhook_round "$1"
        webhook_cost "$1"
        webhook_hosts "$1"
    fi
}

# Makes an authority, which signs the receiver's certificates, and sets child_view to a command that runs a host in a
# mount namespace in which it trusts the authority.
make_trust() {
    local how=-m certs=$work/certs

    [ "$(id -u)" -eq 0 ] || how=-rm
    mkdir "$certs"
    step openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=bench \
        -keyout "$work/authority.key" -out "$work/authority.crt" 2>"$work/output" ||
        die "no authority was made: $(tail -3 "$work/output")"
    cat "$work/authority.key" "$work/authority.crt" >"$work/authority.pem"
    cat /etc/ssl/certs/ca-certificates.crt "$work/authority.crt" >"$certs/ca-certificates.crt"
    # shellcheck disable=SC2016 # the inner shell expands it
    child_view=(unshare "$how" sh -c 'mount --bind "$0" /etc/ssl/certs && exec "$@"' "$certs")
}

webhook_seed() {
    if [ -n "$only_hosts" ]; then
        migrate_database
    else
        seed_accounts
        say "seeding: 100,000 conversations with 10,000 messages"
        sql_file postgres busbar seed -v entries=10000
    fi
    add_account Admin admin
}

webhook_report() {
    node "$top/bench/report_webhook.js" "$work/results" "$rounds" "$seconds" "$busy" \
        "$drain" "$drain_hooks" "$backlog"
}

webhook_bench() {
    local number

    [ -z "$quick" ] || drain=10000 backlog=100000 waiting=100000
    build_host
    conf=$top/bench/webhook.yaml
    open_stage
    compile_receiver
    compile limit -lcurl
    receiver_port=$(free_port) closed_port=$(free_port) tls_port=$(free_port)
    make_trust
    webhook_seed
    start_host
    start_receiver
    [ -n "$only_hosts$only_waiting" ] || { say "warming up" && run_open 0 3; }
    for ((number = 1; number <= rounds; number++)); do
        say "round $number of $rounds"
        webhook_part "$number"
    done
    [ -z "$only_drain$only_cost$only_waiting" ] || return 0
    [ -n "$only_hosts" ] || finish webhook webhook-notes.md
    finish webhook_hosts hosts-notes.md
}
