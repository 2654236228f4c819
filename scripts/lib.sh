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
    else
        sudo "$@"
    fi
}

# Programs for administrators (haproxy, say) are in directories that are not in every user's PATH.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

# may_become_root REASON COMMANDS: ends the script with all that root has to run, unless this user is
# root or may use sudo, which may ask for a password on a terminal.
may_become_root() {
    local why

    [ "$(id -u)" -ne 0 ] || return 0
    if ! command -v sudo >/dev/null; then
        why="there is no sudo"
    elif sudo -n true 2>/dev/null || { [ -t 0 ] && sudo -v; }; then
        return 0
    else
        why="$(id -un) may not use sudo here"
    fi
    die "$1, and $why. Run this once as root, then start again:
$2"
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

# The host runs as the user who starts it, root excepted: for root it runs as the system user busbar, as
# an installed one does (conf/sysusers.d/busbar.conf).
choose_host_user() {
    host_user=$(id -un)
    [ "$(id -u)" -eq 0 ] || return 0
    host_user=busbar
    id busbar >/dev/null 2>&1 ||
        useradd --system --home-dir /var/lib/busbar --shell /usr/sbin/nologin busbar ||
        die "the system user busbar, whom the host runs as, cannot be made"
}

as_host() {
    if [ "$host_user" = "$(id -un)" ]; then
        "$@"
    else
        setpriv --reuid "$host_user" --regid "$(id -g "$host_user")" --init-groups -- "$@"
    fi
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
# children in order; if the script is killed hard, the kernel sends the child the signal $1. The words
# in `child_view`, if there are any, run before the user changes.
exec_child() {
    local signal=$1
    local -a user=()

    if [ "$2" != "$(id -un)" ]; then
        user=(--reuid "$2" --regid "$(id -g "$2")" --init-groups)
    fi
    shift 2
    exec setsid ${child_view:+"${child_view[@]}"} \
        setpriv "${user[@]}" --pdeathsig "$signal" -- "$@" 9>&-
}

# ---- Debian packages -----------------------------------------------------------------------------

build_packages=(gcc libc6-dev make autoconf automake pkg-config libmicrohttpd-dev
    libjansson-dev libpq-dev libssl-dev libcurl4-openssl-dev libyaml-dev libargon2-dev
    libhiredis-dev libelf-dev libjemalloc-dev libexpat1-dev libmagic-dev libcsv-dev
    libutf8proc-dev libidn2-dev)
run_packages=(postgresql redis-server tzdata)
web_packages=() # Node.js with npm builds the pages; other packages than Debian's have both in one
command -v node >/dev/null || web_packages+=(nodejs)
command -v npm >/dev/null || web_packages+=(npm)
test_packages=(check clang clang-tidy clang-format cppcheck dbus g++ haproxy iproute2 iptables
    libclang-rt-dev man-db mandoc openssl pgbouncer procps python3 rclone rustc systemd xz-utils)
contract_packages=(python3-venv)

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

# The build links two functions of Boost.Context. Its development package would bring 138 MB of headers,
# so only the archive is taken out of the package, into build/boost-context (configure.ac).
has_boost_context() {
    [ -e "$top/build/boost-context/libboost_context.a" ] ||
        case "$installed_packages" in
        *" libboost-context-dev installed "*) return 0 ;;
        *) return 1 ;;
        esac
}

take_boost_context() {
    local package place=$top/build/boost-context

    package=$(apt-cache depends libboost-context-dev | awk '$1 == "Depends:" { print $2; exit }')
    rm -rf "$place.new"
    mkdir -p "$place.new/all"
    (cd "$place.new" && apt-get -o APT::Sandbox::User=root download "$package" >/dev/null && dpkg-deb -x ./*.deb all &&
        find all -name libboost_context.a -exec mv {} . \; && rm -rf all ./*.deb) &&
        [ -s "$place.new/libboost_context.a" ] ||
        die "the package ${package:-libboost-context-dev} could not be downloaded and opened (see above)"
    rm -rf "$place"
    mv "$place.new" "$place"
}

apt_update_failed="apt-get update failed (see above): check the network and the sources in /etc/apt"

# Installs what is missing of the packages named, and nothing when nothing is.
need_packages() {
    local -a missing

    command -v dpkg-query >/dev/null || {
        say "no Debian here: the build needs what these packages hold: $* libboost-context"
        return 0
    }
    installed_packages=" $(dpkg-query -W -f '${Package} ${db:Status-Status} ' 2>/dev/null)"
    mapfile -t missing < <(missing_packages "$@")
    [ "${#missing[@]}" -gt 0 ] || ! has_boost_context || return 0
    may_become_root "Debian packages are missing" "    apt-get update
    apt-get install -y --no-install-recommends ${missing[*]} libboost-context-dev"
    local -a apt=(env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300)
    as_root "${apt[@]}" update </dev/null || die "$apt_update_failed"
    has_boost_context || take_boost_context
    [ "${#missing[@]}" -gt 0 ] || return 0
    local log=$top/build/packages.log service
    mkdir -p "$top/build"
    say "installing ${#missing[@]} Debian packages and those that they need, which takes minutes:
${missing[*]}"
    keep_services_off
    if ! as_root "${apt[@]}" install -y --no-install-recommends "${missing[@]}" </dev/null >"$log" 2>&1; then
        let_services_be
        tail -20 "$log" >&2
        die "apt-get install failed (see above and $log); by hand: apt-get install ${missing[*]}"
    fi
    let_services_be
    for service in redis-server haproxy pgbouncer postgresql; do # nor at the next boot
        case " ${missing[*]} " in
        *" $service "*)
            ! command -v systemctl >/dev/null || as_root systemctl disable --quiet "$service" 2>/dev/null || true
            ;;
        esac
    done
    hash -r
}

# ---- building ------------------------------------------------------------------------------------

# A checksum over everything that a build is made of, and over how it is made.
source_sum() {
    (cd "$top" && printf '%s\n' "$*" && find configure.ac Makefile.am busbar.pc.in busbar-fake.pc.in \
        build-aux/sql2h core docs/man examples/modules fake include modules tests conf/sysusers.d \
        conf/busbar.service.in conf/{busbar,cluster,minimal,start}.yaml -type f \
        \( -name '*.[ch]' -o -name '*.cpp' -o -name '*.rs' -o -name '*.map' -o -name '*.sql' -o -name '*.inc' -o -name '*.conf' -o -name '*.[578]' \
        -o -name '*.ac' -o -name '*.am' -o -name '*.in' -o -name '*.yaml' -o -name sql2h \
        -o -path '*/web/dist/*' \) -not -path '*/node_modules/*' -print0 |
        LC_ALL=C sort -z | xargs -0 sha256sum) | sha256sum
}

# pause PID…: until one of these children ends or a second is over. A trap runs only between two commands:
# a signal that comes just before a `wait` begins would not end it, so that no wait may be endless.
pause() {
    [ -n "${tick_pid:-}" ] && kill -0 "$tick_pid" 2>/dev/null || {
        sleep 1 </dev/null >/dev/null 2>&1 8>&- 9>&- &
        tick_pid=$!
    }
    wait -n "$tick_pid" "$@" 2>/dev/null || true
}

# Waits for a long step, so that a signal to the script ends it at once.
step() {
    "$@" &
    step_pid=$!
    local status=0
    while kill -0 "$step_pid" 2>/dev/null; do
        pause "$step_pid"
    done
    wait "$step_pid" || status=$?
    step_pid=
    return "$status"
}

# One build at a time: all of them share configure and the pages.
take_build_lock() {
    exec 8>"$top/build/.lock"
    flock -n 8 && return
    say "waiting for another build in $top (./start, ./test or bench/run) to finish"
    step flock 8
}

# build NAME ARGUMENT…: makes and installs build/NAME/root with these arguments of configure, unless
# nothing has changed since the last time. The variable build_also names further targets, and
# build_only those that are made instead, without an installation.
build() {
    local name=$1 dir=$top/build/$1 context=$top/build/boost-context sum
    shift
    local targets="${build_only:-} ${build_also:-}"
    local arguments="$top $*" # a copy of the sources may share the directory: ./test start
    make_web
    sum=$(source_sum "$targets" "$@")
    is_current "$dir" "$sum" && return
    case $top in
    *[!A-Za-z0-9_./+@-]*) die "cannot build in '$top': make wants a path without spaces
or special characters; move the sources" ;;
    esac
    mkdir -p "$dir"
    take_build_lock
    is_current "$dir" "$sum" && exec 8>&- && return # the build that had the lock was this one
    say "building $name (in build/$name; the first time takes several minutes)"
    rm -f "$dir/.built"
    if [ ! -e "$top/configure" ] || [ "$top/configure.ac" -nt "$top/configure" ]; then
        step autoreconf -fi "$top" >"$dir/autoreconf.log" 2>&1 || {
            cat "$dir/autoreconf.log" >&2
            build_failed "autoreconf"
        }
    fi
    if [ ! -e "$dir/config.status" ] || [ "$(cat "$dir/.arguments" 2>/dev/null)" != "$arguments" ]; then
        [ ! -e "$context/libboost_context.a" ] || set -- --with-boost-context="$context" "$@"
        step env -C "$dir" "$top/configure" --quiet --prefix="$dir/root" "$@" ||
            build_failed "configure"
        printf '%s\n' "$arguments" >"$dir/.arguments"
    fi
    if [ -n "${build_only:-}" ]; then
        # shellcheck disable=SC2086 # words are wanted
        step make -C "$dir" --no-print-directory core/migrate/schema.h &&
            step make -C "$dir" -j"$(nproc)" --no-print-directory $build_only || build_failed "make"
    else
        # shellcheck disable=SC2086
        step make -C "$dir" -j"$(nproc)" --no-print-directory all ${build_also:-} ||
            build_failed "make"
        step make -C "$dir" --no-print-directory -s install >"$dir/install.log" ||
            build_failed "make install (build/$name/install.log)"
    fi
    printf '%s\n' "$sum" >"$dir/.built"
    exec 8>&-
}

is_current() { # DIRECTORY SUM
    [ -e "$1/.built" ] && [ "$(cat "$1/.built")" = "$2" ]
}

# Builds the web pages. Without them the host works, and reports which pages it does not have.
make_web() {
    [ -z "${web_made:-}" ] || return 0
    mkdir -p "$top/build"
    web_made=yes
    ! "$top/scripts/make-web" --check || return 0
    take_build_lock
    "$top/scripts/make-web" || say "go on without these pages"
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

# The topmost directory on the way to a path that the host's user may not enter; nothing if it may go all
# the way.
closed_to_host() { # PATH
    local at=

    while IFS= read -r -d / name; do
        at=$at$name/
        as_host test -x "$at" || {
            printf '%s\n' "${at%/}"
            return
        }
    done <<<"$1/"
}

# A checkout in /root is closed to the host's user. The host then gets a view of its own, in which that
# directory holds nothing but the paths named: sets `child_view`.
open_view() { # PATH…
    local path closed=
    local -a inner=()

    child_view=()
    [ "$host_user" != "$(id -un)" ] || return 0
    for path; do
        closed=${closed:-$(closed_to_host "$path")}
    done
    [ -n "$closed" ] || return 0
    unshare --mount true 2>/dev/null || {
        say "user $host_user cannot enter $closed, and this machine grants no mounts: the host runs as
$(id -un)"
        host_user=$(id -un)
        return 0
    }
    for path; do
        case "$path/" in
        "$closed"/*) ;;
        *) continue ;;
        esac
        case " ${inner[*]} " in
        *" ${path%/*} "*) ;; # it is in one that is there already
        *) inner+=("$path") ;;
        esac
    done
    child_view=(unshare --mount --propagation private "$top/scripts/view" "$closed" "${inner[@]}" --)
}

# Opens the sockets' directory to the host where it runs as another user than PostgreSQL, and makes one
# in it that is the host's own.
share_sockets() {
    mkdir -p "$run/host"
    [ "$host_user" != "$(id -un)" ] || return 0
    chgrp "$(id -g "$host_user")" "$run" && chmod 710 "$run" && chown -R "$host_user:" "$run/host" &&
        chmod 700 "$run/host" || die "the sockets in $run cannot be opened to user $host_user"
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
