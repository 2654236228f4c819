/*
 * Passwords: argon2id, in the usual encoded form $argon2id$v=19$m=…,t=…,p=…$salt$hash. Hashing runs
 * on pools of nice threads: "hash", with two threads, for existing accounts, so that many attempts
 * from one address delay another address by half a hash; and "register" for new ones. The pools'
 * queues are bounded, the host serves their callers in turn, and no loop waits.
 *
 * The memory of a hash (19 MiB) is mapped and unmapped each time: memory from the heap would stay
 * with the process forever.
 */
#include "modules/auth/password/password.h"

#include <argon2.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "modules/auth/token/base64.h"

#define SALT 16
#define HASH 32

struct hashing {
    struct auth_cost cost;
    const char *password;
    unsigned char salt[SALT];
    unsigned char hash[HASH];
    int problem; /* error of argon2 */
};

static int map(uint8_t **memory, size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    *memory = at == MAP_FAILED ? NULL : at;
    return *memory ? ARGON2_OK : ARGON2_MEMORY_ALLOCATION_ERROR;
}

static void unmap(uint8_t *memory, size_t bytes)
{
    munmap(memory, bytes);
}

/* Runs on a thread of the pool. */
static void hash(void *arg)
{
    struct hashing *job = arg;
    argon2_context context = {
        .out = job->hash,
        .outlen = HASH,
        .pwd = (uint8_t *)(uintptr_t)job->password, /* read only: without ARGON2_FLAG_CLEAR… */
        .pwdlen = (uint32_t)strlen(job->password),
        .salt = job->salt,
        .saltlen = SALT,
        .t_cost = job->cost.rounds,
        .m_cost = job->cost.memory_kib,
        .lanes = job->cost.lanes,
        .threads = 1,
        .version = ARGON2_VERSION_13,
        .allocate_cbk = map,
        .free_cbk = unmap,
        .flags = ARGON2_DEFAULT_FLAGS,
    };

    job->problem = argon2id_ctx(&context);
}

static void encode(const struct hashing *job, char encoded[AUTH_HASH_MAX])
{
    char salt[BASE64_LENGTH(SALT) + 1], text[BASE64_LENGTH(HASH) + 1];

    base64_encode(BASE64_PLAIN, job->salt, SALT, salt);
    base64_encode(BASE64_PLAIN, job->hash, HASH, text);
    snprintf(encoded, AUTH_HASH_MAX, "$argon2id$v=19$m=%u,t=%u,p=%u$%s$%s", job->cost.memory_kib,
             job->cost.rounds, job->cost.lanes, salt, text);
}

/* Parses the cost, salt and hash of an encoded hash. Returns 0, or -1. */
static int decode(const char *encoded, struct hashing *job)
{
    char salt[BASE64_LENGTH(SALT) + 1], text[BASE64_LENGTH(HASH) + 1];

    _Static_assert(BASE64_LENGTH(SALT) == 22 && BASE64_LENGTH(HASH) == 43, "widths below");
    if (sscanf(encoded, "$argon2id$v=19$m=%u,t=%u,p=%u$%22[^$]$%43[^$]", &job->cost.memory_kib,
               &job->cost.rounds, &job->cost.lanes, salt, text) != 5)
        return -1;
    if (base64_decode(BASE64_PLAIN, salt, strlen(salt), job->salt, SALT) != SALT)
        return -1;
    return base64_decode(BASE64_PLAIN, text, strlen(text), job->hash, HASH) == HASH ? 0 : -1;
}

static int run(struct bb_request *rq, const char *pool, uint64_t target, struct hashing *job)
{
    if (target ? bb_offload_for(rq, pool, target, hash, job) : bb_offload(rq, pool, hash, job))
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
    encode(&job, auth->dummy);
    return 0;
}

int auth_password_hash(struct bb_request *rq, struct auth *auth, const char *pool,
                       const char *password, const char **encoded)
{
    struct hashing job = {.cost = auth->cost, .password = password};
    char *text = bb_alloc(rq, AUTH_HASH_MAX);

    if (bb_random(auth->host, job.salt, SALT))
        return bb_fail(rq, 503, "No random bytes");

    int status = run(rq, pool, 0, &job);

    if (status)
        return status;
    encode(&job, text);
    OPENSSL_cleanse(job.hash, HASH);
    *encoded = text;
    return 0;
}

int auth_password_check(struct bb_request *rq, uint64_t target, const char *password,
                        const char *encoded, bool *good)
{
    struct hashing job = {.password = password};
    unsigned char expected[HASH];

    if (decode(encoded, &job))
        return bb_fail(rq, 500, "The stored password cannot be read");
    memcpy(expected, job.hash, HASH);

    int status = run(rq, "hash", target, &job);

    *good = status == 0 && CRYPTO_memcmp(expected, job.hash, HASH) == 0;
    OPENSSL_cleanse(job.hash, HASH);
    return status;
}
