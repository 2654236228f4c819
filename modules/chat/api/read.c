/*
 * PATCH /api/chat/conversations/:id/read
 *
 * This is a keyed unit rather than a query, because it may wait for the row lock of a post. So it
 * takes the same connection as posts to this conversation, instead of delaying other reads.
 */
#include "modules/chat/api/api.h"

/* Updates no row if nothing is unread, so then nothing is written. */
static const struct bb_sql mark_read = {
    "UPDATE chat_conversation SET"
    " unread1 = CASE WHEN participant1 = $2::text THEN 0 ELSE unread1 END,"
    " unread2 = CASE WHEN participant2 = $2::text THEN 0 ELSE unread2 END"
    " WHERE id = $1::bigint AND ((participant1 = $2::text AND unread1 > 0)"
    " OR (participant2 = $2::text AND unread2 > 0))",
    BB_SQL_WRITE,
};

static int allowed(struct bb_request *rq, const char *email, const struct chat_facts **facts)
{
    struct chat_scope scope = chat_scope(rq);
    int refused = chat_visible(rq, &scope, bb_segment_int(rq, "id"), facts);

    if (refused)
        return refused;
    if (!chat_takes_part(*facts, email))
        return bb_fail(rq, 403, "email takes no part in this conversation");
    return chat_acts_for(rq, &scope, email);
}

int chat_read(struct bb_request *rq)
{
    const struct chat_facts *facts = NULL;
    const char *email = bb_text(rq, "email");
    int refused = allowed(rq, email, &facts);

    if (refused)
        return refused;

    struct bb_tx *unit = bb_unit(rq, (uint64_t)facts->id);

    if (!unit || bb_add(rq, unit, &mark_read, BB_ARGS(bb_i(facts->id), bb_t(email))) < 0)
        return bb_failed(rq);

    json_t *json = json_pack("{s:b}", "success", 1);

    if (!json)
        return bb_no_memory(rq);
    int status = bb_commit(rq, unit, 200, json);

    return status ? status : bb_failed(rq);
}
