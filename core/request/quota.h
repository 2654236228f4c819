/*
 * Quotas: connections, memory, disk, threads and pools of the database are shared by all and
 * bounded. One account, or without a token one address (of IPv6: one network of 64 bits), has no
 * more than `http.share` percent of each: what it wants beyond is answered 429, what all want
 * beyond the whole 503. Here it is said whose a piece of work is, and counted what was refused.
 * What the host does by itself (jobs, workers, commands, hooks behind a commit) is never refused.
 */
#ifndef CORE_QUOTA_H
#define CORE_QUOTA_H

#include "core/base/quota_table.h"
#include "core/request/request.h"

enum quota {
    QUOTA_CONNECTIONS,
    QUOTA_REQUESTS,
    QUOTA_BODIES,
    QUOTA_ANSWERS,
    QUOTA_UPLOADS,
    QUOTA_POOLS,
    QUOTA_DATABASE,
    QUOTAS
};
extern const char *const quota_names[QUOTAS];

/*
 * From here on the request is that of the address (as address_client() writes it), or of the
 * account; until then it is the host's own.
 */
void quota_own_address(struct core_request *rq, const char *address);
void quota_own_account(struct core_request *rq, int64_t account);

/* Whether it is never refused for what its owner has. */
bool quota_exempt(const struct core_request *rq);

/* So many percent of it, but 1 at least. */
size_t quota_part(size_t percent, size_t all);
/* What one owner may have of so much. At least 1. `settings` NULL: by the default percentage. */
size_t quota_each(const struct settings *settings, size_t all);

/* How much there is of requests under way, bodies, answers and uploads. */
struct quota_limits quota_bounds(const struct settings *settings, enum quota quota);

/* Counts a refusal: because the owner has its share, or because all is taken. Any thread. */
void quota_count(enum quota quota, bool own);
unsigned long long quota_refused(enum quota quota, bool own);

/* The same, and records it as the request's failure. Returns -1. */
int quota_fail(struct core_request *rq, enum quota quota, enum quota_result why);

#endif
