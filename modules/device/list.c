/* GET of devices, oldest first, and of one. */
#include <inttypes.h>
#include <string.h>

#include "device.h"

/* Devices in a page, and bytes of them: large attributes make it shorter. */
enum { PAGE_MAX = 1000, PAGE_BYTES = 1024 * 1024, MANY = 200 };

/* What a device has as text, of which only the attributes are ever long: they are not read for it.
 */
#define BYTES                                                                                      \
    "octet_length(ROW(" DEVICE_FACTS ")::text) + d.attributes_bytes"                               \
    " + (SELECT coalesce(sum(200 + octet_length(f.name)), 0) FROM device_document f"               \
    " WHERE f.device = d.id) AS bytes"
/* $3 to $15 */
#define FILTERS                                                                                    \
    "($3::text IS NULL OR d.site_name = $3) AND ($4::text IS NULL OR d.serial_number = $4)"        \
    " AND ($5::text IS NULL OR d.country_code IN ($5, $6))"                                        \
    " AND ($7::text IS NULL OR d.fuel_code = $7)"                                                  \
    " AND ($8::text IS NULL OR d.device_type_code = $8)"                                           \
    " AND ($9::text IS NULL OR lower(d.external_id) = lower($9))"                                  \
    " AND ($10::text IS NULL OR strpos(lower(concat_ws(chr(10), d.external_id, d.site_name,"       \
    " d.serial_number, d.address)), lower($10)) > 0)"                                              \
    " AND ($11::float8 IS NULL OR d.capacity >= $11) AND ($12::float8 IS NULL"                     \
    " OR d.capacity <= $12) AND ($13::timestamptz IS NULL"                                         \
    " OR d.commissioning_date >= ($13 AT TIME ZONE 'UTC')::date) AND ($14::timestamptz IS NULL"    \
    " OR d.commissioning_date <= ($14 AT TIME ZONE 'UTC')::date)"                                  \
    " AND ($15::text = 'All' OR d.status = $15)"
#define FOUND                                                                                      \
    "SELECT d.id, " BYTES " FROM device d WHERE " DEVICE_SEES " AND " FILTERS                      \
    " AND d.id > $16::bigint ORDER BY d.id LIMIT $17::bigint"

/*
 * $16 behind this id, $17 how many, $18 bytes. Behind the columns stands how many there are without
 * the bound of bytes, which the first device alone may exceed.
 */
#define LIST                                                                                       \
    "SELECT " DEVICE_COLUMNS ", p.found FROM (SELECT q.id, q.bytes, count(*) OVER () AS found,"    \
    " sum(q.bytes) OVER (ORDER BY q.id) AS upto FROM (" FOUND                                      \
    ") q) p JOIN device d ON d.id = p.id"                                                          \
    " WHERE p.upto - p.bytes < $18::bigint ORDER BY d.id"

/* Few of very many may pass the filters, and many devices take their time, too: on the connections
 * for long statements, then. */
static const struct bb_sql list_few = {LIST, 0}, list_long = {LIST, BB_SQL_LONG};

static const struct bb_sql count_all = {
    "SELECT count(*) FROM device d WHERE " DEVICE_SEES " AND " FILTERS, BB_SQL_LONG};

/* The scope and the filters, of which texts are as they are stored; those that are not sent null.
 */
enum { FILTERS_FIRST = 2, COUNTRY = 4, STATUS = 14, FILTER_VALUES = 15, PAGE_VALUES = 18 };

/* Devices have either code, as they were sent. What is no country's is compared as it is. */
static void country_values(struct bb_request *rq, struct bb_value values[2])
{
    const char *sent = bb_arg(rq, "countryCode");
    int country = sent ? country_find(sent) : -1;

    for (size_t i = 0; i < 2 && country >= 0; i++) {
        char *code = bb_alloc(rq, 4);

        country_code(country, i + 2, code);
        values[i] = bb_t(code);
    }
}

/* Whether there is a filter at all. */
static bool filter_values(struct bb_request *rq, const struct device_scope *scope,
                          struct bb_value values[FILTER_VALUES])
{
    static const char *const names[FILTER_VALUES] = {
        NULL,           NULL,         "siteName",         "serialNumber",   "countryCode",
        NULL,           "fuelCode",   "deviceTypeCode",   "externalId",     "search",
        "capacityFrom", "capacityTo", "commissionedFrom", "commissionedTo", "status"};
    const struct bb_value seen[] = {DEVICE_SCOPE_ARGS(scope)};
    bool any = false;

    values[0] = seen[0];
    values[1] = seen[1];
    for (size_t i = FILTERS_FIRST; i < FILTER_VALUES; i++) {
        const char *text = names[i] ? bb_arg(rq, names[i]) : NULL;

        any = any || text;
        values[i] = bb_t(text ? device_trimmed(rq, text) : NULL);
    }
    country_values(rq, &values[COUNTRY]);
    if (!bb_arg(rq, "status"))
        values[STATUS] = bb_t("Active");
    return any;
}

static int answer(struct bb_request *rq, const struct bb_rows *rows, size_t limit)
{
    size_t count = bb_count(rq, rows) > limit ? limit : bb_count(rq, rows);

    if (count && (size_t)bb_cell_int(rq, rows, 0, DEVICE_COLUMN_COUNT) > count &&
        bb_reply_next(rq, bb_cell(rq, rows, count - 1, 0)) < 0)
        return bb_failed(rq);
    const char **texts = bb_alloc(rq, (count + 1) * sizeof(*texts));

    for (size_t row = 0; row < count; row++) {
        struct device_record record = device_record_of(rq, rows, row);

        texts[row] = device_text(rq, &record);
        if (!texts[row])
            return device_no_memory(rq);
    }
    return device_reply_texts(rq, texts, count);
}

/* 0, or the status of the answer given. */
static int add_count(struct bb_request *rq, const struct bb_value *values)
{
    const struct bb_rows *rows = bb_query(rq, &count_all, values, FILTER_VALUES);

    if (!rows || bb_reply_header(rq, "X-Total-Count", bb_cell(rq, rows, 0, 0)))
        return bb_failed(rq);
    return 0;
}

int device_list(struct bb_request *rq)
{
    struct device_scope scope;
    int64_t limit = bb_arg_int(rq, "limit", PAGE_MAX);
    int refused = device_scope(rq, bb_arg_int(rq, "organizationId", 0), &scope);

    if (refused)
        return refused;
    struct bb_value values[PAGE_VALUES];
    bool filtered = filter_values(rq, &scope, values);

    values[FILTER_VALUES] = bb_i(bb_arg_int(rq, "after", 0));
    values[FILTER_VALUES + 1] = bb_i(limit + 1);
    values[FILTER_VALUES + 2] = bb_i(PAGE_BYTES);
    const char *count = bb_arg(rq, "count");

    refused = count && !strcmp(count, "true") ? add_count(rq, values) : 0;
    if (refused)
        return refused;
    const struct bb_rows *rows =
        bb_query(rq, filtered || limit > MANY ? &list_long : &list_few, values, PAGE_VALUES);

    return rows ? answer(rq, rows, (size_t)limit) : bb_failed(rq);
}

int device_get(struct bb_request *rq)
{
    struct device_record record;
    int refused =
        device_find(rq, bb_segment(rq, "externalId"), bb_arg_int(rq, "organizationId", 0), &record);

    return refused ? refused : device_reply(rq, 200, device_json(&record));
}
