/*
 * Passwords: argon2id, in the usual encoded form $argon2id$v=19$m=…,t=…,p=…$salt$hash. Hashing runs
 * on thread pools with a low priority; event loops never wait for it. The pool "hash" is for
 * existing accounts. Its threads pause while processors are scarce, because hashes would take the
 * processor time that PostgreSQL needs for other requests (docs/benchmarks.md, attack D3). The pool
 * "register" is for new accounts. The pools' queues are bounded, and clients are served in turn.
 *
 * The memory of a hash (19 MiB) is mapped and unmapped each time; the heap would keep it forever.
 */
#include <argon2.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "modules/auth/auth.h"

#define SALT 16
#define HASH 32

struct hashing {
    struct auth_cost cost;
    const char *password;
    unsigned char salt[SALT];
    unsigned char hash[HASH];
    int problem; /* error of argon2 */
};

static int password_map(uint8_t **memory, size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    *memory = at == MAP_FAILED ? NULL : at;
    return *memory ? ARGON2_OK : ARGON2_MEMORY_ALLOCATION_ERROR;
}

static void password_unmap(uint8_t *memory, size_t bytes)
{
    munmap(memory, bytes);
}

/* Runs on a thread of the pool. */
static void password_work(void *arg)
{
    struct hashing *job = arg;
    argon2_context context = {
        .out = job->hash,
        .outlen = HASH,
        .pwd = (uint8_t *)(uintptr_t)job->password, /* argon2 does not change it with these flags */
        .pwdlen = (uint32_t)strlen(job->password),
        .salt = job->salt,
        .saltlen = SALT,
        .t_cost = job->cost.rounds,
        .m_cost = job->cost.memory_kib,
        .lanes = job->cost.lanes,
        .threads = 1,
        .version = ARGON2_VERSION_13,
        .allocate_cbk = password_map,
        .free_cbk = password_unmap,
        .flags = ARGON2_DEFAULT_FLAGS,
    };

    job->problem = argon2id_ctx(&context);
}

static void password_encode(const struct hashing *job, char encoded[AUTH_HASH_MAX])
{
    char salt[BASE64_ROOM(SALT)], text[BASE64_ROOM(HASH)];

    base64_encode(BASE64_PLAIN, job->salt, SALT, salt);
    base64_encode(BASE64_PLAIN, job->hash, HASH, text);
    snprintf(encoded, AUTH_HASH_MAX, "$argon2id$v=19$m=%u,t=%u,p=%u$%s$%s", job->cost.memory_kib,
             job->cost.rounds, job->cost.lanes, salt, text);
}

/* Parses the cost, salt and hash of an encoded hash. Returns 0, or -1. */
static int password_decode(const char *encoded, struct hashing *job)
{
    char salt[BASE64_ROOM(SALT)], text[BASE64_ROOM(HASH)];

    _Static_assert(sizeof(salt) > 22 && sizeof(text) > 43, "widths below");
    if (sscanf(encoded, "$argon2id$v=19$m=%u,t=%u,p=%u$%22[^$]$%43[^$]", &job->cost.memory_kib,
               &job->cost.rounds, &job->cost.lanes, salt, text) != 5)
        return -1;
    if (base64_decode(BASE64_PLAIN, salt, strlen(salt), job->salt, SALT) != SALT)
        return -1;
    return base64_decode(BASE64_PLAIN, text, strlen(text), job->hash, HASH) == HASH ? 0 : -1;
}

/* The pool counts all calls with the same `target` (not 0) as calls of one client. */
static int password_run(struct bb_request *rq, const char *pool, uint64_t target,
                        struct hashing *job)
{
    if (target ? bb_offload_for(rq, pool, target, password_work, job)
               : bb_offload(rq, pool, password_work, job))
        return bb_failed(rq);
    if (job->problem == ARGON2_OK)
        return 0;
    bb_log(rq, BB_ERROR, "argon2: %s", argon2_error_message(job->problem));
    return bb_fail(rq, 503, "The password could not be checked");
}

int auth_password_dummy(struct auth *auth)
{
    struct hashing job = {.cost = auth->cost};

    if (bb_random(auth->host, job.salt, SALT) || bb_random(auth->host, job.hash, HASH))
        return -1;
    password_encode(&job, auth->dummy);
    return 0;
}

const char *auth_password_hash(struct bb_request *rq, const char *pool, const char *password)
{
    const struct auth *auth = rq->state;
    struct hashing job = {.cost = auth->cost, .password = password};
    char *text = bb_alloc(rq, AUTH_HASH_MAX);

    if (bb_random(auth->host, job.salt, SALT))
        bb_end(rq, auth_no_random(rq));
    int status = password_run(rq, pool, 0, &job);

    if (status)
        bb_end(rq, status);
    password_encode(&job, text);
    OPENSSL_cleanse(job.hash, HASH);
    return text;
}

/*
 * ---- renewing a hash whose cost is not the one in the settings ----
 *
 * The new hash has the salt of the old one, so that statements see that the password is the same.
 */

enum {
    RENEWALS = 1,       /* subject: all renewals together may use a client's share of the pool */
    PASSWORD_MAX = 1024 /* bytes of 256 characters */
};

struct renewal {
    int64_t account;
    char old[AUTH_HASH_MAX], password[PASSWORD_MAX + 1];
};

/* Runs after the login. If it fails, the next login tries again. */
static void password_renew(struct bb_request *rq, void *arg)
{
    static const struct bb_sql write = {
        "UPDATE auth_account SET password = $3 WHERE id = $1::bigint AND password = $2",
        BB_SQL_WRITE};
    const struct renewal *renewal = arg;
    struct hashing job = {.password = renewal->password};
    char encoded[AUTH_HASH_MAX];

    password_decode(renewal->old, &job);
    job.cost = ((const struct auth *)rq->state)->cost;
    if (bb_offload_for(rq, "register", RENEWALS, password_work, &job) || job.problem != ARGON2_OK)
        return;
    password_encode(&job, encoded);
    if (!bb_query(rq, &write, BB_ARGS(bb_i(renewal->account), bb_t(renewal->old), bb_t(encoded))))
        bb_log(rq, BB_WARN, "cannot renew the hash of a password: %s", bb_sqlstate(rq));
}

static void password_renewed(void *arg, bool whole)
{
    (void)whole;
    OPENSSL_clear_free(arg, sizeof(struct renewal));
}

/* Returns at once. `password` is right for the account. */
static void password_renew_later(struct auth *auth, const struct auth_account *account,
                                 const char *password)
{
    bool fits = strlen(password) <= PASSWORD_MAX;
    struct renewal *renewal = fits ? OPENSSL_zalloc(sizeof(*renewal)) : NULL;

    if (!renewal)
        return;
    renewal->account = account->id;
    strncpy(renewal->old, account->password, AUTH_HASH_MAX - 1);
    strncpy(renewal->password, password, PASSWORD_MAX);
    if (bb_run_then(auth->host, password_renew, password_renewed, renewal))
        password_renewed(renewal, false);
}

/* ---- an e-mail and a password: checks the throttle, finds the account, hashes and counts ---- */

#define BY_EMAIL(email, network)                                                                   \
    "SELECT a.id, a.role, a.status, a.password, o.seen > now() - interval '90 days' AS known, "    \
    "o.seen > now() - interval '1 day' AS seen FROM auth_account a LEFT JOIN auth_origin o "       \
    "ON o.account = a.id AND o.network = " network " WHERE a.email = " email

static const struct bb_keyed by_email = {
    {BY_EMAIL("$1::text", "$2::text"), BB_SQL_KEYED},
    {"SELECT a.*, k.i FROM " BB_KEYS_2("text", "text") " k(email, network, i) CROSS JOIN LATERAL "
                                                       "(" BY_EMAIL("k.email",
                                                                    "k.network") " OFFSET 0) a",
     0},
};

int auth_account_find(struct bb_request *rq, const char *email, const char *network,
                      struct auth_account *account)
{
    struct bb_rows *rows = bb_query(rq, &by_email.one, BB_ARGS(bb_t(email), bb_t(network)));

    if (!rows || !bb_count(rq, rows))
        return rows ? 0 : -1;
    *account = (struct auth_account){
        .id = bb_cell_int(rq, rows, 0, 0),
        .role = bb_cell(rq, rows, 0, 1),
        .status = bb_cell(rq, rows, 0, 2),
        .password = bb_cell(rq, rows, 0, 3),
        .known_here = bb_cell_int(rq, rows, 0, 4) != 0,
        .seen_here = bb_cell_int(rq, rows, 0, 5) != 0,
    };
    return 1;
}

int auth_credentials(struct bb_request *rq, struct auth *auth, const char *email,
                     const char *password, struct auth_account *account, bool *good)
{
    struct hashing job = {.password = password};
    unsigned char expected[HASH];
    int64_t crowded_ms = 0;
    int status = auth_throttle_check(rq, auth, email, &crowded_ms);

    if (status)
        return status;

    int found = auth_account_find(rq, email, auth_throttle_network(rq), account);

    if (found < 0)
        return bb_failed(rq);
    if (crowded_ms > 0 && !account->known_here)
        return auth_throttle_refuse(rq, crowded_ms, "failed logins");
    bb_audit(rq, email);
    /* Checks an unknown account against a dummy hash, so that the response takes the same time. */
    if (password_decode(found ? account->password : auth->dummy, &job))
        return bb_fail(rq, 500, "The stored password cannot be read");
    memcpy(expected, job.hash, HASH);
    /* Attempts from a known network do not use the account's share of the pool. */
    status = password_run(rq, "hash", account->known_here ? 0 : auth_throttle_target(email), &job);
    *good = status == 0 && CRYPTO_memcmp(expected, job.hash, HASH) == 0 && found;
    OPENSSL_cleanse(job.hash, HASH);
    if (*good && memcmp(&job.cost, &auth->cost, sizeof(job.cost)) != 0)
        password_renew_later(auth, account, password);
    return status;
}

int auth_credentials_settle(struct bb_request *rq, struct auth *auth, const char *email,
                            const struct auth_account *account, int status)
{
    /* Keeps the 16 most recent client networks of an account. */
    static const struct bb_sql remember = {
        "WITH seen AS (INSERT INTO auth_origin AS o (account, network) VALUES ($1::bigint, $2) "
        "ON CONFLICT (account, network) DO UPDATE SET seen = now()) "
        "DELETE FROM auth_origin WHERE account = $1::bigint AND network IN (SELECT network FROM "
        "auth_origin WHERE account = $1::bigint AND network <> $2 ORDER BY seen DESC OFFSET 15)",
        BB_SQL_WRITE};

    if (status == 401 || status == 403)
        auth_throttle_failed(rq, auth, email);
    if (status >= 300)
        return status;
    auth_throttle_passed(rq, auth, email);
    if (!account->seen_here &&
        !bb_query(rq, &remember, BB_ARGS(bb_i(account->id), bb_t(auth_throttle_network(rq)))))
        bb_log(rq, BB_WARN, "cannot store the network of a login: %s", bb_sqlstate(rq));
    return status;
}
