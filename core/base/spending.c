#include "core/base/spending.h"

enum {
    FREE_US = 50000,   /* of a debt, for which nobody waits */
    MOST_US = 1000000, /* a debt is no larger: who did much once has paid it off in seconds */
    OTHERS_MS = 1000,  /* others that asked for something in this time are there */
    PERCENT_US = 10    /* a percent of a millisecond */
};

/* What is left of the debt. */
static int64_t debt_of(const struct spending *spending, const struct spending_entry *entry,
                       int64_t now_ms)
{
    int64_t paid_us = (now_ms - entry->at_ms) * spending->percent * PERCENT_US;

    return paid_us < entry->debt_us ? entry->debt_us - paid_us : 0;
}

static const struct spending_entry *row_of(const struct spending *spending,
                                           const struct quota_owner *owner)
{
    return spending->rows[quota_owner_hash(owner) % SPENDING_ROWS];
}

void spending_charge(struct spending *spending, const struct quota_owner *owner, int64_t now_ms,
                     int64_t took_us)
{
    struct spending_entry *row = spending->rows[quota_owner_hash(owner) % SPENDING_ROWS];
    struct spending_entry *least = row;

    if (took_us < SPENDING_LEAST_US || !spending->percent || quota_owner_host(owner))
        return;
    for (struct spending_entry *entry = row; entry < row + SPENDING_PLACES; entry++) {
        if (quota_owner_same(&entry->owner, owner)) {
            least = entry;
            break;
        }
        if (debt_of(spending, entry, now_ms) < debt_of(spending, least, now_ms))
            least = entry;
    }
    int64_t debt_us = quota_owner_same(&least->owner, owner) ? debt_of(spending, least, now_ms) : 0;

    debt_us += took_us;
    *least = (struct spending_entry){*owner, debt_us < MOST_US ? debt_us : MOST_US, now_ms};
}

void spending_asks(struct spending *spending, const struct quota_owner *owner, int64_t now_ms)
{
    struct spending_seen *seen = spending->seen;

    if (!quota_owner_same(&seen[0].owner, owner)) {
        seen[1] = seen[0];
        seen[0].owner = *owner;
    }
    seen[0].at_ms = now_ms;
}

bool spending_has_several(const struct spending *spending, int64_t now_ms)
{
    const struct spending_seen *last = &spending->seen[1];

    return last->at_ms && now_ms - last->at_ms < OTHERS_MS;
}

/* Those that share the share of the time by which debts are paid off. */
static int64_t debtors(const struct spending *spending, int64_t now_ms)
{
    int64_t count = 0;

    for (size_t row = 0; row < SPENDING_ROWS; row++) {
        for (size_t place = 0; place < SPENDING_PLACES; place++)
            count += debt_of(spending, &spending->rows[row][place], now_ms) > FREE_US;
    }
    return count;
}

int64_t spending_wait_ms(const struct spending *spending, const struct quota_owner *owner,
                         int64_t now_ms)
{
    const struct spending_entry *row = row_of(spending, owner);

    for (const struct spending_entry *entry = row; entry < row + SPENDING_PLACES; entry++) {
        if (!quota_owner_same(&entry->owner, owner))
            continue;
        int64_t over_us = debt_of(spending, entry, now_ms) - FREE_US;

        if (over_us <= 0)
            return 0;
        return over_us * debtors(spending, now_ms) / (spending->percent * PERCENT_US) + 1;
    }
    return 0;
}
