# Instructions of the host for a request, counted by valgrind's callgrind: a figure that no other work
# on the machine changes, and that needs no counters of the processor. Sourced by bench/run.

counted_requests=2000

# The host under callgrind, which counts nothing yet. It is some fifty times slower so.
start_counted() {
    (
        # memset() by a loop: callgrind counts every byte of "rep stosb" as an instruction
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
        die "callgrind does not obey: $(tail -3 "$work/output")"
}

# count KIND CONNECTIONS: what the loop, its threads and its libraries did for each request. The
# counts are kept beside: callgrind_annotate shows where they went.
count() {
    local total

    ask "$1" "$counted_requests" "$2" # what is made once is made: sessions, plans, settings
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

Made by \`bench/run instructions\`: what the host's process ran for $counted_requests requests, by the request, as callgrind
counts it on x86-64. Other work on the machine does not change these figures.

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
