/*
 * Events on the bus. An event exists only inside a transaction: no event without its row, no row
 * without its event. Hooks of the kind `within` add their statements to the same transaction;
 * hooks of the kind `committed` get a copy afterwards.
 */
#ifndef BUSBAR_EVENT_H
#define BUSBAR_EVENT_H

#include <busbar/sql.h>

/* The accounts that may see an event, in addition to Admins. Without its size it is refused. */
struct bb_audience {
    size_t size;               /* sizeof(struct bb_audience) */
    int64_t organisation;      /* members that act for this organisation; 0: none */
    const char *const *emails; /* accounts with these e-mails; NULL-terminated, or NULL */
};

struct bb_event {
    size_t size;
    const char *name;
    const char *id;                     /* UUID of this event */
    int64_t wall_ms;                    /* when it was raised */
    const json_t *payload;              /* borrowed, not to be changed */
    const struct bb_audience *audience; /* never NULL */
};

/*
 * Raises an event that the module declares. `payload` is taken; the audience is copied.
 * 0; or -1 when a hook vetoed or memory ran out: `return bb_failed(rq)`.
 */
static inline int bb_emit(struct bb_request *rq, struct bb_tx *tx, const char *name,
                          json_t *payload, const struct bb_audience *audience)
{
    return rq->api->emit(tx, name, payload, audience);
}

#endif
