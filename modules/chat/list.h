/*
 * The parts of statements that select the conversations that a caller sees. The list of these
 * conversations (list.c) and the search in their messages (search.c) use them.
 *
 * Parameters: $1 to $3 the scope, $5 and $6 the last activity in microseconds (null: no previous
 * page) and the id of the previous page's last conversation, $7 the maximum rows. Filters, or null:
 * $4 id, $8 organization, $9 part of an e-mail, name or device name, $10 whether closed. The list
 * of an e-mail's conversations has the e-mail as $4 and no filters.
 */
#ifndef CHAT_LIST_H
#define CHAT_LIST_H

#include "modules/chat/chat.h"

#define MICROSECONDS(of) "(extract(epoch FROM " of ") * 1000000)::bigint"
#define LAST_AT MICROSECONDS("c.last_at")
#define MOMENT(us)                                                                                 \
    "coalesce('epoch'::timestamptz + " us "::bigint * interval '1 microsecond', 'infinity')"
#define SINCE MOMENT("$5")
#define LATEST_FIRST " ORDER BY c.last_at DESC, c.id DESC LIMIT $7::bigint"
#define BEHIND "(c.last_at, c.id) < (" SINCE ", $6::bigint) AND " CHAT_SEES
#define BRANCH(where)                                                                              \
    "(SELECT c.* FROM chat_conversation c WHERE " where                                            \
    " AND c.last_hour <= date_trunc('hour', " SINCE " AT TIME ZONE 'UTC') AND " BEHIND             \
    " ORDER BY c.last_hour DESC, c.last_at DESC, c.id DESC LIMIT $7::bigint)"

/*
 * Whether the caller gets a participant's name (n1 or n2, a row of account_name()). Only callers
 * that see everything get the name before the participant has written or read in the conversation;
 * otherwise everybody could learn the names of all accounts. Messages and reads before the approval
 * of the account do not count, because others could then write and read for the account's e-mail.
 */
#define NAMED(side)                                                                                \
    "($1::boolean OR (c.unread" side " < c.entries AND NOT c.withheld" side " AND n" side          \
    ".approved <= (SELECT d.created_at FROM chat_directory d WHERE d.id = c.id)))"
#define JOIN_NAME(side) " LEFT JOIN account_name(c.participant" side ") n" side " ON " NAMED(side)
#define NAME_HAS(side)                                                                             \
    "EXISTS (SELECT FROM account_name(c.participant" side ") n" side                               \
    " WHERE " NAMED(side) " AND position(lower($9::text) IN lower(n" side ".name)) > 0)"
#define HAS_NAME                                                                                   \
    "CASE WHEN $1::boolean THEN (SELECT account_named($9::text))"                                  \
    " && ARRAY[c.participant1, c.participant2] ELSE " NAME_HAS("1") " OR " NAME_HAS("2") " END"
#define FILTERS                                                                                    \
    "($4::bigint IS NULL OR c.id = $4::bigint)"                                                    \
    " AND ($8::bigint IS NULL OR c.organisation = $8::bigint)"                                     \
    " AND ($10::boolean IS NULL OR " CHAT_CLOSED " = $10::boolean)"                                \
    " AND ($9::text IS NULL OR position(lower($9::text) IN lower(concat_ws(' ', c.participant1,"   \
    " c.participant2, c.device_project_name))) > 0 OR " HAS_NAME ")"

/*
 * Items of FROM, in the order of enum chat_source. SOURCE_THEIRS finds the conversations of the
 * caller's organizations and e-mail in chat_directory.
 */
#define WANTED BEHIND " AND " FILTERS
#define SOURCE_ONE "(SELECT c.* FROM chat_conversation c WHERE c.id = $4::bigint AND " WANTED ") c"
#define SOURCE_MINE                                                                                \
    "(" BRANCH("c.participant1 = $3::text AND " FILTERS) " UNION ALL " BRANCH(                     \
        "c.participant2 = $3::text AND " FILTERS) ") c"
#define SOURCE_EVERY BRANCH(FILTERS) " c"
#define SOURCE_THEIRS                                                                              \
    "chat_conversation c JOIN (SELECT id FROM chat_directory"                                      \
    " WHERE organisation = ANY($2::bigint[]) UNION SELECT id FROM chat_directory"                  \
    " WHERE participant1 = $3::text UNION SELECT id FROM chat_directory"                           \
    " WHERE participant2 = $3::text) d ON d.id = c.id AND " WANTED
enum chat_source { CHAT_ONE, CHAT_MINE, CHAT_EVERY, CHAT_THEIRS };

/* Returns which source a statement needs. `one`: the request names a conversation's id. */
enum chat_source chat_source(struct bb_request *rq, const struct chat_scope *scope, bool one);

#endif
