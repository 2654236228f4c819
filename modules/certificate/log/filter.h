/*
 * What of the log is asked for: the filters that the list, the sums and the export have in common,
 * and the ways to find entries.
 *
 * Devices are chosen by what the module device knows of them. Where they are few, their ids are
 * kept and their entries found one device after the other; else the statement asks for them, and
 * passes over the entries of others.
 */
#ifndef CERTIFICATE_FILTER_H
#define CERTIFICATE_FILTER_H

#include "modules/certificate/base/certificate.h"

enum certificate_text {
    CERTIFICATE_FROM_TIME,
    CERTIFICATE_BEFORE_TIME,
    CERTIFICATE_IN_STATUS,
    CERTIFICATE_OF_KEY, /* from here on: of the devices; externalId or uuid */
    CERTIFICATE_OF_COUNTRY,
    CERTIFICATE_OF_OTHER, /* the country's other code */
    CERTIFICATE_OF_FUEL,
    CERTIFICATE_OF_TYPE,
    CERTIFICATE_CHOSEN, /* the ids, as an array; NULL: any, or too many to be kept */
    CERTIFICATE_TEXTS
};

struct certificate_filter {
    struct certificate_scope scope;
    int64_t device, group;               /* 0: any */
    int64_t least_wh, most_wh;           /* INT64_MIN and INT64_MAX: any */
    const char *text[CERTIFICATE_TEXTS]; /* NULL: any */
    int64_t after_ms, after_id;          /* the cursor of the list */
};

/* By what entries are found: the first of these that is given. */
enum certificate_way {
    CERTIFICATE_BY_DEVICE,
    CERTIFICATE_BY_CHOSEN,
    CERTIFICATE_BY_GROUP,
    CERTIFICATE_BY_ORGANISATION,
    CERTIFICATE_BY_TIME,
    CERTIFICATE_WAYS
};
enum certificate_way certificate_way(const struct certificate_filter *filter);

/* Whether an entry that is found may be passed over. */
bool certificate_narrowed(const struct certificate_filter *filter);

/*
 * Parameters of statements: $1 $2 scope, $3 device, $4 from, $5 before; $9 group, $10 status, $11
 * least and $12 most Wh, $13 whether any device will do, $14 to $18 what they are chosen by, $19
 * the chosen ones. What a statement has at $6 to $8 is its own.
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

/* Whether the statement has to look which devices are meant. */
static inline bool certificate_chooses(const struct certificate_filter *filter)
{
    if (filter->text[CERTIFICATE_CHOSEN])
        return false;
    for (size_t i = CERTIFICATE_OF_KEY; i < CERTIFICATE_CHOSEN; i++)
        if (filter->text[i])
            return true;
    return false;
}

/* What narrows entries `e` that are found by the chosen devices. Within OR the devices are looked
 * up once, and only where that is needed. */
#define CERTIFICATE_NARROW_CHOSEN                                                                  \
    " AND ($9::bigint IS NULL OR e.group_id = $9::bigint)"                                         \
    " AND ($10::text IS NULL OR e.status = $10::text)"                                             \
    " AND e.wh BETWEEN $11::bigint AND $12::bigint"                                                \
    " AND ($13::boolean OR e.device IN (SELECT device_chosen(CASE WHEN $1::boolean THEN NULL"      \
    " ELSE $2::bigint[] END, $14::text, $15::text, $16::text, $17::text, $18::text)))"
/* What narrows all others. */
#define CERTIFICATE_NARROW                                                                         \
    CERTIFICATE_NARROW_CHOSEN " AND ($19::bigint[] IS NULL OR e.device = ANY ($19::bigint[]))"

/* Looked at once, where all entries are of one organisation: a device's, and a group's. */
#define CERTIFICATE_SEES_DEVICE                                                                    \
    "($1::boolean OR (SELECT o.organisation FROM certificate_entry o WHERE o.device = $3::bigint"  \
    " LIMIT 1) = ANY($2::bigint[]))"
#define CERTIFICATE_SEES_GROUP                                                                     \
    "($1::boolean OR (SELECT g.organisation FROM certificate_group g WHERE g.id = $9::bigint)"     \
    " = ANY($2::bigint[]))"

/* The query's: 0, or the status of the answer given. */
int certificate_filter(struct bb_request *rq, struct certificate_filter *filter);
/* The list's `after`: 0, or the status of the answer given. */
int certificate_cursor(struct bb_request *rq, struct certificate_filter *filter);

/* fetch.c */
/* The next rows behind the cursor, newest first; NULL: failed. */
const struct bb_rows *certificate_fetch(struct bb_request *rq,
                                        const struct certificate_filter *filter, int64_t limit);
/* The same, for whoever fetches page after page: behind what else may take long. */
const struct bb_rows *certificate_fetch_long(struct bb_request *rq,
                                             const struct certificate_filter *filter,
                                             int64_t limit);
/* Moves the cursor behind a row. */
void certificate_move(struct bb_request *rq, struct certificate_filter *filter,
                      const struct bb_rows *rows, size_t row);

#endif
