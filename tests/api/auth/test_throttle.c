/*
 * Failed logins are counted: a guesser is stopped, the account's owner at another
 * address is not, and all hosts count together while Redis is available.
 */
#include <openssl/sha.h>

#include "exchange.h"
#include "talk.h"
#include "wire.h"

#define COUNTED                                                                                    \
    "  argon2_memory: 64\n"                                                                        \
    "  argon2_rounds: 1\n"                                                                         \
    "  login_failures_per_account: 4\n"                                                            \
    "  login_failures_per_address: 12\n"
#define STRICT COUNTED "  login_window: 600\n"
#define SHORT COUNTED "  login_window: 10\n"
#define FEW STRICT "  registrations_per_address: 3\n"
#define BEHIND_PROXY "  trusted_proxies: [\"127.0.0.1/32\"]\n"

static const char *database;
static struct host *alone;     /* without Redis; its tests use different addresses */
static struct host *one, *two; /* with the same Redis */
static pid_t redis_pid;
static struct person *person; /* account in the database, not of one host */

/* A Redis that is slow because the machine is busy must not let each host count alone. */
static struct host *start(const char *name, const char *redis, const char *auth)
{
    return host_start(&(struct host_spec){.name = name,
                                          .database = database,
                                          .redis = redis,
                                          .redis_ms = 10000,
                                          .auth = auth,
                                          .http = BEHIND_PROXY});
}

/* A host counts alone until it has reached Redis. */
static struct host *start_joined(const char *name, const char *redis, const char *auth)
{
    struct host *host = start(name, redis, auth);

    status_soon(host, "/api/health/status", NULL, 200);
    return host;
}

static void set_up(void)
{
    database = database_make(the_postgres, "throttle");
    const char *redis = redis_make("redis-throttle", &redis_pid);

    alone = start("throttle-alone", "", FEW);
    one = start_joined("throttle-1", redis, FEW);
    two = start_joined("throttle-2", redis, FEW);
    person = person_make(alone, admin_of(alone), "victim", NULL);
}

static void tear_down(void)
{
    process_stop(redis_pid, SIGTERM, 5000);
}

static const char *login_of(const char *email, const char *password)
{
    return text("{\"username\":\"%s\",\"password\":\"%s\"}", email, password);
}

/* Sends a request with that client address. */
static struct answer *post_from(const struct host *host, const char *address, struct call call)
{
    const char *headers[] = {text("X-Forwarded-For: %s", address), NULL};

    call.headers = headers;
    return http_send(host, &call);
}

static struct answer *login_from(const struct host *host, const char *address, const char *email,
                                 const char *password)
{
    return post_from(host, address,
                     call_by(NULL, "POST /api/auth/login %s", login_of(email, password)));
}

static void guess(const struct host *host, const char *address, int times)
{
    for (int i = 0; i < times; i++)
        ck_error(login_from(host, address, person->email, "a wrong guess"), 401, "Unauthorized");
}

static void expect_throttled(struct answer *answer)
{
    ck_error(answer, 429, "");
    const char *wait = answer_header(answer, "Retry-After");

    ck_assert_ptr_nonnull(wait);
    ck_assert_int_ge(atoi(wait), 1);
    ck_assert_int_le(atoi(wait), 600);
}

static void right_of(const struct host *host, const struct person *who, const char *address,
                     long status)
{
    struct answer *answer = login_from(host, address, who->email, who->password);

    if (status == 429)
        expect_throttled(answer);
    ck_status(answer, status);
}

static void right(const struct host *host, const char *address, long status)
{
    right_of(host, person, address, status);
}

/* One guesser tries one account, on any host; the owner comes from another address. */
static void one_guesser(const struct host *host, const struct host *other)
{
    guess(host, "192.0.2.1", 2);
    guess(other, "192.0.2.1", 2);
    right(host, "192.0.2.1", 429);
    right(other, "192.0.2.1", 429);
    right(host, "192.0.2.2", 200);
    right(other, "192.0.2.2", 200);
    right(host, "192.0.2.1", 429);
}

/* One address tries many accounts. */
static void many_accounts(const struct host *host)
{
    for (int i = 0; i < 12; i++)
        ck_error(login_from(host, "198.51.100.7", text("user%d@example.com", i), "some guess"), 401,
                 "");
    expect_throttled(login_from(host, "198.51.100.7", "user99@example.com", "some guess"));
    right(host, "198.51.100.7", 429);
    right(host, "198.51.100.8", 200);
}

/* A person who logged in from an address in the last 90 days is not locked out by others there. */
static void a_guesser_in_the_office(const struct host *host, const struct host *other)
{
    PGconn *own = database_connect(the_postgres, database);

    right(host, "203.0.113.77", 200);
    for (int i = 0; i < 12; i++)
        ck_error(login_from(host, "203.0.113.77", text("guessed%d@example.com", i), "some guess"),
                 401, "");
    expect_throttled(login_from(other, "203.0.113.77", "user99@example.com", "some guess"));
    right(host, "203.0.113.77", 200);
    right(other, "203.0.113.77", 200);
    sql_run(own, "UPDATE auth_origin SET seen = now() - interval '89 days'");
    right(host, "203.0.113.77", 200);
    sql_run(own, "UPDATE auth_origin SET seen = now() - interval '91 days'");
    right(other, "203.0.113.77", 429);
    PQfinish(own);
}

TEST(hosts_count_failed_logins_together_in_redis)
{
    one_guesser(one, two);
    many_accounts(one);
    a_guesser_in_the_office(one, two);
    expect_throttled(login_from(two, "198.51.100.7", "user99@example.com", "some guess"));
}

TEST(a_host_counts_failed_logins_without_redis)
{
    one_guesser(alone, alone);
    many_accounts(alone);
    a_guesser_in_the_office(alone, alone);
}

/* Returns the set of a counter in a host's table as everybody could compute it without a secret. */
static uint64_t set_of(char kind, const char *of)
{
    unsigned char digest[SHA256_DIGEST_LENGTH];
    uint64_t id;

    SHA256((const unsigned char *)of, strlen(of), digest);
    memcpy(&id, digest, sizeof(id));
    return (id ^ (uint64_t)kind) % 2048;
}

/* A set has four counters. */
TEST(chosen_emails_do_not_evict_the_counter_of_a_guesser)
{
    uint64_t set = set_of('b', text("%s 192.0.2.70", person->email));

    guess(alone, "192.0.2.70", 4);
    for (int i = 0, chosen = 0; chosen < 8; i++) {
        char email[64];

        snprintf(email, sizeof(email), "chosen%d@example.com", i);
        if (set_of('a', email) != set)
            continue;
        ck_error(login_from(alone, "192.0.2.71", email, "some guess"), 401, "");
        chosen++;
    }
    right(alone, "192.0.2.70", 429);
}

/* The password is correct, but each login costs a hash and has no use. */
TEST(logins_of_pending_accounts_count_as_failures)
{
    struct person *pending = person_register(alone, "throttle.pending", NULL);
    const char *from = "192.0.2.60";

    for (int i = 0; i < 4; i++)
        ck_error(login_from(alone, from, pending->email, pending->password), 403, "Your account");
    expect_throttled(login_from(alone, from, pending->email, pending->password));
}

static struct answer *register_from(const struct host *host, const char *address, const char *name)
{
    return post_from(host, address,
                     call_by(NULL,
                             "POST /api/user/register {'firstName':'A','lastName':'B','email':"
                             "'%s@example.com','password':'long enough','orgName':'Of %s'}",
                             name, name));
}

static void few_registrations(const struct host *host, const struct host *other, const char *name)
{
    ck_status(register_from(host, "2001:db8:9:9::1", text("%s-1", name)), 201);
    ck_error(register_from(other, "2001:db8:9:9::2", text("%s-1", name)), 409, "");
    ck_status(register_from(host, "2001:db8:9:9::3", text("%s-2", name)), 201);
    expect_throttled(register_from(host, "2001:db8:9:9::4", text("%s-3", name)));
    expect_throttled(register_from(other, "2001:db8:9:9::5", text("%s-3", name)));
    ck_status(register_from(host, "2001:db8:9:a::4", text("%s-3", name)), 201);
    right(host, "2001:db8:9:9::1", 200);
}

TEST(registrations_are_limited_per_address)
{
    few_registrations(one, two, "together");
    few_registrations(alone, alone, "alone");
}

/* Failures counted before Redis became unavailable still count. */
TEST(failed_logins_still_count_after_redis_dies)
{
    pid_t pid;
    const char *redis = redis_make("redis-dying", &pid);
    struct host *host = start_joined("throttle-dying", redis, STRICT);

    guess(host, "192.0.2.1", 3);
    process_stop(pid, SIGKILL, 5000);
    guess(host, "192.0.2.1", 1);
    right(host, "192.0.2.1", 429);
    right(host, "192.0.2.3", 200);
}

/*
 * Redis responds to reads and refuses writes from one request to the next. Failures that Redis
 * counted earlier and later failures add up, and still count once Redis accepts writes again.
 */
static void guess_while_redis_refuses_writes(const char *name, const char *break_it,
                                             const char *mend_it)
{
    pid_t pid;
    const char *redis = redis_make(name, &pid);
    struct host *host = start(name, redis, FEW);

    right(host, "192.0.2.9", 200);
    guess(host, "192.0.2.1", 2);
    redis_command(redis, break_it);
    guess(host, "192.0.2.1", 2);
    right(host, "192.0.2.1", 429);
    right(host, "192.0.2.2", 200);
    many_accounts(host);
    few_registrations(host, host, name);
    redis_command(redis, mend_it);
    right(host, "192.0.2.1", 429);
    host_stop(host);
    process_stop(pid, SIGTERM, 5000);
}

TEST(failed_logins_count_while_redis_refuses_writes)
{
    guess_while_redis_refuses_writes("redis-replica", "replicaof 127.0.0.1 1", "replicaof no one");
    guess_while_redis_refuses_writes("redis-full", "config set maxmemory 1",
                                     "config set maxmemory 64mb");
    guess_while_redis_refuses_writes("redis-lonely", "config set min-replicas-to-write 1",
                                     "config set min-replicas-to-write 0");
}

TEST(a_successful_login_resets_the_failures)
{
    for (int round = 0; round < 3; round++) {
        guess(alone, "203.0.113.5", 3);
        right(alone, "203.0.113.5", 200);
    }
}

TEST(an_ipv6_network_of_64_bits_counts_as_one_address)
{
    for (int i = 0; i < 4; i++)
        guess(alone, text("2001:db8:1:2::%d", i + 1), 1);
    right(alone, "2001:db8:1:2:ffff::9", 429);
    right(alone, "2001:db8:1:3::1", 200);
}

/* X-Forwarded-For counts only from a trusted proxy: else a client could pretend to be another. */
TEST(a_forged_x_forwarded_for_does_not_evade_the_throttle)
{
    struct host *host = host_start(&(struct host_spec){
        .name = "throttle-forged", .database = database, .redis = "", .auth = STRICT});

    for (int i = 0; i < 4; i++)
        guess(host, text("192.0.2.%d", i + 1), 1);
    right(host, "192.0.2.77", 429);
}

enum { GUESSERS = 12 };

/* Returns how many of the simultaneous guesses, each from a different address, get a 429; `email`
 * NULL: each guess is for another account. */
static int refused_guesses(const struct host *host, const char *email)
{
    struct wire *wires[GUESSERS];
    int refused = 0;

    ck_assert_int_eq(kill(host->pid, SIGSTOP), 0);
    for (int i = 0; i < GUESSERS; i++) {
        const char *form =
            login_of(email ? email : text("guessed%d@example.com", i), "a wrong guess");

        wires[i] = wire_open(host);
        ck_assert(wire_say(wires[i],
                           "POST /api/auth/login HTTP/1.1\r\nHost: x\r\n"
                           "X-Forwarded-For: 198.51.100.%d\r\nContent-Type: application/json\r\n"
                           "Content-Length: %zu\r\n\r\n%s",
                           i + 1, strlen(form), form));
    }
    ck_assert_int_eq(kill(host->pid, SIGCONT), 0);
    for (int i = 0; i < GUESSERS; i++) {
        const struct wire_answer *answer = wire_read(wires[i], 60000);

        ck_assert(answer && (answer->status == 401 || answer->status == 429));
        refused += answer->status == 429;
        wire_close(wires[i], false);
    }
    return refused;
}

/* The throttle would accept hundreds of guesses; the pool limits how many try one account. */
TEST(guesses_at_one_account_from_many_addresses_share_one_hashing_quota)
{
    struct host *host = host_start(
        &(struct host_spec){.name = "throttle-target",
                            .database = database,
                            .redis = "",
                            .auth = "  argon2_memory: 4096\n  argon2_rounds: 1\n"
                                    "  login_failures_per_account: 100\n",
                            .http = BEHIND_PROXY "  client_percent: 1\n  deadline: 60000\n"});

    /* The account is made here so that its hash has this host's cost. */
    struct person *target = person_make(host, admin_of(host), "target", NULL);

    right_of(host, target, "203.0.113.90", 200);
    ck_assert_int_eq(refused_guesses(host, NULL), 0);
    ck_assert_int_gt(refused_guesses(host, target->email), 0);
    right_of(host, target, "203.0.113.90", 200);
}

TEST(the_throttle_ends_after_its_window)
{
    struct host *host = start("throttle-window", "", SHORT);

    while (login_from(host, "192.0.2.1", person->email, "a wrong guess")->status != 429)
        continue;
    WAIT_UNTIL(login_from(host, "192.0.2.1", person->email, person->password)->status == 200, 5000);
}

/* getAccess and changing the password also check passwords. */
TEST(wrong_passwords_count_at_login_get_access_and_password_change)
{
    struct person own = *person;

    person_login(alone, &own);
    for (int i = 0; i < 2; i++) {
        ask_on(alone, NULL, 401, "Unauthorized",
               "POST /api/auth/getAccess {'username':'%s','password':'a wrong guess'}", own.email);
        ask_on(alone, &own, 401, "Unauthorized",
               "PUT /api/user/password {'current':'a wrong guess','new':'something new'}");
    }
    const char *body = login_of(own.email, own.password);

    expect_throttled(ask_on(alone, NULL, 429, NULL, "POST /api/auth/getAccess %s", body));
    expect_throttled(ask_on(alone, NULL, 429, NULL, "POST /api/auth/login %s", body));
    expect_throttled(ask_on(alone, &own, 429, NULL,
                            "PUT /api/user/password {'current':'%s','new':'something new'}",
                            own.password));
    ck_status(person_me(alone, &own), 200);
}

SUITE(throttle, .timeout_s = 60, .before_all = set_up, .after_all = tear_down)
