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
#include "modules/auth/password/password.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define KEY_MAX 64
#define SETS 2048
#define WAYS 4

struct counter {
    uint64_t id;
    int64_t count;
    int64_t ends_ms; /* monotonic clock; 0: free */
    bool alone;      /* Redis refused to count some of it, so the counter in Redis is too low */
};

/*
 * This host's own counters; ids are SHA-256 prefixes. A full set drops the counter that ends first,
 * so memory is bounded however many clients there are.
 */
struct throttle_table {
    pthread_mutex_t lock;
    struct counter counters[SETS][WAYS];
};

static struct throttle_table *throttle_table_new(void)
{
    struct throttle_table *table = calloc(1, sizeof(*table));

    if (table && pthread_mutex_init(&table->lock, NULL) == 0)
        return table;
    free(table);
    return NULL;
}

static void throttle_table_free(struct throttle_table *table)
{
    if (!table)
        return;
    pthread_mutex_destroy(&table->lock);
    free(table);
}

static struct counter *find(struct throttle_table *table, uint64_t id, int64_t now_ms)
{
    struct counter *set = table->counters[id % SETS];

    for (size_t i = 0; i < WAYS; i++)
        if (set[i].id == id && set[i].ends_ms > now_ms)
            return set + i;
    return NULL;
}

/*
 * Returns the milliseconds until a counter at or above its limit ends; 0 below the limit. If Redis
 * answered, only counters marked by throttle_table_alone() count, because the others are in Redis.
 */
static int64_t throttle_table_wait(struct throttle_table *table, uint64_t id, int64_t limit,
                                   int64_t now_ms, bool redis_answered)
{
    pthread_mutex_lock(&table->lock);
    const struct counter *counter = find(table, id, now_ms);
    bool holds = counter && counter->count >= limit && (counter->alone || !redis_answered);
    int64_t wait = holds ? counter->ends_ms - now_ms : 0;
    pthread_mutex_unlock(&table->lock);
    return wait;
}

/* Marks a counter that Redis did not increment: from now on it counts whatever Redis answers. */
static void throttle_table_alone(struct throttle_table *table, uint64_t id, int64_t now_ms)
{
    pthread_mutex_lock(&table->lock);
    struct counter *counter = find(table, id, now_ms);
    if (counter)
        counter->alone = true;
    pthread_mutex_unlock(&table->lock);
}

static void throttle_table_count(struct throttle_table *table, uint64_t id, int64_t window_ms,
                                 int64_t now_ms)
{
    pthread_mutex_lock(&table->lock);
    struct counter *counter = find(table, id, now_ms);
    if (!counter) {
        counter = table->counters[id % SETS];
        for (size_t i = 1; i < WAYS; i++)
            if (table->counters[id % SETS][i].ends_ms < counter->ends_ms)
                counter = table->counters[id % SETS] + i;
        *counter = (struct counter){.id = id, .ends_ms = now_ms + window_ms};
    }
    counter->count++;
    pthread_mutex_unlock(&table->lock);
}

static void throttle_table_clear(struct throttle_table *table, uint64_t id)
{
    pthread_mutex_lock(&table->lock);
    for (size_t i = 0; i < WAYS; i++)
        if (table->counters[id % SETS][i].id == id)
            table->counters[id % SETS][i] = (struct counter){0};
    pthread_mutex_unlock(&table->lock);
}

/*
 * Counters of logins: the account from this address, the account from anywhere, and the address.
 * Registrations use the last one only.
 */
enum throttle_counter { THROTTLE_BOTH, THROTTLE_ACCOUNT, THROTTLE_ADDRESS, THROTTLE_COUNTERS };

struct auth_throttle {
    struct throttle_table *table;
    int64_t window_ms;
    int64_t limits[THROTTLE_COUNTERS];
    int64_t registrations;
};

struct subject {
    char key[THROTTLE_COUNTERS][KEY_MAX]; /* in Redis */
    uint64_t id[THROTTLE_COUNTERS];       /* in the table */
};

struct auth_throttle *auth_throttle_new(const struct auth_settings *settings)
{
    struct auth_throttle *throttle = calloc(1, sizeof(*throttle));
    int64_t per_account = settings->login_failures_per_account;

    if (!throttle)
        return NULL;
    throttle->window_ms = settings->login_window * 1000;
    throttle->limits[THROTTLE_BOTH] = per_account;
    throttle->limits[THROTTLE_ACCOUNT] = per_account * 10;
    throttle->limits[THROTTLE_ADDRESS] = settings->login_failures_per_address;
    throttle->registrations = settings->registrations_per_address;
    throttle->table = throttle_table_new();
    if (throttle->table)
        return throttle;
    free(throttle);
    return NULL;
}

void auth_throttle_free(struct auth_throttle *throttle)
{
    if (!throttle)
        return;
    throttle_table_free(throttle->table);
    free(throttle);
}

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

/* Runs a script on the three keys. Returns NULL if Redis does not answer or returns an error. */
static const struct bb_redis_reply *run(struct bb_request *rq, const char *script,
                                        const struct subject *subject, const int64_t *numbers,
                                        size_t count)
{
    const char *argv[3 + 2 * THROTTLE_COUNTERS] = {"EVAL", script, "3"};
    char texts[THROTTLE_COUNTERS][24];

    for (size_t i = 0; i < THROTTLE_COUNTERS; i++)
        argv[3 + i] = subject->key[i];
    for (size_t i = 0; i < count; i++) {
        snprintf(texts[i], sizeof(texts[i]), "%" PRId64, numbers[i]);
        argv[3 + THROTTLE_COUNTERS + i] = texts[i];
    }

    return bb_redis(rq, (int)(3 + THROTTLE_COUNTERS + count), argv, NULL);
}

/* Sets the milliseconds until each counter at its limit ends; 0 below the limit. */
static void waits_of(struct bb_request *rq, struct auth *auth, const struct subject *subject,
                     int64_t waits[THROTTLE_COUNTERS])
{
    static const char script[] =
        "local waits = {} for i = 1, #KEYS do "
        "if tonumber(redis.call('GET', KEYS[i]) or 0) >= tonumber(ARGV[i]) then "
        "waits[i] = redis.call('PTTL', KEYS[i]) else waits[i] = 0 end end return waits";
    const struct auth_throttle *throttle = auth->throttle;
    const struct bb_redis_reply *reply =
        run(rq, script, subject, throttle->limits, THROTTLE_COUNTERS);
    bool answered = reply && reply->type == BB_REDIS_LIST && reply->count == THROTTLE_COUNTERS;

    for (size_t i = 0; i < THROTTLE_COUNTERS; i++) {
        waits[i] = throttle_table_wait(throttle->table, subject->id[i], throttle->limits[i],
                                       bb_now_ms(auth->host), answered);
        if (answered && reply->items[i].integer > waits[i])
            waits[i] = reply->items[i].integer;
    }
}

static int too_many(struct bb_request *rq, int64_t wait_ms, const char *what)
{
    bb_reply_header(rq, "Retry-After", bb_format(rq, "%" PRId64, (wait_ms + 999) / 1000));
    return bb_fail(rq, 429, "Too many %s. Please try again later.", what);
}

int auth_throttle_refuse(struct bb_request *rq, int64_t wait_ms)
{
    return too_many(rq, wait_ms, "failed logins");
}

int auth_throttle_check(struct bb_request *rq, struct auth *auth, const char *email,
                        int64_t *crowded_ms)
{
    struct subject subject = subject_of(rq, email);
    int64_t waits[THROTTLE_COUNTERS];

    waits_of(rq, auth, &subject, waits);
    *crowded_ms = waits[THROTTLE_ADDRESS];

    int64_t wait = waits[THROTTLE_BOTH] > waits[THROTTLE_ACCOUNT] ? waits[THROTTLE_BOTH]
                                                                  : waits[THROTTLE_ACCOUNT];

    return wait > 0 ? auth_throttle_refuse(rq, wait) : 0;
}

void auth_throttle_failed(struct bb_request *rq, struct auth *auth, const char *email)
{
    static const char script[] = "for i = 1, #KEYS do if redis.call('INCR', KEYS[i]) == 1 then "
                                 "redis.call('PEXPIRE', KEYS[i], ARGV[1]) end end return 1";
    const struct auth_throttle *throttle = auth->throttle;
    struct subject subject = subject_of(rq, email);

    for (size_t i = 0; i < THROTTLE_COUNTERS; i++)
        throttle_table_count(throttle->table, subject.id[i], throttle->window_ms,
                             bb_now_ms(auth->host));
    if (run(rq, script, &subject, &throttle->window_ms, 1))
        return;
    for (size_t i = 0; i < THROTTLE_COUNTERS; i++)
        throttle_table_alone(throttle->table, subject.id[i], bb_now_ms(auth->host));
}

void auth_throttle_passed(struct bb_request *rq, struct auth *auth, const char *email)
{
    struct subject subject = subject_of(rq, email);

    throttle_table_clear(auth->throttle->table, subject.id[0]);

    const char *argv[] = {"DEL", subject.key[0]};

    bb_redis(rq, 2, argv, NULL);
}

int auth_throttle_register(struct bb_request *rq, struct auth *auth)
{
    static const char script[] =
        "if tonumber(redis.call('GET', KEYS[1]) or 0) >= tonumber(ARGV[1]) then "
        "return redis.call('PTTL', KEYS[1]) end if redis.call('INCR', KEYS[1]) == 1 then "
        "redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0";
    const struct auth_throttle *throttle = auth->throttle;
    int64_t now_ms = bb_now_ms(auth->host);
    char key[KEY_MAX];
    uint64_t id;

    name('r', auth_throttle_network(rq), key, &id);

    const char *argv[] = {"EVAL",
                          script,
                          "1",
                          key,
                          bb_format(rq, "%" PRId64, throttle->registrations),
                          bb_format(rq, "%" PRId64, throttle->window_ms)};
    const struct bb_redis_reply *reply = bb_redis(rq, 6, argv, NULL);
    bool answered = reply && reply->type == BB_REDIS_INT;
    int64_t wait =
        throttle_table_wait(throttle->table, id, throttle->registrations, now_ms, answered);

    if (answered && reply->integer > wait)
        wait = reply->integer;
    if (wait > 0)
        return too_many(rq, wait, "registrations");
    throttle_table_count(throttle->table, id, throttle->window_ms, now_ms);
    if (!answered)
        throttle_table_alone(throttle->table, id, now_ms);
    return 0;
}
