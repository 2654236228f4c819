/* GET of devices, oldest first, and of one. */
#include <inttypes.h>

#include "device.h"

/* Devices in a page, and bytes of them: large attributes make it shorter. */
enum { PAGE_MAX = 1000, PAGE_BYTES = 1024 * 1024, MANY = 200 };

/* What a device has as text, of which only the attributes are ever long: they are not read for it.
 */
#define BYTES                                                                                      \
    "octet_length(ROW(" DEVICE_FACTS ")::text) + d.attributes_bytes"                               \
    " + (SELECT coalesce(sum(200 + octet_length(f.name)), 0) FROM device_document f"               \
    " WHERE f.device = d.id) AS bytes"
#define FOUND                                                                                      \
    "SELECT d.id, " BYTES " FROM device d WHERE " DEVICE_SEES " AND d.id > $3::bigint"             \
    " AND ($4::text IS NULL OR d.site_name = $4) AND ($5::text IS NULL OR d.serial_number = $5)"   \
    " AND ($6::text IS NULL OR d.country_code = upper($6))"                                        \
    " AND ($7::text IS NULL OR d.fuel_code = $7)"                                                  \
    " AND ($8::text IS NULL OR d.device_type_code = $8)"                                           \
    " ORDER BY d.id LIMIT $9::bigint"

/*
 * $3 behind this id, $4 to $8 filters, $9 how many, $10 bytes. Behind the columns stands how many
 * there are without the bound of bytes, which the first device alone may exceed.
 */
#define LIST                                                                                       \
    "SELECT " DEVICE_COLUMNS ", p.found FROM (SELECT q.id, q.bytes, count(*) OVER () AS found,"    \
    " sum(q.bytes) OVER (ORDER BY q.id) AS upto FROM (" FOUND                                      \
    ") q) p JOIN device d ON d.id = p.id"                                                          \
    " WHERE p.upto - p.bytes < $10::bigint ORDER BY d.id"

/* Few of very many may pass the filters, and many devices take their time, too: on the connections
 * for long statements, then. */
static const struct bb_sql list_few = {LIST, 0}, list_long = {LIST, BB_SQL_LONG};

static bool is_long(struct bb_request *rq, int64_t limit)
{
    return limit > MANY || bb_arg(rq, "siteName") || bb_arg(rq, "serialNumber") ||
           bb_arg(rq, "countryCode") || bb_arg(rq, "fuelCode") || bb_arg(rq, "deviceTypeCode");
}

/* A filter, as names are stored; NULL: there is none. */
static const char *filter(struct bb_request *rq, const char *name)
{
    const char *text = bb_arg(rq, name);

    return text ? device_trimmed(rq, text) : NULL;
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

int device_list(struct bb_request *rq)
{
    struct device_scope scope;
    int64_t limit = bb_arg_int(rq, "limit", PAGE_MAX);
    int refused = device_scope(rq, bb_arg_int(rq, "organizationId", 0), &scope);

    if (refused)
        return refused;
    const struct bb_rows *rows =
        bb_query(rq, is_long(rq, limit) ? &list_long : &list_few,
                 BB_ARGS(DEVICE_SCOPE_ARGS(&scope), bb_i(bb_arg_int(rq, "after", 0)),
                         bb_t(filter(rq, "siteName")), bb_t(filter(rq, "serialNumber")),
                         bb_t(filter(rq, "countryCode")), bb_t(filter(rq, "fuelCode")),
                         bb_t(filter(rq, "deviceTypeCode")), bb_i(limit + 1), bb_i(PAGE_BYTES)));

    return rows ? answer(rq, rows, (size_t)limit) : bb_failed(rq);
}

int device_get(struct bb_request *rq)
{
    struct device_record record;
    int refused =
        device_find(rq, bb_segment(rq, "externalId"), bb_arg_int(rq, "organizationId", 0), &record);

    return refused ? refused : device_reply(rq, 200, device_json(&record));
}
