#include "core/base/spending.h"

enum {
    FREE_US = 100000,  /* of a debt, for which nobody waits */
    MOST_US = 1000000, /* a debt is no larger: who did much once has paid it off in seconds */
    OTHERS_MS = 1000,  /* others that asked for something in this time are there */
    PERCENT_US = 10,   /* a percent of a millisecond */
    EACH_PART = 8      /* so much less of a piece is charged with each advance */
};

/* Those that share the share of the time by which debts are paid off. */
static int64_t debtors(const struct spending *spending)
{
    int64_t count = 0;

    for (size_t row = 0; row < SPENDING_ROWS; row++) {
        for (size_t place = 0; place < SPENDING_PLACES; place++)
            count += spending->rows[row][place].debt_us > FREE_US;
    }
    return count;
}

/* What has been paid off since this was last looked at. */
static void settle(struct spending *spending, int64_t now_ms)
{
    int64_t paid_us = (now_ms - spending->settled_ms) * spending->percent * PERCENT_US;
    int64_t share_us = 0;

    spending->settled_ms = now_ms;
    if (!paid_us)
        return;
    int64_t sharers = debtors(spending), shared_us = spending->rest_us + paid_us;

    if (sharers)
        share_us = shared_us / sharers;
    spending->rest_us = sharers ? shared_us % sharers : 0;
    for (size_t i = 0; i < (size_t)SPENDING_ROWS * SPENDING_PLACES; i++) {
        struct spending_entry *entry = &spending->rows[i / SPENDING_PLACES][i % SPENDING_PLACES];
        int64_t part_us = entry->debt_us > FREE_US ? share_us : paid_us;

        entry->debt_us = part_us < entry->debt_us ? entry->debt_us - part_us : 0;
    }
}

struct spending_entry *spending_entry_of(struct spending *spending, const struct quota_owner *owner)
{
    struct spending_entry *row = spending->rows[quota_owner_hash(owner) % SPENDING_ROWS];

    for (struct spending_entry *entry = row; entry < row + SPENDING_PLACES; entry++) {
        if (quota_owner_same(&entry->owner, owner))
            return entry;
    }
    return NULL;
}

/* The place of whoever owes least, for another. NULL: those of all four wait. */
static struct spending_entry *place_for(struct spending *spending, const struct quota_owner *owner)
{
    struct spending_entry *row = spending->rows[quota_owner_hash(owner) % SPENDING_ROWS];
    struct spending_entry *least = NULL;

    for (struct spending_entry *entry = row; entry < row + SPENDING_PLACES; entry++) {
        if (!entry->waiting && (!least || entry->debt_us < least->debt_us))
            least = entry;
    }
    if (least)
        *least = (struct spending_entry){.owner = *owner};
    return least;
}

static void owe(struct spending_entry *entry, int64_t us)
{
    int64_t debt_us = entry->debt_us + us;

    entry->debt_us = debt_us < MOST_US ? debt_us : MOST_US;
}

void spending_charge(struct spending *spending, const struct quota_owner *owner, int64_t now_ms,
                     int64_t took_us)
{
    if (took_us < SPENDING_LEAST_US || !spending->percent || quota_owner_host(owner))
        return;
    settle(spending, now_ms);
    struct spending_entry *entry = spending_entry_of(spending, owner);

    if (!entry)
        entry = place_for(spending, owner);
    if (!entry)
        return;
    int64_t paid_us = took_us < entry->advance_us ? took_us : entry->advance_us;

    if (took_us > entry->each_us)
        entry->each_us = took_us;
    entry->advance_us -= paid_us;
    owe(entry, took_us - paid_us);
}

/* Who has come to ask for less pays less with each request. */
void spending_advance(struct spending *spending, struct spending_entry *entry, int64_t now_ms)
{
    settle(spending, now_ms);
    entry->each_us -= entry->each_us / EACH_PART;
    if (entry->each_us < SPENDING_LEAST_US)
        entry->each_us = SPENDING_LEAST_US;
    entry->advance_us += entry->each_us;
    owe(entry, entry->each_us);
}

bool spending_lets_go(struct spending_entry *entry, int64_t now_ms)
{
    if (entry->patient_ms && now_ms - entry->patient_ms < SPENDING_WAIT_MS)
        return false;
    entry->patient_ms = now_ms;
    return true;
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

bool spending_has_others(const struct spending *spending, const struct quota_owner *owner,
                         int64_t now_ms)
{
    const struct spending_seen *last = spending->seen;

    if (quota_owner_same(&last->owner, owner))
        last++;
    return last->at_ms && now_ms - last->at_ms < OTHERS_MS;
}

bool spending_has_several(const struct spending *spending, int64_t now_ms)
{
    const struct spending_seen *last = &spending->seen[1];

    return last->at_ms && now_ms - last->at_ms < OTHERS_MS;
}

int64_t spending_wait_ms(struct spending *spending, const struct spending_entry *entry,
                         int64_t now_ms)
{
    settle(spending, now_ms);
    int64_t over_us = entry->debt_us - FREE_US;

    if (over_us <= 0)
        return 0;
    return over_us * debtors(spending) / (spending->percent * PERCENT_US) + 1;
}
