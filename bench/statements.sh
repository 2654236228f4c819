# Ensures that pgbench, the peer and the host send the same statements. bench/sql has the only copy of chat's
# statements. The functions below derive the host's text from this copy, look for it in the module's sources, give it to
# the peer, and after a run compare it with the statements that PostgreSQL received. For readings it is the other way
# round: pgbench's expressions replace the parameters of the module's statements. Sourced by bench/run.

# statement NAME: prints the statement of bench/sql/NAME.sql as the host sends it, with parameters instead of pgbench's
# expressions.
statement() {
    local email="'u' || :n || '@bench.test'" mail_parameter='$1::text'
    local text uuid="('00000000-0000-7000-8000-' || lpad(to_hex(:uuid::bigint), 12, '0'))::uuid"
    local entry="'The inverter reports 4,812 kWh for March; is that plausible for this site?'"

    [ "$1" = unread_count ] || mail_parameter='$3::text'
    text=$(grep -v -e '^--' -e '^\\' -e '^BEGIN;$' -e '^COMMIT;$' "$top/bench/sql/$1.sql")
    text=${text%;}
    text=${text//"$email"/$mail_parameter}
    text=${text//"$uuid"/'$2::uuid'}
    text=${text//"date_trunc('milliseconds', now())"/'$5::timestamptz'}
    text=${text//"now()"/'$5::timestamptz'}
    text=${text//"$entry"/'$4::text'}
    printf '%s\n' "${text//":id::bigint"/'$1::bigint'}"
}

# module_statement FILE NAME: prints the text for one request of `struct bb_keyed NAME` in a module's source, after
# preprocessing.
module_statement() {
    "${CC:-cc}" -E -P -I"$top" -I"$top/include" "$top/modules/$1" | tr -d '\n' |
        sed -e 's/\\"/\x01/g' -e 's/" *"//g' -e "s/.*struct bb_keyed $2 = { *{ *\"//" -e 's/",.*//' \
            -e 's/\x01/"/g'
}

# reading_statement NAME: prints a statement of modules/reading/store.c for one Delta reading, with pgbench's
# expressions instead of parameters.
reading_statement() {
    local text now='(extract(epoch FROM now()) * 1000)::bigint' i

    text=$(module_statement reading/store.c "$1")
    if [ "$1" = touch ]; then
        for i in 10 7 8 9; do text=${text//"\$$i::bigint"/null::bigint}; done
        text=${text//'$2::bigint'/"$now"}
        for i in 3 5; do text=${text//"\$$i::bigint"/'(:s::bigint + 60000)'}; done
        text=${text//'$4'/':s'} text=${text//'$6'/'10'}
    else
        for i in 4 8; do text=${text//"\$$i::bigint[]"/'ARRAY[:s::bigint + 60000]'}; done
        for i in 3 7; do text=${text//"\$$i::bigint[]"/'ARRAY[:s::bigint]'}; done
        text=${text//'$5::bigint[]'/'ARRAY[10]::bigint[]'}
        text=${text//'$6::bigint'/"$now"} text=${text//'$2'/"'D'"}
    fi
    printf '%s;\n' "${text//'$1'/':d'}"
}

check_reading() {
    local name bad=0

    for name in touch store; do
        grep -qxF -- "$(reading_statement "$name")" "$top/bench/sql/reading.sql" || {
            say "bench/sql/reading.sql differs from the statement that modules/reading sends, which is:
$(reading_statement "$name")"
            bad=1
        }
    done
    return "$bad"
}

# check_chat NAME FILE KEYED: fails unless the module's statement is the one of bench/sql/NAME.sql.
check_chat() {
    [ "$(statement "$1")" = "$(module_statement "$2" "$3")" ] || {
        say "bench/sql/$1.sql differs from the statement that modules/chat sends, which is:
$(module_statement "$2" "$3")"
        return 1
    }
}

check_statements() {
    local bad=0

    check_reading || bad=1
    check_chat unread_count chat/unread.c count_own || bad=1
    check_chat post chat/post.c add_message || bad=1
    return "$bad"
}

# statement_of_many NAME: prints the same statement over arrays (struct bb_keyed), which is the next literal in the
# preprocessed source.
statement_of_many() {
    local source=$top/modules/chat/${1%_count}.c text # unread_count is in unread.c

    text=$("${CC:-cc}" -E -P -I"$top" -I"$top/include" "$source" | tr -d '\n' | sed 's/" *"//g')
    text=${text#*"\"$(statement "$1")\""}
    text=${text#*\{\"}
    printf '%s\n' "${text%%\"*}"
}

# log_statements all|none: enables or disables PostgreSQL's log of all statements.
log_statements() {
    "$pg/psql" -X -q -h "$run" -U postgres -c "ALTER SYSTEM SET log_statement = '$1'" \
        -c 'SELECT pg_reload_conf()' >"$work/output" ||
        die "log_statement could not be changed"
}

# check_sent NAME PORT: repeats the load for a second right after a run, and fails unless PostgreSQL received this
# statement, either for one request or over arrays.
check_sent() {
    local log=$var/log/postgres.log before

    before=$(stat -c %s "$log")
    log_statements all
    tokens=$work/tokens wrk_figures "$1" -t1 -c8 -d1 "http://127.0.0.1:$2"
    log_statements none
    tail -c +$((before + 1)) "$log" | grep "LOG:  execute" >"$work/sent" || true
    truncate -s "$before" "$log"
    grep -qF -e "$(statement "$1")" -e "$(statement_of_many "$1")" "$work/sent" ||
        die "the host did not send bench/sql/$1.sql; what it sent:
$(sed 's/.*execute [^:]*: //' "$work/sent" | sort | uniq -c | sort -rn | head -5)"
}
