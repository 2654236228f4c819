/* The state of one generation, created by `open` and freed by `close`. */
#include "modules/auth/module.h"

#include "modules/auth/password/password.h"
#include "modules/auth/token/session.h"

#define DAY_S 86400

void auth_close(struct bb_host *host, void *state)
{
    struct auth *auth = state;

    (void)host;
    auth_throttle_free(auth->throttle);
    auth_keys_free(auth->keys);
    auth_cache_free(auth->cache);
}

int auth_open(struct bb_host *host, void **state)
{
    struct auth *auth = bb_host_alloc(host, sizeof(*auth));
    const struct auth_settings *settings = bb_settings(host);
    uint64_t seed;

    if (!auth)
        return bb_open_fail(host, "out of memory");
    auth->host = host;
    auth->settings = settings;
    auth->session_s = settings->session_days * DAY_S;
    auth->client_s = settings->client_minutes * 60;
    auth->cost = (struct auth_cost){
        .rounds = (uint32_t)settings->argon2_rounds,
        .memory_kib = (uint32_t)settings->argon2_memory,
        .lanes = (uint32_t)settings->argon2_lanes,
    };
    if (bb_random(host, &seed, sizeof(seed)) || auth_password_dummy(auth))
        return bb_open_fail(host, "no random bytes");
    auth->cache = auth_cache_new((size_t)settings->cache_entries, seed);
    auth->keys = auth_keys_new();
    auth->throttle = auth_throttle_new(settings);
    if (auth->cache && auth->keys && auth->throttle) {
        *state = auth;
        return 0;
    }
    auth_close(host, auth);
    return bb_open_fail(host, "out of memory");
}
