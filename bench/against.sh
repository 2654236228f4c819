# One against all: how long other accounts wait while one or two accounts, from as many addresses, attack the host, with
# one attack after the other and then with all together. Sourced by bench/run.

attacks=(R1 R2 L8 L9 D2 D3 D4 D5 D6 D9 D10 D13 all)
uploads_max=67108864

# Password hashes and the limits of an address have their defaults.
write_against_conf() {
    conf=$work/against.yaml
    sed -e '/argon2_/d' -e "s/connections_per_address: .*/max_uploads: $uploads_max/" \
        -e 's/^modules: .*/modules: [auth, bulk, chat, device, health, reading, webhook]/' "$top/bench/conf.yaml" >"$conf"
    cat >>"$conf" <<END

device:
  documents: "$work/documents"

bulk:
  files: "$work/files"

webhook:
  allow_networks: ["127.0.0.0/8"]
END
}

# Creates the attackers, and an account that logs in during the attacks.
prepare_against() {
    local n

    for n in 1 2; do
        step "$program" --config "$conf" user add --role OrganizationAdmin \
            --email "attacker$n@bench.test" --organization "Attacker $n" >&2 ||
            die "attacker$n could not be created"
    done
    add_account User visitor
    start_host
    PORT=$host_port step node "$top/bench/attackers.js" "http://127.0.0.1:$receiver_port/fast" \
        >"$work/attackers" || die "the attackers could not be prepared"
    sql_file postgres busbar against
}

# served ROUND WITH: measures reads, messages and logins of others, all at the same time.
served() {
    local tokens=$work/tokens job number what

    : >"$var/log/host.log"
    PORT=$host_port TOKENS=$work/tokens apart "$measured_apart" node "$top/bench/served.js" "$seconds" >"$work/served" 2>&1 &
    job=$!
    start_clock "$host_pid"
    wrk_figures paced -t1 -c16 -d"$seconds" "http://127.0.0.1:$host_port"
    record "$1" reads "$2" "$host_pid"
    note_value "$1" refused-reads "$2" $((refused + lost)) "of the reads during $2"
    wait "$job" || die "during $2: $(tail -3 "$work/served")"
    while read -r what figures number; do
        note "$1" "$what" "$2" "${figures//,/ }" 0 0
        note_value "$1" "refused-$what" "$2" "$number" "of the $what during $2"
    done <"$work/served"
}

# Removes waiting deliveries and waits for running statements, so that an attack does not affect the next one.
settle() {
    local tries=0 busy="SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND pid <> pg_backend_pid()"

    busbar pause
    sql busbar -c 'SET client_min_messages = warning' -c 'TRUNCATE webhook_delivery, webhook_outcome, webhook_waiting, webhook_backlog, webhook_expansion' ||
        die "the deliveries could not be removed"
    until [ "$(open_attackers)" -eq 0 ] && [ "$(sql busbar -Atc "$busy")" = 0 ]; do
        [ "$tries" -lt 300 ] || die "the requests of the attack do not end"
        tries=$((tries + 1))
        sleep 0.1
    done
    busbar resume
    checkpoint
}

open_attackers() {
    ss -Htn state established "( sport = :$host_port )" | grep -c '127\.0\.0\.[23]:' || true
}

uploaded_bytes() {
    { find "$work/documents" -type f -printf '%s\n' 2>/dev/null || true; } | awk '{ n += $1 } END { print n + 0 }'
}

# run_against ROUND ATTACK ATTACKERS: measures the others before and during an attack.
run_against() {
    local attacker before who

    who="$2 by $3"

    served "$1" "before $who"
    before=$(resident "$host_pid")
    echo 5 >"/proc/$host_pid/clear_refs" # the peak counts from here
    PORT=$host_port ATTACKERS=$work/attackers apart 19 node "$top/bench/attack.js" "$2" "$3" \
        >"$work/attack" 2>&1 &
    attacker=$!
    wait_line '^under way' "$work/attack" "$attacker"
    served "$1" "$who"
    note_value "$1" growth "$who" $(($(peak "$host_pid") - before)) "kB of memory growth of the host during $who"
    note_value "$1" uploads "$who" "$(uploaded_bytes)" "bytes of unfinished uploads"
    kill -TERM "$attacker"
    wait "$attacker" || die "the attack $who ended early: $(tail -3 "$work/attack")"
    sed '1d' "$work/attack" >&2
    settle
}

against_report() {
    node "$top/bench/report_against.js" "$work/results" "$rounds" "$seconds" "$busy" "$uploads_max"
}

# Requires PostgreSQL and the sessions of seed_accounts; no host may run.
against_part() {
    local number attack count

    compile_receiver
    receiver_port=$(free_port)
    write_against_conf
    say "seeding: conversations, devices and webhooks of the attackers"
    step "$program" --config "$conf" migrate >&2 || die "migrating failed"
    sql_file postgres busbar seed -v entries=10000
    start_receiver
    renice -n 19 -p "$receiver_pid" >/dev/null || die "the receiver's priority could not be lowered"
    [ ! -e "/proc/$receiver_pid/autogroup" ] || echo 19 >"/proc/$receiver_pid/autogroup" ||
        die "the priority of the receiver's session could not be lowered"
    measured_apart=0 # only root may ask for more
    [ "$(id -u)" -ne 0 ] || measured_apart=-10
    prepare_against
    say "warming up"
    served 0 alone
    for ((number = 1; number <= rounds; number++)); do
        say "one against all: round $number of $rounds"
        for attack in "${attacks[@]}"; do
            for count in 1 2; do
                run_against "$number" "$attack" "$count"
            done
        done
    done
    finish against against-notes.md
}

against_bench() {
    need_packages iproute2
    ulimit -n "$(ulimit -Hn)"
    build_host
    conf=$top/bench/conf.yaml
    open_stage
    seed_accounts
    against_part
}
