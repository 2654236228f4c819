# The benchmark of readings: batches compared with COPY, single readings compared with pgbench, issuing, pages of
# the log. Sourced by bench/run.

stored=10000000 batch=1000

# send_readings BATCH CONNECTIONS: posts batches of readings from the minute `first` on, and advances `first`. `figures`
# count readings, not requests.
send_readings() {
    export BATCH=$1 FIRST=$first
    tokens=$work/admin wrk_figures reading -t1 -c"$2" -d"$seconds" "http://127.0.0.1:$host_port"
    [ "$refused" -eq 0 ] && [ "$lost" -eq 0 ] ||
        die "$refused responses were not 2xx and $lost requests were lost"
    first=$((first + (${figures##* } / ${DEVICES:-1000} + 2) * $1)) # wrk does not count its last requests
    figures=$(awk -v n="$1" '{ print $1 * n, $2, $3, $4, $5 * n }' <<<"$figures")
}

# post_readings ROUND MEASURE BATCH CONNECTIONS
post_readings() {
    start_clock "$host_pid"
    send_readings "$3" "$4"
    record "$1" "$2" busbar "$host_pid"
}

# copy_readings ROUND: loads the readings of the last run by COPY into the emptied table.
copy_readings() {
    local began ended rows file=$work/rows.copy

    sql busbar -c "\\copy (SELECT * FROM reading) TO '$file'" || die "the rows could not be kept"
    sql busbar -c 'TRUNCATE reading' || die "the table could not be emptied"
    checkpoint
    start_clock -
    began=$(date +%s%N)
    sql busbar -c "\\copy reading FROM '$file'" || die "COPY failed"
    ended=$(date +%s%N)
    rows=$(wc -l <"$file")
    figures=$(awk -v n="$rows" -v ns=$((ended - began)) 'BEGIN {
        print n / ns * 1e9, ns / 1000, ns / 1000, ns / 1000, n }')
    record "$1" batch COPY -
    rm -f "$file"
}

# run_issue ROUND MEASURE SQL: measures the issuing of the readings that bench/sql/SQL.sql makes.
run_issue() {
    local began ended

    sql_file postgres busbar "$3"
    began=$(date +%s%N)
    step "$program" --config "$conf" certificate issue >"$work/output" 2>&1 ||
        die "issuing failed: $(tail -3 "$work/output")"
    # the host's job may have taken some of the readings and still be issuing them
    until [ "$(sql busbar -Atc 'SELECT (SELECT count(*) FROM certificate_due WHERE cycle_end <= now())
        + (SELECT count(*) FROM certificate_history)')" = 0 ]; do
        sleep 0.05
    done
    ended=$(date +%s%N)
    note_value "$1" "$2" busbar "$(awk "BEGIN { print ($ended - $began) / 1e9 }")" s
}

run_day() { # ROUND
    run_issue "$1" histories day
    [ "$(sql busbar -Atc 'SELECT count(*) FROM certificate_entry')" = 480000 ] ||
        die "not all History readings were issued"
}

run_single() { # ROUND
    sql_file postgres busbar filled -v readings=0
    checkpoint
    first=0
    post_readings "$1" single 1 32
    sql_file postgres busbar filled -v readings=0
    checkpoint
    pgbench_set=t=0 run_pgbench "$1" reading
}

reading_round() {
    first=0
    sql_file postgres busbar filled -v readings=0
    post_readings "$1" batch "$batch" 4
    copy_readings "$1"
    sql_file postgres busbar filled -v readings="$stored"
    first=0
    post_readings "$1" stored "$batch" 4
    run_single "$1"
    run_issue "$1" issue month
    run_day "$1"
    sql_file postgres busbar entries
    run_wrk_pages "$1"
}

run_wrk_pages() {
    start_clock "$host_pid"
    tokens=$work/admin wrk_figures pages -t1 -c4 -d"$seconds" "http://127.0.0.1:$host_port"
    [ "$refused" -eq 0 ] && [ "$lost" -eq 0 ] || die "pages: $refused responses were not 2xx"
    record "$1" pages busbar "$host_pid"
}

reading_report() {
    node "$top/bench/report_reading.js" "$work/results" "$rounds" "$seconds" "$busy" "$stored"
}

reading_bench() {
    local number one_round=reading_round

    [ -z "$only_day" ] || one_round=run_day
    [ -z "$only_single" ] || one_round=run_single
    [ -z "$quick" ] || stored=1000000
    check_reading || die "bench/sql and modules/reading have different statements: make them the same"
    build_host
    conf=$top/bench/reading.yaml
    open_stage
    migrate_database
    add_account Admin admin
    sql_file busbar busbar devices
    start_host
    log_in admin admin
    for ((number = 1; number <= rounds; number++)); do
        say "round $number of $rounds"
        "$one_round" "$number"
    done
    [ "$one_round" = reading_round ] || {
        awk '/histories|single|pgbench/' "$work/results"
        return 0
    }
    finish reading reading-notes.md
}
