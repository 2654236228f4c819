# The benchmark of devices: registrations, compared with pgbench and the same statement, and an upload of 100 MiB,
# compared with writing the same bytes. Sourced by bench/run.

upload_files=10 upload_mib=10

write_device_conf() {
    conf=$work/device.yaml
    sed -e '/^chat:/,/^$/d' -e 's/^modules: .*/modules: [auth, device, health]/' \
        "$top/bench/conf.yaml" >"$conf"
    printf '\ndevice:\n  documents: "%s"\n' "$work/documents" >>"$conf"
}

# Writes pgbench's script: the INSERT of modules/device/write.c, with pgbench's expressions as its parameters,
# for a device with the fields that bench/lua/device.lua sends.
write_device_script() {
    local text number

    text=$(tr -d '\n' <"$top/modules/device/write.c" | sed 's/" *"//g' |
        grep -o 'INSERT INTO device [^"]*') || die "modules/device/write.c has no INSERT"
    text=${text//'$18'/"date_trunc('milliseconds', now())"}
    text=${text//'$17'/"'{}'"}
    text=${text//'$14'/"'SN-4711'"}
    text=${text//'$13'/"'TC110'"}
    text=${text//'$12'/"'ES100'"}
    text=${text//'$8'/9.9}
    text=${text//'$7'/"'2024-05-01'"}
    text=${text//'$6'/"'DE'"}
    text=${text//'$5'/"'Rooftop ' || :n"}
    text=${text//'$4'/"'p' || :n"}
    text=${text//'$3'/":organisation"}
    text=${text//'$2'/"gen_random_uuid()"}
    for number in 9 10 11 15 16; do
        text=$(sed "s/\\\$$number\\([^0-9]\\)/NULL\\1/g" <<<"$text")
    done
    text=${text//'$1'/"nextval('device_id')"}
    printf '\\set n random(1, 4000000000000000)\n%s;\n' "$text" >"$work/device.sql"
    organisation=$(sql busbar -Atc 'SELECT max(id) FROM auth_organisation')
}

seed_device() {
    migrate_database
    step "$program" --config "$conf" user add --role OrganizationAdmin --email device@bench.test \
        --organization Bench >&2 || die "the account could not be created"
}

run_device_pgbench() {
    cp "$work/device.sql" "$work/pgbench.sql"
    sed -i "s/:organisation/$organisation/" "$work/pgbench.sql"
    pgbench_file=$work/pgbench.sql run_pgbench "$1" device
}

seconds_since() {
    awk -v from="$1" -v to="$(date +%s.%N)" 'BEGIN { print to - from }'
}

# Writes the bytes of the upload with dd, in pieces of 64 KiB and with one fsync per file.
run_written() {
    local began i

    rm -rf "$work/written"
    mkdir "$work/written"
    began=$(date +%s.%N)
    for ((i = 0; i < upload_files; i++)); do
        dd if="$work/payload.$i" of="$work/written/$i" bs=64k conv=fsync status=none
    done
    note_value "$1" written dd "$(mib_per_s "$(seconds_since "$began")")" MiB/s
}

mib_per_s() {
    awk -v s="$1" -v mib=$((upload_files * upload_mib)) 'BEGIN { printf "%.1f", mib / s }'
}

# Measures the upload, and the peak of memory above the memory before it. Like run_written, it first removes the files
# of the previous round. Otherwise one of the two would write to pages that were just freed, and the other to pages
# that the machine has never used, which is much slower on a virtual machine.
run_uploaded() {
    local began before i status
    local -a parts=(-F "deviceToRegister={\"siteName\":\"Upload $1\"}")

    for ((i = 0; i < upload_files; i++)); do
        parts+=(-F "PROJECT_PHOTOS=@$work/payload.$i")
    done
    [ ! -d "$work/documents" ] || find "$work/documents" -type f -delete
    before=$(resident "$host_pid")
    echo 5 >"/proc/$host_pid/clear_refs"
    began=$(date +%s.%N)
    status=$(curl -s -o "$work/output" -w '%{http_code}' -H 'Expect:' "${parts[@]}" \
        -H "Authorization: Bearer $(cat "$work/tokens")" "http://127.0.0.1:$host_port/api/device")
    [ "$status" = 201 ] || die "the upload got status $status: $(head -c 300 "$work/output")"
    note_value "$1" uploaded busbar "$(mib_per_s "$(seconds_since "$began")")" MiB/s
    note_value "$1" growth busbar $(($(peak "$host_pid") - before)) kB
}

# Makes new random content each time, because the store would not write known content again.
make_payload() {
    local i

    for ((i = 0; i < upload_files; i++)); do
        head -c $((upload_mib * 1048576)) /dev/urandom >"$work/payload.$i"
    done
    sync -f "$work"
}

device_round() {
    checkpoint
    if (($1 % 2)); then
        run_device_pgbench "$1"
        run_wrk "$1" device busbar "$host_port" "$host_pid"
    else
        run_wrk "$1" device busbar "$host_port" "$host_pid"
        run_device_pgbench "$1"
    fi
    make_payload
    run_written "$1"
    run_uploaded "$1"
}

device_report() {
    node "$top/bench/report_device.js" "$work/results" "$rounds" "$seconds" "$busy"
}

device_bench() {
    local number organisation

    build_host
    need_packages curl
    open_stage
    write_device_conf
    seed_device
    write_device_script
    start_host
    log_in device tokens
    say "warming up"
    device_round 0
    for ((number = 1; number <= rounds; number++)); do
        say "round $number of $rounds"
        device_round "$number"
    done
    finish device device-notes.md
}
