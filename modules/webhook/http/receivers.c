#include "modules/webhook/http/receivers.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "modules/common/hash.h"

#define BUCKETS_LEAST 64

/* ---- TLS sessions --------------------------------------------------------------------------- */

static struct receiver_sessions *make_sessions(int64_t now_ms)
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
    receiver_sessions_let_go(sessions);
    return NULL;
}

void receiver_sessions_let_go(struct receiver_sessions *sessions)
{
    if (!sessions || --sessions->holders)
        return;
    if (sessions->share)
        curl_share_cleanup(sessions->share);
    free(sessions);
}

static struct receiver_sessions *held(struct receiver_sessions *sessions)
{
    if (sessions)
        sessions->holders++;
    return sessions;
}

struct receiver_sessions *receiver_sessions(struct receivers *receivers, struct receiver *receiver,
                                            int64_t now_ms)
{
    if (strncasecmp(receiver->origin, "https", 5) != 0)
        return held(receivers->plain);
    if (receiver->sessions && now_ms - receiver->sessions->made_ms >= RECEIVER_SESSIONS_MS) {
        receiver_sessions_let_go(receiver->sessions);
        receiver->sessions = NULL;
    }
    if (!receiver->sessions)
        receiver->sessions = make_sessions(now_ms);
    return held(receiver->sessions);
}

/* ---- the table ------------------------------------------------------------------------------ */

/*
 * Returns the length of the part of a URL that identifies its receiver. Two spellings of a receiver
 * count as two.
 */
static size_t origin_length(const char *url)
{
    const char *host = strstr(url, "://");
    size_t before = host ? (size_t)(host - url) + 3 : 0;

    return before + strcspn(url + before, "/?#");
}

static struct receiver **bucket_of(const struct receivers *receivers, const char *origin,
                                   size_t length)
{
    uint64_t hash = hash_bytes(HASH_SEED, origin, length);

    return &receivers->buckets[(hash ^ hash >> 32) & receivers->mask];
}

static void list_remove(struct receivers *receivers, struct receiver *receiver)
{
    *(receiver->older ? &receiver->older->newer : &receivers->oldest) = receiver->newer;
    *(receiver->newer ? &receiver->newer->older : &receivers->newest) = receiver->older;
}

static void list_push(struct receivers *receivers, struct receiver *receiver)
{
    receiver->newer = NULL;
    receiver->older = receivers->newest;
    *(receivers->newest ? &receivers->newest->newer : &receivers->oldest) = receiver;
    receivers->newest = receiver;
}

static void forget(struct receivers *receivers, struct receiver *receiver)
{
    struct receiver **at = bucket_of(receivers, receiver->origin, receiver->length);

    while (*at != receiver)
        at = &(*at)->next;
    *at = receiver->next;
    list_remove(receivers, receiver);
    receivers->count--;
    receiver_sessions_let_go(receiver->sessions);
    free(receiver);
}

/*
 * Forgets the receiver used least recently that can go. Only a few are checked, because a receiver
 * that was not used for long is usually not in use.
 */
static void make_room(struct receivers *receivers)
{
    struct receiver *receiver = receivers->oldest;

    for (int looks = 0; receiver && looks < 8 && receivers->count >= receivers->most; looks++) {
        struct receiver *newer = receiver->newer;

        if (!receiver->flying && !receiver->open)
            forget(receivers, receiver);
        receiver = newer;
    }
}

static struct receiver *add(struct receivers *receivers, const char *origin, size_t length)
{
    make_room(receivers);
    struct receiver *receiver = calloc(1, sizeof(*receiver) + length + 1);

    if (!receiver)
        return NULL;
    struct receiver **bucket = bucket_of(receivers, origin, length);

    memcpy(receiver->origin, origin, length);
    receiver->length = length;
    receiver->next = *bucket;
    *bucket = receiver;
    receivers->count++;
    list_push(receivers, receiver);
    return receiver;
}

struct receiver *receivers_take(struct receivers *receivers, const char *url)
{
    size_t length = origin_length(url);
    struct receiver *receiver = *bucket_of(receivers, url, length);

    while (receiver && (receiver->length != length || memcmp(receiver->origin, url, length) != 0))
        receiver = receiver->next;
    if (!receiver) {
        receiver = add(receivers, url, length);
    } else if (receiver != receivers->newest) {
        list_remove(receivers, receiver);
        list_push(receivers, receiver);
    }
    if (receiver)
        receiver->flying++;
    return receiver;
}

void receiver_finished(struct receiver *receiver)
{
    receiver->flying--;
}

int receivers_init(struct receivers *receivers, size_t most)
{
    size_t buckets = BUCKETS_LEAST;

    while (buckets < most)
        buckets *= 2;
    *receivers = (struct receivers){.mask = buckets - 1, .most = most};
    receivers->buckets = calloc(buckets, sizeof(*receivers->buckets));
    receivers->plain = make_sessions(0);
    return receivers->buckets && receivers->plain ? 0 : -1;
}

void receivers_free(struct receivers *receivers)
{
    for (struct receiver *receiver = receivers->oldest, *newer; receiver; receiver = newer) {
        newer = receiver->newer;
        receiver_sessions_let_go(receiver->sessions);
        free(receiver);
    }
    receiver_sessions_let_go(receivers->plain);
    free(receivers->buckets);
    *receivers = (struct receivers){0};
}
