/*
 * Failed logins are counted three times: by account and address (strict), by account (ten times as
 * many, against attacks from many addresses), and by address. So a person who guesses passwords
 * blocks only themselves, and the right user can still log in from elsewhere. The address's counter
 * applies only to accounts that have never logged in from there, so one guesser in an office does
 * not block the others. Registrations are counted by address, too.
 *
 * Counters are checked before hashing and incremented after a failure; correct passwords are never
 * counted, however many arrive at once. Passwords being hashed are not counted yet. So a burst may
 * try as many more passwords as the pool "hash" accepts for one caller: one address, or one account
 * from any number of addresses, because all attempts at an account share one caller's part of the
 * pool and one queue. Addresses from which the account has logged in before are exempt from that.
 *
 * All hosts share counters in Redis. Each host also counts in its own table. The table applies
 * while Redis does not answer, and to each counter that Redis refused to increment: a Redis that is
 * full, or a replica after a failover, still answers reads. Keys are hashes, so Redis never stores
 * an e-mail or an address.
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <openssl/sha.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "modules/auth/auth.h"

#define KEY_MAX 64
#define SETS 2048
#define WAYS 4

/*
 * Counters of logins: the account from this address, the account from anywhere, and the address.
 * Registrations use the last one only.
 */
enum throttle_counter { THROTTLE_BOTH, THROTTLE_ACCOUNT, THROTTLE_ADDRESS, THROTTLE_COUNTERS };

struct counter {
    uint64_t id;
    int64_t count;
    int64_t ends_ms; /* monotonic clock; 0: free */
    bool alone;      /* Redis refused to count some of it, so the counter in Redis is too low */
};

struct auth_throttle {
    int64_t window_ms;
    int64_t limits[THROTTLE_COUNTERS];
    int64_t registrations;
    /*
     * This host's own counters; ids are SHA-256 prefixes. A full set drops the counter that ends
     * first, so memory is bounded however many clients there are.
     */
    pthread_mutex_t lock;
    struct counter counters[SETS][WAYS];
};

struct auth_throttle *auth_throttle_new(const struct auth_settings *settings)
{
    struct auth_throttle *throttle = calloc(1, sizeof(*throttle));
    int64_t per_account = settings->login_failures_per_account;

    if (!throttle || pthread_mutex_init(&throttle->lock, NULL)) {
        free(throttle);
        return NULL;
    }
    throttle->window_ms = settings->login_window * 1000;
    throttle->limits[THROTTLE_BOTH] = per_account;
    throttle->limits[THROTTLE_ACCOUNT] = per_account * 10;
    throttle->limits[THROTTLE_ADDRESS] = settings->login_failures_per_address;
    throttle->registrations = settings->registrations_per_address;
    return throttle;
}

void auth_throttle_free(struct auth_throttle *throttle)
{
    if (!throttle)
        return;
    pthread_mutex_destroy(&throttle->lock);
    free(throttle);
}

/* ---- the host's own counters ---- */

/* Call with the lock held. */
static struct counter *find(struct auth_throttle *throttle, uint64_t id, int64_t now_ms)
{
    struct counter *set = throttle->counters[id % SETS];

    for (size_t i = 0; i < WAYS; i++)
        if (set[i].id == id && set[i].ends_ms > now_ms)
            return set + i;
    return NULL;
}

/*
 * Returns the milliseconds until a counter at or above its limit ends; 0 below the limit. If Redis
 * answered, only counters marked by mark_alone() count, because the others are in Redis.
 */
static int64_t wait_of(struct auth_throttle *throttle, uint64_t id, int64_t limit, int64_t now_ms,
                       bool redis_answered)
{
    pthread_mutex_lock(&throttle->lock);
    const struct counter *counter = find(throttle, id, now_ms);
    bool holds = counter && counter->count >= limit && (counter->alone || !redis_answered);
    int64_t wait = holds ? counter->ends_ms - now_ms : 0;
    pthread_mutex_unlock(&throttle->lock);
    return wait;
}

/* Marks a counter that Redis did not increment: from now on it counts whatever Redis answers. */
static void mark_alone(struct auth_throttle *throttle, uint64_t id, int64_t now_ms)
{
    pthread_mutex_lock(&throttle->lock);
    struct counter *counter = find(throttle, id, now_ms);
    if (counter)
        counter->alone = true;
    pthread_mutex_unlock(&throttle->lock);
}

static void count(struct auth_throttle *throttle, uint64_t id, int64_t now_ms)
{
    pthread_mutex_lock(&throttle->lock);
    struct counter *counter = find(throttle, id, now_ms), *set = throttle->counters[id % SETS];
    if (!counter) {
        counter = set;
        for (size_t i = 1; i < WAYS; i++)
            if (set[i].ends_ms < counter->ends_ms)
                counter = set + i;
        *counter = (struct counter){.id = id, .ends_ms = now_ms + throttle->window_ms};
    }
    counter->count++;
    pthread_mutex_unlock(&throttle->lock);
}

/* ---- names ---- */

/* A client that has one address of an IPv6 network has them all. */
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

/* Makes the key and id of a counter from a text; `kind` is the kind of counter. */
static void name(char kind, const char *text, char key[KEY_MAX], uint64_t *id)
{
    unsigned char digest[SHA256_DIGEST_LENGTH];
    int used = snprintf(key, KEY_MAX, "busbar:login:%c:", kind);

    SHA256((const unsigned char *)text, strlen(text), digest);
    for (size_t i = 0; i < 16; i++)
        used += snprintf(key + used, KEY_MAX - (size_t)used, "%02x", digest[i]);
    memcpy(id, digest, sizeof(*id));
    *id ^= (uint64_t)(unsigned char)kind; /* an address and an e-mail with the same text differ */
}

uint64_t auth_throttle_target(const char *email)
{
    char key[KEY_MAX];
    uint64_t id;

    name('a', email, key, &id);
    return id | 1;
}

struct subject {
    char key[THROTTLE_COUNTERS][KEY_MAX]; /* in Redis */
    uint64_t id[THROTTLE_COUNTERS];       /* in the table */
};

static struct subject subject_of(struct bb_request *rq, const char *email)
{
    static const char kinds[THROTTLE_COUNTERS] = {'b', 'a', 'i'};
    const char *network = auth_throttle_network(rq);
    const char *texts[THROTTLE_COUNTERS] = {bb_format(rq, "%s %s", email, network), email, network};
    struct subject subject = {0};

    for (size_t i = 0; i < THROTTLE_COUNTERS; i++)
        name(kinds[i], texts[i], subject.key[i], &subject.id[i]);
    return subject;
}

static const char *number(struct bb_request *rq, int64_t value)
{
    return bb_format(rq, "%" PRId64, value);
}

/* ---- logins ---- */

int auth_throttle_refuse(struct bb_request *rq, int64_t wait_ms, const char *what)
{
    bb_reply_header(rq, "Retry-After", number(rq, (wait_ms + 999) / 1000));
    return bb_fail(rq, 429, "Too many %s. Please try again later.", what);
}

int auth_throttle_check(struct bb_request *rq, struct auth *auth, const char *email,
                        int64_t *crowded_ms)
{
    static const char script[] =
        "local waits = {} for i = 1, #KEYS do "
        "if tonumber(redis.call('GET', KEYS[i]) or 0) >= tonumber(ARGV[i]) then "
        "waits[i] = redis.call('PTTL', KEYS[i]) else waits[i] = 0 end end return waits";
    struct auth_throttle *throttle = auth->throttle;
    struct subject subject = subject_of(rq, email);
    const char *argv[3 + 2 * THROTTLE_COUNTERS] = {"EVAL", script, "3"};
    int64_t waits[THROTTLE_COUNTERS];

    for (size_t i = 0; i < THROTTLE_COUNTERS; i++) {
        argv[3 + i] = subject.key[i];
        argv[3 + THROTTLE_COUNTERS + i] = number(rq, throttle->limits[i]);
    }
    const struct bb_redis_reply *reply = bb_redis(rq, 3 + 2 * THROTTLE_COUNTERS, argv, NULL);
    bool answered = reply && reply->type == BB_REDIS_LIST && reply->count == THROTTLE_COUNTERS;

    for (size_t i = 0; i < THROTTLE_COUNTERS; i++) {
        waits[i] =
            wait_of(throttle, subject.id[i], throttle->limits[i], bb_now_ms(auth->host), answered);
        if (answered && reply->items[i].integer > waits[i])
            waits[i] = reply->items[i].integer;
    }
    *crowded_ms = waits[THROTTLE_ADDRESS];

    int64_t wait = waits[THROTTLE_BOTH] > waits[THROTTLE_ACCOUNT] ? waits[THROTTLE_BOTH]
                                                                  : waits[THROTTLE_ACCOUNT];

    return wait > 0 ? auth_throttle_refuse(rq, wait, "failed logins") : 0;
}

void auth_throttle_failed(struct bb_request *rq, struct auth *auth, const char *email)
{
    static const char script[] = "for i = 1, #KEYS do if redis.call('INCR', KEYS[i]) == 1 then "
                                 "redis.call('PEXPIRE', KEYS[i], ARGV[1]) end end return 1";
    struct auth_throttle *throttle = auth->throttle;
    struct subject subject = subject_of(rq, email);
    const char *argv[] = {"EVAL",
                          script,
                          "3",
                          subject.key[0],
                          subject.key[1],
                          subject.key[2],
                          number(rq, throttle->window_ms)};

    for (size_t i = 0; i < THROTTLE_COUNTERS; i++)
        count(throttle, subject.id[i], bb_now_ms(auth->host));
    if (bb_redis(rq, sizeof(argv) / sizeof(argv[0]), argv, NULL))
        return;
    for (size_t i = 0; i < THROTTLE_COUNTERS; i++)
        mark_alone(throttle, subject.id[i], bb_now_ms(auth->host));
}

void auth_throttle_passed(struct bb_request *rq, struct auth *auth, const char *email)
{
    struct auth_throttle *throttle = auth->throttle;
    struct subject subject = subject_of(rq, email);
    const char *argv[] = {"DEL", subject.key[THROTTLE_BOTH]};

    pthread_mutex_lock(&throttle->lock);
    struct counter *counter = find(throttle, subject.id[THROTTLE_BOTH], bb_now_ms(auth->host));
    if (counter)
        *counter = (struct counter){0};
    pthread_mutex_unlock(&throttle->lock);
    bb_redis(rq, 2, argv, NULL);
}

/* ---- registrations ---- */

int auth_throttle_register(struct bb_request *rq, struct auth *auth)
{
    static const char script[] =
        "if tonumber(redis.call('GET', KEYS[1]) or 0) >= tonumber(ARGV[1]) then "
        "return redis.call('PTTL', KEYS[1]) end if redis.call('INCR', KEYS[1]) == 1 then "
        "redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0";
    struct auth_throttle *throttle = auth->throttle;
    int64_t now_ms = bb_now_ms(auth->host);
    char key[KEY_MAX];
    uint64_t id;

    name('r', auth_throttle_network(rq), key, &id);

    const char *argv[] = {"EVAL",
                          script,
                          "1",
                          key,
                          number(rq, throttle->registrations),
                          number(rq, throttle->window_ms)};
    const struct bb_redis_reply *reply = bb_redis(rq, 6, argv, NULL);
    bool answered = reply && reply->type == BB_REDIS_INT;
    int64_t wait = wait_of(throttle, id, throttle->registrations, now_ms, answered);

    if (answered && reply->integer > wait)
        wait = reply->integer;
    if (wait > 0)
        return auth_throttle_refuse(rq, wait, "registrations");
    count(throttle, id, now_ms);
    if (!answered)
        mark_alone(throttle, id, now_ms);
    return 0;
}
