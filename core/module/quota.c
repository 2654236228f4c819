#include "core/module/quota.h"

#include <stdatomic.h>

#include "core/lib/address.h"
#include "core/lib/loop.h"
#include "core/lib/settings.h"

enum { PERCENT = 25 };

const char *const quota_names[QUOTAS] = {
    [QUOTA_CONNECTIONS] = "connections",
    [QUOTA_REQUESTS] = "requests",
    [QUOTA_ANONYMOUS] = "anonymous",
    [QUOTA_BODIES] = "bodies",
    [QUOTA_ANSWERS] = "answers",
    [QUOTA_UPLOADS] = "uploads",
    [QUOTA_POOLS] = "pools",
    [QUOTA_DATABASE] = "database",
};

static atomic_ullong refused[QUOTAS][2];

void quota_own_address(struct core_request *rq, const char *address)
{
    rq->owner = (struct quota_owner){.network = address_network(address)};
}

void quota_own_account(struct core_request *rq, int64_t account)
{
    rq->owner = (struct quota_owner){.account = account};
}

bool quota_exempt(const struct core_request *rq)
{
    return rq->kind != REQUEST_HTTP;
}

size_t quota_part(size_t percent, size_t all)
{
    size_t part = all / 100 * percent + all % 100 * percent / 100;

    return part ? part : 1;
}

size_t quota_each(const struct settings *settings, size_t all)
{
    size_t percent = settings ? (size_t)settings_int(settings, "http", "client_percent") : PERCENT;

    return quota_part(percent, all);
}

struct quota_limits quota_anonymous(size_t requests, size_t percent)
{
    size_t all = requests / 2;

    return (struct quota_limits){.all = all, .each = quota_part(percent, all)};
}

struct quota_limits quota_bounds(const struct settings *settings, enum quota quota)
{
    static const char *const names[QUOTAS] = {[QUOTA_REQUESTS] = "max_requests",
                                              [QUOTA_ANONYMOUS] = "max_requests",
                                              [QUOTA_BODIES] = "max_bodies",
                                              [QUOTA_ANSWERS] = "max_answers",
                                              [QUOTA_UPLOADS] = "max_uploads"};
    size_t all = (size_t)settings_int(settings, "http", names[quota]), percent = 0;

    if (quota == QUOTA_ANONYMOUS)
        return quota_anonymous(all, (size_t)settings_int(settings, "http", "client_percent"));
    if (quota == QUOTA_BODIES || quota == QUOTA_ANSWERS)
        percent = (size_t)settings_int(settings, "http", "bodies_per_account");
    return (struct quota_limits){
        .all = all, .each = percent ? quota_part(percent, all) : quota_each(settings, all)};
}

void quota_count(enum quota quota, bool own)
{
    atomic_fetch_add_explicit(&refused[quota][own], 1, memory_order_relaxed);
}

unsigned long long quota_refused(enum quota quota, bool own)
{
    return atomic_load_explicit(&refused[quota][own], memory_order_relaxed);
}

int quota_fail(struct core_request *rq, enum quota quota, enum quota_result why)
{
    if (why == QUOTA_NO_MEMORY)
        return request_fail(rq, FAILED_MEMORY);
    quota_count(quota, why == QUOTA_OWN_FULL);
    return request_fail(rq, why == QUOTA_OWN_FULL ? FAILED_SHARE : FAILED_BUSY);
}
