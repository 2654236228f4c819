/* The metrics of the sender. */
#include "modules/webhook/module.h"

#include "modules/webhook/sender/sender.h"

static struct sender_counters counters_of(const struct webhook *webhook)
{
    struct sender_counters counters;

    sender_count(webhook->sender, &counters);
    return counters;
}

double webhook_now(void *state, size_t value)
{
    struct sender_counters counters = counters_of(state);

    return (double)(value == 0 ? counters.waiting : counters.in_flight);
}

double webhook_attempts(void *state, size_t value)
{
    struct sender_counters counters = counters_of(state);
    const int64_t outcomes[] = {counters.delivered, counters.retried, counters.abandoned};

    return (double)outcomes[value];
}

double webhook_lost_leases(void *state, size_t value)
{
    (void)value;
    return (double)counters_of(state).lost_leases;
}

double webhook_lag(void *state, size_t value)
{
    (void)value;
    return (double)counters_of(state).lag_ms / 1000;
}

double webhook_states(void *state, size_t value)
{
    return (double)counters_of(state).webhooks[value];
}

double webhook_expanding(void *state, size_t value)
{
    (void)value;
    return (double)counters_of(state).expanding;
}
