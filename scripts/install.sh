# The tests of ./test install, one function each, which returns 0 if the test passes. Sourced by ./test. All use the
# build `gcc` of the linters, installed into an empty prefix.

install_names="prefix headers modcheck specimens hello notes contacts cpp rust parts module dev service tls boot operating man completion
    reference sbom repeat dist"

# need_installed: installs into the empty prefix, once in a run.
installed=
need_installed() {
    [ -z "$installed" ] || return 0
    (need_gcc) || return 1
    root=$top/build/gcc/root
    rm -rf "$root"
    make -C "$top/build/gcc" -s --no-print-directory install >"$top/build/install.log" 2>&1 || {
        tail -20 "$top/build/install.log" >&2
        return 1
    }
    export PKG_CONFIG_PATH=$root/lib/pkgconfig
    work=$(mktemp -d "$top/build/install.XXXXXX") || return 1
    installed=yes
}

install_clean() {
    [ -z "${work:-}" ] || rm -rf "$work"
}

# Checks that the installed pages link only to installed pages.
doc_links_lead_on() {
    local page link bad=0

    for page in "$root"/share/doc/busbar/*.md; do
        for link in $(grep -o '](\([a-z-]*\.md\)' "$page" | cut -c3- | sort -u); do
            [ -s "$root/share/doc/busbar/$link" ] || {
                say "$(basename "$page") leads to $link, which make install has not installed"
                bad=1
            }
        done
    done
    return $bad
}

# Checks that all files of a package are installed, including each header in include/busbar and each module.
install_prefix() {
    local file missing=0

    for file in bin/busbar libexec/busbar/modcheck libexec/busbar/module lib/pkgconfig/busbar.pc lib/systemd/system/busbar.service \
        lib/sysusers.d/busbar.conf share/doc/busbar/modules.md \
        share/doc/busbar/examples/busbar.yaml share/doc/busbar/examples/hello/hello.c \
        share/bash-completion/completions/busbar share/man/man8/busbar.8 share/man/man5/busbar.yaml.5 share/man/man7/busbar-module.7 \
        $(cd "$top" && ls include/busbar/*.h*) $(cd "$top/sdk" && printf 'share/busbar/%s\n' rust/src/*.rs) \
        $(cd "$top/modules" && printf '%s\n' */module.c | sed 's,\(.*\)/.*,lib/busbar/modules/\1.so,'); do
        [ -s "$root/$file" ] || {
            say "make install has not installed $file"
            missing=1
        }
    done
    doc_links_lead_on && [ $missing -eq 0 ] && "$root/bin/busbar" -c "$root/share/doc/busbar/examples/minimal.yaml" check
}

# header COMPILER FLAG…: compiles each installed header separately.
header() {
    local file bad=0

    for file in "$root"/include/busbar/*.h; do
        # shellcheck disable=SC2046 # words are wanted
        printf '#include <busbar/%s>\n' "${file##*/}" | "$@" -Wall -Wextra -Wpedantic -Wconversion \
            -Wcast-qual -Werror -fsyntax-only $(pkg-config --cflags busbar) - >&2 || {
            say "${file##*/} alone does not compile: $*"
            bad=1
        }
    done
    return $bad
}

install_headers() {
    local bad=0

    header gcc -std=c11 -x c || bad=1
    header clang -std=c11 -x c || bad=1
    header g++ -std=c++20 -x c++ || bad=1
    header clang++ -std=c++20 -x c++ || bad=1
    return $bad
}

install_modcheck() {
    "$root/bin/busbar" modcheck "$root"/lib/busbar/modules/*.so
}

specimen() { # NAME FLAG…
    local name=$1
    shift
    # shellcheck disable=SC2046 # words are wanted
    gcc -std=gnu11 -fPIC -fvisibility=hidden -O1 $(pkg-config --cflags busbar) -shared \
        -Wl,--build-id=sha1 -o "$work/$name.so" "$top/tests/specimens/clean.c" "$@" -ljansson \
        2>"$work/$name.log" || {
        cat "$work/$name.log" >&2
        return 1
    }
}

# finds BUILDER NAME TEXT FLAG…: builds a module with a fault, and checks that modcheck reports this fault and no other,
# with TEXT.
finds() {
    local builder=$1 name=$2 text=$3 lines
    shift 3
    "$builder" "$name" "$@" || return 1
    lines=$("$root/bin/busbar" modcheck "$work/$name.so") && {
        say "modcheck finds nothing in $name"
        return 1
    }
    # one line, or one for each part into which the compiler splits the data
    [ "$lines" ] && ! grep -qvF -e "$text" <<<"$lines" || {
        say "modcheck says of $name:
$lines
and not: $text"
        return 1
    }
}

found() {
    finds specimen "$@"
}

finds_nothing() { # BUILDER NAME FLAG…
    local builder=$1 name=$2
    shift 2
    "$builder" "$name" "$@" && "$root/bin/busbar" modcheck "$work/$name.so" || {
        say "modcheck finds something in $name, which has no fault"
        return 1
    }
}

install_specimens() {
    local bad=0

    finds_nothing specimen clean || bad=1
    found exports "(helper)" -DEXPORTS || bad=1
    found data "writable data: calls (.data, 4 bytes)" -DDATA || bad=1
    found zeros "writable data: table (.bss, 4096 bytes)" -DZEROS || bad=1
    found zeros-stripped "writable data: 4128 bytes in .bss" -DZEROS -s || bad=1
    found writable "writable data: busbar_module" -DWRITABLE || bad=1
    found thread "thread-local storage: depth (.tbss, 4 bytes)" -DTHREAD || bad=1
    found thread-stripped "thread-local storage: 4 bytes in .tbss" -DTHREAD -s || bad=1
    found constructor "a constructor: early" -DCONSTRUCTOR || bad=1
    found constructor-stripped "a constructor: a function" -DCONSTRUCTOR -s || bad=1
    found destructor "a destructor: late" -DDESTRUCTOR || bad=1
    found ifunc "ifunc" -DIFUNC || bad=1
    found copy "OpenSSL's libcrypto (it defines OPENSSL_init_crypto)" -DCOPY || bad=1
    found stack "executable stack" -DSTACK || bad=1
    found textrel "relocations in its code" -DTEXTREL -Wl,-z,notext || bad=1
    found build-id "no build id" -Wl,--build-id=none || bad=1
    found sanitizer "libasan.so" -Wl,--no-as-needed -lasan || bad=1
    return $bad
}

# Checks that the tour shows hello.c without changes, except for the first comment.
tour_shows_hello() {
    diff <(sed '1d' "$top/examples/modules/hello/hello.c") \
        <(sed -n '/^```c$/,/^```$/{/^```/!p}' "$top/docs/tour.md") >&2 || {
        say "docs/tour.md shows another hello.c than examples/modules/hello has"
        return 1
    }
}

# Builds the installed example outside the tree with its own makefile, as a user of the package does.
install_hello() {
    cp -r "$root/share/doc/busbar/examples/hello" "$work/hello" || return 1
    make -C "$work/hello" -s --no-print-directory hello.so install \
        CFLAGS="-O2 -g -Wall -Wextra -Werror" && "$root/bin/busbar" modcheck "$work/hello/hello.so" &&
        cmp "$work/hello/hello.so" "$root/lib/busbar/modules/hello.so" &&
        [ "$(wc -l <"$work/hello/hello.c")" -le 60 ] &&
        "$root/bin/busbar" inspect --json "$work/hello/hello.so" |
        grep '"path": "/api/hello"' >/dev/null && tour_shows_hello
}

# Checks that docs/modules.md shows the whole code of its first module, and builds a module with all parts.
install_notes() {
    "$root/bin/busbar" module new "$work/first/notes" --with route,event,setting >/dev/null &&
        diff <(sed '1d; /^$/d' "$work/first/notes/notes.c") <(sed -n '/^## A first module/,/^## The tables/p' \
            "$top/docs/modules.md" | sed -n '/^```c$/,/^```$/{/^```/d; /^$/d; p}') >&2 || {
        say "docs/modules.md shows another notes.c than busbar module new writes"
        return 1
    }
    made c CFLAGS="-O2 -g -Wall -Wextra -Werror"
}

# Builds the example of docs/modules.md that adds a type to bulk uploads.
install_contacts() {
    example contacts contacts CFLAGS="-O2 -g -Wall -Wextra -Werror"
}

install_service() {
    local said

    said=$(systemd-analyze verify --man=no "$root/lib/systemd/system/busbar.service" 2>&1) &&
        [ -z "$said" ] || {
        printf '%s\n' "$said" >&2
        return 1
    }
}

# Prints what the two configurations of HAProxy have in common: everything except global and the frontends.
proxy_common() { # FILE
    sed '/^global/,/^defaults/d; /^frontend/,/^# Hosts that can serve/d; /^#/d' "$1"
}

# tls_curl NAME OPTION… PATH: requests a path from HAProxy, trusting only the certificate NAME.pem.
tls_curl() {
    local name=$1
    shift
    curl -s --max-time 10 --cacert "$work/tls/$name.pem" --resolve "busbar.test:$tls_port:127.0.0.1" "${@:1:$#-1}" \
        "https://busbar.test:$tls_port${*: -1}"
}

# expect TEXT COMMAND…: checks the output of a command.
expect() {
    local wanted=$1 said
    shift
    said=$("$@")
    [ "$said" = "$wanted" ] || {
        say "wanted '$wanted', got '$said': $*"
        return 1
    }
}

tls_certificate() { # NAME
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj "/CN=$1" \
        -addext subjectAltName=DNS:busbar.test -keyout "$work/tls/key" -out "$work/tls/$1.pem" 2>/dev/null &&
        cat "$work/tls/key" >>"$work/tls/$1.pem"
}

# The checks of install_tls, with a host and HAProxy running.
tls_checks() {
    local bad=0 quiet=(-o /dev/null -w '%{http_version} %{http_code}')

    expect "2 200" tls_curl one "${quiet[@]}" /api/health || bad=1
    expect "1.1 200" tls_curl one --http1.1 "${quiet[@]}" /api/health || bad=1
    expect "2 200" tls_curl one --tls-max 1.2 "${quiet[@]}" /api/health || bad=1
    # without SECLEVEL=0 curl itself refuses TLS 1.1
    expect "0 000" tls_curl one --tls-max 1.1 --ciphers DEFAULT@SECLEVEL=0 "${quiet[@]}" /api/health || bad=1
    expect "2 404" tls_curl one "${quiet[@]}" /nothing || bad=1
    tls_curl one -D - /nothing | tr -d '\r' | grep -qx 'strict-transport-security: max-age=31536000' || {
        say "a response has no Strict-Transport-Security"
        bad=1
    }
    expect "308 https://127.0.0.1:$plain_port/x" curl -s -o /dev/null -w '%{http_code} %{redirect_url}' \
        "http://127.0.0.1:$plain_port/x" || bad=1
    # metrics_networks has only 127.0.0.9, so the status shows which address the host sees
    expect "2 200" tls_curl one --interface 127.0.0.9 "${quiet[@]}" /metrics || bad=1
    expect "2 401" tls_curl one "${quiet[@]}" /metrics || bad=1
    expect "2 401" tls_curl one -H 'X-Forwarded-For: 127.0.0.9' "${quiet[@]}" /metrics || bad=1
    return $bad
}

# Loads another certificate with the commands of docs/operating.md.
tls_renew() {
    cp "$work/tls/two.pem" "$work/tls/busbar.pem"
    sed -n '/^### TLS/,/^### /p' "$top/docs/operating.md" | sed -n '/^```bash$/,/^```$/{/^```/!p}' |
        sed "s,=/etc/haproxy/,=$work/tls/,; s,=/run/haproxy/,=$work/tls/," >"$work/tls/renew"
    bash -e "$work/tls/renew" | grep '^Success!$' >/dev/null &&
        expect "2 200" tls_curl two -o /dev/null -w '%{http_version} %{http_code}' /api/health &&
        expect "0 000" tls_curl one -o /dev/null -w '%{http_version} %{http_code}' /api/health
}

# Tests conf/haproxy-tls.cfg with a real HAProxy and a host whose database is unavailable: versions of TLS and HTTP,
# HSTS, the client's address and a renewed certificate.
install_tls() {
    local status=0 tries=0 pids=() host_port tls_port plain_port

    diff <(proxy_common "$top/conf/haproxy.cfg") <(proxy_common "$top/conf/haproxy-tls.cfg") >&2 || {
        say "conf/haproxy.cfg and conf/haproxy-tls.cfg must have the same defaults and backends"
        return 1
    }
    mkdir -p "$work/tls"
    tls_certificate one && tls_certificate two && cp "$work/tls/one.pem" "$work/tls/busbar.pem" || return 1
    host_port=$(free_port) tls_port=$(free_port) plain_port=$(free_port)
    printf '%s\n' "http: {listen: '127.0.0.1:$host_port', trusted_proxies: [127.0.0.1], metrics_networks: [127.0.0.9]}" \
        "database: {url: 'host=$work/tls'}" "control: {socket: ''}" "secrets: {keys: ['$(openssl rand -hex 32)']}" \
        "modules: [auth, health, metrics]" >"$work/tls/busbar.yaml"
    "$root/bin/busbar" -c "$work/tls/busbar.yaml" serve >"$work/tls/host.log" 2>&1 &
    pids+=($!)
    BUSBAR_FRONT=127.0.0.1:$plain_port BUSBAR_TLS_FRONT=127.0.0.1:$tls_port BUSBAR_HOST1=127.0.0.1:$host_port \
        BUSBAR_HOST2=127.0.0.1:$host_port BUSBAR_CERTIFICATE=$work/tls/busbar.pem \
        BUSBAR_HAPROXY_SOCKET=$work/tls/busbar.sock \
        haproxy -db -dW -f "$top/conf/haproxy-tls.cfg" >"$work/tls/haproxy.log" 2>&1 &
    pids+=($!)
    until [ "$(tls_curl one /api/health)" = '{"status":"ok"}' ]; do
        tries=$((tries + 1))
        kill -0 "${pids[0]}" && kill -0 "${pids[1]}" && [ "$tries" -lt 1000 ] || {
            tail -n 20 "$work"/tls/*.log >&2
            status=1
            break
        }
        sleep 0.1
    done
    [ "$status" -ne 0 ] || { tls_checks && tls_renew; } || status=1
    kill "${pids[@]}"
    wait "${pids[@]}" 2>/dev/null
    return "$status"
}

# Makes a separate build with the paths of a package, installed below build/boot/root. Returns 77 if nothing can be
# booted here.
need_bootable() {
    "$top/tests/boot/boot" --check || return
    begin_with_gcc boot
    (export DESTDIR=$top/build/boot/root && build boot --prefix=/usr/local --sysconfdir=/etc \
        --localstatedir=/var --disable-tests CFLAGS="$plain_flags")
}

# Tests the unit with a real systemd. Skipped (77) if this machine cannot boot one in namespaces.
install_boot() {
    local line status=0

    need_bootable || return
    "$top/tests/boot/boot" "$top/build/boot/root" "$top/tests/boot/prove" "$top/build/boot.log" ||
        status=$?
    [ "$status" -eq 77 ] || cat "$top/build/boot.log" >&2
    while IFS= read -r line; do
        failures+=("install: boot: $line")
    done < <(grep -s '^DOES NOT HOLD: [^(]*$' "$top/build/boot.log")
    return "$status"
}

# Runs the commands of docs/operating.md without changes on a freshly booted system.
install_operating() {
    local status=0

    need_bootable || return
    "$top/tests/boot/boot" "$top/build/boot/root" "$top/tests/boot/operate" \
        "$top/build/operating.log" || status=$?
    [ "$status" -eq 77 ] || cat "$top/build/operating.log" >&2
    return "$status"
}

# Runs the commands of docs/operating.md in an empty Debian 12 with the tarball of a release.
install_empty() {
    rm -f "$top"/build/gcc/busbar-*.tar.xz
    make -C "$top/build/gcc" -s --no-print-directory dist >"$top/build/empty.log" 2>&1 || {
        tail -20 "$top/build/empty.log" >&2
        return 1
    }
    "$top/tests/boot/empty" "$top"/build/gcc/busbar-*.tar.xz >>"$top/build/empty.log" 2>&1 || {
        local status=$?

        tail -60 "$top/build/empty.log" >&2
        return "$status"
    }
}

install_man() {
    local page said

    "$top/scripts/make-man" --check "$root/bin/busbar" || return 1
    for page in "$root"/share/man/man[578]/busbar*; do
        said=$(LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z "$page" 2>&1 >/dev/null
            mandoc -Tlint -Wwarning "$page" 2>&1)
        [ -z "$said" ] || {
            printf '%s\n' "$said" >&2
            return 1
        }
    done
}

# completes WANTED WORD…: checks what bash offers for the last word.
completes() {
    local wanted=$1
    shift
    COMP_WORDS=(busbar "$@") COMP_CWORD=$#
    _busbar
    expect "$wanted" printf '%s\n' "$(printf '%s\n' "${COMPREPLY[@]}" | LC_ALL=C sort | paste -sd' ')"
}

# Checks the completion of bash, which scripts/make-man writes from the tables of commands.
install_completion() {
    local COMP_WORDS COMP_CWORD COMPREPLY bad=0

    . "$root/share/bash-completion/completions/busbar"
    completes "reference reload resume" re || bad=1
    completes "add" user "" || bad=1
    completes "--if-absent" user add --email a@b.c --i || bad=1
    completes "Admin ApiUser" user add --role A || bad=1
    completes "Admin ApiUser" user add --role = A || bad=1
    completes "--config --env-file --help --print" check -- || bad=1
    completes "check" -c file --env-file = file che || bad=1
    completes "" -c "" || bad=1 # the name of a file
    completes "" modcheck "" || bad=1
    completes "dev new test" module "" || bad=1
    completes "--lang" module new plants --l || bad=1
    completes "c cpp rust" module new plants --lang "" || bad=1
    return $bad
}

# Checks the bill of materials: it has the libraries that the program and the modules name, and all npm packages.
install_sbom() {
    local out=$work/sbom.json

    "$top/scripts/make-sbom" "$root" >"$out" && "$top/scripts/make-sbom" "$root" | cmp - "$out" &&
        readelf -d "$root/bin/busbar" "$root"/lib/busbar/modules/*.so | sed -n 's/.*NEEDED.*\[\(.*\)\.so.*/\1/p' |
        LC_ALL=C sort -u | python3 -c '
import json, pathlib, sys
document = json.load(open(sys.argv[1]))
ids = [package["SPDXID"] for package in document["packages"]]
debian = " ".join(package["name"] for package in document["packages"] if package["SPDXID"].startswith("SPDXRef-deb-"))
npm = {(package["name"], package["versionInfo"]) for package in document["packages"]}
bad = [] if len(ids) == len(set(ids)) else ["an id is used twice"]
for relation in document["relationships"]:
    bad += [end for end in (relation["spdxElementId"], relation["relatedSpdxElement"])
            if end not in [*ids, "SPDXRef-DOCUMENT"]]
others = {"libcrypto": "libssl", "libm": "libc6", "libc": "libc6", "ld-linux-x86-64": "libc6", "ld-linux-aarch64": "libc6",
          "libyaml-0": "libyaml", "libgcc_s": "libgcc-s1"}  # the last one is for the example in Rust
bad += [name for name in sys.stdin.read().split() if others.get(name, name) not in debian]
for lock in pathlib.Path(sys.argv[2]).glob("modules/*/web/package-lock.json"):
    for path, entry in json.loads(lock.read_text())["packages"].items():
        if path and (path.rsplit("node_modules/", 1)[1], entry["version"]) not in npm:
            bad.append(path)
sys.exit(f"the bill of materials is wrong: {bad}" if bad else 0)' "$out" "$top"
}

# Checks that the tarball is reproducible: unpacked, configured and made again in another directory, with another umask
# and at another time, it has the same bytes.
install_repeat() {
    local context=$top/build/boost-context log=$top/build/repeat.log at=$work/elsewhere/deeper
    local -x XZ_OPT=-0 # the best compression needs a minute more

    [ -e "$context/libboost_context.a" ] || context=
    mkdir -p "$at"
    rm -f "$top"/build/gcc/busbar-*.tar.xz
    make -C "$top/build/gcc" -s --no-print-directory dist >"$log" 2>&1 &&
        (umask 007 && cd "$at" && tar -xf "$top"/build/gcc/busbar-*.tar.xz && cd busbar-* && autoreconf -fi &&
            env -u PKG_CONFIG_PATH ./configure --quiet ${context:+--with-boost-context="$context"} &&
            make -s --no-print-directory dist) >>"$log" 2>&1 || {
        tail -n 20 "$log" >&2
        return 1
    }
    cmp "$top"/build/gcc/busbar-*.tar.xz "$at"/busbar-*/busbar-*.tar.xz >&2
}

# Checks `make docs`: its pages link only to each other, and its document describes every module that has routes.
install_reference() {
    local pages=$top/build/gcc/reference link module bad=0

    make -C "$top/build/gcc" -s --no-print-directory docs >&2 || return 1
    [ -s "$pages/openapi.yaml" ] || bad=1
    for module in "$top"/modules/*/module.c; do
        grep -q '\.routes = ' "$module" || continue
        [ "$module" != "$top/modules/console/module.c" ] || continue # it has only pages
        module=$(basename "$(dirname "$module")")
        grep -q "\"x-module\":\"$module\"" "$pages/openapi.json" || {
            say "the pages of make docs do not describe the module $module"
            bad=1
        }
    done
    [ -e "$top/modules/docs/web/dist/index.html" ] || {
        say "the page of the reference is not built (scripts/make-web): only its documents are tested"
        return $bad
    }
    for link in $(grep -oE '(src|href)="[^"]*"' "$pages/index.html" | cut -d'"' -f2); do
        [[ $link != /* && $link != *:* ]] && [ -s "$pages/$link" ] || {
            say "the page of make docs leads to $link, which is not in its directory"
            bad=1
        }
    done
    return $bad
}

# Files that autotools and `make dist` add to a tarball.
dist_made='^(MANIFEST|Makefile\.in|aclocal\.m4|config\.h\.in|configure|build-aux/[a-z0-9.-]*)$'

# Prints the files that git tracks, and the built pages.
dist_wanted() {
    (cd "$top" && git ls-files ':!debian' && find modules -path 'modules/*/web/dist/*' -type f)
}

# Returns 0 if install_dist has to run `make distcheck`, which takes a minute of processor time. In `./test all` this is
# for one commit of four, and if the commits since $recent changed the build.
needs_distcheck() {
    [ -z "${whole:-}" ] || [ $(($(commit_number) % 4)) -eq 0 ] ||
        ! git -C "$top" diff --quiet "$recent" -- configure.ac Makefile.am '*Makefile.inc' build-aux 2>/dev/null
}

# Checks that the tarball has exactly the files that git tracks and the built pages. With `make distcheck`, also checks
# that it builds from sources that cannot be written, passes the unit tests (make check), installs, and cleans up.
install_dist() {
    local tarball differ context=$top/build/boost-context target=distcheck
    local -x XZ_OPT=-0

    needs_distcheck || {
        target=dist
        say "install: dist: only make dist, because the build has not changed; ./test install dist runs make distcheck"
    }
    [ -e "$context/libboost_context.a" ] || context=
    rm -f "$top"/build/gcc/busbar-*.tar.xz
    env -u PKG_CONFIG_PATH make -C "$top/build/gcc" -s --no-print-directory $target \
        DISTCHECK_CONFIGURE_FLAGS="'CFLAGS=-O0 -w' ${context:+--with-boost-context=$context}" \
        >"$top/build/distcheck.log" 2>&1 || {
        tail -30 "$top/build/distcheck.log" >&2
        return 1
    }
    git -C "$top" rev-parse HEAD >/dev/null 2>&1 || return 0
    tarball=$(ls "$top"/build/gcc/busbar-*.tar.xz)
    differ=$(diff <(dist_wanted | grep -vE "$dist_made" | LC_ALL=C sort) \
        <(tar -tf "$tarball" | grep -v '/$' | cut -d/ -f2- | grep -vE "$dist_made" |
            LC_ALL=C sort)) || {
        say "the tarball differs from what git tracks and the pages built (<: is missing, >: is too much):
$differ"
        return 1
    }
}
