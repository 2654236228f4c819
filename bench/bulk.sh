# The benchmark of bulk uploads: files of devices and of readings, compared with COPY of the same rows; chat
# posts during a job; pages of a large log. Sourced by bench/run.

bulk_rows=200000 bulk_seconds=6

# The columns of the table of devices, without generated ones.
device_columns="id, uuid, organisation, external_id, site_name, country_code, commissioning_date,
    capacity, address, latitude, longitude, fuel_code, device_type_code, serial_number, timezone,
    yield_value, attributes, created_at, updated_at, status"

write_bulk_conf() {
    conf=$work/bulk.yaml
    sed -e 's/^modules: .*/modules: [auth, chat, health, device, reading, webhook, bulk]/' \
        "$top/bench/conf.yaml" >"$conf"
    printf '\ndevice:\n  documents: "%s"\n\nbulk:\n  files: "%s"\n  jobs_per_account: 1000\n' \
        "$work/documents" "$work/files" >>"$conf"
}

write_bulk_files() {
    say "writing files of $bulk_rows rows"
    node "$top/bench/rows.js" devices "$bulk_rows" >"$work/devices.csv"
    node "$top/bench/rows.js" reads "$bulk_rows" 100 >"$work/reads.csv"
    node "$top/bench/rows.js" mixed "$bulk_rows" 1000 >"$work/mixed.csv"
}

seed_bulk() {
    seed_accounts
    sql_file postgres busbar seed -v entries=10000
    step "$program" --config "$conf" user add --role OrganizationAdmin --email bulk@bench.test \
        --organization Bench >&2 || die "the account could not be created"
}

bulk_api() { # METHOD PATH [CURL'S…]
    curl -sf -X "$1" -H "Authorization: Bearer $(cat "$work/bulk")" \
        "http://127.0.0.1:$host_port/api/bulk-upload$2" "${@:3}" || die "$1 $2 failed"
}

# send_file TYPE FILE: uploads it, and sets `bulk_id` to its id and `took` to the seconds that it took.
send_file() {
    local began answer

    began=$(date +%s.%N)
    answer=$(bulk_api POST "?type=$1" -H 'Expect:' -F "file=@$work/$2.csv")
    took=$(seconds_since "$began")
    bulk_id=$(sed 's/.*"bulkUploadId":"\([^"]*\)".*/\1/' <<<"$answer")
}

# Confirms `bulk_id`, waits until it has finished, and sets `took` to the seconds in between.
store_file() {
    bulk_api POST "/$bulk_id/confirm" >"$work/output"
    until [ "$(sql busbar -Atc "SELECT status FROM bulk_job WHERE id = '$bulk_id'")" = finished ]; do
        sleep 0.2
    done
    took=$(sql busbar -Atc "SELECT extract(epoch FROM ended_at - confirmed_at) FROM bulk_job
        WHERE id = '$bulk_id' AND succeeded = rows")
    [ -n "$took" ] || die "rows of the bulk upload failed"
}

# Loads the stored devices by COPY into the emptied table, and sets `took` to the seconds that it took.
copy_devices() {
    local began file=$work/devices.copy

    sql busbar -c "\\copy (SELECT ${device_columns//$'\n'/} FROM device ORDER BY id) TO '$file'" ||
        die "the rows could not be kept"
    sql busbar -c 'TRUNCATE device, device_document' || die "the table could not be emptied"
    checkpoint
    began=$(date +%s.%N)
    sql busbar -c "\\copy device (${device_columns//$'\n'/}) FROM '$file'" || die "COPY failed"
    took=$(seconds_since "$began")
    rm -f "$file"
}

empty_bulk() {
    sql busbar -c 'TRUNCATE device, device_document, reading, reading_device, reading_refused,
        bulk_job, bulk_part, bulk_finding, bulk_warning' || die "the tables could not be emptied"
    [ "${1:-}" != plants ] || sql_file busbar busbar devices
    checkpoint
}

# note_rate ROUND MEASURE WHO: notes rows per second and seconds, computed from `took`.
note_rate() {
    note "$1" "$2" "$3" "$(awk -v n="$bulk_rows" -v s="$took" 'BEGIN {
        print n / s, s * 1e6, s * 1e6, s * 1e6, n }')" 0 0
}

run_bulk_devices() {
    empty_bulk
    send_file Devices devices
    note_rate "$1" checked busbar
    checkpoint
    store_file
    note_rate "$1" devices busbar
    copy_devices
    note_rate "$1" devices COPY
}

run_bulk_reads() {
    empty_bulk plants
    send_file Reads "$2"
    checkpoint
    store_file
    note_rate "$1" "$2" busbar
}

# Measures chat posts without a job and during one; each connection waits 10 ms between a response and its next post.
run_beside() {
    local who

    empty_bulk
    sql_file postgres busbar reset
    send_file Devices devices
    checkpoint
    for who in alone beside; do
        [ "$who" = alone ] || bulk_api POST "/$bulk_id/confirm" >"$work/output"
        start_clock "$host_pid"
        tokens=$work/tokens wrk_figures typing -t1 -c8 -d"$bulk_seconds" "http://127.0.0.1:$host_port"
        [ "$refused" -eq 0 ] && [ "$lost" -eq 0 ] || die "$refused posts were not 2xx, $lost lost"
        record "$1" typing "$who" "$host_pid"
    done
    [ "$(sql busbar -Atc "SELECT status FROM bulk_job WHERE id = '$bulk_id'")" = confirmed ] ||
        say "the job ended before the load did: the figures for posts during a job are not valid"
    bulk_api POST "/$bulk_id/cancel" >"$work/output"
}

# Measures pages of the logs of five jobs. SQL makes the jobs; one row in fifty has failed.
run_logs() {
    sql_file postgres busbar bulk_log -v job="$bulk_id"
    sql busbar -Atc "SELECT id FROM bulk_job WHERE status = 'finished'" >"$work/jobs"
    start_clock "$host_pid"
    tokens=$work/bulk JOBS=$work/jobs ROWS=$bulk_rows \
        wrk_figures logs -t1 -c4 -d"$seconds" "http://127.0.0.1:$host_port"
    [ "$refused" -eq 0 ] && [ "$lost" -eq 0 ] || die "pages: $refused responses were not 2xx"
    record "$1" logs busbar "$host_pid"
}

bulk_round() {
    local before

    before=$(resident "$host_pid")
    echo 5 >"/proc/$host_pid/clear_refs"
    run_bulk_devices "$1"
    run_bulk_reads "$1" reads
    run_bulk_reads "$1" mixed
    note_value "$1" growth busbar $(($(peak "$host_pid") - before)) kB
    run_beside "$1"
    run_logs "$1"
}

bulk_report() {
    node "$top/bench/report_bulk.js" "$work/results" "$rounds" "$busy" "$bulk_rows"
}

bulk_bench() {
    local number

    [ -z "$quick" ] || bulk_rows=50000 bulk_seconds=2
    build_host
    need_packages curl
    open_stage
    write_bulk_conf
    write_bulk_files
    seed_bulk
    start_host
    log_in bulk bulk
    for ((number = 1; number <= rounds; number++)); do
        say "round $number of $rounds"
        bulk_round "$number"
    done
    finish bulk bulk-notes.md
}
