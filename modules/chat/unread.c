/*
 * GET /api/chat/unread-count/:email and /api/chat/unread-devices/:email
 *
 * Both routes add stored totals (schema.sql, step 1) and the changes since then. So the cost does
 * not depend on the number of messages or conversations. A caller that names another e-mail also
 * sees the conversations between this e-mail and the caller's. Up to PAIRED of these are read. If
 * there are more than FEW_PAIRED, a second statement, which has BB_SQL_LIST, reads them.
 */
#include <string.h>

#include "modules/chat/chat.h"

#define PAIRED "5000"
#define FEW_PAIRED 100
#define BEYOND_FEW "101"
#define NAMES "1000"

/* The caller's own count. bench/sql/unread_count.sql has the same text. */
#define COUNT_OWN(email)                                                                           \
    "SELECT greatest(sum(messages), 0)::bigint FROM ("                                             \
    "SELECT messages FROM chat_unread WHERE email = " email " AND NOT withheld"                    \
    " UNION ALL SELECT messages FROM chat_unread_change WHERE email = " email " AND NOT withheld"  \
    ") u"
static const struct bb_keyed count_own = {
    {COUNT_OWN("$1::text"), BB_SQL_KEYED},
    {"SELECT (" COUNT_OWN("k.email") "), k.i FROM " BB_KEYS_1("text") " k(email, i)", 0},
};

/*
 * k has a row for each request: whether the caller sees everything, its organizations, its own
 * e-mail, and the e-mail in the request. ONE makes k from the parameters of one request, MANY from
 * arrays for several requests (bb_keyed), so that each statement is written once.
 */
#define ONE                                                                                        \
    "SELECT a.* FROM (SELECT $1::boolean AS everything, $2::bigint[] AS organisations,"            \
    " $3::text AS own, $4::text AS email) k"
#define CALLERS BB_KEYS_4("boolean", "text", "text", "text")
#define MANY                                                                                       \
    "SELECT a.*, k.i FROM (SELECT everything, organisations::bigint[], own, email, i"              \
    " FROM " CALLERS " k(everything, organisations, own, email, i) OFFSET 0) k"
#define KEYED(statement)                                                                           \
    {                                                                                              \
        {ONE " CROSS JOIN LATERAL (" statement ") a", BB_SQL_KEYED},                               \
            {MANY " CROSS JOIN LATERAL (" statement ") a", 0},                                     \
    }

/* Whether the caller may see `u`, a stored total of the e-mail. */
#define SEEN                                                                                       \
    "u.email = k.email AND (k.everything OR u.organisation = ANY(k.organisations)"                 \
    " OR k.own = k.email AND NOT u.withheld)"
#define OF_PAIR(side, other)                                                                       \
    "SELECT d.id FROM chat_directory d WHERE NOT k.everything AND k.own <> k.email"                \
    " AND d.participant" side " = k.email AND d.participant" other " = k.own"                      \
    " AND NOT d.withheld" other " AND coalesce(d.organisation <> ALL(k.organisations), true)"
#define OF_PAIRS OF_PAIR("1", "2") " UNION ALL " OF_PAIR("2", "1")
#define WITH_CALLER(paired)                                                                        \
    "SELECT CASE WHEN c.participant1 = k.email THEN c.unread1 ELSE c.unread2 END AS messages,"     \
    " c.device_project_name AS name, c.last_at AS at FROM (SELECT id FROM (" OF_PAIRS ") d"        \
    " LIMIT " paired ") d JOIN chat_conversation c ON c.id = d.id"

/* Counts the unread messages, and the conversations in which caller and e-mail both take part. */
#define COUNT_SEEN(paired)                                                                         \
    "SELECT greatest(sum(messages), 0)::bigint, count(*) FILTER (WHERE both_take_part) FROM ("     \
    "SELECT messages, false AS both_take_part FROM chat_unread u WHERE " SEEN                      \
    " UNION ALL SELECT messages, false FROM chat_unread_change u WHERE " SEEN                      \
    " UNION ALL SELECT messages, true FROM (" WITH_CALLER(paired) ") c) u"

static const struct bb_keyed count_seen = KEYED(COUNT_SEEN(BEYOND_FEW));
static const struct bb_sql count_many = {ONE " CROSS JOIN LATERAL (" COUNT_SEEN(PAIRED) ") a",
                                         BB_SQL_LIST};

/*
 * From the stored totals, OF_ACCOUNT selects up to NAMES device names with the latest messages, and
 * OF_ORGANIZATIONS up to NAMES of each organization. DEVICES adds all names in chat_unread_change.
 */
#define TOTAL "u.organisation, u.withheld, u.name, u.messages, u.last_at"
#define LATEST " ORDER BY u.last_at DESC LIMIT " NAMES
#define OF_ORGANIZATIONS                                                                           \
    "(SELECT n.* FROM unnest(k.organisations) o CROSS JOIN LATERAL (SELECT " TOTAL                 \
    " FROM chat_unread_name u WHERE u.email = k.email AND u.organisation = o" LATEST ") n)"
#define OF_ACCOUNT "(SELECT " TOTAL " FROM chat_unread_name u WHERE " SEEN LATEST ")"
#define OF_CHANGED                                                                                 \
    "SELECT " TOTAL " FROM chat_unread_change x JOIN chat_unread_name u"                           \
    " USING (email, organisation, withheld, name) WHERE " SEEN
#define CHANGED                                                                                    \
    "SELECT u.name, u.messages, CASE WHEN u.messages > 0 THEN u.at END FROM chat_unread_change u"  \
    " WHERE " SEEN " AND u.name IS NOT NULL"
#define ALL_WITH_CALLER WITH_CALLER(PAIRED)
#define DEVICES(totals)                                                                            \
    "SELECT n.name FROM (SELECT t.name, t.messages, t.last_at FROM (" totals " UNION " OF_CHANGED  \
    ") t UNION ALL " CHANGED " UNION ALL SELECT c.name, c.messages, c.at FROM (" ALL_WITH_CALLER   \
    ") c"                                                                                          \
    " WHERE c.messages > 0 AND c.name IS NOT NULL) n (name, messages, at)"                         \
    " GROUP BY n.name HAVING sum(n.messages) > 0 ORDER BY max(n.at) DESC NULLS LAST, n.name"       \
    " LIMIT " NAMES

static const struct bb_keyed devices_of_account = KEYED(DEVICES(OF_ACCOUNT));
static const struct bb_sql devices_of_another = {
    ONE " CROSS JOIN LATERAL (" DEVICES(OF_ORGANIZATIONS) ") a", BB_SQL_LIST};

int chat_unread_count(struct bb_request *rq)
{
    struct chat_scope scope = chat_scope(rq);
    const char *email = bb_segment(rq, "email");
    bool own = !scope.all && !scope.speaks && strcmp(email, scope.own) == 0;
    const struct bb_value values[] = {CHAT_SCOPE_ARGS(&scope), bb_t(email)};
    const struct bb_rows *rows = own ? bb_query_or_end(rq, &count_own.one, values + 3, 1)
                                     : bb_query_or_end(rq, &count_seen.one, values, 4);

    if (!own && bb_cell_int(rq, rows, 0, 1) > FEW_PAIRED)
        rows = bb_query_or_end(rq, &count_many, values, 4);
    return bb_reply(rq, 200, json_pack("{s:I}", "count", (json_int_t)bb_cell_int(rq, rows, 0, 0)));
}

static json_t *unread_name(struct bb_request *rq, const struct bb_rows *rows, size_t row)
{
    return json_string(bb_cell(rq, rows, row, 0));
}

int chat_unread_devices(struct bb_request *rq)
{
    struct chat_scope scope = chat_scope(rq);
    const char *email = bb_segment(rq, "email");
    const struct bb_sql *sql =
        chat_asks_for_another(&scope, email) ? &devices_of_another : &devices_of_account.one;
    const struct bb_rows *rows =
        bb_query_or_end(rq, sql, BB_ARGS(CHAT_SCOPE_ARGS(&scope), bb_t(email)));

    return bb_reply_page(rq, rows, bb_count(rq, rows), NULL, unread_name);
}

/* ---- the job `unread` ---- */

enum { PIECE = 5000 /* changes at a time */, PIECES = 32 /* per run */ };

/*
 * Adds the changes of an e-mail to its totals if the oldest change is a minute old, or if there are
 * 64 changes. So no e-mail has many changes for long.
 */
static const struct bb_sql add_up = {
    "WITH due AS (SELECT email FROM chat_unread_change GROUP BY email"
    " HAVING count(*) >= 64 OR min(at) < now() - interval '1 minute'"
    "), gone AS (DELETE FROM chat_unread_change WHERE ctid = ANY(ARRAY("
    "SELECT ctid FROM chat_unread_change WHERE email IN (SELECT email FROM due)"
    " LIMIT $1::bigint)) RETURNING *"
    "), totals AS (INSERT INTO chat_unread AS u"
    " SELECT email, organisation, withheld, sum(messages) FROM gone GROUP BY 1, 2, 3"
    " ON CONFLICT (email, organisation, withheld)"
    " DO UPDATE SET messages = u.messages + excluded.messages"
    "), names AS (INSERT INTO chat_unread_name AS u"
    " SELECT email, organisation, withheld, name, sum(messages),"
    " coalesce(max(at) FILTER (WHERE messages > 0), '-infinity')"
    " FROM gone WHERE name IS NOT NULL GROUP BY 1, 2, 3, 4"
    " ON CONFLICT (email, organisation, withheld, name) DO UPDATE"
    " SET messages = u.messages + excluded.messages,"
    " last_at = greatest(u.last_at, excluded.last_at)"
    ") SELECT count(*) FROM gone",
    BB_SQL_WRITE | BB_SQL_LONG,
};

static const struct bb_sql drop_names = {
    "DELETE FROM chat_unread_name WHERE ctid = ANY(ARRAY("
    "SELECT ctid FROM chat_unread_name WHERE messages = 0 LIMIT $1::bigint))",
    BB_SQL_WRITE | BB_SQL_LONG,
};

/* Adds changes to their totals. Returns 1 if there may be more, 0 if not, or -1 on failure. */
static int unread_add_piece(struct bb_request *rq, void *arg)
{
    const struct bb_rows *rows = bb_query(rq, &add_up, BB_ARGS(bb_i(PIECE)));
    int64_t added = rows ? bb_cell_int(rq, rows, 0, 0) : 0;

    (void)arg;
    if (!rows || (added > 0 && !bb_query(rq, &drop_names, BB_ARGS(bb_i(PIECE)))))
        return -1;
    return added == PIECE;
}

void chat_add_up(struct bb_request *rq)
{
    int more = 1;

    for (int pieces = 0; pieces < PIECES && more > 0; pieces++)
        more = bb_scratch(rq, unread_add_piece, NULL);
    if (more < 0)
        bb_log(rq, BB_WARN, "cannot add up unread messages: %s",
               *bb_sqlstate(rq) ? bb_sqlstate(rq) : "PostgreSQL has not responded");
}
