# Runs ./test browser: starts a separate service with ./start and uses its pages in Debian's Chromium as people do
# (tests/browser). Sourced by ./test. The screenshots are in build/browser/pictures.

# Chromium without windows needs a third less processor time than the package chromium.
browser_packages=(chromium-headless-shell fonts-dejavu-core) # without a font, pages show no text

need_browser() {
    local own=$top/tests/browser

    command -v chromium-headless-shell >/dev/null || need_packages "${browser_packages[@]}"
    [ ! "$own/node_modules/.package-lock.json" -nt "$own/package-lock.json" ] || return 0
    say "installing the browser's driver (npm ci in tests/browser)"
    npm ci --prefix "$own" --ignore-scripts --no-audit --no-fund --loglevel=error >&2
}

# Returns 0 if Chromium's sandbox works: not for root, and not without user namespaces (in a chroot, for instance).
may_sandbox() {
    [ "$(id -u)" -ne 0 ] && unshare --user true 2>/dev/null
}

# Runs the tests against the service, which must be ready, and writes their results in TAP format to tap.log.
browser_run() { # DIRECTORY PORT [NAME…]
    local place=$1 port=$2 host_user
    local -a child_view as=()
    shift 2
    choose_host_user
    open_view "$top" "$(realpath "$top/build")"
    [ "$host_user" = "$(id -un)" ] || as=("${child_view[@]}" setpriv --reuid "$host_user" --regid "$(id -g "$host_user")" --init-groups --)
    BUSBAR_BASE=http://127.0.0.1:$port BUSBAR_PASSWORD=$(cat "$place/var/admin.password") \
        BUSBAR_CONTROL=$place/var/run/host/control.sock BUSBAR_PROGRAM=$top/build/release/root/bin/busbar \
        BUSBAR_AS=$(printf '%s\n' "${as[@]}") BUSBAR_SANDBOX=$(may_sandbox && echo 1) BUSBAR_PICTURES=$place/pictures \
        BUSBAR_CHROMIUM=$(command -v chromium-headless-shell) \
        node --test-reporter=tap "$top/tests/browser/main.js" "$@" >"$place/tap.log" 2>&1
}

# Prints one line per failed test: its name, its error, and the values that it compared.
browser_failed() { # TAP_LOG
    awk 'function tell() { if (told != "") print substr(told, 1, 500); told = "" }
        /^(not )?ok / { tell() }
        /^not ok / { sub(/^not ok [0-9]+ - /, ""); told = $0; next }
        told == "" { next }
        /^  [a-z_A-Z]+:/ { shown = ($1 == "error:" || $1 == "expected:" || $1 == "actual:") }
        shown { gsub(/ +/, " "); told = told $0 }
        END { tell() }' "$1"
}

browser_told() { # DIRECTORY
    local good bad names

    good=$(awk '$1 == "#" && $2 == "pass" { print $3 }' "$1/tap.log")
    bad=$(awk '$1 == "#" && $2 == "fail" { print $3 }' "$1/tap.log")
    grep -E '^(not )?ok ' "$1/tap.log" | sed 's/^/busbar: browser: /' >&2
    [ ! -e "$1/pictures/figures.txt" ] || sed 's/^/busbar: browser: /' "$1/pictures/figures.txt" >&2
    count "${good:-0}" 0
    [ -n "$good" ] && [ "${bad:-1}" = 0 ] && [ "$good" -gt 0 ] && return
    grep -v '^ok ' "$1/tap.log" | tail -80 >&2
    names=$(browser_failed "$1/tap.log" | paste -sd ';')
    fail "browser: ${bad:-all} failed: $names; see build/browser/tap.log and build/browser/pictures"
}

# Unlike ./test start, this uses the sources themselves, because the state is in build/browser/var.
part_browser() {
    local place=$top/build/browser port log tree=$top

    need_browser || {
        say "browser: npm cannot install the driver (see above), so this part is skipped"
        count 0 0 1
        return
    }
    begin_with_gcc release
    rm -rf "$place"
    mkdir -p "$place/pictures"
    log=$place/host.log
    port=$(free_port)
    # The tests register more accounts than one address may in the usual window.
    { cat "$top/conf/start.yaml"; printf '\nauth:\n  registrations_per_address: 1000\n  argon2_memory: 64\n'; } >"$place/busbar.yaml"
    BUSBAR_CONF=$place/busbar.yaml BUSBAR_VAR=$place/var BUSBAR_PORT=$port started "$log" || { fail "browser: ./start failed"; return; }
    browser_run "$place" "$port" "$@"
    kill -TERM "$start_pid"
    ended 20
    browser_told "$place"
}
