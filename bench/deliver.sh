# The runs of `bench/run webhook`. The receiver answers /fast/… at once and /hang/… never. Sourced by bench/run.

busbar() {
    step "$program" --config "$conf" "$@" >"$work/output" 2>&1 ||
        die "busbar $* failed: $(tail -3 "$work/output")"
}

# hooks add|same|hosts|clear [COUNT URL [HOSTS]]: runs hooks.js, and writes the ids to $work/hooks.
hooks() {
    PORT=$host_port step node "$top/bench/hooks.js" "$@" >"$work/hooks" ||
        die "the webhooks could not be changed: $*"
}

compile_receiver() {
    compile receiver -lssl -lcrypto
}

# Starts the receiver again. It also listens with TLS if `tls_port` is set.
start_receiver() {
    [ -z "$receiver_pid" ] || end_child "$receiver_pid" 5 || true
    (exec_child TERM "$(id -un)" "$work/receiver" "$receiver_port" fast \
        ${tls_port:+"$tls_port" "$work/authority.pem"}) </dev/null \
        >>"$var/log/receiver.log" 2>&1 &
    receiver_pid=$!
    wait_port "$receiver_port" "$receiver_pid" receiver
}

# Removes all webhooks and deliveries before a measurement. The restart of the receiver ends hanging requests.
clear_all() {
    hooks clear
    start_receiver
    sleep 1
    sql busbar -c 'SET client_min_messages = warning' -c 'TRUNCATE webhook_delivery, webhook_outcome, webhook_waiting, webhook_backlog' \
        -c 'DELETE FROM webhook_gone' || die "the deliveries could not be removed"
    busbar resume
}

forget_received() {
    curl -sf -X DELETE "http://127.0.0.1:$receiver_port/stats" >"$work/output" ||
        die "the receiver does not answer"
}

# post RATE COUNT: sets posted to rate p50 p99 max count.
post() {
    PORT=$host_port TOKENS=$work/tokens step node "$top/bench/post.js" "$@" >"$work/posted" ||
        die "posting failed"
    posted=$(cat "$work/posted")
}

# received PREFIX COUNT SECONDS: waits, and sets requests messages p50 p99 longest last_ms.
received() {
    step node "$top/bench/received.js" "$receiver_port" "$@" >"$work/received" ||
        die "deliveries are missing"
    read -r requests messages p50 p99 longest last_ms <"$work/received"
}

# delivered ROUND MEASURE WHO RATE COUNT PREFIX COPIES: posts, and notes when the copies arrived.
delivered() {
    forget_received
    start_clock "$host_pid"
    post "$4" "$5"
    received "$6" $(($5 * $7)) 30
    figures="$(awk -v p="$posted" -v c="$7" 'BEGIN { split(p, v, " "); print v[1] * c }')"
    figures+=" $p50 $p99 $longest $requests"
    record "$1" "$2" "$3" "$host_pid"
}

# run_drain ROUND: stores deliveries by posting while sending is paused, sends the same number with bare libcurl,
# and then resumes sending.
run_drain() {
    local each=$((drain / drain_hooks)) url=http://127.0.0.1:$receiver_port/fast rate cpu

    clear_all
    hooks add "$drain_hooks" "$url/drain"
    busbar pause
    sleep 1
    start_clock "$host_pid"
    post 1000 "$each"
    figures="$(awk -v p="$posted" -v n="$drain_hooks" 'BEGIN {
        split(p, v, " "); print v[1] * n, 0, 0, 0, v[5] * n }')"
    record "$1" store busbar "$host_pid"
    sql busbar -c 'ANALYZE webhook_delivery' || die "ANALYZE failed"
    checkpoint
    sql busbar -Atc 'SELECT body FROM webhook_delivery LIMIT 1' | tr -d '\n' >"$work/body"
    step "$work/limit" "$url/limit" "$drain" 64 "$drain_hooks" "$work/body" >"$work/output" ||
        die "libcurl's limit could not be measured"
    read -r rate cpu <"$work/output"
    note "$1" limit libcurl "$rate 0 0 0 $drain" "$cpu" 0
    forget_received
    resume "$1" /fast/drain "$drain" busbar
}

# resume ROUND PREFIX COUNT WHO: measures from the start of `busbar resume` to the last delivery received, and CPU
# until the last delivery is recorded.
resume() {
    local began queued="SELECT (SELECT count(*) FROM webhook_delivery) - (SELECT count(*) FROM webhook_outcome)"

    start_clock "$host_pid"
    began=$(date +%s%3N)
    busbar resume
    received "$2" "$3" 120
    until [ "$(sql busbar -Atc "$queued")" = 0 ]; do
        sleep 0.2
    done
    [ "$messages" -eq "$3" ] || die "$messages of $3 deliveries were received"
    [ "$requests" -eq "$3" ] || say "$((requests - $3)) deliveries came twice"
    figures="$(awk "BEGIN { print 1000 * $3 / ($last_ms - $began) }") 0 0 0 $3"
    record "$1" drain "$4" "$host_pid"
}

# made_at COUNT HOSTS SCHEME: makes COUNT webhooks at HOSTS addresses, and inserts deliveries for all of them by SQL.
made_at() {
    local port=$receiver_port

    [ "$3" = http ] || port=$tls_port
    hooks hosts "$1" "$3://HOST:$port/fast/hosts" "$2"
    sql busbar -v count=$((many / $1)) -v body="$(cat "$work/body")" -v hooks="{$(paste -sd, "$work/hooks")}" \
        <<'END' || die "the deliveries could not be created"
INSERT INTO webhook_delivery (webhook, event, event_id, body)
SELECT hook, 'message.new', gen_random_uuid(), :'body'
FROM generate_series(1, :count), unnest(:'hooks'::bigint[]) AS hook;
ANALYZE webhook_delivery;
END
    checkpoint
}

# Waits until the host has found and claimed deliveries that were inserted by SQL.
wait_found() {
    local found="SELECT EXISTS (SELECT FROM webhook_host WHERE (counters ->> 'waiting')::bigint > 0)" tries=0

    until [ "$(sql busbar -Atc "$found")" = t ]; do
        [ $((tries += 1)) -lt 100 ] || die "the host does not find the deliveries"
        sleep 0.2
    done
}

# Prints a number of the receiver's statistics.
counted() {
    curl -sf "http://127.0.0.1:$receiver_port/stats" | sed "s/.*\"$1\":\([0-9]*\).*/\1/"
}

# run_hosts ROUND HOSTS http|https: measures a drain to HOSTS addresses, and the connections that it opened.
run_hosts() {
    local count=$((100 > $2 ? 100 : $2))

    clear_all
    [ -s "$work/body" ] || printf '{"message":"%0300d"}' 0 >"$work/body"
    busbar pause
    made_at "$count" "$2" "$3"
    wait_found
    forget_received
    resume "$1" /fast/hosts "$many" "$3 $2"
    note_value "$1" connections "$3 $2" "$(counted connections)" connections
    [ "$3" = http ] || note_value "$1" resumed "$3 $2" "$(counted resumed)" sessions
}

# run_open ROUND [SECONDS]: posts messages at a fixed rate, even if earlier ones are late.
run_open() {
    clear_all
    hooks same 1 "http://127.0.0.1:$receiver_port/fast/open"
    delivered "$1" open delivered "$open_rate" $((open_rate * ${2:-$seconds})) /fast/open 1
    note "$1" open answered "$posted" 0 0
}

# run_cost ROUND idle|none|one: measures the CPU time of 100 messages a second, without a webhook (none) and with one
# (one), and of the same number of seconds without messages (idle).
run_cost() {
    local count=$((100 * cost_seconds))

    clear_all
    [ "$2" != one ] || hooks same 1 "http://127.0.0.1:$receiver_port/fast/cost"
    checkpoint
    if [ "$2" = one ]; then
        delivered "$1" cost "$2" 100 "$count" /fast/cost 1
        return
    fi
    start_clock "$host_pid"
    if [ "$2" = none ]; then
        post 100 "$count"
        figures=$posted
    else
        sleep "$cost_seconds"
        figures="0 0 0 0 $count"
    fi
    record "$1" cost "$2" "$host_pid"
}

# run_isolation ROUND alone|hanging: measures nine webhooks, alone or with a tenth that never answers.
run_isolation() {
    local url=http://127.0.0.1:$receiver_port

    clear_all
    hooks same 9 "$url/fast/nine"
    [ "$2" = alone ] || hooks same 1 "$url/hang/tenth"
    post 20 60
    delivered "$1" isolation "$2" 20 $((40 * seconds)) /fast/nine 9
}

run_fanout() {
    local time

    clear_all
    hooks same "$fanout" "http://127.0.0.1:$receiver_port/fast/fanout"
    post 1 1
    received /fast/fanout "$fanout" 30
    for time in 1 2 3; do
        delivered "$1" fanout delivered 1 1 /fast/fanout "$fanout"
        note "$1" fanout answered "$posted" 0 0
    done
}

# run_posting ROUND none|one: measures the rate of posts that store no delivery, or one each.
run_posting() {
    local stored

    clear_all
    busbar pause
    [ "$2" = none ] || hooks same 1 "http://127.0.0.1:$receiver_port/fast/paused"
    sql_file postgres busbar reset
    checkpoint
    run_wrk "$1" post "$2" "$host_port" "$host_pid"
    stored=$(sql busbar -Atc 'SELECT count(*) > 0 FROM webhook_delivery')
    [ "$2 $stored" = "none f" ] || [ "$2 $stored" = "one t" ] ||
        die "posting with webhooks: $2; deliveries were stored: $stored"
}

# backlog_of URL: makes a webhook at URL and inserts its backlog by SQL, because posting it would take minutes.
backlog_of() {
    hooks same 1 "$1"
    sql busbar -v hook="$(cat "$work/hooks")" -v count="$backlog" -v body="$(cat "$work/body")" \
        <<'END' || die "the backlog could not be created"
INSERT INTO webhook_delivery (webhook, event, event_id, body)
SELECT :hook, 'message.new', gen_random_uuid(), :'body' FROM generate_series(1, :count);
ANALYZE webhook_delivery;
END
    checkpoint
    sleep 6 # until the host has found it and loaded what it keeps in memory
}

# run_backlog ROUND refused|hanging: measures one webhook alone and then with the backlog of another. The host is
# restarted, so that it holds no memory from earlier measurements.
run_backlog() {
    local url=http://127.0.0.1:$receiver_port before
    local -A dead=([refused]=http://127.0.0.1:$closed_port/refused [hanging]=$url/hang/backlog)

    clear_all
    end_child "$host_pid" 11 || true
    start_host
    hooks same 1 "$url/fast/live"
    delivered "$1" backlog "before $2" 200 $((200 * seconds)) /fast/live 1
    before=$(resident "$host_pid")
    echo 5 >"/proc/$host_pid/clear_refs" # the peak counts from here
    backlog_of "${dead[$2]}"
    delivered "$1" backlog "$2" 200 $((200 * seconds)) /fast/live 1
    note_value "$1" memory "$2" $(($(peak "$host_pid") - before)) kB
}

# switches PID: prints how often the threads of a process have waited so far.
switches() {
    cat "/proc/$1/task/"*/status 2>/dev/null | awk '/^voluntary_ctxt_switches/ { sum += $2 } END { print sum }'
}

# wakeups SECONDS: prints the host's wake-ups per second.
wakeups() {
    local before

    before=$(switches "$host_pid")
    sleep "$1"
    echo $((($(switches "$host_pid") - before) / $1))
}

# run_waiting ROUND: measures the memory and the wake-ups of an idle host, and then those with deliveries of 1,000
# webhooks that wait for a retry in two hours.
run_waiting() {
    local before none read="SELECT (SELECT min(cursor) FROM webhook_shard) >= (SELECT max(id) FROM webhook_delivery)"

    clear_all
    hooks same 1000 "http://127.0.0.1:$closed_port/waiting"
    end_child "$host_pid" 11 || true
    start_host
    sleep 10 # until the host has shards and has found that nothing waits
    before=$(resident "$host_pid")
    none=$(wakeups 20)
    say "making $waiting deliveries that wait"
    sql busbar -v count=$((waiting / 1000)) -v hooks="{$(paste -sd, "$work/hooks")}" <<'END' || die "the deliveries could not be created"
BEGIN;
WITH made AS (INSERT INTO webhook_delivery (webhook, event, event_id, body)
    SELECT hook, 'message.new', gen_random_uuid(), '{}'
    FROM generate_series(1, :count), unnest(:'hooks'::bigint[]) AS hook RETURNING id, webhook)
INSERT INTO webhook_waiting (id, webhook, next_at, tries)
SELECT id, webhook, now() + interval '2 hours', 1 FROM made;
COMMIT;
ANALYZE webhook_delivery, webhook_waiting;
END
    checkpoint
    until [ "$(sql busbar -Atc "$read")" = t ]; do # the host reads them once, to find none that is due
        sleep 1
    done
    echo 5 >"/proc/$host_pid/clear_refs" # the peak counts from here
    note_value "$1" wakeups none "$none" "per second"
    note_value "$1" wakeups waiting "$(wakeups 20)" "per second"
    note_value "$1" memory waiting $(($(peak "$host_pid") - before)) kB
}
