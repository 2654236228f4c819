/* Finds the devices that the rows of a call name. */
#include <stdlib.h>
#include <string.h>

#include "modules/reading/rows/rows.h"

/* Rows of the same device are usually adjacent: each run of them is one key. */
static json_t *keys_of(struct bb_request *rq, struct call *call, struct bb_bulk_row *const *rows,
                       size_t count)
{
    json_t *keys = json_array();
    const char *last = NULL;

    bb_defer(rq, bb_json_drop, keys);
    for (size_t i = 0; i < count; i++) {
        const char *cell = rows[i]->cells[DEVICE], *zone = rows[i]->cells[ZONE];
        const char *key = cell ? bb_trimmed(rq, cell) : "", *sent = rows[i]->name_as_sent;

        if (!*key) {
            bb_bulk_problem(rq, rows[i], "externalId", "is required");
            continue;
        }
        if (sent && json_array_append_new(keys, json_string(bb_trimmed(rq, sent))))
            return NULL;
        if ((sent || !last || strcmp(last, key) != 0) &&
            json_array_append_new(keys, json_string(key)))
            return NULL;
        last = key;
        zone = zone ? bb_trimmed(rq, zone) : "";
        call->list[call->count++] = (struct one){.row = rows[i],
                                                 .zone = *zone ? zone : NULL,
                                                 .key = json_array_size(keys) - 1,
                                                 .two_keys = sent != NULL};
    }
    return keys;
}

static int by_number(const void *left, const void *right)
{
    const int64_t *a = left, *b = right;

    return (*a > *b) - (*a < *b);
}

/* Returns the devices in `ids` that accept readings, sorted by id. NULL: failed. */
static int64_t *active_of(struct bb_request *rq, const int64_t *ids, size_t count, size_t *active)
{
    static const struct bb_sql look = {"SELECT * FROM device_active($1::bigint[])", 0};
    const struct bb_rows *rows = bb_query(rq, &look, BB_ARGS(bb_ints(ids, count)));

    if (!rows)
        return NULL;
    *active = bb_count(rq, rows);
    int64_t *list = bb_alloc(rq, (*active + 1) * sizeof(*list));

    for (size_t row = 0; row < *active; row++)
        list[row] = bb_cell_int(rq, rows, row, 0);
    qsort(list, *active, sizeof(*list), by_number);
    return list;
}

/* Returns NULL if the row's device exists and is Active. */
static const char *unfit(const struct bb_device *device, const char *problem, const int64_t *active,
                         size_t count)
{
    if (!device->size) /* no problem, but not found: deleted just now */
        return problem ? problem : "Device not found";
    return bsearch(&device->id, active, count, sizeof(*active), by_number)
               ? NULL
               : "the device is Inactive";
}

/* Removes the rows of devices that are unknown or Inactive. Returns 0, or -1. */
static int look_up(struct bb_request *rq, struct call *call, const json_t *keys)
{
    const struct reading *reading = rq->state;
    size_t count = 0, active_count;
    int64_t *ids, *active;
    const char **problems;
    struct bb_device *devices;

    if (!call->count)
        return 0;
    if (reading->devices->identify(reading->devices_state, rq, keys, call->job->organization, &ids,
                                   &problems) ||
        reading->devices->get(reading->devices_state, rq, ids, json_array_size(keys), &devices))
        return -1;
    active = active_of(rq, ids, json_array_size(keys), &active_count);
    if (!active)
        return -1;
    for (size_t i = 0; i < call->count; i++) {
        struct one one = call->list[i];
        const char *problem;

        if (one.two_keys && ids[one.key - 1])
            one.key--;
        one.device = &devices[one.key];
        problem = unfit(one.device, problems[one.key], active, active_count);
        if (problem)
            bb_bulk_problem(rq, one.row, "externalId", problem);
        else
            call->list[count++] = one;
    }
    call->count = count;
    return 0;
}

static int by_device(const void *left, const void *right)
{
    const struct one *a = left, *b = right;

    if (a->device->id != b->device->id)
        return a->device->id < b->device->id ? -1 : 1;
    int zones = strcmp(a->zone ? a->zone : "", b->zone ? b->zone : "");

    return zones ? zones : a->row->number < b->row->number ? -1 : 1;
}

bool rows_together(const struct one *a, const struct one *b)
{
    return a->device->id == b->device->id &&
           strcmp(a->zone ? a->zone : "", b->zone ? b->zone : "") == 0;
}

int rows_find_devices(struct bb_request *rq, struct call *call, struct bb_bulk_row *const *rows,
                      size_t count)
{
    call->list = bb_alloc(rq, count * sizeof(*call->list));
    const json_t *keys = keys_of(rq, call, rows, count);

    if (!keys) {
        bb_fail(rq, 503, "Out of memory");
        return -1;
    }
    if (look_up(rq, call, keys))
        return -1;
    if (call->count)
        qsort(call->list, call->count, sizeof(*call->list), by_device);
    return 0;
}
