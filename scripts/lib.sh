# Shell functions shared by ./start, ./test and bench/run. To be sourced by bash, with `top` set to
# the directory of the sources. Nothing here acts by itself.

say() {
    printf 'busbar: %s\n' "$*" >&2
}

die() {
    say "$*"
    exit 1
}

# ---- users ---------------------------------------------------------------------------------------

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        die "this needs root and there is no sudo; as root, run: $*"
    fi
}

# PostgreSQL refuses to run as root. As root it runs as whoever owns the cluster already, else as
# `postgres` (the user that Debian's package makes); as anybody else it runs as that user.
choose_service_user() {
    local owner=

    service_user=$(id -un)
    [ "$(id -u)" -eq 0 ] || return 0
    service_user=postgres
    [ -e "$var/postgres/cluster" ] && owner=$(stat -L -c %U "$var/postgres/cluster")
    [ -z "$owner" ] || [ "$owner" = root ] || [ "$owner" = UNKNOWN ] || service_user=$owner
}

as_service() {
    if [ "$service_user" = "$(id -un)" ]; then
        (cd / && "$@")
    else
        (cd / && setpriv --reuid "$service_user" --regid "$(id -g "$service_user")" \
            --init-groups -- "$@")
    fi
}

# Runs a child in a session of its own, so that Ctrl-C reaches only the script, which stops its
# children in order; if the script is killed hard, the kernel sends the child the signal $1.
exec_child() {
    local signal=$1
    local -a user=()

    if [ "$2" != "$(id -un)" ]; then
        user=(--reuid "$2" --regid "$(id -g "$2")" --init-groups)
    fi
    shift 2
    exec setsid setpriv "${user[@]}" --pdeathsig "$signal" -- "$@" 9>&-
}

# ---- Debian packages -----------------------------------------------------------------------------

build_packages=(gcc libc6-dev make autoconf automake libtool pkg-config libmicrohttpd-dev
    libjansson-dev libpq-dev libssl-dev libcurl4-openssl-dev libyaml-dev libargon2-dev
    libhiredis-dev libelf-dev libjemalloc-dev libboost-context-dev libexpat1-dev libmagic-dev)
run_packages=(postgresql redis-server tzdata)
test_packages=(check clang clang-tidy clang-format cppcheck haproxy iproute2 iptables libclang-rt-dev
    man-db mandoc nodejs python3 systemd)

missing_packages() {
    local package

    for package in "$@"; do
        case "$installed_packages" in
        *" $package installed "*) ;;
        *) printf '%s\n' "$package" ;;
        esac
    done
}

# The packages are to be libraries and programs: Debian's own PostgreSQL cluster and Redis service
# are neither made nor started. Both means are Debian's own, and both are taken back afterwards.
keep_services_off() {
    if [ ! -e /usr/sbin/policy-rc.d ]; then
        as_root sh -c 'printf "#!/bin/sh\nexit 101\n" >/usr/sbin/policy-rc.d
            chmod 755 /usr/sbin/policy-rc.d'
        services_policy=/usr/sbin/policy-rc.d
    fi
    if [ ! -e /etc/postgresql-common/createcluster.conf ]; then
        as_root sh -c 'mkdir -p /etc/postgresql-common/createcluster.d
            echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.d/busbar.conf'
        services_cluster=/etc/postgresql-common/createcluster.d/busbar.conf
    fi
}

let_services_be() {
    [ -z "${services_policy:-}${services_cluster:-}" ] ||
        as_root rm -f ${services_policy:+"$services_policy"} \
            ${services_cluster:+"$services_cluster"}
    services_policy= services_cluster=
}

# Installs what is missing of the packages named, and nothing when nothing is.
need_packages() {
    local -a missing

    command -v dpkg-query >/dev/null || {
        say "no Debian here: the build needs what these packages hold: $*"
        return 0
    }
    installed_packages=" $(dpkg-query -W -f '${Package} ${db:Status-Status} ' 2>/dev/null)"
    mapfile -t missing < <(missing_packages "$@")
    [ "${#missing[@]}" -gt 0 ] || return 0
    say "installing ${#missing[@]} Debian packages: ${missing[*]}"
    local -a apt=(env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300)
    as_root "${apt[@]}" update </dev/null ||
        die "apt-get update failed (see above): check the network and /etc/apt/sources.list"
    keep_services_off
    if ! as_root "${apt[@]}" install -y --no-install-recommends "${missing[@]}" </dev/null; then
        let_services_be
        die "apt-get install failed (see above); by hand: apt-get install ${missing[*]}"
    fi
    let_services_be
    case " ${missing[*]} " in
    *" redis-server "*)
        [ ! -d /run/systemd/system ] || as_root systemctl disable --quiet redis-server || true
        ;;
    esac
    hash -r
}

# ---- building ------------------------------------------------------------------------------------

# A checksum over everything that a build is made of, and over how it is made.
source_sum() {
    (cd "$top" && printf '%s\n' "$*" && find configure.ac Makefile.am busbar.pc.in busbar-fake.pc.in \
        build-aux/sql2h core docs/man examples/modules fake include modules conf tests -type f \
        \( -name '*.[ch]' -o -name '*.sql' -o -name '*.inc' -o -name '*.conf' -o -name '*.[578]' \
        -o -name '*.ac' -o -name '*.am' -o -name '*.in' -o -name '*.yaml' -o -name sql2h \) -print0 |
        LC_ALL=C sort -z | xargs -0 sha256sum) | sha256sum
}

# Waits for a long step, so that a signal to the script ends it at once.
step() {
    "$@" &
    step_pid=$!
    local status=0
    wait "$step_pid" || status=$?
    step_pid=
    return "$status"
}

# build NAME ARGUMENT…: makes and installs build/NAME/root with these arguments of configure, unless
# nothing has changed since the last time.
build() {
    local name=$1 dir=$top/build/$1 sum
    shift
    sum=$(source_sum "$@")
    [ ! -e "$dir/.built" ] || [ "$(cat "$dir/.built")" != "$sum" ] || return 0
    case $top in
    *[!A-Za-z0-9_./+@-]*) die "cannot build in '$top': make and libtool want a path without spaces
or special characters; move the sources" ;;
    esac
    say "building $name (in build/$name; the first time takes a minute or two)"
    mkdir -p "$dir"
    exec 8>"$top/build/.lock"
    flock 8
    rm -f "$dir/.built"
    if [ ! -e "$top/configure" ] || [ "$top/configure.ac" -nt "$top/configure" ]; then
        step autoreconf -fi "$top" || build_failed "autoreconf"
    fi
    if [ ! -e "$dir/config.status" ] || [ "$(cat "$dir/.arguments" 2>/dev/null)" != "$*" ]; then
        # configure wants to remove a core dump when it ends, and finds our directory of that name
        step env -C "$dir" "$top/configure" --quiet --prefix="$dir/root" "$@" \
            2> >(grep -v "remove 'core'" >&2) || build_failed "configure"
        printf '%s\n' "$*" >"$dir/.arguments"
    fi
    step make -C "$dir" -j"$(nproc)" --no-print-directory all || build_failed "make"
    step make -C "$dir" --no-print-directory -s install >"$dir/install.log" ||
        build_failed "make install (build/$name/install.log)"
    printf '%s\n' "$sum" >"$dir/.built"
    exec 8>&-
}

build_failed() {
    [ -z "${stopping:-}" ] || die "stopped while building"
    die "$1 failed; the reason is above. After larger changes 'rm -rf build configure' helps."
}

# ---- state ---------------------------------------------------------------------------------------

# Sets `var` to the absolute path of the state directory and makes it.
open_state() {
    var=${1:-$top/var}
    if [ ! -d "$var" ]; then
        mkdir -p -- "$var" || die "cannot make the state directory $var"
        chmod 711 "$var"
    fi
    var=$(cd "$var" && pwd -P) || die "cannot enter the state directory $1"
    mkdir -p "$var/log"
    chmod 700 "$var/log"
    choose_service_user
}

# Whether the service user can work in a directory: it may lie in one that is closed to it.
fit_for_service() {
    [ -d "$1" ] && as_service test -w "$1" -a -x "$1" 2>/dev/null &&
        [ "$(stat -L -c %U "$1")" = "$service_user" ]
}

own_directory() {
    chmod 700 "$1" && { [ "$service_user" = "$(id -un)" ] || chown "$service_user:" "$1"; }
}

# PostgreSQL's data. Where its user cannot enter var/ (a checkout in /root, say), var/postgres is a
# link to a directory of its own below /var/lib/busbar: nobody's home is opened for it.
open_data() {
    local elsewhere

    data=$var/postgres
    if [ -L "$data" ] && [ ! -d "$data" ]; then
        die "$data points to $(readlink "$data"), which is gone; remove the link to begin with an
empty database"
    fi
    if [ ! -d "$data" ]; then
        mkdir "$data"
        own_directory "$data"
        if ! fit_for_service "$data"; then
            rmdir "$data"
            mkdir -p -m 711 /var/lib/busbar
            elsewhere=$(mktemp -d /var/lib/busbar/XXXXXX)
            own_directory "$elsewhere"
            ln -s "$elsewhere" "$data"
            say "user $service_user cannot enter $var: the database is kept in $elsewhere"
        fi
    fi
    data=$(cd "$data" 2>/dev/null && pwd -P) || data=$var/postgres
    fit_for_service "$data" || die "PostgreSQL's data in $data belongs to $(stat -c %U "$data"),
and $service_user cannot work there: start busbar as the same user as before, or set BUSBAR_VAR to
another directory"
}

# Whether sockets can live there: sun_path has 108 bytes, and ".s.PGSQL.5432" is added.
fit_for_sockets() {
    local LC_ALL=C
    case $1 in
    *[!A-Za-z0-9_./+@-]*) return 1 ;;
    esac
    [ ${#1} -le 93 ] && fit_for_service "$1"
}

# The sockets' directory, 0700 and the service user's: var/run, or a short one that var/run links to.
open_sockets() {
    local parent=/tmp

    run=$var/run
    if [ -d "$run" ]; then
        run=$(cd "$run" && pwd -P)
        ! fit_for_sockets "$run" || return 0
        run=$var/run
    fi
    [ ! -L "$run" ] || rm "$run"
    [ -d "$run" ] || mkdir "$run"
    own_directory "$run"
    ! fit_for_sockets "$run" || return 0
    rm -rf "$run"
    [ "$(id -u)" -ne 0 ] || parent=/run
    run=$(mktemp -d "$parent/busbar.XXXXXX") || die "cannot make a directory for sockets in $parent"
    own_directory "$run"
    ln -s "$run" "$var/run"
}

# Takes a short directory back; one in var/ stays.
close_sockets() {
    [ -n "${run:-}" ] && [ -L "$var/run" ] || return 0
    rm -rf "$run"
    rm -f "$var/run"
}

# One line of random hexadecimal digits, of $1 bytes.
random_hex() {
    od -An -v -tx1 -N"$1" /dev/urandom | tr -d ' \n'
}

# keep_secret FILE TEXT: a file that only its owner can read, whole or not at all.
keep_secret() {
    (umask 077 && printf '%s\n' "$2" >"$1.new" && mv "$1.new" "$1") || die "cannot write $1"
}

. "$top/scripts/services.sh"
