/*
 * Quotas: connections, memory, disk space, threads and the database pools are shared and limited.
 * An account, or without a token an address (with IPv6 a 64-bit network), may use at most
 * `http.client_percent` percent of each: requests beyond that are answered 429, requests beyond the
 * total 503. This file determines the owner of a request, and counts refusals. Work of the host
 * itself (jobs, workers, commands, hooks after a commit) is never refused.
 */
#ifndef CORE_QUOTA_H
#define CORE_QUOTA_H

#include "core/lib/quota_table.h"
#include "core/module/request.h"

enum quota {
    QUOTA_CONNECTIONS,
    QUOTA_REQUESTS,
    QUOTA_ANONYMOUS, /* requests without a token, a part of these */
    QUOTA_BODIES,
    QUOTA_ANSWERS,
    QUOTA_UPLOADS,
    QUOTA_POOLS,
    QUOTA_DATABASE,
    QUOTAS
};
extern const char *const quota_names[QUOTAS];

/*
 * From now on the owner of the request is the address (as address_client() writes it), or the
 * account; before, it is the host.
 */
void quota_own_address(struct core_request *rq, const char *address);
void quota_own_account(struct core_request *rq, int64_t account);

/* Whether the request is exempt from its owner's limits. */
bool quota_exempt(const struct core_request *rq);

/* `percent` of `all`, at least 1. */
size_t quota_part(size_t percent, size_t all);
/* The share of one owner in `all`, at least 1. `settings` NULL: uses the default percentage. */
size_t quota_each(const struct settings *settings, size_t all);

/* The limits for requests without a token, of `requests` in progress. */
struct quota_limits quota_anonymous(size_t requests, size_t percent);

/* The limits for requests in progress, bodies, answers and uploads. */
struct quota_limits quota_bounds(const struct settings *settings, enum quota quota);

/* Counts a refusal: `own` if the owner's share is used up, otherwise the total. Any thread. */
void quota_count(enum quota quota, bool own);
unsigned long long quota_refused(enum quota quota, bool own);

/* Counts a refusal and records it as the request's failure. Returns -1. */
int quota_fail(struct core_request *rq, enum quota quota, enum quota_result why);

#endif
