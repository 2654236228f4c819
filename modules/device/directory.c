/* The service "devices": what other modules may know of devices. */
#include <stdlib.h>

#include "device.h"

/* A device's own, else its country's, else the default. */
static double yield_of(const struct device *state, const char *own, const char *country)
{
    int index = country ? country_find(country) : -1;

    if (own)
        return strtod(own, NULL);
    if (index >= 0 && state->yields[index] > 0)
        return state->yields[index];
    return state->default_yield;
}

static struct bb_device device_of(const struct device *state, const struct device_record *record)
{
    const char *const *text = record->text;

    return (struct bb_device){
        .size = sizeof(struct bb_device),
        .id = record->id,
        .organisation = record->organisation,
        .uuid = record->uuid,
        .external_id = text[DEVICE_EXTERNAL_ID],
        .serial_number = text[DEVICE_SERIAL_NUMBER],
        .commissioned = text[DEVICE_COMMISSIONING_DATE],
        .timezone = text[DEVICE_TIMEZONE],
        .capacity_kw = text[DEVICE_CAPACITY] ? strtod(text[DEVICE_CAPACITY], NULL) : 0,
        .yield = yield_of(state, text[DEVICE_YIELD_VALUE], text[DEVICE_COUNTRY_CODE]),
    };
}

static int find(void *state, struct bb_request *rq, const char *key, int64_t organisation,
                struct bb_device *device)
{
    struct device_record record;
    int refused = device_find_facts(rq, key, organisation, &record);

    if (!refused)
        *device = device_of(state, &record);
    return refused;
}

static int get(void *state, struct bb_request *rq, const int64_t *ids, size_t count,
               struct bb_device **devices)
{
    static const struct bb_sql by_ids = {"SELECT " DEVICE_FACTS
                                         ", w.place - 1 FROM unnest($1::bigint[]) WITH ORDINALITY"
                                         " AS w(id, place) JOIN device d ON d.id = w.id",
                                         0};
    const struct bb_rows *rows = bb_query(rq, &by_ids, BB_ARGS(bb_ints(ids, count)));

    if (!rows)
        return -1;
    *devices = bb_alloc(rq, (count + 1) * sizeof(**devices));
    for (size_t row = 0; row < bb_count(rq, rows); row++) {
        struct device_record record = device_facts_of(rq, rows, row);

        (*devices)[bb_cell_int(rq, rows, row, DEVICE_FACT_COUNT)] = device_of(state, &record);
    }
    return 0;
}

static int name_timezone(void *state, struct bb_request *rq, struct bb_tx *tx, int64_t device,
                         const char *timezone)
{
    static const struct bb_sql name = {
        "UPDATE device SET timezone = $2, updated_at = greatest($3::timestamptz, updated_at)"
        " WHERE id = $1::bigint AND timezone IS NULL",
        0};
    const char *now = bb_time_text(rq, bb_wall_ms(rq->host));

    (void)state;
    return bb_add(rq, tx, &name, BB_ARGS(bb_i(device), bb_t(timezone), bb_t(now))) < 0 ? -1 : 0;
}

static int organisation_named(void *state, struct bb_request *rq, const char *name,
                              int64_t *organisation)
{
    static const struct bb_sql named = {
        "SELECT organisation FROM device WHERE site_name = $1"
        " UNION SELECT organisation FROM device WHERE lower(external_id) = lower($1) LIMIT 2",
        0};
    const struct bb_rows *rows = bb_query(rq, &named, BB_ARGS(bb_t(name)));

    (void)state;
    if (!rows)
        return -1;
    if (bb_count(rq, rows) != 1)
        return 0;
    *organisation = bb_cell_int(rq, rows, 0, 0);
    return 1;
}

static int resolve(void *state, struct bb_request *rq, const json_t *keys, int64_t organisation,
                   int64_t **ids)
{
    static const struct bb_sql by_keys = {
        "SELECT k.place - 1, coalesce("
        "(SELECT d.id FROM device d WHERE d.organisation = $2::bigint"
        " AND lower(d.external_id) = lower(btrim(k.key))),"
        " (SELECT d.id FROM device d WHERE d.organisation = $2::bigint AND d.uuid = CASE"
        " WHEN btrim(k.key) ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN "
        "btrim(k.key)::uuid END),"
        " (SELECT d.id FROM device d WHERE d.organisation = $2::bigint AND d.id = CASE"
        " WHEN btrim(k.key) ~ '^[0-9]{1,18}$' THEN btrim(k.key)::bigint END), 0)"
        " FROM json_array_elements_text($1::json) WITH ORDINALITY AS k (key, place)",
        0};
    char *list = json_dumps(keys, JSON_COMPACT);
    const struct bb_rows *rows =
        list ? bb_query(rq, &by_keys, BB_ARGS(bb_t(list), bb_i(organisation))) : NULL;

    (void)state;
    free(list);
    if (!rows)
        return -1;
    *ids = bb_alloc(rq, (json_array_size(keys) + 1) * sizeof(**ids));
    for (size_t row = 0; row < bb_count(rq, rows); row++)
        (*ids)[bb_cell_int(rq, rows, row, 0)] = bb_cell_int(rq, rows, row, 1);
    return 0;
}

const struct bb_devices device_directory = {
    .size = sizeof(struct bb_devices),
    .find = find,
    .get = get,
    .name_timezone = name_timezone,
    .organisation_named = organisation_named,
    .resolve = resolve,
};
