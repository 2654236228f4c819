# The part `package` of ./test: builds the Debian packages in a minimal Debian 12 (or BUSBAR_DEBIAN), checks
# them with lintian, and installs, upgrades and purges them there. Sourced by ./test after debian.sh. The packages are in
# build/packages.
package_names="build lintian repeat serve upgrade image"

# Two file systems: one for the build, one for a user of the packages.
package_suite=${BUSBAR_DEBIAN:-bookworm}
builder=$debian_place/package-builder user=$debian_place/package-user

# Makes ROOT a minimal Debian in which packages can be installed.
package_root() { # ROOT
    debian_root "$package_suite" "$1" && no_services "$1" && in_root "$1" apt-get update -qq
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

# Checks that the same sources, built later in another directory, result in the same packages.
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
    mkdir -p "$debian_place/nothing"
    BOOT_ROOT=$user "$top/tests/boot/boot" "$debian_place/nothing" "$top/debian/tests/serve" \
        "$top/build/package-serve.log" || status=$?
    cat "$top/build/package-serve.log"
    return "$status"
}

# Upgrades an older package with the same content to this one, which keeps the administrator's changes. Then purges the
# packages, which leaves only the data.
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
