#include <stdlib.h>

#include "modules/device/device.h"

static struct bb_device directory_device(const struct device *state,
                                         const struct device_record *record)
{
    const char *const *text = record->text;
    const char *own = text[DEVICE_YIELD_VALUE], *country = text[DEVICE_COUNTRY_CODE];
    int index = country ? country_find(country) : -1;
    double yield = state->settings->default_yield;

    if (own)
        yield = strtod(own, NULL);
    else if (index >= 0 && state->yields[index] > 0)
        yield = state->yields[index];
    return (struct bb_device){
        .size = sizeof(struct bb_device),
        .id = record->id,
        .organization = record->organization,
        .uuid = record->uuid,
        .external_id = text[DEVICE_EXTERNAL_ID],
        .serial_number = text[DEVICE_SERIAL_NUMBER],
        .commissioned = text[DEVICE_COMMISSIONING_DATE],
        .timezone = text[DEVICE_TIMEZONE],
        .capacity_kw = text[DEVICE_CAPACITY] ? strtod(text[DEVICE_CAPACITY], NULL) : 0,
        .yield = yield,
    };
}

static int directory_find(void *state, struct bb_request *rq, const char *key, int64_t organization,
                          struct bb_device *device)
{
    struct device_record record;
    int refused = device_find(rq, DEVICE_ONLY_FACTS, key, organization, &record);

    if (!refused)
        *device = directory_device(state, &record);
    return refused;
}

static int directory_get(void *state, struct bb_request *rq, const int64_t *ids, size_t count,
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
        struct device_record record = device_facts_of(rq, rows, row, 0);

        (*devices)[bb_cell_int(rq, rows, row, DEVICE_FACT_COUNT)] =
            directory_device(state, &record);
    }
    return 0;
}

static int directory_name_timezone(void *state, struct bb_request *rq, struct bb_tx *tx,
                                   int64_t device, const char *zone)
{
    static const struct bb_sql name = {
        "UPDATE device SET timezone = $2, updated_at = greatest($3::timestamptz, updated_at)"
        " WHERE id = $1::bigint AND timezone IS NULL",
        0};
    const char *now = bb_time_text(rq, bb_wall_ms(rq->host));

    (void)state;
    return bb_add(rq, tx, &name, BB_ARGS(bb_i(device), bb_t(zone), bb_t(now))) < 0 ? -1 : 0;
}

static int directory_organization_named(void *state, struct bb_request *rq, const char *name,
                                        int64_t *organization)
{
    static const struct bb_sql named = {
        "SELECT organisation FROM device WHERE site_name = $1"
        " UNION SELECT organisation FROM device d WHERE " DEVICE_HAS_KEY("$1") " LIMIT 2",
        0};
    const struct bb_rows *rows = bb_query(rq, &named, BB_ARGS(bb_t(name)));

    (void)state;
    if (rows && bb_count(rq, rows) == 1)
        *organization = bb_cell_int(rq, rows, 0, 0);
    return rows ? bb_count(rq, rows) == 1 : -1;
}

/* These subqueries return the id of the device with the key in organization $2, or null. */
#define KEY "btrim(k.key)"
#define OF_ITS "(SELECT d.id FROM device d WHERE d.organisation = $2::bigint AND "
#define BY_EXTERNAL_ID OF_ITS DEVICE_HAS_KEY(KEY) ")"
#define BY_UUID                                                                                    \
    OF_ITS "d.uuid = CASE WHEN " KEY " ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'"           \
           " THEN " KEY "::uuid END)"
#define BY_ID(pattern) OF_ITS "d.id = CASE WHEN " KEY " ~ '" pattern "' THEN " KEY "::bigint END)"
#define ALL_KEYS " FROM json_array_elements_text($1::json) WITH ORDINALITY AS k (key, place)"

/* Returns -1 if several devices have the serial number, because it need not be unique. */
#define BY_SERIAL_NUMBER                                                                           \
    "(SELECT CASE count(*) WHEN 1 THEN min(s.id) WHEN 2 THEN -1 END FROM " OF_ITS                  \
    "d.serial_number = " KEY " LIMIT 2) s)"

/* Runs a statement, and sets (*ids)[i] to the id for key i, or 0. Returns NULL on failure. */
static const struct bb_rows *directory_ids(struct bb_request *rq, const struct bb_sql *sql,
                                           const json_t *keys, int64_t organization, int64_t **ids)
{
    const struct bb_rows *rows =
        bb_query(rq, sql, BB_ARGS(bb_t(bb_json(rq, keys, NULL)), bb_i(organization)));

    *ids = bb_alloc(rq, (json_array_size(keys) + 1) * sizeof(**ids));
    for (size_t row = 0; rows && row < bb_count(rq, rows); row++)
        if (bb_cell_int(rq, rows, row, 1) > 0)
            (*ids)[bb_cell_int(rq, rows, row, 0)] = bb_cell_int(rq, rows, row, 1);
    return rows;
}

static int directory_resolve(void *state, struct bb_request *rq, const json_t *keys,
                             int64_t organization, int64_t **ids)
{
    static const struct bb_sql by_keys = {"SELECT k.place - 1, coalesce(" BY_EXTERNAL_ID
                                          ", " BY_UUID ", " BY_ID("^[0-9]{1,18}$") ", 0)" ALL_KEYS,
                                          0};

    (void)state;
    return directory_ids(rq, &by_keys, keys, organization, ids) ? 0 : -1;
}

/*
 * If several devices have the serial number, the problem names up to 20 of them. OFFSET keeps the
 * planner from computing `id` twice.
 */
static int directory_identify(void *state, struct bb_request *rq, const json_t *keys,
                              int64_t organization, int64_t **ids, const char ***problems)
{
    static const struct bb_sql by_keys = {
        "SELECT f.place, f.id, CASE f.id WHEN -1 THEN (SELECT left(string_agg("
        "coalesce(n.external_id, n.uuid::text), ', ' ORDER BY n.id), 380)"
        " FROM (SELECT * FROM device d WHERE d.organisation = $2::bigint"
        " AND d.serial_number = f.key ORDER BY d.id LIMIT 20) n) END"
        " FROM (SELECT k.place - 1 AS place, " KEY " AS key, coalesce(" BY_EXTERNAL_ID ", " BY_UUID
        ", " BY_SERIAL_NUMBER ", " BY_ID("^[1-9][0-9]{0,17}$") ", 0) AS id" ALL_KEYS " OFFSET 0) f",
        0};
    const struct bb_rows *rows = directory_ids(rq, &by_keys, keys, organization, ids);

    (void)state;
    if (!rows)
        return -1;
    *problems = bb_alloc(rq, (json_array_size(keys) + 1) * sizeof(**problems));
    for (size_t row = 0; row < bb_count(rq, rows); row++) {
        int64_t place = bb_cell_int(rq, rows, row, 0), id = bb_cell_int(rq, rows, row, 1);

        if (id < 0)
            (*problems)[place] =
                bb_format(rq, DEVICE_SEVERAL, "identifier", bb_cell(rq, rows, row, 2));
        else if (!id)
            (*problems)[place] = DEVICE_NONE;
    }
    return 0;
}

static int directory_sites(void *state, struct bb_request *rq, const int64_t *ids, size_t count,
                           const char ***names)
{
    static const struct bb_sql by_ids = {
        "SELECT w.place - 1, d.site_name FROM unnest($1::bigint[]) WITH ORDINALITY"
        " AS w(id, place) JOIN device d ON d.id = w.id",
        0};
    const struct bb_rows *rows = bb_query(rq, &by_ids, BB_ARGS(bb_ints(ids, count)));

    (void)state;
    if (!rows)
        return -1;
    *names = bb_alloc(rq, (count + 1) * sizeof(**names));
    for (size_t row = 0; row < bb_count(rq, rows); row++)
        (*names)[bb_cell_int(rq, rows, row, 0)] = bb_cell(rq, rows, row, 1);
    return 0;
}

static void directory_country_codes(void *state, struct bb_request *rq, const char *sent,
                                    const char *codes[2])
{
    (void)state;
    device_country_codes(rq, sent, codes);
}

const struct bb_devices device_directory = {
    .size = sizeof(struct bb_devices),
    .find = directory_find,
    .get = directory_get,
    .name_timezone = directory_name_timezone,
    .organization_named = directory_organization_named,
    .resolve = directory_resolve,
    .identify = directory_identify,
    .sites = directory_sites,
    .country_codes = directory_country_codes,
};
