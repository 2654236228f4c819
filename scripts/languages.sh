# The tests of ./test install for modules in C++ and Rust. Sourced by ./test, after scripts/install.sh.

# Prints Debian's rustc, because its version is the oldest supported one, or another rustc if it is not installed.
rust_compiler() {
    local rustc=/usr/bin/rustc

    [ -x "$rustc" ] || rustc=rustc
    printf '%s\n' "$rustc"
}

# example NAME PROGRAM ARGUMENT…: builds and installs an example out of the tree, by its own
# makefile with these arguments, from the installed package alone.
example() {
    local name=$1 program=$2
    shift 2
    cp -r "$root/share/doc/busbar/examples/$name" "$work/$name" || return 1
    make -C "$work/$name" -s --no-print-directory "$program.so" install "$@" >"$work/$name.log" 2>&1 || {
        cat "$work/$name.log" >&2
        return 1
    }
    "$root/bin/busbar" modcheck "$work/$name/$program.so" &&
        cmp "$work/$name/$program.so" "$root/lib/busbar/modules/$program.so" &&
        "$root/bin/busbar" inspect --json "$work/$name/$program.so" |
        grep "\"path\": \"/api/$name\"" >/dev/null
}

cpp_specimen() { # NAME FLAG…
    local name=$1
    shift
    # shellcheck disable=SC2046 # words are wanted
    g++ -std=c++20 -fPIC -fvisibility=hidden -O1 -Wall -Wextra -Wno-missing-field-initializers -Werror \
        $(pkg-config --cflags busbar) -shared -Wl,--build-id=sha1 -o "$work/$name.so" \
        "$top/tests/specimens/clean.cpp" "$@" -ljansson
}

# modcheck must distinguish the compiler's data from the module's, also in a stripped file.
install_cpp() {
    local map=-Wl,--version-script=$top/examples/modules/visits-cpp/exports.map bad=0

    example visits-cpp visits_cpp CXX=g++ CXXFLAGS="-O2 -g -Wall -Wextra -Werror" || bad=1
    make -C "$work/visits-cpp" -s --no-print-directory clean visits_cpp.so CXX=clang++ \
        CXXFLAGS="-O2 -Wall -Wextra -Werror" &&
        "$root/bin/busbar" modcheck "$work/visits-cpp/visits_cpp.so" || bad=1
    finds_nothing cpp_specimen cpp-clean "$map" -DREFUSAL || bad=1
    finds_nothing cpp_specimen cpp-stripped "$map" -s || bad=1
    finds cpp_specimen cpp-exports "with a -Wl,--version-script" || bad=1
    finds cpp_specimen cpp-data "5callsE (.data, 4 bytes)" "$map" -DDATA || bad=1
    finds cpp_specimen cpp-thread "5depthE (.tdata, 4 bytes)" "$map" -DTHREAD || bad=1
    finds cpp_specimen cpp-constructor "has a constructor: _GLOBAL__sub_I" "$map" -DCONSTRUCTOR || bad=1
    return $bad
}

rust_specimen() { # NAME FLAG…
    local name=$1
    shift
    "$(rust_compiler)" --edition 2021 --crate-type cdylib -O -C link-arg=-Wl,--build-id=sha1 \
        -A unexpected_cfgs -A unknown_lints -o "$work/$name.so" "$top/tests/specimens/clean.rs" "$@"
}

# Checks that the structs in busbar.rs have the same layout as in the headers.
rust_layout() {
    local contract=$top/examples/modules/visits-rust/busbar.rs layout=$top/tests/specimens/layout

    # shellcheck disable=SC2046 # words are wanted
    "$layout" c "$contract" >"$work/layout.c" && "$layout" rust "$contract" >"$work/layout.rs" &&
        gcc $(pkg-config --cflags busbar) -o "$work/layout-c" "$work/layout.c" &&
        "$(rust_compiler)" --edition 2021 -A warnings -o "$work/layout-rust" "$work/layout.rs" &&
        diff <("$work/layout-c") <("$work/layout-rust") >&2 || {
        say "$contract differs from the headers (<: they have, >: it has)"
        return 1
    }
}

install_rust() {
    local bad=0

    example visits-rust visits_rust RUSTC="$(rust_compiler)" RUSTFLAGS="-O -D warnings" || bad=1
    rust_layout || bad=1
    finds_nothing rust_specimen rust-clean || bad=1
    finds rust_specimen rust-data "5CALLS" --cfg data || bad=1
    finds rust_specimen rust-thread "5DEPTH" --cfg thread || bad=1
    return $bad
}
