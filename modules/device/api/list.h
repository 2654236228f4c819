/*
 * The statements of the list of devices; schema.sql (step 12) makes the one that fits the filters
 * and the order. Pure data; any thread.
 */
#ifndef DEVICE_LIST_H
#define DEVICE_LIST_H

#include "modules/device/record/device.h"

/*
 * $1 $2 scope, $3 the filters as JSON, $4 whether there are groups; then $5 and $6 the order and
 * whether it is descending, $7 and $8 what the page before ended with: its last device's order and
 * id, $9 how many, $10 bytes.
 */
enum {
    LIST_WANTED = 2,
    LIST_GROUPED,
    LIST_COUNTED, /* values of the count */
    LIST_ORDER = LIST_COUNTED,
    LIST_DOWN,
    LIST_KEY,
    LIST_AFTER,
    LIST_LIMIT,
    LIST_BYTES,
    LIST_VALUES
};

/* Behind the columns of a device: how many devices there are in the page without the bound of
 * bytes, which the first one alone may exceed, and what this one is ordered by. */
enum { LIST_FOUND = DEVICE_COLUMN_COUNT, LIST_ORDERED_BY };

struct list_order {
    const char *name; /* of the query's `sort`; NULL: the end */
    bool number;      /* it orders by numbers, else by texts */
};

/* The first one is by id. */
extern const struct list_order list_orders[];

/* Few of very many may pass the filters, and many devices take their time, too: on the connections
 * for long statements, then. */
extern const struct bb_sql list_few, list_many;
extern const struct bb_sql list_count;

#endif
