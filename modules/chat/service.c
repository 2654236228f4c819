/* The service "conversations", for other modules. */
#include "modules/chat/module.h"

static int count_of(void *state, struct bb_request *rq, const char *email, int64_t *count)
{
    static const struct bb_sql sum = {
        "SELECT (SELECT count(*) FROM chat_directory WHERE participant1 = $1)"
        " + (SELECT count(*) FROM chat_directory WHERE participant2 = $1)",
        0};
    const struct bb_rows *rows = bb_query(rq, &sum, BB_ARGS(bb_t(email)));

    (void)state;
    if (!rows)
        return -1;
    *count = bb_cell_int(rq, rows, 0, 0);
    return 0;
}

const struct bb_conversations chat_conversations = {
    .size = sizeof(chat_conversations),
    .count_of = count_of,
};
