/*
 * Changes: payloads received on the channel from any host (including this one), or passed by a
 * handler of this host. An unknown payload drops everything, which is always safe. Any thread.
 */
#include "modules/auth/token/session.h"

#include <string.h>

void auth_changed(struct auth *auth, const char *payload)
{
    if (payload && strncmp(payload, "account:", 8) == 0) {
        auth_cache_drop_account(auth->cache, strtoll(payload + 8, NULL, 10));
        return;
    }
    if (payload && strncmp(payload, "session:", 8) == 0) {
        auth_cache_drop_session(auth->cache, payload + 8);
        return;
    }
    auth_keys_stale(auth->keys);
    auth_cache_drop_all(auth->cache);
}

void auth_heard(void *state, const char *payload)
{
    auth_changed(state, payload);
}
