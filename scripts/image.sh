# The check `image` of ./test package: runs the instructions of packaging/Containerfile in empty Debian systems, and the
# hosts and the proxy of packaging/compose.yaml without a container engine. Sourced by ./test after package.sh.

# image_instructions FILE: prints one instruction on each line.
image_instructions() {
    sed -e :a -e '/\\$/N; s/ *\\\n */ /; ta' "$1" | grep -v '^#\|^$'
}

image_words() { # JSON: prints its words, each with a NUL at the end
    python3 -c 'import json, sys; print("\0".join(json.loads(sys.argv[1])), end="\0")' "$1"
}

# image_copy ROOT [--from=STAGE] SOURCE TARGET: the instruction COPY. The context has the files that git tracks and the
# web pages that are already built, so the check needs no registry of npm.
image_copy() {
    local root=$1
    shift
    case $1 in
    --from=*) mkdir -p "$root$3" && cp -a "$debian_place/image-${1#--from=}$2/." "$root$3" ;;
    .) mkdir -p "$root$2" && (cd "$top" && { git ls-files && find modules -path 'modules/*/web/dist/*' -type f; } |
        tar -cf - -T -) | tar -xf - -C "$root$2" ;;
    *) say "COPY $*: this check does not know this form" && return 1 ;;
    esac
}

# Runs all instructions; sets image_root, and the arrays image_entry, image_command and image_health.
image_build() {
    local word rest root=

    while read -r word rest <&3; do
        say "$word $rest"
        case $word in
        FROM)
            root=$debian_place/image-final
            [[ $rest != *" AS "* ]] || root=$debian_place/image-${rest##* AS }
            rest=${rest#*/debian:}
            debian_root "${rest%%-*}" "$root" || return 1
            ;;
        COPY) image_copy "$root" $rest || return 1 ;;
        RUN) in_root "$root" sh -c "$rest" </dev/null || return 1 ;;
        USER) image_user=$rest ;;
        ENTRYPOINT) mapfile -d '' -t image_entry < <(image_words "$rest") ;;
        CMD) mapfile -d '' -t image_command < <(image_words "$rest") ;;
        HEALTHCHECK) mapfile -d '' -t image_health < <(image_words "${rest#* CMD }") ;;
        VOLUME | EXPOSE | STOPSIGNAL) ;;
        *) say "$word: this check does not know this instruction" && return 1 ;;
        esac
    done 3< <(image_instructions "$top/packaging/Containerfile")
    image_root=$root
}

# image_run VOLUME NAME=VALUE… COMMAND…: runs a command as the image's user, without privileges, on a read-only
# root.
image_run() {
    # shellcheck disable=SC2016 # expanded by the inner shell
    exec unshare --mount --pid --ipc --uts --fork --kill-child bash -ec '
        root=$1 user=$2 volume=$3
        shift 3
        mount --make-rprivate /
        mount --rbind "$root" "$root"
        mount -o remount,bind,ro "$root"
        mount -t proc proc "$root/proc"
        mount --rbind /dev "$root/dev"
        mount -t tmpfs tmpfs "$root/tmp"
        mount -t tmpfs -o "uid=${user%:*},gid=${user#*:},mode=750" tmpfs "$root/run/busbar"
        mount --bind "$volume" "$root/var/lib/busbar"
        exec chroot "$root" setpriv --reuid "${user%:*}" --regid "${user#*:}" --clear-groups --no-new-privs \
            --inh-caps=-all --bounding-set=-all -- env -i PATH=/usr/local/bin:/usr/bin:/bin "$@"' \
        image "$image_root" "$image_user" "$@"
}

# Prints the environment of the hosts in compose.yaml, with the addresses of the servers of this check.
image_environment() {
    sed -n '/^x-host/,/^services/s/^    \(BUSBAR_[A-Z_]*\): "\(.*\)"$/\1=\2/p' "$top/packaging/compose.yaml" |
        sed "s/host=postgres/host=127.0.0.1 port=$pg_port/; s/redis:6379/127.0.0.1:$redis_port/
            s/172\.30\.91\.2/127.0.0.1/; s/\${BUSBAR_DATABASE_PASSWORD:?}/none/
            s/\${BUSBAR_SECRET_KEY:?}/$(openssl rand -hex 32)/"
}

# Starts PostgreSQL and Redis on this machine, with nothing that must survive.
image_servers() {
    local pg

    pg=$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -V | tail -1)
    rm -rf "$image_state/postgres"
    install -d -o postgres "$image_state/postgres"
    chmod 711 "$image_state"
    runuser -u postgres -- "$pg/initdb" -D "$image_state/postgres" -U busbar -A trust --encoding=UTF8 \
        --locale=C.UTF-8 >/dev/null || return 1
    runuser -u postgres -- "$pg/postgres" -D "$image_state/postgres" -h 127.0.0.1 -p "$pg_port" -k '' &
    image_pids+=($!)
    redis-server --port "$redis_port" --save '' --appendonly no >/dev/null &
    image_pids+=($!)
    until "$pg/pg_isready" -q -U busbar -h 127.0.0.1 -p "$pg_port"; do
        kill -0 "${image_pids[0]}" || return 1
        sleep 0.1
    done
    runuser -u postgres -- "$pg/createdb" -h 127.0.0.1 -p "$pg_port" -U busbar busbar
}

# image_until SECONDS COMMAND…: repeats a command until it succeeds.
image_until() {
    local left=$(($1 * 10))
    shift
    until "$@"; do
        left=$((left - 1))
        [ "$left" -gt 0 ] || return 1
        sleep 0.1
    done
}

# Starts two hosts and HAProxy, waits for their health, creates the first Admin as the manual does, and logs in.
image_serve() {
    local host volume environment password front ports=() said

    mapfile -t environment < <(image_environment)
    front=$(free_port)
    for host in 0 1; do
        volume=$image_state/host$host
        rm -rf "$volume"
        cp -a "$image_root/var/lib/busbar" "$volume"
        ports[host]=$(free_port)
        (image_run "$volume" "${environment[@]}" "BUSBAR_LISTEN=127.0.0.1:${ports[host]}" \
            "${image_entry[@]}" "${image_command[@]}") &
        image_hosts[host]=$!
        image_until 60 image_run_health "${ports[host]}" || return 1
    done
    env BUSBAR_FRONT="127.0.0.1:$front" BUSBAR_HOST1="127.0.0.1:${ports[0]}" BUSBAR_HOST2="127.0.0.1:${ports[1]}" \
        BUSBAR_HAPROXY_SOCKET="$image_state/haproxy.sock" haproxy -db -f "$top/conf/haproxy.cfg" &
    image_pids+=($!)
    image_until 30 curl -fsS -o /dev/null "http://127.0.0.1:$front/api/health/ready" || return 1
    password=$(openssl rand -hex 12)
    (image_run "$image_state/host0" "${environment[@]}" "BUSBAR_PASSWORD=$password" "${image_entry[@]}" user add \
        --role Admin --email admin@example.com) || return 1
    said=$(curl -fsS --json '{"username":"admin@example.com","password":"'"$password"'"}' \
        "http://127.0.0.1:$front/api/auth/login") && [[ $said == *accessToken* ]] &&
        curl -fsS -o /dev/null "http://127.0.0.1:$front/console" || return 1
    for host in 0 1; do
        kill -TERM "$(pgrep -P "${image_hosts[host]}")" && wait "${image_hosts[host]}" || {
            say "a host ended with status $? on SIGTERM"
            return 1
        }
    done
}

# Runs the health check with the port of a host: the hosts of this check share one network.
image_run_health() { # PORT
    (image_run "$image_state/host0" "${image_health[@]//8080/$1}") 2>/dev/null
}

package_image() {
    local image_root='' image_user='' image_state=$debian_place/image-state image_entry=() image_command=()
    local image_health=() image_pids=() image_hosts=() pg_port redis_port status=0

    image_build || return 1
    rm -rf "${debian_place:?}/image-build"
    du -sh "$image_root"
    mkdir -p "$image_state"
    pg_port=$(free_port) redis_port=$(free_port)
    image_servers && image_serve || status=1
    kill "${image_pids[@]}" $(pgrep -P "$(printf '%s,' "${image_hosts[@]}")0") 2>/dev/null
    wait "${image_pids[@]}" "${image_hosts[@]}" 2>/dev/null
    return "$status"
}
