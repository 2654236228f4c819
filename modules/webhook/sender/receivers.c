#include "modules/webhook/sender/receivers.h"

#include <stdlib.h>
#include <string.h>

#include "modules/common/hash.h"

enum {
    SESSIONS_MS = 3600000,
    CHECKED = 8 /* receivers checked for one that can be forgotten */
};

/* ---- TLS sessions --------------------------------------------------------------------------- */

static struct receiver_sessions *receiver_sessions_new(int64_t now_ms)
{
    struct receiver_sessions *sessions = calloc(1, sizeof(*sessions));

    if (!sessions)
        return NULL;
    sessions->share = curl_share_init();
    sessions->made_ms = now_ms;
    sessions->holders = 1;
    if (sessions->share &&
        !curl_share_setopt(sessions->share, CURLSHOPT_SHARE, CURL_LOCK_DATA_SSL_SESSION))
        return sessions;
    receiver_sessions_release(sessions);
    return NULL;
}

void receiver_sessions_release(struct receiver_sessions *sessions)
{
    if (!sessions || --sessions->holders)
        return;
    if (sessions->share)
        curl_share_cleanup(sessions->share);
    free(sessions);
}

/* ---- the table ------------------------------------------------------------------------------ */

static void receiver_forget(struct receivers *receivers, struct receiver *receiver)
{
    idmap_remove(&receivers->map, &receiver->node);
    TAILQ_REMOVE(&receivers->by_use, receiver, by_use);
    receiver_sessions_release(receiver->sessions);
    free(receiver);
}

struct receiver *receivers_take(struct receivers *receivers, const char *url, int64_t now_ms)
{
    const char *host = strstr(url, "://");
    size_t before = host ? (size_t)(host - url) + 3 : 0;
    int64_t id = (int64_t)hash_bytes(HASH_SEED, url, before + strcspn(url + before, "/?#"));
    struct idmap_node *node = idmap_find(&receivers->map, id);
    struct receiver *receiver = (struct receiver *)(void *)node;
    struct receiver *unused = TAILQ_FIRST(&receivers->by_use);

    if (receiver) {
        TAILQ_REMOVE(&receivers->by_use, receiver, by_use);
    } else {
        /* Checks only a few, because receivers that were not used for long are usually idle. */
        for (int i = 0; unused && i < CHECKED && receivers->map.count >= receivers->most; i++) {
            struct receiver *next = TAILQ_NEXT(unused, by_use);

            if (!unused->flying && !unused->open)
                receiver_forget(receivers, unused);
            unused = next;
        }
        receiver = calloc(1, sizeof(*receiver));
        if (!receiver)
            return NULL;
        receiver->node.id = id;
        idmap_add(&receivers->map, &receiver->node);
    }
    TAILQ_INSERT_TAIL(&receivers->by_use, receiver, by_use);
    if (!receiver->sessions || now_ms - receiver->sessions->made_ms >= SESSIONS_MS) {
        receiver_sessions_release(receiver->sessions);
        receiver->sessions = receiver_sessions_new(now_ms);
    }
    if (!receiver->sessions)
        return NULL;
    receiver->sessions->holders++;
    receiver->flying++;
    receiver->waiting++;
    return receiver;
}

void receivers_free(struct receivers *receivers)
{
    IDMAP_FOREACH (receiver, receiver, &receivers->map)
        receiver_forget(receivers, receiver);
}
