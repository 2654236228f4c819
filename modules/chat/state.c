/* The state of one generation, and the service "conversations" for other modules. */
#include <string.h>

#include "modules/chat/live/live.h"
#include "modules/common/array.h"

int chat_open(struct bb_host *host, void **state)
{
    struct chat *chat = bb_host_alloc(host, sizeof(*chat));

    if (!chat)
        return bb_open_fail(host, "out of memory");
    const struct chat_settings *settings = bb_settings(host);
    struct bb_service accounts = bb_service(host, "accounts");

    chat->settings = settings;
    chat->open_to_all = strcmp(settings->ownership, "open") == 0;
    chat->stream_buffer = (size_t)settings->stream_buffer * 1024;
    chat->accounts = accounts.interface;
    chat->accounts_state = accounts.state;
    chat->cache = chat_cache_new((size_t)settings->cached_conversations);
    if (!chat->cache)
        return bb_open_fail(host, "no memory for the cache of conversations");
    chat->hub = chat_hub_new(host);
    if (!chat->hub) {
        chat_cache_free(chat->cache);
        return bb_open_fail(host, "no memory for the live stream");
    }
    chat->long_answers =
        slots_new(host, settings->long_answers, settings->long_answers_per_account, "long answers");
    if (!chat->long_answers) {
        chat_hub_free(chat->hub);
        chat_cache_free(chat->cache);
        return bb_open_fail(host, "no memory for long answers");
    }
    *state = chat;
    return 0;
}

void chat_close(struct bb_host *host, void *state)
{
    struct chat *chat = state;

    (void)host;
    slots_free(chat->long_answers);
    chat_hub_free(chat->hub);
    chat_cache_free(chat->cache);
}

/* ---- the service ---- */

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
