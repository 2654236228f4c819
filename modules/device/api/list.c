/*
 * The list of devices, and one device. schema.sql (step 12) builds the statement that fits the
 * filters and the order.
 */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

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

/*
 * The length of a device as text. Only attributes can be long, so their length is stored and they
 * are not read.
 */
#define BYTES                                                                                      \
    "octet_length(ROW(" DEVICE_FACTS ")::text) + d.attributes_bytes"                               \
    " + (SELECT coalesce(sum(200 + octet_length(f.name)), 0) FROM device_document f"               \
    " WHERE f.device = d.id)"
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
 * BB_SQL_LONG: a filter may match a few out of very many devices, and reading many devices takes
 * long too.
 */
static const struct bb_sql list_few = {PAGE, 0}, list_many = {PAGE, BB_SQL_LONG};
static const struct bb_sql list_count = {
    "SELECT device_count(CASE WHEN NOT $1::boolean THEN $2::bigint[] END, $3::jsonb, $4::boolean)",
    BB_SQL_LONG};

/* Devices and bytes per page; large attributes make a page shorter. */
enum { PAGE_MAX = 1000, PAGE_BYTES = 1024 * 1024, FEW = 25 };

/*
 * Devices store either code as it was sent, so both are searched. A text that is not a country is
 * compared literally. Returns 0 or -1.
 */
static int add_country(struct bb_request *rq, json_t *wanted, const char *sent)
{
    int country = country_find(sent);
    char code[4];

    if (country < 0)
        return json_object_set_new(wanted, "country", json_string(device_trimmed(rq, sent)));
    country_code(country, 2, code);
    if (json_object_set_new(wanted, "country", json_string(code)))
        return -1;
    country_code(country, 3, code);
    return json_object_set_new(wanted, "other", json_string(code));
}

/* Builds an object of the request's filters, by name. The caller owns it; NULL: out of memory. */
static json_t *filters(struct bb_request *rq)
{
    static const char *const names[] = {
        "siteName", "serialNumber", "fuelCode",   "deviceTypeCode",   "externalId",
        "search",   "capacityFrom", "capacityTo", "commissionedFrom", "commissionedTo",
        "status",   "inGroup",      NULL};
    const char *country = bb_arg(rq, "countryCode");
    json_t *wanted = json_object();
    bool lost = !wanted || (country && add_country(rq, wanted, country));

    for (size_t i = 0; names[i] && !lost; i++) {
        const char *text = bb_arg(rq, names[i]);

        if (text)
            lost =
                json_object_set_new(wanted, names[i], json_string(device_trimmed(rq, text))) != 0;
    }
    if (!lost)
        return wanted;
    json_decref(wanted);
    return NULL;
}

/* Returns 0, or the status of the response sent; *any: there is at least one filter. */
static int filter_values(struct bb_request *rq, const struct device_scope *scope,
                         struct bb_value values[LIST_COUNTED], bool *any)
{
    const struct bb_value seen[] = {DEVICE_SCOPE_ARGS(scope)};
    const char *status = bb_arg(rq, "status");
    json_t *wanted = filters(rq);
    size_t length;

    *any = json_object_size(wanted) > 0;
    if (wanted && status && !strcmp(status, "All"))
        json_object_del(wanted, "status");
    bool lost =
        !wanted || (!status && json_object_set_new(wanted, "status", json_string("Active")));

    values[0] = seen[0];
    values[1] = seen[1];
    values[LIST_WANTED] = bb_t(lost ? NULL : bb_json(rq, wanted, &length));
    values[LIST_GROUPED] = bb_b(bb_service(rq->host, "certificates").interface != NULL);
    json_decref(wanted);
    return lost ? bb_no_memory(rq) : 0;
}

/* ---- order and cursor ---- */

static const struct list_order *order_of(struct bb_request *rq)
{
    const struct list_order *order = list_orders;
    const char *sort = bb_arg(rq, "sort");

    while (sort && order->name && strcmp(order->name, sort) != 0)
        order++;
    return order->name ? order : list_orders;
}

/* Returns whether the database would accept the text as a number. */
static bool is_number(const char *text)
{
    char *end;

    errno = 0;
    double number = strtod(text, &end);

    return end != text && !*end && !errno && isfinite(number) &&
           strspn(text, "0123456789+-.e") == strlen(text);
}

/* Returns 0, or the status of the 400 response sent. */
static int cursor_values(struct bb_request *rq, const struct list_order *order,
                         struct bb_value values[LIST_VALUES])
{
    const char *after = bb_arg(rq, "after");
    char *end = NULL;

    values[LIST_AFTER] = values[LIST_KEY] = bb_null();
    if (!after)
        return 0;
    errno = 0;
    int64_t id = strtoll(after, &end, 10);
    bool good = end != after && !errno && id >= 0;

    if (good && order == list_orders)
        good = !*end;
    else if (good)
        good = *end == '-' && (!order->number || is_number(end + 1));
    if (!good)
        return bb_invalid(rq, "after", "must be a cursor that a Link header of this order gave");
    values[LIST_AFTER] = bb_i(id);
    if (order != list_orders)
        values[LIST_KEY] = bb_t(end + 1);
    return 0;
}

/* ---- the response ---- */

/* Percent-encodes the text for a URL. */
static const char *encoded(struct bb_request *rq, const char *text)
{
    static const char hex[] = "0123456789ABCDEF";
    char *made = bb_alloc(rq, 3 * strlen(text) + 1), *at = made;

    for (; *text; text++) {
        if (isalnum((unsigned char)*text) || strchr("-._~", *text)) {
            *at++ = *text;
            continue;
        }
        *at++ = '%';
        *at++ = hex[(unsigned char)*text >> 4];
        *at++ = hex[*text & 15];
    }
    return made;
}

static const char *cursor_behind(struct bb_request *rq, const struct list_order *order,
                                 const struct bb_rows *rows, size_t row)
{
    const char *id = bb_cell(rq, rows, row, 0);

    return order == list_orders
               ? id
               : bb_format(rq, "%s-%s", id, encoded(rq, bb_cell(rq, rows, row, LIST_ORDERED_BY)));
}

static int answer(struct bb_request *rq, const struct list_order *order, const struct bb_rows *rows,
                  size_t limit)
{
    size_t count = bb_count(rq, rows) > limit ? limit : bb_count(rq, rows);

    if (count && (size_t)bb_cell_int(rq, rows, 0, LIST_FOUND) > count &&
        bb_reply_next(rq, cursor_behind(rq, order, rows, count - 1)) < 0)
        return bb_failed(rq);
    const char **texts = bb_alloc(rq, (count + 1) * sizeof(*texts));

    for (size_t row = 0; row < count; row++) {
        struct device_record record = device_record_of(rq, rows, row);

        texts[row] = device_text(rq, &record);
        if (!texts[row])
            return bb_no_memory(rq);
    }
    return device_reply_texts(rq, texts, count);
}

/* Returns 0, or the status of the response sent. */
static int add_count(struct bb_request *rq, const struct bb_value *values)
{
    const char *count = bb_arg(rq, "count");

    if (!count || strcmp(count, "true") != 0)
        return 0;
    const struct bb_rows *rows = bb_query(rq, &list_count, values, LIST_COUNTED);

    if (!rows || bb_reply_header(rq, "X-Total-Count", bb_cell(rq, rows, 0, 0)))
        return bb_failed(rq);
    return 0;
}

int device_list(struct bb_request *rq)
{
    struct device_scope scope;
    struct bb_value values[LIST_VALUES];
    const struct list_order *order = order_of(rq);
    const char *direction = bb_arg(rq, "order");
    bool down = direction && !strcmp(direction, "desc"), any = false;
    int64_t limit = bb_arg_int(rq, "limit", PAGE_MAX);
    int refused = device_scope(rq, bb_arg_int(rq, "organizationId", 0), &scope);

    if (!refused)
        refused = cursor_values(rq, order, values);
    if (!refused)
        refused = filter_values(rq, &scope, values, &any);
    if (!refused)
        refused = add_count(rq, values);
    if (refused)
        return refused;
    values[LIST_ORDER] = bb_t(order->name);
    values[LIST_DOWN] = bb_b(down);
    values[LIST_LIMIT] = bb_i(limit + 1);
    values[LIST_BYTES] = bb_i(PAGE_BYTES);
    bool few = !any && limit <= FEW && order == list_orders && !down;
    const struct bb_rows *rows = bb_query(rq, few ? &list_few : &list_many, values, LIST_VALUES);

    return rows ? answer(rq, order, rows, (size_t)limit) : bb_failed(rq);
}

int device_get(struct bb_request *rq)
{
    struct device_record record;
    int refused =
        device_find(rq, bb_segment(rq, "externalId"), bb_arg_int(rq, "organizationId", 0), &record);

    return refused ? refused : bb_reply(rq, 200, device_json(rq, &record));
}
