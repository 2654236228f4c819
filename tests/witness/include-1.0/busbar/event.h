#ifndef BUSBAR_EVENT_H
#define BUSBAR_EVENT_H 
#include <busbar/sql.h>
struct bb_audience {
    size_t size;
    int64_t organization;
    const char *const *emails;
};
struct bb_event {
    size_t size;
    const char *name;
    const char *id;
    int64_t wall_ms;
    const json_t *payload;
    const struct bb_audience *audience;
};
static inline int bb_emit(struct bb_request *rq, struct bb_tx *tx, const char *name,
                          json_t *payload, const struct bb_audience *audience)
{
    return rq->api->emit(tx, name, payload, audience);
}
#endif
