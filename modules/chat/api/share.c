/*
 * POST /api/chat/conversations/:id/share
 *
 * A conversation that began when no account had a participant's e-mail is withheld from the account
 * that has the e-mail later. The owner of the conversation may share it with that account, which
 * cannot be undone. Hosts cache the facts of conversations, so they are notified on a channel.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "modules/chat/api/api.h"

static const struct bb_sql show = {
    "UPDATE chat_conversation SET withheld1 = false, withheld2 = false"
    " WHERE id = $1::bigint AND (withheld1 OR withheld2)",
    BB_SQL_WRITE,
};
static const struct bb_sql show_in_directory = {
    "UPDATE chat_directory SET withheld1 = false, withheld2 = false"
    " WHERE id = $1::bigint AND (withheld1 OR withheld2)",
    BB_SQL_WRITE,
};
static const struct bb_sql tell = {
    "SELECT pg_notify('" CHAT_CHANNEL "', $1::bigint::text)",
    BB_SQL_WRITE,
};

void chat_heard(void *state, const char *payload)
{
    const struct chat *chat = state;

    chat_cache_forget(chat->cache, payload ? strtoll(payload, NULL, 10) : 0);
}

/*
 * Taking part is not enough to share a conversation that belongs to others. Returns 0, or the
 * status of the response sent.
 */
static int allowed(struct bb_request *rq, int64_t id)
{
    const struct chat_facts *facts = NULL;
    struct chat_scope scope = chat_scope(rq);
    int refused = chat_visible(rq, &scope, id, &facts);

    if (!refused && !chat_owns(&scope, facts))
        refused = bb_fail(rq, 403, "The conversation belongs to another organization");
    return refused;
}

int chat_share(struct bb_request *rq)
{
    const struct chat *chat = rq->state;
    int64_t id = bb_segment_int(rq, "id");
    int refused = allowed(rq, id);

    if (refused)
        return refused;
    struct bb_tx *unit = bb_unit(rq, (uint64_t)id);

    if (!unit || bb_add(rq, unit, &show, BB_ARGS(bb_i(id))) < 0 ||
        bb_add(rq, unit, &show_in_directory, BB_ARGS(bb_i(id))) < 0 ||
        bb_add(rq, unit, &tell, BB_ARGS(bb_i(id))) < 0)
        return bb_failed(rq);
    json_t *json = json_pack("{s:b}", "success", 1);

    if (!json)
        return bb_no_memory(rq);
    int status = bb_commit(rq, unit, 200, json);

    chat_cache_forget(chat->cache, id);
    return status ? status : bb_failed(rq);
}
