/*
 * Events on the bus. An event is part of a transaction: the event and the rows written with it are
 * committed together or not at all. Hooks of kind `within` add their statements to the same
 * transaction; hooks of kind `committed` get a copy afterwards.
 */
#ifndef BUSBAR_EVENT_H
#define BUSBAR_EVENT_H

#include <busbar/sql.h>

/* The readers of an event, in addition to Admins. bb_emit() refuses an audience of size 0. */
struct bb_audience {
    size_t size;               /* sizeof(struct bb_audience) */
    int64_t organization;      /* accounts that act for this organization; 0: none */
    const char *const *emails; /* accounts with these e-mails; NULL-terminated, or NULL */
};

struct bb_event {
    size_t size;
    const char *name;
    const char *id;                     /* UUID of this event */
    int64_t wall_ms;                    /* when the event was raised, in ms since 1970 */
    const json_t *payload;              /* borrowed; must not be changed */
    const struct bb_audience *audience; /* never NULL */
};

/*
 * Raises an event that the module declares. Takes ownership of `payload` and copies the audience.
 * Returns 0, or -1 if a hook vetoed or memory ran out; then `return bb_failed(rq)`.
 */
static inline int bb_emit(struct bb_request *rq, struct bb_tx *tx, const char *name,
                          json_t *payload, const struct bb_audience *audience)
{
    return rq->api->emit(tx, name, payload, audience);
}

#endif
