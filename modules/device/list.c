/*
 * The list of devices, one device, and the list of duplicates. device_page() in schema.sql builds
 * the statement that fits the filters and the order.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "modules/device/device.h"

/*
 * Columns that follow the device's columns: the number of devices on the page before devices are
 * removed because of the byte limit, and the value by which the device is sorted.
 */
enum { LIST_FOUND = DEVICE_COLUMN_COUNT, LIST_ORDERED_BY };

struct list_order {
    const char *name; /* a value of `sort` in the query; NULL: end of the list */
    bool number;      /* sorted by a number, not a text */
};

/*
 * The length of a device as text. The length of the attributes is stored, so they need not be read;
 * no other field can be long.
 */
#define BYTES                                                                                      \
    "octet_length(ROW(" DEVICE_FACTS ")::text) + d.attributes_bytes"                               \
    " + (SELECT coalesce(sum(200 + octet_length(f.name)), 0) FROM device_document f"               \
    " WHERE f.device = d.id)"
/*
 * $1 and $2 scope, $3 the filters as JSON, $4 whether the module certificate is loaded, $5 the
 * order, $6 whether it is descending, $7 and $8 the sort value and id of the previous page's last
 * device, $9 maximum devices, $10 bytes after which the page ends. list_count uses $1 to $4.
 */
#define FOUND                                                                                      \
    "device_page(CASE WHEN NOT $1::boolean THEN $2::bigint[] END, $3::jsonb, $4::boolean, $5,"     \
    " $6::boolean, $7, $8::bigint, $9::bigint) WITH ORDINALITY AS g (id, k, place)"
#define PAGE                                                                                       \
    "SELECT " DEVICE_COLUMNS ", p.found, p.k FROM (SELECT q.id, q.k, q.place, q.bytes,"            \
    " count(*) OVER () AS found, sum(q.bytes) OVER (ORDER BY q.place) AS upto"                     \
    " FROM (SELECT g.id, g.k, g.place, " BYTES " AS bytes FROM " FOUND                             \
    " JOIN device d ON d.id = g.id) q) p JOIN device d ON d.id = p.id"                             \
    " WHERE p.upto - p.bytes < $10::bigint ORDER BY p.place"

/* The first entry sorts by id. */
static const struct list_order list_orders[] = {
    {"id", true},       {"externalId", false},       {"siteName", false},
    {"capacity", true}, {"commissioningDate", true}, {"updatedAt", true},
    {.name = NULL},
};

/*
 * list_many and list_count have BB_SQL_LIST, because a filter may match a few of very many devices,
 * and because reading many devices takes long.
 */
static const struct bb_sql list_few = {PAGE, BB_SQL_REPLICA}, list_many = {PAGE, BB_SQL_LIST};
static const struct bb_sql list_count = {
    "SELECT device_count(CASE WHEN NOT $1::boolean THEN $2::bigint[] END, $3::jsonb, $4::boolean)",
    BB_SQL_LIST};

/* Limits of a page in devices and bytes. Pages of up to FEW may use list_few. */
enum { PAGE_MAX = 1000, PAGE_BYTES = 1024 * 1024, FEW = 25 };

/* Returns the filters as a JSON object by name, and sets *any to whether there is a filter. */
static struct bb_value list_filters(struct bb_request *rq, bool *any)
{
    static const char *const names[] = {
        "siteName", "serialNumber", "fuelCode",   "deviceTypeCode",   "externalId",
        "search",   "capacityFrom", "capacityTo", "commissionedFrom", "commissionedTo",
        "status",   "inGroup",      NULL};
    const char *country = bb_arg(rq, "countryCode"), *status = bb_arg(rq, "status"), *codes[2];
    json_t *wanted = bb_hold(rq, json_object());

    if (country) { /* devices have codes of 2 or 3 letters, as clients sent them */
        device_country_codes(rq, country, codes);
        bb_set(rq, wanted, "country", json_string(codes[0]));
        bb_set(rq, wanted, "other", json_string(codes[1]));
    }
    for (size_t i = 0; names[i]; i++)
        if (bb_arg(rq, names[i]))
            bb_set(rq, wanted, names[i], json_string(bb_arg(rq, names[i])));
    *any = json_object_size(wanted) > 0;
    if (!status)
        bb_set(rq, wanted, "status", json_string("Active"));
    else if (!strcmp(status, "All"))
        json_object_del(wanted, "status");
    return bb_t(bb_json(rq, wanted, NULL));
}

/* ---- the response ---- */

static int list_answer(struct bb_request *rq, const struct list_order *order,
                       const struct bb_rows *rows, size_t limit)
{
    size_t count = bb_count(rq, rows) > limit ? limit : bb_count(rq, rows);

    if (count && (size_t)bb_cell_int(rq, rows, 0, LIST_FOUND) > count) {
        const char *cursor = bb_cell(rq, rows, count - 1, 0), *key = "";

        if (order != list_orders) {
            key = device_url_encoded(rq, bb_cell(rq, rows, count - 1, LIST_ORDERED_BY));
            cursor = bb_format(rq, "%s-%s", cursor, key);
        }
        if (!key || bb_reply_next(rq, cursor) < 0)
            return bb_failed(rq);
    }
    const char **texts = bb_alloc(rq, (count + 1) * sizeof(*texts));
    size_t room = sizeof("[]");

    for (size_t row = 0; row < count; row++) {
        struct device_record record = device_record_of(rq, rows, row);

        texts[row] = device_text(rq, &record);
        room += strlen(texts[row]) + 1;
    }
    char *array = bb_alloc(rq, room), *at = stpcpy(array, "[");

    for (size_t row = 0; row < count; row++)
        at = stpcpy(stpcpy(at, row ? "," : ""), texts[row]);
    at = stpcpy(at, "]");
    return bb_reply_bytes(rq, 200, "application/json; charset=utf-8", array, (size_t)(at - array));
}

int device_list(struct bb_request *rq)
{
    struct scope scope = scope_asked(rq);
    const struct list_order *order = list_orders;
    const char *sort = bb_arg(rq, "sort"), *direction = bb_arg(rq, "order");
    const char *count = bb_arg(rq, "count"), *after = bb_arg(rq, "after");
    bool down = direction && !strcmp(direction, "desc"), any;
    struct bb_value key = bb_null(), last = bb_null(), wanted = list_filters(rq, &any);
    struct bb_value groups = bb_b(bb_service(rq->host, "certificates").interface != NULL);
    int64_t limit = bb_arg_int(rq, "limit", PAGE_MAX);

    while (sort && order->name && strcmp(order->name, sort) != 0)
        order++;
    if (!order->name)
        order = list_orders;
    if (after) {
        char *end;

        errno = 0;
        int64_t id = strtoll(after, &end, 10);
        bool good = end != after && !errno && id >= 0;

        if (order == list_orders)
            good = good && !*end;
        else
            good = good && *end == '-' &&
                   (!order->number || !isnan(device_number(end + 1, "0123456789+-.e")));
        if (!good)
            return bb_invalid(rq, "after",
                              "must be a cursor from a Link header of a list with the same sort "
                              "and order");
        last = bb_i(id);
        if (order != list_orders)
            key = bb_t(end + 1);
    }
    if (count && strcmp(count, "true") == 0) {
        const struct bb_rows *total =
            bb_query_or_end(rq, &list_count, BB_ARGS(SCOPE_ARGS(&scope), wanted, groups));

        bb_reply_header(rq, "X-Total-Count", bb_cell(rq, total, 0, 0));
    }
    bool few = !any && limit <= FEW && order == list_orders && !down;
    const struct bb_rows *rows =
        bb_query_or_end(rq, few ? &list_few : &list_many,
                        BB_ARGS(SCOPE_ARGS(&scope), wanted, groups, bb_t(order->name), bb_b(down),
                                key, last, bb_i(limit + 1), bb_i(PAGE_BYTES)));

    return list_answer(rq, order, rows, (size_t)limit);
}

int device_get(struct bb_request *rq)
{
    struct device_record record = device_in_path(rq, DEVICE_WHOLE);

    return bb_reply(rq, 200, device_json(rq, &record));
}

/*
 * ---- duplicates ----
 *
 * A duplicate is a plant that two organizations have registered, so that its energy would be
 * certified twice. The database records such pairs whenever a device is added or changed
 * (schema.sql). device_warn_duplicates() warns the caller, and GET /api/admin/device-duplicates
 * lists the pairs that still look alike, newest first.
 *
 * Two requests that add or change devices at the same time do not see each other's devices. So the
 * job device.duplicates checks the changes of the last 20 minutes again, every 10 minutes. The
 * cursor of the list is the id of the last pair seen.
 */

enum { PAIRS = 100, AGAIN = 1000 };

#define NEAR "(a.capacity = b.capacity AND m.metres <= 50)"
#define SAME "(a.serial_number = b.serial_number)"

/* $1 organization, $2 serialNumber, $3 capacity, $4 latitude, $5 longitude */
static const struct bb_sql find = {
    "SELECT EXISTS (SELECT FROM device_like($1::bigint, $2, NULL, NULL, NULL))::int,"
    " EXISTS (SELECT FROM device_like($1::bigint, NULL, $3::float8, $4, $5))::int",
    0};

/* Selects up to $2 pairs with ids below $1: both devices' facts, then device_pair_fields. */
static const struct bb_sql pairs = {
    "SELECT one.*, two.*, p.id, p.same, p.near, round(p.metres)::bigint, " BB_SQL_MS(
        "p.found_at") " FROM (SELECT p.id, p.found_at, a.id AS one, b.id AS two, coalesce(" SAME
                      ", false) AS same, coalesce(" NEAR ", false) AS near, m.metres"
                      " FROM device_duplicate p JOIN device a ON a.id = p.device"
                      " JOIN device b ON b.id = p.other CROSS JOIN LATERAL (SELECT"
                      " device_metres(a.latitude, a.longitude, b.latitude, b.longitude) AS metres)"
                      " m WHERE p.id < $1::bigint AND a.organisation <> b.organisation"
                      " AND (" SAME " OR " NEAR ") ORDER BY p.id DESC LIMIT $2::bigint) p"
                      " CROSS JOIN LATERAL (SELECT " DEVICE_FACTS " FROM device d"
                      " WHERE d.id = least(p.one, p.two)) one"
                      " CROSS JOIN LATERAL (SELECT " DEVICE_FACTS " FROM device d"
                      " WHERE d.id = greatest(p.one, p.two)) two ORDER BY p.id DESC",
    BB_SQL_LIST};

enum { PAIR = 2 * DEVICE_FACT_COUNT /* from here on device_pair_fields */ };

/*
 * Checks the next $3 devices after updated_at $1 and id $2. Returns a row with the number of
 * devices, and the updated_at and id of the last one; no row if there is no device.
 */
static const struct bb_sql look_again = {
    "WITH page AS MATERIALIZED (SELECT id, updated_at FROM device"
    " WHERE updated_at > now() - interval '20 minutes'"
    " AND (updated_at, id) > ($1::timestamptz, $2::bigint)"
    " ORDER BY updated_at, id LIMIT $3::bigint),"
    " found AS MATERIALIZED (SELECT device_find_duplicates(ARRAY(SELECT id FROM page))),"
    " last AS (SELECT updated_at, id FROM page ORDER BY updated_at DESC, id DESC LIMIT 1)"
    " SELECT (SELECT count(*) FROM page), last.updated_at::text, last.id FROM last, found",
    BB_SQL_WRITE | BB_SQL_LONG};

static const struct bb_sql forget = {
    "DELETE FROM device_duplicate p WHERE NOT EXISTS (SELECT FROM device d WHERE d.id = p.device)"
    " OR NOT EXISTS (SELECT FROM device d WHERE d.id = p.other)",
    BB_SQL_WRITE};

int device_warn_duplicates(struct bb_request *rq, struct bb_tx *tx,
                           const struct device_record *record)
{
    const char *const *text = record->text;
    const struct bb_value values[] = {bb_i(record->organization), bb_t(text[DEVICE_SERIAL_NUMBER]),
                                      bb_t(text[DEVICE_CAPACITY]), bb_t(text[DEVICE_LATITUDE]),
                                      bb_t(text[DEVICE_LONGITUDE])};
    bool placed = text[DEVICE_CAPACITY] && text[DEVICE_LATITUDE] && text[DEVICE_LONGITUDE];

    if (!text[DEVICE_SERIAL_NUMBER] && !placed)
        return 0;
    const struct bb_rows *rows =
        tx ? bb_tx_query(rq, tx, &find, values, 5) : bb_query(rq, &find, values, 5);

    if (!rows)
        return -1;
    if (bb_cell_int(rq, rows, 0, 0))
        bb_warn(rq, "serialNumber: a device of another organization has it, too");
    if (bb_cell_int(rq, rows, 0, 1))
        bb_warn(rq, "latitude: a device of another organization with this capacity is within 50 m");
    return 0;
}

static json_t *list_pair_json(struct bb_request *rq, const struct bb_rows *rows, size_t row)
{
    struct device_record one = device_facts_of(rq, rows, row, 0);
    struct device_record two = device_facts_of(rq, rows, row, DEVICE_FACT_COUNT);
    json_t *pair = bb_row_fields(rq, rows, row, PAIR, device_pair_fields, 5);
    json_t *devices = json_pack("[o, o]", device_facts_json(&one), device_facts_json(&two));

    if (json_object_set_new(pair, "devices", devices) == 0)
        return pair;
    json_decref(pair);
    return NULL;
}

int device_duplicates(struct bb_request *rq)
{
    int64_t limit = bb_arg_int(rq, "limit", PAIRS);
    const struct bb_rows *rows = bb_query_or_end(
        rq, &pairs, BB_ARGS(bb_i(bb_arg_int(rq, "after", INT64_MAX)), bb_i(limit + 1)));

    return bb_reply_rows(rq, rows, (size_t)limit, PAIR, list_pair_json);
}

void device_sweep_duplicates(struct bb_request *rq)
{
    const char *updated = "-infinity";
    int64_t id = 0;
    bool more = true;

    while (more) {
        const struct bb_rows *rows =
            bb_query(rq, &look_again, BB_ARGS(bb_t(updated), bb_i(id), bb_i(AGAIN)));

        if (!rows)
            bb_log(rq, BB_WARN, "cannot look for duplicates of devices: %s", bb_sqlstate(rq));
        more = rows && bb_count(rq, rows) && bb_cell_int(rq, rows, 0, 0) == AGAIN;
        updated = more ? bb_cell(rq, rows, 0, 1) : NULL;
        id = more ? bb_cell_int(rq, rows, 0, 2) : 0;
    }
    if (!bb_query(rq, &forget, NULL, 0))
        bb_log(rq, BB_WARN, "cannot delete duplicates of devices: %s", bb_sqlstate(rq));
}
