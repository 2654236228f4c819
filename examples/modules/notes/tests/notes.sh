#!/usr/bin/env bash
# Tests notes in a running host. `busbar module test` starts a host with the module, and runs each program in this
# directory with these variables:
#   BUSBAR_URL       http://127.0.0.1:PORT
#   BUSBAR_TOKEN     the token of an Admin; BUSBAR_TOKEN_USER, BUSBAR_TOKEN_BUYER and so on are of the other roles
#   BUSBAR_DATABASE  for psql "$BUSBAR_DATABASE"
set -euo pipefail
#: with route event bulk

# expect STATUS TEXT PATH [ARGUMENT OF CURL]...: makes a request with the token of an Admin or in `token`, and checks the
# status and a part of the response.
expect() {
    local said

    said=$(curl -sS -w ' %{http_code}' -H "Authorization: Bearer ${token:-$BUSBAR_TOKEN}" "${@:4}" "$BUSBAR_URL$3")
    [[ $said == *"$2"*" $1" ]] || {
        echo "$3: expected status $1 and $2, got: $said" >&2
        exit 1
    }
}
#: end
#: with event

expect 201 '"id":1' /api/chat/webhooks --json '{"url":"http://127.0.0.1:9/","events":["note.created"]}'
#: end
#: with route

expect 201 '{"id":1,"text":"one"}' /api/notes --json '{"text":"one"}'
expect 201 '{"id":2,"text":"two"}' /api/notes --json '{"text":"two"}'
expect 400 '"field":"text"' /api/notes --json '{"text":" "}'
expect 200 '[{"id":1,"text":"one"},{"id":2,"text":"two"}]' /api/notes
expect 200 'after=1>; rel="next"' '/api/notes?limit=1' -D -
expect 200 '[{"id":2,"text":"two"}]' '/api/notes?after=1'
token=$BUSBAR_TOKEN_USER expect 200 '[]' /api/notes
#: end
#: with setting

# tests/settings.yaml allows three notes
expect 201 '{"id":3,"text":"three"}' /api/notes --json '{"text":"three"}'
expect 409 'You have too many notes.' /api/notes --json '{"text":"four"}'
#: end
#: with event

expect 200 '"event":"note.created"' '/api/chat/webhooks/1/deliveries?event=note.created'
#: end
#: with bulk

printf 'text,from\na note from a file,me\n,nobody\n' |
    token=$BUSBAR_TOKEN_ORGANIZATION_ADMIN expect 201 '"failed":1' '/api/bulk-upload?type=notes' \
        -F 'file=@-;filename=notes.csv;type=text/csv'
#: end
#: with job

for run in first next; do
    psql -qX "$BUSBAR_DATABASE" -c "INSERT INTO notes_note (account, id, body, created_at)
        VALUES (1, nextval('notes_id'), 'old', now() - interval '2 years')"
    "$BUSBAR_PROGRAM" run-job notes.expire >/dev/null # otherwise it runs 5 s after the start, and then every hour
    for ((i = 0; i < 300; i++)); do
        left=$(psql -qXAt "$BUSBAR_DATABASE" -c "SELECT count(*) FROM notes_note WHERE body = 'old'")
        [ "$left" -gt 0 ] || break
        sleep 0.1
    done
    [ "$left" -eq 0 ] || {
        echo "the $run run of the job has not deleted the old note" >&2
        exit 1
    }
done
#: end
#: without route

psql -qX -v ON_ERROR_STOP=1 "$BUSBAR_DATABASE" -c "TABLE notes_note" >/dev/null # the schema is installed
#: end
