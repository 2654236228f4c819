/*
 * Queries of the log: the filters that the list, the totals and the export have in common, and the
 * ways to find entries.
 *
 * Devices are selected by properties that the module device stores. If few devices match, their ids
 * are kept and their entries are searched device by device; otherwise the statement checks the
 * devices, and skips the entries of others.
 */
#ifndef CERTIFICATE_FILTER_H
#define CERTIFICATE_FILTER_H

#include "modules/certificate/base/certificate.h"

enum certificate_text {
    CERTIFICATE_FROM_TIME,
    CERTIFICATE_BEFORE_TIME,
    CERTIFICATE_IN_STATUS,
    CERTIFICATE_OF_KEY, /* from here on: properties of devices; externalId or uuid */
    CERTIFICATE_OF_COUNTRY,
    CERTIFICATE_OF_OTHER, /* the country's other code */
    CERTIFICATE_OF_FUEL,
    CERTIFICATE_OF_TYPE,
    CERTIFICATE_CHOSEN, /* the ids, as an array; NULL: any device, or too many to keep */
    CERTIFICATE_TEXTS
};

struct certificate_filter {
    struct certificate_scope scope;
    int64_t device, group;               /* 0: any */
    int64_t least_wh, most_wh;           /* INT64_MIN and INT64_MAX: any */
    const char *text[CERTIFICATE_TEXTS]; /* NULL: any */
    int64_t after_ms, after_id;          /* the list's cursor */
};

/* The key by which entries are searched: the first of these that is given. */
enum certificate_way {
    CERTIFICATE_BY_DEVICE,
    CERTIFICATE_BY_CHOSEN,
    CERTIFICATE_BY_GROUP,
    CERTIFICATE_BY_ORGANIZATION,
    CERTIFICATE_BY_TIME,
    CERTIFICATE_WAYS
};
enum certificate_way certificate_way(const struct certificate_filter *filter);

/* Returns whether the search may have to skip entries. */
bool certificate_narrowed(const struct certificate_filter *filter);

/*
 * Parameters of statements: $1 $2 scope, $3 device, $4 from, $5 before; $9 group, $10 status, $11
 * lowest and $12 highest Wh, $13 whether any device matches, $14 to $18 the properties of devices,
 * $19 the selected devices. Each statement defines $6 to $8 itself.
 */
#define CERTIFICATE_HEAD_ARGS(filter)                                                              \
    CERTIFICATE_SCOPE_ARGS(&(filter)->scope),                                                      \
        (filter)->device ? bb_i((filter)->device) : bb_null(),                                     \
        bb_t((filter)->text[CERTIFICATE_FROM_TIME]), bb_t((filter)->text[CERTIFICATE_BEFORE_TIME])
#define CERTIFICATE_TAIL_ARGS(filter)                                                              \
    (filter)->group ? bb_i((filter)->group) : bb_null(),                                           \
        bb_t((filter)->text[CERTIFICATE_IN_STATUS]), bb_i((filter)->least_wh),                     \
        bb_i((filter)->most_wh), bb_b(!certificate_chooses(filter)),                               \
        bb_t((filter)->text[CERTIFICATE_OF_KEY]), bb_t((filter)->text[CERTIFICATE_OF_COUNTRY]),    \
        bb_t((filter)->text[CERTIFICATE_OF_OTHER]), bb_t((filter)->text[CERTIFICATE_OF_FUEL]),     \
        bb_t((filter)->text[CERTIFICATE_OF_TYPE]), bb_t((filter)->text[CERTIFICATE_CHOSEN])

/* Returns whether the statement must check the properties of devices. */
static inline bool certificate_chooses(const struct certificate_filter *filter)
{
    if (filter->text[CERTIFICATE_CHOSEN])
        return false;
    for (size_t i = CERTIFICATE_OF_KEY; i < CERTIFICATE_CHOSEN; i++)
        if (filter->text[i])
            return true;
    return false;
}

/*
 * The condition on entries `e` that are searched by the selected devices. Because of the OR, the
 * devices are looked up once, and only if needed.
 */
#define CERTIFICATE_NARROW_CHOSEN                                                                  \
    " AND ($9::bigint IS NULL OR e.group_id = $9::bigint)"                                         \
    " AND ($10::text IS NULL OR e.status = $10::text)"                                             \
    " AND e.wh BETWEEN $11::bigint AND $12::bigint"                                                \
    " AND ($13::boolean OR e.device IN (SELECT device_chosen(CASE WHEN $1::boolean THEN NULL"      \
    " ELSE $2::bigint[] END, $14::text, $15::text, $16::text, $17::text, $18::text)))"
/* The condition on entries that are searched in another way. */
#define CERTIFICATE_NARROW                                                                         \
    CERTIFICATE_NARROW_CHOSEN " AND ($19::bigint[] IS NULL OR e.device = ANY ($19::bigint[]))"

/* Evaluated once, because all entries of a device or group belong to one organization. */
#define CERTIFICATE_SEES_DEVICE                                                                    \
    "($1::boolean OR (SELECT o.organisation FROM certificate_entry o WHERE o.device = $3::bigint"  \
    " LIMIT 1) = ANY($2::bigint[]))"
#define CERTIFICATE_SEES_GROUP                                                                     \
    "($1::boolean OR (SELECT g.organisation FROM certificate_group g WHERE g.id = $9::bigint)"     \
    " = ANY($2::bigint[]))"

/* Reads the filter from the query. Returns 0, or the status of the response sent. */
int certificate_filter(struct bb_request *rq, struct certificate_filter *filter);
/* Reads the list's `after`. Returns 0, or the status of the response sent. */
int certificate_cursor(struct bb_request *rq, struct certificate_filter *filter);

/* fetch.c */
/* fetch.c: returns the next rows after the cursor, newest first; NULL: failed. */
const struct bb_rows *certificate_fetch(struct bb_request *rq,
                                        const struct certificate_filter *filter, int64_t limit);
/* The same for callers that fetch page after page; uses a long statement. */
const struct bb_rows *certificate_fetch_long(struct bb_request *rq,
                                             const struct certificate_filter *filter,
                                             int64_t limit);
/* Moves the cursor to a row. */
void certificate_move(struct bb_request *rq, struct certificate_filter *filter,
                      const struct bb_rows *rows, size_t row);

#endif
