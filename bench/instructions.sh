# Counts the host's instructions per request with valgrind's callgrind. Other work on the machine does not change the
# count, and no counters of the processor are needed. Sourced by bench/run.

counted_requests=2000

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
    PORT=$host_port TOKENS=$work/tokens step node "$top/bench/ask.js" "$@" >&2 ||
        die "a request of the kind $1 failed"
}

control() {
    step callgrind_control "$@" "$host_pid" >"$work/output" 2>&1 ||
        die "callgrind_control failed: $(tail -3 "$work/output")"
}

# count KIND CONNECTIONS: notes the instructions per request of all threads and libraries of the host. Keeps
# callgrind's file in build/callgrind, so that callgrind_annotate can list the functions.
count() {
    local total

    ask "$1" "$counted_requests" "$2" # warm-up: sessions, plans and settings are made only once
    control -z
    control -i on
    ask "$1" "$counted_requests" "$2"
    control -i off
    control -d
    total=$(sed -n 's/^\(totals\|summary\): //p' "$work/callgrind".* | tail -1)
    mkdir -p "$top/build/callgrind"
    mv "$work/callgrind".* "$top/build/callgrind/$1-$2"
    [ "${total:-0}" -gt 0 ] || die "callgrind counted nothing"
    note_value 1 "$1" "$2" $((total / counted_requests)) "instructions a request on $2 connections"
}

instructions_report() {
    cat <<END
## Instructions

Measured by \`bench/run instructions\`: instructions of the host's process per request, the average of $counted_requests
requests, counted by callgrind on x86-64. Other work on the machine does not change these figures.

| request | connections | instructions |
|---|---|---|
END
    awk -F '\t' '{ printf "| %s | %s | %d |\n", $2 == "post" ? "a post" : "an unread count", $3, $4 }' "$work/results"
    echo
}

instructions_bench() {
    local kind

    need_packages valgrind
    build_host
    conf=$top/bench/conf.yaml
    open_stage
    seed_accounts
    unset BUSBAR_PASSWORD
    sql_file postgres busbar seed -v entries=10000
    start_counted
    for kind in unread_count post; do
        count "$kind" 1
        count "$kind" 16
    done
    finish instructions instructions-notes.md
}
