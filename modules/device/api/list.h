/*
 * The statements of the list of devices; schema.sql (step 12) builds the one that fits the filters
 * and the order. Pure data; any thread may use it.
 */
#ifndef DEVICE_LIST_H
#define DEVICE_LIST_H

#include "modules/device/record/device.h"

/*
 * $1 $2 scope, $3 the filters as JSON, $4 whether there are groups; then $5 and $6 the order and
 * whether it is descending, $7 and $8 the sort value and id of the previous page's last device, $9
 * number of devices, $10 bytes.
 */
enum {
    LIST_WANTED = 2,
    LIST_GROUPED,
    LIST_COUNTED, /* number of values of the count */
    LIST_ORDER = LIST_COUNTED,
    LIST_DOWN,
    LIST_KEY,
    LIST_AFTER,
    LIST_LIMIT,
    LIST_BYTES,
    LIST_VALUES
};

/*
 * Columns that follow the device's own: the number of devices that the page would have without the
 * limit on bytes (only the first device may exceed that limit), and the value that this device is
 * sorted by.
 */
enum { LIST_FOUND = DEVICE_COLUMN_COUNT, LIST_ORDERED_BY };

struct list_order {
    const char *name; /* value of the query's `sort`; NULL: end of the list */
    bool number;      /* sorted by a number, not a text */
};

/* The first entry sorts by id. */
extern const struct list_order list_orders[];

/*
 * BB_SQL_LONG: a filter may match a few out of very many devices, and reading many devices takes
 * long too.
 */
extern const struct bb_sql list_few, list_many;
extern const struct bb_sql list_count;

#endif
