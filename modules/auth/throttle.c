/*
 * Failed logins are counted three times: for the account from this address (strict), for the
 * account from anywhere (ten times as much, against many addresses), and for the address. So who
 * guesses locks out himself, and the right user elsewhere still gets in.
 *
 * Looked at before anything is hashed, counted after a failure: right passwords are never counted,
 * however many arrive at once. What is being hashed at the moment is not counted yet, so a burst
 * may try as many more as the pool "hash" takes.
 *
 * All hosts count together in Redis; this host counts beside it, and its numbers are used while
 * Redis does not answer. Keys are hashes: no e-mail and no address lies in Redis.
 */
#include "auth.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>

#define KEY_MAX 64

struct auth_throttle {
    struct throttle_table *table;
    int64_t window_ms;
    int64_t limits[THROTTLE_COUNTERS];
};

struct subject {
    char key[THROTTLE_COUNTERS][KEY_MAX]; /* in Redis */
    uint64_t id[THROTTLE_COUNTERS];       /* in the table */
};

struct auth_throttle *auth_throttle_new(struct bb_host *host)
{
    struct auth_throttle *throttle = calloc(1, sizeof(*throttle));
    int64_t per_account = bb_setting_int(host, "login_failures_per_account");

    if (!throttle)
        return NULL;
    throttle->window_ms = bb_setting_int(host, "login_window") * 1000;
    throttle->limits[0] = per_account;
    throttle->limits[1] = per_account * 10;
    throttle->limits[2] = bb_setting_int(host, "login_failures_per_address");
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

/* The client's address, of IPv6 the network: whoever has one address there has them all. */
static void address_of(struct bb_request *rq, char text[INET6_ADDRSTRLEN])
{
    const char *address = bb_client_address(rq);
    struct in6_addr six;

    snprintf(text, INET6_ADDRSTRLEN, "%s", address);
    if (inet_pton(AF_INET6, address, &six) != 1 || IN6_IS_ADDR_V4MAPPED(&six))
        return;
    memset(six.s6_addr + 8, 0, 8);
    inet_ntop(AF_INET6, &six, text, INET6_ADDRSTRLEN);
}

static void name(struct subject *subject, size_t which, const char *text)
{
    static const char kinds[THROTTLE_COUNTERS] = {'b', 'a', 'i'};
    unsigned char digest[SHA256_DIGEST_LENGTH];
    int used = snprintf(subject->key[which], KEY_MAX, "busbar:login:%c:", kinds[which]);

    SHA256((const unsigned char *)text, strlen(text), digest);
    for (size_t i = 0; i < 16; i++)
        used += snprintf(subject->key[which] + used, KEY_MAX - (size_t)used, "%02x", digest[i]);
    memcpy(&subject->id[which], digest, sizeof(subject->id[which]));
    subject->id[which] ^= which; /* an address and an e-mail of one text differ */
}

static struct subject subject_of(struct bb_request *rq, const char *email)
{
    struct subject subject = {0};
    char address[INET6_ADDRSTRLEN];

    address_of(rq, address);
    name(&subject, 0, bb_format(rq, "%s %s", email, address));
    name(&subject, 1, email);
    name(&subject, 2, address);
    return subject;
}

/* Runs a script over the three keys; NULL: Redis is not there, or did not like it. */
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

    const struct bb_redis_reply *reply =
        bb_redis(rq, (int)(3 + THROTTLE_COUNTERS + count), argv, NULL);

    return reply && reply->type == BB_REDIS_INT ? reply : NULL;
}

static int64_t wait_of(struct bb_request *rq, const struct auth_throttle *throttle,
                       const struct subject *subject, int64_t now_ms)
{
    static const char script[] =
        "local wait = 0 for i = 1, #KEYS do "
        "if tonumber(redis.call('GET', KEYS[i]) or 0) >= tonumber(ARGV[i]) then "
        "wait = math.max(wait, redis.call('PTTL', KEYS[i])) end end return wait";
    const struct bb_redis_reply *reply =
        run(rq, script, subject, throttle->limits, THROTTLE_COUNTERS);
    int64_t longest = 0;

    if (reply)
        return reply->integer;
    for (size_t i = 0; i < THROTTLE_COUNTERS; i++) {
        int64_t wait =
            throttle_table_wait(throttle->table, subject->id[i], throttle->limits[i], now_ms);

        longest = wait > longest ? wait : longest;
    }
    return longest;
}

int auth_throttle_check(struct bb_request *rq, struct auth *auth, const char *email)
{
    struct subject subject = subject_of(rq, email);
    int64_t wait = wait_of(rq, auth->throttle, &subject, bb_now_ms(auth->host));

    if (wait <= 0)
        return 0;
    bb_reply_header(rq, "Retry-After", bb_format(rq, "%" PRId64, (wait + 999) / 1000));
    return bb_fail(rq, 429, "Too many failed logins. Please try again later.");
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
    run(rq, script, &subject, &throttle->window_ms, 1);
}

void auth_throttle_passed(struct bb_request *rq, struct auth *auth, const char *email)
{
    struct subject subject = subject_of(rq, email);

    throttle_table_clear(auth->throttle->table, subject.id[0]);

    const char *argv[] = {"DEL", subject.key[0]};

    bb_redis(rq, 2, argv, NULL);
}
