/*
 * Failed logins are counted three times: by account and address (strict), by account (with a limit
 * ten times higher, against attacks from many addresses), and by address. So a person who guesses
 * passwords blocks only themselves, and the owner of the account can still log in from elsewhere.
 * The counter of an address applies only to accounts that have not logged in from it in the last 90
 * days, so a person who guesses in an office does not block their colleagues. Registrations,
 * requests for links and wrong client secrets are counted by address, too.
 *
 * Counters are checked before a password is hashed, and incremented after a failure. Correct
 * passwords are never counted. Attempts that are still being hashed are not counted yet, so a burst
 * exceeds a limit by up to the number of hashes that the pool "hash" accepts. The pool limits the
 * hashes of one address. It also limits the hashes of one account, except attempts from addresses
 * from which the account has logged in during the last 90 days.
 *
 * All hosts share counters in Redis. Each host also counts in its own table. The host's counter
 * applies if Redis does not respond or cannot increment the shared counter (for example because
 * Redis is full). Keys are hashes, so Redis never stores an e-mail or an address.
 */
#include <arpa/inet.h>
#include <busbar/lock.h>
#include <inttypes.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>

#include "modules/auth/auth.h"

#define SETS 2048
#define WAYS 4

/* The counters of a failed login: by account and address, by account, and by address. */
enum { THROTTLE_BOTH, THROTTLE_ACCOUNT, THROTTLE_ADDRESS, THROTTLE_LOGINS };

struct counter {
    uint64_t id;
    int64_t count;
    int64_t ends_ms; /* when the counter expires, on the monotonic clock; 0: unused */
    bool alone;      /* Redis failed to increment the shared counter, so that one is too low */
};

/*
 * The counters of this host. The hash of the seed and an id selects the set, so that nobody can
 * choose e-mails whose counters are in one set. If all counters of a set are used, a new counter
 * replaces the one that expires first, so memory is bounded however many clients there are.
 */
struct auth_throttle {
    pthread_mutex_t lock;
    uint64_t seed;
    struct counter counters[SETS][WAYS];
};

/* A counter that a request checks. */
struct asked {
    char key[64]; /* in Redis */
    uint64_t id;  /* in this host's table: the first bytes of the hash in `key` */
    int64_t limit;
    int64_t wait_ms; /* result: time until the counter expires; 0: the limit is not reached */
};

struct auth_throttle *auth_throttle_new(struct bb_host *host, uint64_t seed)
{
    struct auth_throttle *throttle = bb_host_alloc(host, sizeof(*throttle));

    if (throttle)
        throttle->seed = seed;
    return throttle && !pthread_mutex_init(&throttle->lock, NULL) ? throttle : NULL;
}

void auth_throttle_free(struct auth_throttle *throttle)
{
    if (throttle)
        pthread_mutex_destroy(&throttle->lock);
}

/* Returns a /64 for IPv6, because a client with one address of a /64 has all of them. */
const char *auth_throttle_network(struct bb_request *rq)
{
    const char *address = bb_client_address(rq);
    char *network = bb_alloc(rq, INET6_ADDRSTRLEN);
    struct in6_addr six;

    if (inet_pton(AF_INET6, address, &six) != 1 || IN6_IS_ADDR_V4MAPPED(&six))
        return address;
    memset(six.s6_addr + 8, 0, 8);
    inet_ntop(AF_INET6, &six, network, INET6_ADDRSTRLEN);
    return network;
}

/* Returns the counter for a text; `kind` is a letter for the kind of counter. */
static struct asked throttle_asked(char kind, const char *text, int64_t limit)
{
    struct asked asked = {.limit = limit};
    unsigned char digest[SHA256_DIGEST_LENGTH];
    size_t used = (size_t)snprintf(asked.key, sizeof(asked.key), "busbar:login:%c:", kind);

    SHA256((const unsigned char *)text, strlen(text), digest);
    for (size_t i = 0; i < 16; i++, used += 2)
        snprintf(asked.key + used, sizeof(asked.key) - used, "%02x", digest[i]);
    memcpy(&asked.id, digest, sizeof(asked.id));
    asked.id ^=
        (uint64_t)(unsigned char)kind; /* so that counters of different kinds have different ids */
    return asked;
}

static void throttle_logins(struct bb_request *rq, const struct auth *auth, const char *email,
                            struct asked asked[THROTTLE_LOGINS])
{
    const char *network = auth_throttle_network(rq);
    int64_t most = auth->settings->login_failures_per_account;

    asked[THROTTLE_BOTH] = throttle_asked('b', bb_format(rq, "%s %s", email, network), most);
    asked[THROTTLE_ACCOUNT] = throttle_asked('a', email, 10 * most);
    asked[THROTTLE_ADDRESS] =
        throttle_asked('i', network, auth->settings->login_failures_per_address);
}

uint64_t auth_throttle_target(const char *email)
{
    return throttle_asked('a', email, 0).id | 1;
}

/* Returns the counter or NULL. With `make`, creates a missing counter. Call with the lock held. */
static struct counter *throttle_find(struct auth *auth, uint64_t id, bool make)
{
    int64_t now_ms = bb_now_ms(auth->host);
    const uint64_t seeded[] = {auth->throttle->seed, id};
    unsigned char hash[SHA256_DIGEST_LENGTH];

    SHA256((const unsigned char *)seeded, sizeof(seeded), hash);
    struct counter *set = auth->throttle->counters[(hash[0] << 8 | hash[1]) % SETS], *first = set;

    for (struct counter *at = set; at < set + WAYS; at++) {
        if (at->id == id && at->ends_ms > now_ms)
            return at;
        if (at->ends_ms < first->ends_ms)
            first = at;
    }
    if (!make)
        return NULL;
    *first = (struct counter){.id = id, .ends_ms = now_ms + auth->settings->login_window * 1000};
    return first;
}

/*
 * Sets wait_ms of each counter. Then, with `adds`, adds 1 to all counters if each of them is below
 * its limit. This host's counters apply only if Redis does not respond, or if `alone` is set.
 */
static void throttle_ask(struct bb_request *rq, struct auth *auth, struct asked *asked,
                         size_t count, bool adds)
{
    static const char script[] =
        "local waits, below = {}, true for i = 1, #KEYS do waits[i] = 0 "
        "if tonumber(redis.call('GET', KEYS[i]) or 0) >= tonumber(ARGV[i + 1]) then "
        "waits[i] = redis.call('PTTL', KEYS[i]) below = false end end "
        "if below and ARGV[1] ~= '0' then for i = 1, #KEYS do "
        "if redis.call('INCR', KEYS[i]) == 1 then redis.call('PEXPIRE', KEYS[i], ARGV[1]) end "
        "end end return waits";
    int64_t window_ms = adds ? auth->settings->login_window * 1000 : 0;
    const char *argv[4 + 2 * THROTTLE_LOGINS] = {"EVAL", script,
                                                 bb_format(rq, "%" PRId64, (int64_t)count)};
    bool below = true;

    argv[3 + count] = bb_format(rq, "%" PRId64, window_ms);
    for (size_t i = 0; i < count; i++) {
        argv[3 + i] = asked[i].key;
        argv[4 + count + i] = bb_format(rq, "%" PRId64, asked[i].limit);
    }
    const struct bb_redis_reply *reply = bb_redis(rq, 4 + 2 * (int)count, argv, NULL);
    bool answered = reply && reply->type == BB_REDIS_LIST && reply->count == count;

    BB_LOCKED(&auth->throttle->lock);
    for (size_t i = 0; i < count; i++) {
        const struct counter *counter = throttle_find(auth, asked[i].id, false);
        bool holds = counter && counter->count >= asked[i].limit && (counter->alone || !answered);

        asked[i].wait_ms = holds ? counter->ends_ms - bb_now_ms(auth->host) : 0;
        if (answered && reply->items[i].integer > asked[i].wait_ms)
            asked[i].wait_ms = reply->items[i].integer;
        below = below && asked[i].wait_ms <= 0;
    }
    for (size_t i = 0; i < count && adds && below; i++) {
        struct counter *counter = throttle_find(auth, asked[i].id, true);

        counter->count++;
        counter->alone = counter->alone || !answered;
    }
}

int auth_throttle_refuse(struct bb_request *rq, int64_t wait_ms, const char *what)
{
    bb_reply_header(rq, "Retry-After", bb_format(rq, "%" PRId64, (wait_ms + 999) / 1000));
    return bb_fail(rq, 429, "Too many %s. Please try again later.", what);
}

int auth_throttle_check(struct bb_request *rq, struct auth *auth, const char *email,
                        int64_t *crowded_ms)
{
    struct asked asked[THROTTLE_LOGINS];

    throttle_logins(rq, auth, email, asked);
    throttle_ask(rq, auth, asked, THROTTLE_LOGINS, false);
    *crowded_ms = asked[THROTTLE_ADDRESS].wait_ms;

    int64_t both = asked[THROTTLE_BOTH].wait_ms, account = asked[THROTTLE_ACCOUNT].wait_ms;
    int64_t wait = both > account ? both : account;

    return wait > 0 ? auth_throttle_refuse(rq, wait, "failed logins") : 0;
}

void auth_throttle_failed(struct bb_request *rq, struct auth *auth, const char *email)
{
    struct asked asked[THROTTLE_LOGINS];

    throttle_logins(rq, auth, email, asked);
    for (size_t i = 0; i < THROTTLE_LOGINS; i++)
        asked[i].limit = INT64_MAX; /* counts the failure even if a limit is reached */
    throttle_ask(rq, auth, asked, THROTTLE_LOGINS, true);
}

void auth_throttle_passed(struct bb_request *rq, struct auth *auth, const char *email)
{
    struct asked asked[THROTTLE_LOGINS];

    throttle_logins(rq, auth, email, asked);
    const char *argv[] = {"DEL", asked[THROTTLE_BOTH].key};

    pthread_mutex_lock(&auth->throttle->lock);
    struct counter *counter = throttle_find(auth, asked[THROTTLE_BOTH].id, false);
    if (counter)
        *counter = (struct counter){0};
    pthread_mutex_unlock(&auth->throttle->lock);
    bb_redis(rq, 2, argv, NULL);
}

int auth_throttle_count(struct bb_request *rq, char kind, int64_t limit, const char *what)
{
    struct asked asked = throttle_asked(kind, auth_throttle_network(rq), limit);

    throttle_ask(rq, rq->state, &asked, 1, true);
    return asked.wait_ms > 0 ? auth_throttle_refuse(rq, asked.wait_ms, what) : 0;
}
