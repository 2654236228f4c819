# Counts the host's instructions per request with valgrind's callgrind. Other work on the machine does not change the
# count, and no counters of the processor are needed. Sourced by bench/run.

counted_requests=2000 counted_rows=4000

# Starts the host under callgrind, with counting off. It is about fifty times slower than without callgrind.
start_counted() {
    (
        # makes memset() use a loop, because callgrind counts every byte of "rep stosb" as an instruction
        export GLIBC_TUNABLES=glibc.cpu.x86_rep_stosb_threshold=1073741824
        exec_child TERM "$(id -un)" valgrind --tool=callgrind --instr-atstart=no --separate-threads=no \
            --callgrind-out-file="$work/callgrind" "$program" --config "$conf" serve --no-supervisor
    ) </dev/null >>"$var/log/host.log" 2>&1 &
    host_pid=$!
    wait_port "$host_port" "$host_pid" host
}

ask() { # KIND COUNT CONNECTIONS
    PORT=$host_port TOKENS=${tokens:-$work/tokens} step node "$top/bench/ask.js" "$@" >&2 ||
        die "a request of the kind $1 failed"
}

control() {
    step callgrind_control "$@" "$host_pid" >"$work/output" 2>&1 ||
        die "callgrind_control failed: $(tail -3 "$work/output")"
}

# count KIND CONNECTIONS: notes the instructions per request.
count() {
    ask "$1" "$counted_requests" "$2" # warm-up: sessions, plans and settings are made only once
    counted "$1" "$2" "$counted_requests" ask "$1" "$counted_requests" "$2"
}

# counted KIND CONNECTIONS COUNT COMMAND…: notes the instructions of all threads and libraries of the host while the
# command runs, divided by COUNT. Keeps callgrind's file in build/callgrind for callgrind_annotate.
counted() {
    local total

    control -z
    control -i on
    "${@:4}"
    control -i off
    control -d
    total=$(sed -n 's/^\(totals\|summary\): //p' "$work/callgrind".* | tail -1)
    mkdir -p "$top/build/callgrind"
    mv "$work/callgrind".* "$top/build/callgrind/$1-$2"
    [ "${total:-0}" -gt 0 ] || die "callgrind counted nothing"
    note_value 1 "$1" "$2" $((total / $3)) "instructions each, on $2 connections"
}

# Rows of bulk uploads, on a new host that also has the modules of devices, readings and webhooks.
count_bulk() {
    bulk_rows=$counted_rows
    write_bulk_conf
    write_bulk_files
    end_child "$host_pid" 30 || true
    migrate_database
    step "$program" --config "$conf" user add --role OrganizationAdmin --email bulk@bench.test \
        --organization Bench >&2 || die "the account could not be created"
    start_counted
    log_in bulk bulk
    send_file Devices devices # warm-up
    empty_bulk
    counted "check a device" 1 "$bulk_rows" send_file Devices devices
    counted "store a device" 1 "$bulk_rows" store_file
    empty_bulk plants
    send_file Reads mixed
    counted "store a reading" 1 "$bulk_rows" store_file
    empty_bulk plants
    tokens=$work/bulk counted batch 1 20000 ask batch 20 1
}

instructions_report() {
    cat <<END
## Instructions

Measured by \`bench/run instructions\`: instructions of the host's process per request, row or reading, the average of
$counted_requests requests, $counted_rows rows or 20000 readings, counted by callgrind on x86-64. Other work on the
machine does not change these figures.

| request | connections | instructions |
|---|---|---|
END
    awk -F '\t' '
        BEGIN { names["post"] = "a post"; names["batch"] = "a reading of a batch of 1,000"
                names["unread_count"] = "an unread count" }
        { name = $2 in names ? names[$2] : "a row of a bulk upload: " $2
          printf "| %s | %s | %d |\n", name, $3, $4 }' "$work/results"
    echo
}

instructions_bench() {
    local kind

    need_packages valgrind curl
    build_host
    conf=$top/bench/conf.yaml
    open_stage
    seed_accounts
    sql_file postgres busbar seed -v entries=10000
    start_counted
    for kind in unread_count post; do
        count "$kind" 1
        count "$kind" 16
    done
    count_bulk
    finish instructions instructions-notes.md
}
