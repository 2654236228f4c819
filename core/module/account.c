#include "core/module/account.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/lib/text.h"
#include "core/lib/thread.h"

enum { SECOND_US = 1000000 };

const char *const account_limit_names[ACCOUNT_LIMITS] = {"requests", "cpu_time", "database_time"};

static pthread_mutex_t account_lock = PTHREAD_MUTEX_INITIALIZER;
static struct account *_Atomic accounts; /* new ones are added at the front */

struct account *account_named(const char *name)
{
    BB_LOCKED(&account_lock);
    struct account *account = accounts;

    while (account && strcmp(account->name, name) != 0)
        account = account->next;
    if (!account && (account = calloc(1, sizeof *account + strlen(name) + 1))) {
        char *key; /* differs from the name of any metric, because these contain a dot */

        account->next = accounts;
        memcpy(account->name, name, strlen(name));
        account->meter =
            asprintf(&key, "account %s", name) < 0 ? NULL : meter_named(key, ACCOUNT_VALUES);
        if (account->meter) {
            accounts = account;
        } else {
            free(account);
            account = NULL;
        }
    }
    return account;
}

const struct account *account_first(void)
{
    return accounts;
}

/*
 * With a limit of N ms per second, 1 ms of use reserves 1/N second. Reservations follow each other;
 * until_us is the end of the last one. If until_us is over 1 s ahead, account_enter() refuses.
 */
void account_add(struct account *account, enum account_value value, int64_t by)
{
    if (!account)
        return;
    meter_add(account->meter, value, (uint64_t)by);
    int64_t most = value == ACCOUNT_CPU_US || value == ACCOUNT_DATABASE_US
                       ? atomic_load_explicit(&account->limits[value], memory_order_relaxed)
                       : 0;
    if (!most)
        return;
    int64_t now = clock_mono_us(), before = atomic_load(&account->until_us[value]);

    while (!atomic_compare_exchange_weak(&account->until_us[value], &before,
                                         (before > now ? before : now) + by * 1000 / most))
        ;
}

int64_t account_enter(struct account *account)
{
    account_add(account, ACCOUNT_REQUESTS, 1);
    for (unsigned i = 0; account && i < ACCOUNT_LIMITS; i++) {
        int64_t most = atomic_load_explicit(&account->limits[i], memory_order_relaxed), over;

        if (!most)
            continue;
        /* time may be reserved up to one second ahead, which allows short peaks */
        over = i == ACCOUNT_REQUESTS
                   ? (int64_t)meter_sum(account->meter, i) - most
                   : atomic_load(&account->until_us[i]) - clock_mono_us() - SECOND_US;
        if (over <= 0)
            continue;
        account_add(account, ACCOUNT_REQUESTS, -1);
        account_add(account, ACCOUNT_REFUSED + i, 1);
        return 1 + over / SECOND_US;
    }
    return 0;
}
