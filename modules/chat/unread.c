/*
 * GET /api/chat/unread-count/:email and /api/chat/unread-devices/:email
 *
 * Both read only the conversations that have something unread for the e-mail, through partial
 * indexes; no message is looked at, so the length of a history does not matter.
 */
#include <string.h>

#include "chat.h"

/* Who asks for oneself sees all of it. bench/sql/unread_count.sql has the same text. */
static const struct bb_sql count_all = {
    "SELECT (SELECT coalesce(sum(unread1), 0) FROM chat_conversation"
    " WHERE participant1 = $1::text AND has_unread1)"
    " + (SELECT coalesce(sum(unread2), 0) FROM chat_conversation"
    " WHERE participant2 = $1::text AND has_unread2)",
    0,
};

static const struct bb_sql count_seen = {
    "SELECT (SELECT coalesce(sum(c.unread1), 0) FROM chat_conversation c"
    " WHERE c.participant1 = $4::text AND c.has_unread1 AND " CHAT_SEES ")"
    " + (SELECT coalesce(sum(c.unread2), 0) FROM chat_conversation c"
    " WHERE c.participant2 = $4::text AND c.has_unread2 AND " CHAT_SEES ")",
    0,
};

static const struct bb_sql devices_seen = {
    "SELECT d.device_project_name FROM ("
    "SELECT c.device_project_name, c.last_at FROM chat_conversation c"
    " WHERE c.participant1 = $4::text AND c.has_unread1 AND " CHAT_SEES
    " UNION ALL SELECT c.device_project_name, c.last_at FROM chat_conversation c"
    " WHERE c.participant2 = $4::text AND c.has_unread2 AND " CHAT_SEES
    ") d WHERE d.device_project_name IS NOT NULL"
    " GROUP BY d.device_project_name ORDER BY max(d.last_at) DESC, d.device_project_name",
    0,
};

int chat_unread_count(struct bb_request *rq)
{
    struct chat_scope scope = chat_scope(rq);
    const char *email = bb_segment(rq, "email");
    int refused = chat_acts_for(rq, &scope, email);

    if (refused)
        return refused;
    bool all = scope.all || strcmp(email, scope.own) == 0;
    const struct bb_rows *rows =
        all ? bb_query(rq, &count_all, BB_ARGS(bb_t(email)))
            : bb_query(rq, &count_seen, BB_ARGS(CHAT_SCOPE_ARGS(&scope), bb_t(email)));

    if (!rows)
        return bb_failed(rq);
    return chat_reply(rq, 200,
                      json_pack("{s:I}", "count", (json_int_t)bb_cell_int(rq, rows, 0, 0)));
}

int chat_unread_devices(struct bb_request *rq)
{
    struct chat_scope scope = chat_scope(rq);
    const char *email = bb_segment(rq, "email");
    int refused = chat_acts_for(rq, &scope, email);

    if (refused)
        return refused;
    const struct bb_rows *rows =
        bb_query(rq, &devices_seen, BB_ARGS(CHAT_SCOPE_ARGS(&scope), bb_t(email)));

    if (!rows)
        return bb_failed(rq);

    json_t *names = json_array();

    for (size_t row = 0; row < bb_count(rq, rows); row++)
        if (json_array_append_new(names, json_string(bb_cell(rq, rows, row, 0))) < 0) {
            json_decref(names);
            return chat_no_memory(rq);
        }
    return chat_reply(rq, 200, names);
}
