/* Looks up the facts of a conversation by its id, in the cache and then in the database. */
#include "modules/chat/conversation/chat.h"

#define FACTS(id)                                                                                  \
    "SELECT organisation, participant1, participant2, device_project_name, withheld1, withheld2"   \
    " FROM chat_conversation WHERE id = " id

#define IDS BB_KEYS_1("bigint")
#define FACTS_OF_ID FACTS("k.id")

static const struct bb_keyed facts_by_id = {
    {FACTS("$1::bigint"), BB_SQL_KEYED},
    {"SELECT c.*, k.i FROM " IDS " k(id, i) CROSS JOIN LATERAL (" FACTS_OF_ID " OFFSET 0) c", 0},
};

static const struct chat_facts *keep(struct bb_request *rq, int64_t id, const struct bb_rows *rows,
                                     uint64_t epoch)
{
    const struct chat *chat = rq->state;
    struct chat_facts found = {
        .id = id,
        .organization = bb_cell_int(rq, rows, 0, 0),
        .participant1 = bb_cell(rq, rows, 0, 1),
        .participant2 = bb_cell(rq, rows, 0, 2),
        .device_project_name = bb_cell(rq, rows, 0, 3),
        .withheld1 = bb_cell_int(rq, rows, 0, 4) != 0,
        .withheld2 = bb_cell_int(rq, rows, 0, 5) != 0,
    };

    return chat_cache_keep(chat->cache, &found, epoch);
}

int chat_lookup(struct bb_request *rq, int64_t id, const struct chat_facts **facts)
{
    const struct chat *chat = rq->state;
    const struct chat_facts *held = chat_cache_hold(chat->cache, id);

    if (!held) {
        uint64_t epoch = chat_cache_epoch(chat->cache);
        const struct bb_rows *rows = bb_query(rq, &facts_by_id.one, BB_ARGS(bb_i(id)));

        if (!rows)
            return bb_failed(rq);
        if (bb_count(rq, rows) == 0)
            return bb_fail(rq, 404, "Conversation not found");
        held = keep(rq, id, rows, epoch);
        if (!held)
            return bb_no_memory(rq);
    }
    bb_defer(rq, chat_cache_release, (void *)(uintptr_t)held);
    *facts = held;
    return 0;
}
