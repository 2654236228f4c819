/*
 * Accounting by module: counts the resources that each module uses, and enforces the setting
 * module_limits. An account is found by the module's name and lives as long as the process, so
 * reloads keep its counters. Any thread; only account_named() takes a lock.
 */
#ifndef CORE_ACCOUNT_H
#define CORE_ACCOUNT_H

#include <stdatomic.h>

#include "core/lib/meter.h"

enum account_value {
    ACCOUNT_REQUESTS,    /* HTTP requests in progress */
    ACCOUNT_CPU_US,      /* time for which its code ran: on a loop, in a pool, or in a worker */
    ACCOUNT_DATABASE_US, /* time for which its statements kept connections busy */
    ACCOUNT_LIMITS,      /* the values above can be limited */
    ACCOUNT_REFUSED = ACCOUNT_LIMITS, /* number of requests refused because of each limit */
    ACCOUNT_STATEMENTS = ACCOUNT_REFUSED + ACCOUNT_LIMITS,
    ACCOUNT_QUEUE_US, /* time that its requests waited for a database connection or pool thread */
    ACCOUNT_EVENTS,   /* number of events raised */
    ACCOUNT_MEMORY,   /* bytes in the arenas of requests whose fibers have parked */
    ACCOUNT_TIMES,    /* histogram of request_spent.work_us */
    ACCOUNT_VALUES = ACCOUNT_TIMES + METER_TIME_VALUES
};

struct account {
    struct account *next;
    struct meter *meter; /* its values have the indexes of enum account_value */
    /* maximum requests in progress, and processor and database ms per second; 0: no limit */
    atomic_int_least64_t limits[ACCOUNT_LIMITS];
    /* monotonic time until which earlier use occupies the limit, see account_add() */
    atomic_int_least64_t until_us[ACCOUNT_LIMITS];
    char name[];
};

/* The names of the limits in an entry of the setting module_limits. */
extern const char *const account_limit_names[ACCOUNT_LIMITS];

/* Returns the account of a module, and creates it if necessary. NULL: out of memory. */
struct account *account_named(const char *name);

/* Returns the first account, which links to all others. */
const struct account *account_first(void);

/* Adds to a value, unless the account is NULL (the host). */
void account_add(struct account *account, enum account_value value, int64_t by);

/*
 * Counts a request in progress, which the caller must subtract at its end, and returns 0. If a
 * limit is reached, counts a refusal instead, and returns in how many seconds to retry.
 */
int64_t account_enter(struct account *account);

#endif
