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

# made LANGUAGE ARGUMENT…: writes a module with all parts, and builds and installs it by its makefile with these arguments,
# from the installed package alone.
made() {
    local at=$work/$1/notes

    "$root/bin/busbar" module new "$at" --lang "$1" --with route,event,job,setting,bulk >"$work/$1.log" 2>&1 &&
        make -C "$at" -s --no-print-directory notes.so install DESTDIR="$work/$1" "${@:2}" >>"$work/$1.log" 2>&1 || {
        cat "$work/$1.log" >&2
        return 1
    }
    "$root/bin/busbar" modcheck "$at/notes.so" && cmp "$at/notes.so" "$work/$1$root/lib/busbar/modules/notes.so" &&
        "$root/bin/busbar" inspect --json "$at/notes.so" | grep '"path": "/api/notes"' >/dev/null
}

# modcheck must distinguish the compiler's data from the module's, also in a stripped file.
install_cpp() {
    local map=-Wl,--version-script=$top/examples/modules/notes-cpp/exports.map bad=0

    made cpp CXX=g++ CXXFLAGS="-O2 -g -Wall -Wextra -Werror" || bad=1
    make -C "$work/cpp/notes" -s --no-print-directory clean notes.so CXX=clang++ CXXFLAGS="-O2 -Wall -Wextra -Werror" &&
        "$root/bin/busbar" modcheck "$work/cpp/notes/notes.so" || bad=1
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

# Checks that the structs in abi.rs have the same layout as in the headers.
rust_layout() {
    local contract=$top/sdk/rust/src/abi.rs layout=$top/tests/specimens/layout

    # shellcheck disable=SC2046 # words are wanted
    "$layout" c "$contract" >"$work/layout.c" && "$layout" rust "$contract" >"$work/layout.rs" &&
        gcc $(pkg-config --cflags busbar) -o "$work/layout-c" "$work/layout.c" &&
        "$(rust_compiler)" --edition 2021 -A warnings -o "$work/layout-rust" "$work/layout.rs" &&
        diff <("$work/layout-c") <("$work/layout-rust") >&2 || {
        say "$contract differs from the headers (< headers, > $contract)"
        return 1
    }
}

install_rust() {
    local bad=0

    made rust RUSTC="$(rust_compiler)" RUSTFLAGS="-O -D warnings" || bad=1
    ! grep -n unsafe "$work/rust/notes/notes.rs" | grep -vxF '2:#![forbid(unsafe_code)]' >&2 || bad=1
    rust_layout || bad=1
    finds_nothing rust_specimen rust-clean || bad=1
    finds rust_specimen rust-data "5CALLS" --cfg data || bad=1
    finds rust_specimen rust-thread "5DEPTH" --cfg thread || bad=1
    return $bad
}

# Checks that modules with every choice of parts compile without warnings.
install_parts() {
    local names=(route event job setting bulk) number at parts name library bad=0

    for number in {0..31}; do
        parts=table
        for at in {0..4}; do
            ((!(number >> at & 1))) || parts+=,${names[at]}
        done
        # shellcheck disable=SC2046 # words are wanted
        "$root/bin/busbar" module new "$work/parts/$number/plants" --with "$parts" >/dev/null &&
            gcc -std=gnu11 -Wall -Wextra -Werror -fsyntax-only $(pkg-config --cflags busbar) \
                "$work/parts/$number/plants/plants.c" && bash -n "$work/parts/$number/plants/tests/plants.sh" || {
            say "a module with $parts does not compile"
            bad=1
        }
    done
    [ -e "$work/rust/notes" ] || made rust RUSTC="$(rust_compiler)" || return 1
    library=$(echo "$work"/rust/notes/build/*/libbusbar.rlib)
    for name in table "${names[@]}"; do
        "$root/bin/busbar" module new "$work/parts/cpp/a_$name" --lang cpp --with "$name" >/dev/null &&
            make -s --no-print-directory -C "$work/parts/cpp/a_$name" CXXFLAGS="-Wall -Wextra -Werror -fsyntax-only" >&2 &&
            "$root/bin/busbar" module new "$work/parts/rust/a_$name" --lang rust --with "$name" >/dev/null &&
            make -s --no-print-directory -C "$work/parts/rust/a_$name" RUSTC="$(rust_compiler)" RUSTFLAGS="-D warnings" \
                library="$library" >&2 || {
            say "a module in C++ or Rust with $name does not compile"
            bad=1
        }
    done
    return $bad
}

# tested STATUS TEXT DIRECTORY: runs `busbar module test`, and checks its status and a part of its output.
tested() {
    local said status=0

    said=$("$root/bin/busbar" module test "$3" 2>&1) || status=$?
    [ "$status" = "$1" ] && grep -qF -e "$2" <<<"$said" || {
        say "busbar module test $3 has the status $status, and not '$2':
$said"
        return 1
    }
}

# Tests the modules of the languages with their own tests on private hosts, and modules and tests with faults.
install_module() {
    local at=$work/c/notes language bad=0

    for language in c cpp rust; do
        [ -e "$work/$language/notes" ] || made "$language" CXX=g++ RUSTC="$(rust_compiler)" || return 1
        RUSTC=$(rust_compiler) tested 0 "1 passed, 0 failed" "$work/$language/notes" || bad=1
    done
    printf '%s\n' '#include "../notes.c"' '#include <check.h>' 'START_TEST(descriptor)' '{' \
        '    ck_assert_int_eq(routes[0].success, EXPECTED);' '}' 'END_TEST' 'int main(void)' '{' \
        '    Suite *suite = suite_create("descriptor");' '    TCase *tests = tcase_create("descriptor");' \
        '    SRunner *runner = srunner_create(suite);' '    suite_add_tcase(suite, tests);' \
        '    tcase_add_test(tests, descriptor);' '    srunner_run_all(runner, CK_NORMAL);' \
        '    return srunner_ntests_failed(runner);' '}' >"$at/tests/descriptor.c"
    rm "$at/tests/notes.sh" # it takes seconds
    sed -i 's/EXPECTED/201/' "$at/tests/descriptor.c"
    tested 0 "ok     tests/descriptor.c" "$at" || bad=1
    sed -i 's/201/200/' "$at/tests/descriptor.c"
    tested 1 "FAILED tests/descriptor.c" "$at" || bad=1
    rm "$at/tests/descriptor.c"
    tested 1 "has no programs" "$at" || bad=1
    printf '%s\n' '#!/bin/sh' 'curl -s -H "Authorization: Bearer $BUSBAR_TOKEN" "$BUSBAR_URL/api/notes"' >"$at/tests/crash"
    chmod 755 "$at/tests/crash"
    sed -i 's/^static int list(/static int calls;\n&/; s/^    int64_t limit = /    calls++;\n&/' "$at/notes.c"
    tested 1 "writable data: calls" "$at" || bad=1
    sed -i 's/^static int calls;//; s/^    calls++;/    abort();/' "$at/notes.c"
    tested 1 "  notes.c:$(grep -n 'abort()' "$at/notes.c" | cut -d: -f1)  in list+" "$at" || bad=1
    sed -i 's/^static int list(/static int list((/' "$at/notes.c"
    tested 1 "notes.c:$(grep -n '^static int list((' "$at/notes.c" | cut -d: -f1):" "$at" || bad=1
    return $bad
}

# Tests `busbar module dev` with modules in C and Rust.
install_dev() {
    local language bad=0

    for language in c rust; do
        "$root/bin/busbar" module new "$work/dev-$language/notes" --lang "$language" --with route >/dev/null &&
            RUSTC=$(rust_compiler) "$top/tests/start/module_dev" "$root/bin/busbar" "$work/dev-$language/notes" >&2 || bad=1
    done
    return $bad
}
