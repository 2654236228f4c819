# The part `package` of ./test: builds the Debian packages in a minimal Debian 12 (debootstrap), checks them with
# lintian, and installs, upgrades and purges them there. Sourced by ./test. The packages are in build/packages.
package_names="build lintian repeat serve upgrade image"

# Sets the names of two file systems: one for the build, one for a user of the packages.
package_roots() {
    package_place=${FRESH_DIR:-$top/build/fresh}
    builder=$package_place/package-builder user=$package_place/package-user
}

# in_root ROOT COMMAND…: runs a command in a file system of Debian, with separate processes and mounts.
in_root() {
    # shellcheck disable=SC2016 # expanded by the inner shell
    unshare --mount --pid --ipc --uts --fork --kill-child bash -c '
        set -e
        mount --make-rprivate /
        mount --rbind "$1" "$1"
        mount -t proc proc "$1/proc"
        mount --rbind /dev "$1/dev"
        root=$1
        shift
        exec chroot "$root" env -i HOME=/root TERM=dumb DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 \
            PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"' package "$@"
}

# Makes ROOT from the base system that tests/fresh and tests/boot use, too. Services start when a system is booted, not
# when their packages are installed.
package_root() { # ROOT
    local base=$package_place/bookworm.tar

    if [ ! -s "$base" ]; then
        mkdir -p "$package_place"
        rm -rf "$package_place/bookworm.new"
        debootstrap --variant=minbase --include=git,ca-certificates,curl,sudo bookworm "$package_place/bookworm.new" \
            ${FRESH_MIRROR:+"$FRESH_MIRROR"} >"$package_place/bookworm.log" 2>&1 || return 1
        tar -C "$package_place/bookworm.new" -cf "$base.new" . && mv "$base.new" "$base" || return 1
        rm -rf "$package_place/bookworm.new"
    fi
    rm -rf "$1"
    mkdir -p "$1"
    tar -C "$1" -xf "$base" || return 1
    cp /etc/resolv.conf "$1/etc/resolv.conf"
    printf '#!/bin/sh\nexit 101\n' >"$1/usr/sbin/policy-rc.d"
    chmod 755 "$1/usr/sbin/policy-rc.d"
    in_root "$1" apt-get update -qq
}

# Builds in DIRECTORY of the builder, and copies the packages to build/packages/NAME.
package_build_in() { # DIRECTORY NAME
    local to=$top/build/packages/$2

    rm -rf "${builder:?}$1" "$to"
    mkdir -p "$builder$1" "$to"
    cp "$package_tarball" "$builder$1/busbar_$package_version.orig.tar.xz"
    in_root "$builder" tar -C "$1" -xf "$1/busbar_$package_version.orig.tar.xz" || return 1
    cp -r "$top/debian" "$builder$1/busbar-$package_version/"
    in_root "$builder" bash -ec "cd $1/busbar-$package_version &&
        apt-get build-dep -qq -y --no-install-recommends ./ && dpkg-buildpackage -us -uc -j$(nproc)" || return 1
    cp "$builder$1"/busbar* "$to" 2>/dev/null
    ls "$to"/*.deb >/dev/null
}

package_build() {
    need_gcc || return 1
    rm -f "$top"/build/gcc/busbar-*.tar.xz
    make -C "$top/build/gcc" -s --no-print-directory dist || return 1
    package_tarball=$(echo "$top"/build/gcc/busbar-*.tar.xz)
    package_version=${package_tarball##*/busbar-}
    package_version=${package_version%.tar.xz}
    package_root "$builder" && in_root "$builder" apt-get install -qq -y --no-install-recommends build-essential lintian &&
        package_build_in /build one
}

package_lintian() {
    in_root "$builder" bash -c "cd /build && useradd lint; chown -R lint . &&
        runuser -u lint -- lintian --fail-on error,warning --info busbar_*.changes"
}

# The same sources, built in another directory and later, are the same packages.
package_repeat() {
    local file bad=0

    package_build_in /srv/elsewhere/again two || return 1
    for file in "$top"/build/packages/one/*.deb; do
        cmp "$file" "$top/build/packages/two/${file##*/}" || bad=1
    done
    return $bad
}

package_copy() {
    cp "$top"/build/packages/one/*.deb "$user/root/" && rm -f "$user"/root/*-dbgsym_*.deb
}

# Installs the packages with their dependencies, boots that system, and follows README.Debian there.
package_serve() {
    local status=0

    package_root "$user" && package_copy || return 1
    in_root "$user" bash -ec 'apt-get install -qq -y --no-install-recommends /root/*.deb curl openssl postgresql \
        redis-server systemd systemd-sysv dbus' || return 1
    rm "$user/usr/sbin/policy-rc.d"
    mkdir -p "$package_place/nothing"
    BOOT_ROOT=$user "$top/tests/boot/boot" "$package_place/nothing" "$top/debian/tests/serve" \
        "$top/build/package-serve.log" || status=$?
    cat "$top/build/package-serve.log"
    return "$status"
}

# An older package with the same content is upgraded to this one, which keeps what the administrator has changed; the
# packages are purged and leave only the data.
package_upgrade() {
    package_root "$user" && package_copy || return 1
    in_root "$user" bash -ec '
        cd /root
        dpkg-deb -R busbar_*.deb old
        sed -i "s/^Version: .*/Version: 0.8.0-1/" old/DEBIAN/control
        dpkg-deb -b old old.deb
        apt-get install -qq -y --no-install-recommends ./old.deb
        echo "# changed" >>/etc/busbar/busbar.yaml
        echo BUSBAR_REDIS= >/etc/busbar/environment
        touch /var/lib/busbar/document
        apt-get install -qq -y --no-install-recommends ./busbar_*.deb
        grep -q "^# changed" /etc/busbar/busbar.yaml
        [ "$(stat -c %U /var/lib/busbar)" = busbar ]
        busbar help >/dev/null
        apt-get purge -qq -y busbar
        [ ! -e /etc/busbar ] && [ ! -e /usr/bin/busbar ] && [ -e /var/lib/busbar/document ]'
}
