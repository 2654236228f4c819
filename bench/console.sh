# The benchmark of the console: opening a conversation of 3,000 messages, and typing in the search of 10,000 devices, in
# Debian's Chromium. Sourced by bench/run.

messages=3000 devices=10000

write_console_conf() {
    conf=$work/console.yaml
    sed 's/^modules: .*/modules: [auth, bulk, certificate, chat, console, device, health, reading, webhook]/' \
        "$top/bench/conf.yaml" >"$conf"
    printf '\nbulk:\n  files: "%s"\ndevice:\n  documents: "%s"\n' "$work/files" "$work/documents" >>"$conf"
}

# Makes a person with a conversation and devices.
prepare_console() {
    migrate_database
    add_account User writer
    step "$program" --config "$conf" user add --role OrganizationAdmin --email person@bench.test \
        --organization Bench >&2 || die "the account could not be created"
    start_host
    log_in writer writer
    curl -sf "http://127.0.0.1:$host_port/api/chat/conversations/start" -H 'Content-Type: application/json' \
        -H "Authorization: Bearer $(cat "$work/writer")" -o "$work/output" \
        -d '{"username":"writer@bench.test","participant1":"writer@bench.test","participant2":"person@bench.test","chatEntry":"The first one."}' ||
        die "the conversation could not be started"
    sql_file postgres busbar console -v messages="$messages" -v devices="$devices"
}

# open_console ROUND NETWORK: NETWORK is loopback or slow.
open_console() {
    local measure value

    BASE=http://127.0.0.1:$host_port LAST="Message $messages of" step node "$top/bench/console.js" "$2" \
        >"$work/console" 2>"$work/output" || die "the browser failed: $(tail -5 "$work/output")"
    while read -r measure value; do
        note_value "$1" "$measure" "$2" "$value" us
    done <"$work/console"
}

console_report() {
    node "$top/bench/report_console.js" "$work/results" "$rounds" "$messages" "$devices" "$busy"
}

console_bench() {
    local number

    need_browser
    build_host
    open_stage
    write_console_conf
    prepare_console
    for ((number = 0; number <= rounds; number++)); do # round 0 warms up and is not recorded
        say "round $number of $rounds"
        open_console "$number" loopback
        open_console "$number" slow
    done
    finish console console-notes.md
}
