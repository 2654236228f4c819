# The linters of ./test, one function each, which prints nothing and returns 0 without findings. Sourced by ./test.

# The sources follow the checks and the layout of Debian 12's versions. Other versions report other things.
declare -A lint_versions=([cppcheck]=2.10 [tidy]=14 [format]=14)
declare -A lint_programs=([cppcheck]=cppcheck [tidy]=clang-tidy [format]=clang-format)

# lint_another CHECK: if the installed version is not the one that the sources follow, prints it and returns 0.
lint_another() {
    local wanted=${lint_versions[$1]:-} here

    [ "$wanted" ] || return 1
    here=$("${lint_programs[$1]}" --version | grep -oE '[0-9]+\.[0-9]+' | head -n 1)
    case $here in
    "$wanted" | "$wanted".*) return 1 ;;
    esac
    echo "${lint_programs[$1]} is $here, and the sources follow $wanted"
}

c_files() {
    (cd "$top" && find core modules tests -name '*.c' ! -path 'tests/specimens/*' \
        ! -path 'tests/witness/*' | LC_ALL=C sort)
}

lint_flags=(
    -std=gnu11
    -D_GNU_SOURCE
    -DHAVE_CONFIG_H
    -DBUSBAR_CONF='"busbar.yaml"'
    -DBUSBAR_MODULES='"modules"'
    -DCONSOLE_PAGES='"console"'
    -DDOCS_PAGES='"swagger"'
    -DTEST_CHAT='"chat.so"'
    -DTEST_TOP='"."'
    -DTEST_CONF='"conf"'
    -DTEST_EXAMPLES='"examples"'
    -DTEST_MODULES='"modules"'
    -DTEST_S3='"s3"'
    -DTEST_SMTP='"smtp"'
    -DTEST_SOURCES='"sources"'
    -DTEST_RECEIVER='"receiver"'
    -DTEST_RELAY='"relay.so"'
    -DTEST_TORTURE='"torture.so"'
    -DTEST_WITNESS='"witness.so"'
    -DWAVE=1
)

# The build without sanitizers, shared by the fault tests, the linters and the installation tests. ./start uses the same
# flags, so that other builds can begin with the objects of this one.
plain_flags="-O2 -g1 -fno-plt"
need_gcc() {
    build_also="tests/modules/module_crash.so tests/fault/torture.so" build gcc --enable-werror CC=gcc CFLAGS="$plain_flags"
}

# begin_with_gcc NAME: if build/NAME does not exist and build/gcc is complete, makes build/NAME a copy of it. Then
# build() compiles only the files that contain paths of the installation.
begin_with_gcc() {
    local from=$top/build/gcc to=$top/build/$1

    [ -e "$from/.built" ] && [ ! -e "$to/config.status" ] || return 0
    (take_build_lock && [ ! -e "$to/config.status" ] && rm -rf "$to" "$to.new" && mkdir "$to.new" &&
        tar -C "$from" --exclude=./root --exclude='./.*' --exclude='./*.tar.xz' -cf - . |
        tar -C "$to.new" -xf - && mv "$to.new" "$to")
}

lint_gcc() {
    (need_gcc)
}

# Sets `includes` to the directories of headers: of the tree, generated ones, of the tests and of the libraries.
lint_includes() {
    local libraries

    libraries=$(pkg-config --cflags-only-I libmicrohttpd jansson libpq libcrypto libcurl yaml-0.1 \
        hiredis libargon2 libutf8proc libidn2 libnats check)
    includes=(-I"$top/include" -I"$top" -I"$top/build/gcc" -I"$top/tests"
        -I"$top/tests/support" -I"$top/tests/unit/support")
    # shellcheck disable=SC2206 # words are wanted
    includes+=(${libraries//-I/-isystem })
}

# cppcheck does not know _Noreturn, and treats NULL as an int in calls for which POSIX requires a pointer. It needs the
# loops of sys/queue.h and jansson.h, and does not read system headers by itself.
lint_cppcheck() {
    choose_files
    printf '%s\n' "${chosen[@]}" | grep -v '^tests/' | (cd "$top" && cppcheck --quiet --std=c11 --language=c \
        --error-exitcode=1 --inline-suppr -j2 --file-list=- --enable=warning,performance,portability \
        --suppress=missingIncludeSystem --suppress='*:/usr/include/*' --suppress=varFuncNullUB -D_GNU_SOURCE -D__linux__ \
        '-D_Noreturn=__attribute__((noreturn))' "--include=/usr/include/$(gcc -print-multiarch)/sys/queue.h" \
        --include=/usr/include/jansson.h -I include -I . -I build/gcc)
}

# clang's warnings are errors here, so that no build with clang is needed. -Wreserved-identifier, unlike clang-tidy's
# check of this name, does not check all system headers.
lint_warnings=(-Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla
    -Wformat=2 -Wno-format-nonliteral -Wreserved-identifier)

# Prints C without its comments, except for those that switch checks off.
code_of() {
    sed -E 's,/[/*] *(NOLINT|cppcheck-suppress),NOLINT&,' | gcc -fpreprocessed -dD -E -P -x c - 2>/dev/null
}

# Prints the files of the product that include one of these headers, according to the preprocessor.
includers() { # HEADERS
    (cd "$top" && c_files | grep -v '^tests/' | xargs gcc -MM "${lint_flags[@]}" "${includes[@]}") |
        sed -e ':next' -e '/\\$/ { N; s/\\\n//; b next' -e '}' -e "s,$top/,,g" |
        awk -v headers="$1" '
            BEGIN { split(headers, list); for (i in list) changed[list[i]] = 1 }
            { for (i = 3; i <= NF; i++) if ($i in changed) { print $2; next } }'
}

# Sets `chosen`, once in a run, to the files that cppcheck and clang-tidy check. In `./test all` these are the files whose
# code the commits since $recent changed, the files of the product that include such a header of core/ or modules/, a
# file that includes such a header of tests/, and an eighth of the others. Each commit checks the next eighth, so eight
# commits check all files. Headers of include/ do not choose files, because most files include them. `./test lint`, and
# `./test all` without the history or after a change of .clang-tidy, check all files.
chosen=()
choose_files() {
    local changed file headers= names=" " before now eighth includes

    [ ${#chosen[@]} -eq 0 ] || return 0
    mapfile -t chosen < <(c_files)
    [ -n "${whole:-}" ] || return 0
    git -C "$top" diff --quiet "$recent" -- .clang-tidy tests/.clang-tidy 2>/dev/null || {
        say "lint: cppcheck and tidy check all files, because the checks have changed or the recent commits are unknown"
        return 0
    }
    changed=$(cd "$top" && git diff --name-only "$recent" -- core modules tests &&
        git ls-files -o --exclude-standard -- core modules tests) || return
    for file in $(grep '\.[ch]$' <<<"$changed"); do
        before=$(git -C "$top" show "$recent:$file" 2>/dev/null | code_of) &&
            now=$(code_of 2>/dev/null <"$top/$file") && [ -n "$now" ] && [ "$before" = "$now" ] && continue
        case $file in
        tests/*.h) names+="$(cd "$top" && grep -rlE --include='*.c' "#include \"([^\"]*/)?${file##*/}\"" tests | head -n 1) " ;;
        *.h) headers+=" $file" ;;
        *) names+="$file " ;;
        esac
    done
    lint_includes
    [ -z "$headers" ] || names+=$(includers "$headers" | tr '\n' ' ')
    eighth=$(($(git -C "$top" rev-list --count HEAD) % 8))
    say "lint: cppcheck and tidy check the files that changed after $(git -C "$top" rev-parse --short "$recent"), and" \
        "eighth $((eighth + 1)) of 8 of the others; ./test lint checks all"
    mapfile -t chosen < <(for file in "${chosen[@]}"; do
        now=$(cksum <<<"$file")
        [ $((${now%% *} % 8)) -ne "$eighth" ] && [[ $names != *" $file "* ]] || printf '%s\n' "$file"
    done)
}

# tidy_one FILE FLAG…: checks a file, unless it was clean before with the same headers of the tree and checks. The
# analyzer checks only the product.
tidy_one() {
    local file=$1 without= files sum output
    shift

    files=$(clang -MM "$@" "$file" | sed 's/^[^ ]*: //; s/\\$//' | xargs realpath --relative-to=.) || return 1
    # shellcheck disable=SC2086 # words are wanted
    sum=$cache/$(cat - $files <<<"$checks" | sha256sum | cut -c1-64)
    [ ! -e "$sum" ] || return 0
    [[ $file != tests/* ]] || without=-clang-analyzer-*
    output=$(clang-tidy --quiet --checks="$without" "$file" -- "$@" 2>&1) && : >"$sum" && return 0
    printf '%s\n' "$output"
    return 1
}

lint_tidy() {
    local includes checks cache=$top/build/tidy

    (need_gcc) || return 1
    choose_files
    lint_includes
    mkdir -p "$cache"
    checks=$(cd "$top" && cat .clang-tidy tests/.clang-tidy scripts/lint.sh && clang-tidy --version)
    export checks cache
    export -f tidy_one
    printf '%s\n' "${chosen[@]}" | (cd "$top" && xargs -P "$(nproc)" -I{} bash -c 'tidy_one "$@"' tidy {} \
        "${lint_flags[@]}" "${lint_warnings[@]}" "${includes[@]}")
}

lint_format() {
    (cd "$top" && find include core examples modules tests \( -name '*.[ch]' -o -name '*.cpp' \) \
        ! -path 'tests/witness/*' -print0 |
        xargs -0 clang-format --dry-run -Werror)
}

# Checks names in comments and documents, and the tables of docs/architecture.md, against the sources.
lint_folders() {
    (need_gcc) || return 1
    "$top/scripts/lint-names" && "$top/scripts/lint-folders" "$top/build/gcc"
}

# Checks that generated documents, the texts of the console, and the statements of the benchmarks match the sources.
lint_docs() {
    (need_gcc) || return 1
    "$top/scripts/lint-texts" || return 1
    "$top/scripts/make-man" --check "$top/build/gcc/root/bin/busbar" && "$top/bench/run" check
}

# Sets `promtool`. Debian's package prometheus needs 100 MB with its dependencies, so this function takes only promtool
# (48 MB) from the package, if it is not installed. Debian 13 has a separate package promtool.
need_promtool() {
    local place=$top/build/promtool package=promtool

    promtool=$(command -v promtool) && return 0
    promtool=$place/promtool
    [ ! -x "$promtool" ] || return 0
    mkdir -p "$place"
    apt-cache show promtool >/dev/null 2>&1 || package=prometheus
    (cd "$place" && apt-get -o APT::Sandbox::User=root download "$package" >/dev/null &&
        dpkg-deb --fsys-tarfile "$package"_*.deb | tar -x --strip-components=3 ./usr/bin/promtool
        rm -f "$package"_*.deb)
    [ -x "$promtool" ]
}

# Checks the alerts and the board against the metrics and the manual, and runs the tests of the alerts.
lint_alerts() {
    need_promtool && "$top/scripts/lint-alerts" "$promtool"
}

# Checks the size of the tree and its prose against limits that may only be lowered.
lint_house() {
    if [ ! -e "$top/.git" ]; then
        skip "lint: house: it reads the list of files from git, and this is no checkout"
        return 0
    fi
    (cd "$top" && scripts/house --check)
}

# Compares the module ABI with ABI 1.0.
lint_abi() {
    "$top/scripts/lint-abi" "$top/build/abi" >&2
}

# esbuild removes the types of the console without checking them.
lint_types() {
    local web=$top/modules/console/web

    [ "$web/node_modules/.package-lock.json" -nt "$web/package-lock.json" ] ||
        npm ci --prefix "$web" --ignore-scripts --no-audit --no-fund --loglevel=error >&2 || return 1
    (cd "$web" && npm run --silent types)
}

# Checks that the help of ./test names every part, has at most 40 lines and prints no error of the shell.
lint_help() {
    local text errors=$top/build/help.errors part

    text=$("$top/test" --help 2>"$errors") && [ ! -s "$errors" ] && [ "$(wc -l <<<"$text")" -le 40 ] || {
        say "./test --help fails, is longer than 40 lines or prints errors"
        return 1
    }
    for part in $(declare -F | sed -n 's/^declare -f part_//p'); do
        grep -q "^\(usage: \|       \)\./test $part\|^  $part " <<<"$text" || {
            say "./test --help does not name the part $part"
            return 1
        }
    done
}
