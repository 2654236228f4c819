# Minimal Debian systems for tests: made with debootstrap, in build/fresh. Sourced by ./test, tests/fresh/fresh and
# tests/boot/empty. It needs root, and about 1 GB for each system.

debian_place=${FRESH_DIR:-$top/build/fresh}

# debian_root SUITE ROOT: makes ROOT a minimal Debian (bookworm, trixie). debootstrap runs once for each suite; its
# result is kept in a tar file. FRESH_MIRROR replaces debootstrap's own mirror.
debian_root() {
    local base=$debian_place/minbase-$1.tar new=$debian_place/minbase-$1.new

    if [ ! -s "$base" ]; then
        rm -rf "$new"
        mkdir -p "$debian_place"
        debootstrap --variant=minbase "$1" "$new" ${FRESH_MIRROR:+"$FRESH_MIRROR"} >"$debian_place/$1.log" 2>&1 &&
            tar -C "$new" -cf "$base.new" . && mv "$base.new" "$base" && rm -rf "$new" || return 1
    fi
    rm -rf "$2"
    mkdir -p "$2"
    tar -C "$2" -xf "$base" && cp /etc/resolv.conf "$2/etc/resolv.conf"
}

# no_services ROOT: services start when the system is booted, not when their packages are installed.
no_services() {
    printf '#!/bin/sh\nexit 101\n' >"$1/usr/sbin/policy-rc.d" && chmod 755 "$1/usr/sbin/policy-rc.d"
}

# in_root ROOT COMMAND…: runs a command in a file system of Debian, with separate processes and mounts, which end with
# the command.
in_root() {
    # shellcheck disable=SC2016 # expanded by the inner shell
    unshare --mount --pid --ipc --uts --fork --kill-child bash -c '
        set -e
        mount --make-rprivate /
        mount --rbind "$1" "$1" # inner mounts need a root that is a mount itself
        mount -t proc proc "$1/proc"
        mount --rbind /sys "$1/sys"
        mount --rbind /dev "$1/dev"
        root=$1
        shift
        exec chroot "$root" env -i HOME=/root TERM=dumb DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 \
            PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"' debian "$@"
}
