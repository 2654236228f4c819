# The benchmark of cores: the same reads and posts when host, PostgreSQL and load share one core, two, four, eight.
# Sourced by bench/run.

# confine CPUS: confines all running processes, and those started later, to these processors.
confine() {
    local pid

    for pid in $$ "$postgres_pid" $(children "$postgres_pid") "$redis_pid"; do
        taskset -acp "$1" "$pid" >/dev/null || die "process $pid could not be confined to processors $1"
    done
}

cores_round() {
    local measure

    for measure in unread_count post; do
        sql_file postgres busbar reset
        run_wrk "$1" "$measure" "busbar-$2" "$host_port" "$host_pid"
        sql_file postgres busbar reset
        run_pgbench "$1" "$measure"
    done
}

# measure_cores COUNT: starts a host, because a host counts its processors only at the start.
measure_cores() {
    local number

    confine "0-$(($1 - 1))"
    start_host
    for ((number = 0; number <= rounds; number++)); do
        pgbench_name=pgbench-$1 cores_round "$number" "$1"
    done
    end_child "$host_pid" 11 || true
    host_pid=
}

cores_report() {
    node "$top/bench/report_cores.js" "$work/results" "$rounds" "$seconds" "$busy"
}

cores_bench() {
    local all cores

    all=$(nproc)
    check_statements || die "bench/sql and modules/chat have different statements: make them the same"
    build_host
    conf=$top/bench/conf.yaml
    open_stage
    seed_accounts
    say "seeding: 100,000 conversations with 1,000,000 messages"
    unset BUSBAR_PASSWORD
    sql_file postgres busbar seed -v entries=1000000
    for ((cores = 1; cores <= all && cores <= 8; cores *= 2)); do
        say "with $cores of $all cores"
        measure_cores "$cores"
    done
    finish cores cores-notes.md
}
