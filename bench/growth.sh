# The benchmark of growth: with a tenth of the readings and with all of them, the rate of new readings, the latencies of
# queries, the time of vacuum, and sizes. Sourced by bench/run.

growth_rows=100000000 growth_months=10

# The first day of a month; 0: this month.
month_ago() {
    date -u -d "$(date -u +%Y-%m-01) $1 months ago" +%F
}

# load_month MONTHS_AGO: loads a month of hourly readings of all devices.
load_month() {
    sql_file busbar busbar growth -v month="$(month_ago "$1")" -v devices="$growth_devices"
}

# growth_query WHO NAME PATH: asks for a random device; %d is its number.
growth_query() {
    export QUERY=$3
    start_clock "$host_pid"
    tokens=$work/admin wrk_figures query -t1 -c4 -d"$seconds" "http://127.0.0.1:$host_port"
    [ "$refused" -eq 0 ] && [ "$lost" -eq 0 ] || die "$2: $refused responses were not 2xx"
    record 1 "$2" "$1" "$host_pid"
}

# growth_stage WHO: vacuums the table, and measures it.
growth_stage() {
    local began newest what

    newest=$(month_ago 2)
    began=$(date +%s.%N)
    sql busbar -c 'VACUUM (FREEZE, ANALYZE) reading' || die "the table could not be vacuumed"
    note_value 1 vacuum "$1" "$(seconds_since "$began")" s
    note_value 1 rows "$1" "$(sql busbar -Atc "SELECT sum(c.reltuples)::bigint FROM pg_class c
        JOIN pg_partition_tree('reading') t ON t.relid = c.oid WHERE t.isleaf AND c.reltuples > 0")" rows
    for what in table indexes; do
        note_value 1 "$what" "$1" "$(sql busbar -Atc "SELECT sum(pg_${what}_size(relid)) / 1000000
            FROM pg_partition_tree('reading') WHERE isleaf")" MB
    done
    checkpoint
    post_readings 1 "batch $1" 1000 4
    post_readings 1 "single $1" 1 32
    growth_query "$1" latest /api/meter-reads/latestread/d%d
    growth_query "$1" day "/api/meter-reads/new/d%d?start=${newest}T00:00:00Z&limit=24"
    growth_query "$1" month "/api/meter-reads/new/d%d?start=${newest}T00:00:00Z&limit=720"
    growth_query "$1" first "/api/meter-reads/new/d%d?limit=24"
    growth_query "$1" totals "/api/meter-reads/new/d%d/totals?by=month"
}

growth_report() {
    node "$top/bench/report_growth.js" "$work/results" "$seconds" "$busy" "$growth_devices"
}

growth_bench() {
    local month

    page=docs/scaling.md
    growth_devices=$((growth_rows / (730 * growth_months)))
    export DEVICES=$growth_devices
    build_host
    conf=$top/bench/reading.yaml
    open_stage
    migrate_database
    add_account Admin admin
    sql_file busbar busbar devices -v devices="$growth_devices"
    sql_file busbar busbar months
    start_host
    log_in admin admin
    first=$((($(date -u -d "$(month_ago 1)" +%s) - 1451606400) / 60)) # readings are posted for the last month
    load_month 2
    growth_stage tenth
    for ((month = 3; month < 2 + growth_months; month++)); do
        say "month $((month - 1)) of $growth_months"
        load_month "$month"
    done
    growth_stage all
    finish growth growth-notes.md
}
