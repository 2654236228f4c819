/* A device in the database and in the API: look-ups, rows, JSON and events. */
#include <stdlib.h>
#include <string.h>

#include "modules/device/device.h"

#define DEVICE "s:{s:I, s:s, s:s?, s:s?, s:s?, s:I}"

int device_emit(struct bb_request *rq, struct bb_tx *tx, const char *name,
                const struct device_record *record, json_t *changed)
{
    struct bb_audience audience = {.size = sizeof(audience), .organization = record->organization};

    return bb_emit(
        rq, tx, name,
        json_pack(strcmp(name, "device.updated") != 0 ? "{" DEVICE "}" : "{" DEVICE ", s:o}",
                  "device", "id", (json_int_t)record->id, "uuid", record->uuid, "externalId",
                  record->text[DEVICE_EXTERNAL_ID], "siteName", record->text[DEVICE_SITE_NAME],
                  "serialNumber", record->text[DEVICE_SERIAL_NUMBER], "organizationId",
                  (json_int_t)record->organization, "changed", changed),
        &audience);
}

struct device_record device_facts_of(struct bb_request *rq, const struct bb_rows *rows, size_t row,
                                     size_t column)
{
    struct device_record record = {
        .id = bb_cell_int(rq, rows, row, column),
        .uuid = bb_cell(rq, rows, row, column + 1),
        .organization = bb_cell_int(rq, rows, row, column + 2),
        .status = bb_cell(rq, rows, row, column + 3 + DEVICE_FIELDS),
    };

    for (enum device_field field = 0; field < DEVICE_FIELDS; field++)
        record.text[field] = bb_cell(rq, rows, row, column + 3 + field);
    return record;
}

struct device_record device_record_of(struct bb_request *rq, const struct bb_rows *rows, size_t row)
{
    struct device_record record = device_facts_of(rq, rows, row, 0);

    record.attributes = bb_cell(rq, rows, row, DEVICE_FACT_COUNT);
    record.documents = bb_cell(rq, rows, row, DEVICE_FACT_COUNT + 1);
    record.created_at = bb_cell(rq, rows, row, DEVICE_FACT_COUNT + 2);
    record.updated_at = bb_cell(rq, rows, row, DEVICE_FACT_COUNT + 3);
    return record;
}

json_t *device_facts_json(const struct device_record *record)
{
    json_t *json = json_pack("{s:I, s:s}", "id", (json_int_t)record->id, "uuid", record->uuid);
    int failed = json ? 0 : -1;

    for (enum device_field field = 0; field < DEVICE_FIELDS; field++) {
        const char *text = record->text[field];
        json_t *value = !text                                    ? json_null()
                        : device_fields[field].type == BB_NUMBER ? json_real(strtod(text, NULL))
                                                                 : json_string(text);

        failed |= json_object_set_new(json, device_fields[field].name, value);
    }
    failed |= json_object_set_new(json, "organizationId", json_integer(record->organization));
    failed |= json_object_set_new(json, "status", json_string(record->status));
    if (!failed)
        return json;
    json_decref(json);
    return NULL;
}

json_t *device_stored_json(struct bb_request *rq, const char *const *text, const bool *cleared)
{
    static const char *const columns[DEVICE_FIELDS] = {
        "external_id",   "site_name", "country_code", "commissioning_date", "capacity",
        "address",       "latitude",  "longitude",    "fuel_code",          "device_type_code",
        "serial_number", "timezone",  "yield_value"};
    json_t *object = bb_hold(rq, json_object());

    for (enum device_field field = 0; field < DEVICE_FIELDS; field++)
        if (text[field] || (cleared && cleared[field]))
            bb_set(rq, object, columns[field],
                   text[field] ? json_string_nocheck(text[field]) : json_null());
    return object;
}

/* ---- attributes ---- */

enum { LONG_DIGITS = 19 }; /* digits of 2^63, which is too large for json_int_t */

/*
 * Returns JSON from the database in the form in which JavaScript writes it. PostgreSQL adds blanks
 * after colons and commas, and writes numbers such as 1e30 and 1e-7 without an exponent.
 */
static const char *record_compact(struct bb_request *rq, const char *text)
{
    char *copy = bb_alloc(rq, strlen(text) + 1), *out = copy;
    bool in_string = false;
    size_t digits = 0;

    for (const char *at = text; *at; at++) {
        in_string ^= *at == '"';
        digits = *at >= '0' && *at <= '9' ? digits + 1 : 0;
        if (!in_string && (digits == LONG_DIGITS || !strncmp(at, "0.000000", 8)))
            return bb_json(rq, bb_hold(rq, bb_json_read(rq, text)), NULL);
        if (in_string || *at != ' ')
            *out++ = *at;
        if (in_string && *at == '\\')
            *out++ = *++at;
    }
    *out = '\0';
    return copy;
}

/* Ends the request if the attributes are too long, not counting blanks that the database adds. */
void device_attributes_check(struct bb_request *rq, const char *attributes)
{
    if (strlen(attributes) > DEVICE_ATTRIBUTES_MAX &&
        strlen(record_compact(rq, attributes)) > DEVICE_ATTRIBUTES_MAX)
        bb_end(rq, bb_invalid(rq, "attributes", DEVICE_ATTRIBUTES_LONG));
}

/* ---- the whole device ---- */

const char *device_text(struct bb_request *rq, const struct device_record *record)
{
    size_t length = 0;
    const char *facts = bb_json(rq, bb_hold(rq, device_facts_json(record)), &length);

    return bb_format(rq,
                     "%.*s,\"attributes\":%s,\"documents\":%s,\"createdAt\":\"%s\","
                     "\"updatedAt\":\"%s\"}",
                     (int)length - 1, facts, record_compact(rq, record->attributes),
                     record_compact(rq, record->documents), record->created_at, record->updated_at);
}

json_t *device_json(struct bb_request *rq, const struct device_record *record)
{
    return bb_json_read(rq, device_text(rq, record));
}

/*
 * ---- finding ----
 *
 * A key is compared with the externalId (by DEVICE_KEY()) of the devices that the caller sees. If
 * none matches, the key is compared with their uuid, then serialNumber, then id. A site's name is
 * compared with the siteName. If several devices match, the response is 409.
 */

enum { ID_DIGITS = 18, NAMED_MAX = 20, NAMES_LENGTH = 380 };

/*
 * The table k has a row for each request: its caller's scope, the key or site name, and the key
 * again as uuid and as id (null if it is not one). ONE makes k from the parameters of one request,
 * MANY from arrays with the values of several requests (bb_keyed).
 *
 * FROM_ALL is for callers that see all devices. Its range conditions make PostgreSQL read an index
 * in order and stop after MOST rows. FROM_SOME is for any number of organizations. FROM_ONE is for
 * callers with one organization, because PostgreSQL would plan FROM_SOME again for each look-up.
 */
#define ASKED "everything, organisations, name, uuid, id"
#define ONE                                                                                        \
    "SELECT a.* FROM (SELECT $1::boolean, $2::bigint[], $3::text, $4::uuid, $5::bigint)"           \
    " k(" ASKED ")"
#define CALLERS BB_KEYS_5("boolean", "text", "text", "uuid", "bigint")
#define MANY                                                                                       \
    "SELECT a.*, k.i FROM (SELECT everything, organisations::bigint[], name, uuid, id, i"          \
    " FROM " CALLERS " k(" ASKED ", i) OFFSET 0) k"
#define KEYED(statement)                                                                           \
    {                                                                                              \
        {ONE " CROSS JOIN LATERAL (" statement ") a", BB_SQL_KEYED},                               \
            {MANY " CROSS JOIN LATERAL (" statement ") a", 0},                                     \
    }

#define MOST " LIMIT 21"
#define FROM_ALL(what, has, name, value)                                                           \
    "(SELECT " what " FROM device d WHERE k.everything AND " has " AND (" name                     \
    ", d.organisation) >= (" value ", 0::bigint)"                                                  \
    " AND (" name ", d.organisation) <= (" value ", 9223372036854775807)"                          \
    " ORDER BY " name ", d.organisation" MOST ")"
#define FROM_ONE(what, has, name, value)                                                           \
    "(SELECT " what " FROM device d WHERE NOT k.everything AND " has " AND " name " = " value      \
    " AND d.organisation = k.organisations[1]" MOST ")"
#define FROM_SOME(what, has, name, value)                                                          \
    "(SELECT " what " FROM (SELECT DISTINCT unnest(k.organisations) AS id) o CROSS JOIN LATERAL"   \
    " (SELECT * FROM device d WHERE " has " AND " name " = " value                                 \
    " AND d.organisation = o.id" MOST ") d"                                                        \
    " WHERE NOT k.everything" MOST ")"
#define SEEN "(k.everything OR d.organisation = ANY(k.organisations))"
#define EXTERNAL(from)                                                                             \
    from("d.id, 1 AS rank", "d.external_id IS NOT NULL", DEVICE_KEY("d.external_id"),              \
         DEVICE_KEY("k.name"))
#define UUID "SELECT d.id, 2 FROM device d WHERE " SEEN " AND d.uuid = k.uuid"
#define ID "SELECT d.id, 4 FROM device d WHERE " SEEN " AND d.id = k.id"
#define SERIAL(from) from("d.id, 3", "d.serial_number IS NOT NULL", "d.serial_number", "k.name")
#define SITE(from) from("d.*", "d.site_name IS NOT NULL", "d.site_name", "k.name")
#define HITS(from) EXTERNAL(from) " UNION ALL " UUID " UNION ALL " SERIAL(from) " UNION ALL " ID
#define BY_KEY(from, columns)                                                                      \
    KEYED("WITH hit AS (" HITS(from) ")"                                                           \
                                     " SELECT " columns " FROM hit JOIN device d ON d.id = hit.id" \
                                     " WHERE hit.rank = (SELECT min(rank) FROM hit)"               \
                                     " ORDER BY d.id")
#define BY_SITE(from) KEYED("SELECT " DEVICE_COLUMNS " FROM " SITE(from) " d ORDER BY d.id")

enum sight { OF_ALL, OF_ONE, OF_SOME };

static const struct bb_keyed look_ups[][OF_SOME + 1] = {
    [DEVICE_WHOLE] = {BY_KEY(FROM_ALL, DEVICE_COLUMNS), BY_KEY(FROM_ONE, DEVICE_COLUMNS),
                      BY_KEY(FROM_SOME, DEVICE_COLUMNS)},
    [DEVICE_ONLY_FACTS] = {BY_KEY(FROM_ALL, DEVICE_FACTS), BY_KEY(FROM_ONE, DEVICE_FACTS),
                           BY_KEY(FROM_SOME, DEVICE_FACTS)},
    [DEVICE_AT_SITE] = {BY_SITE(FROM_ALL), BY_SITE(FROM_ONE), BY_SITE(FROM_SOME)},
};

/* Returns the key if it may be an id (up to ID_DIGITS digits, no leading 0), otherwise NULL. */
static const char *record_id(const char *key)
{
    size_t digits = strspn(key, "0123456789");

    return digits && digits <= ID_DIGITS && !key[digits] && *key != '0' ? key : NULL;
}

/* Returns the devices' names as "A1, A2", up to NAMED_MAX names in NAMES_LENGTH bytes. */
static const char *record_names(struct bb_request *rq, const struct bb_rows *rows)
{
    enum { THE_UUID = 1, ORGANIZATION, EXTERNAL_ID }; /* columns of DEVICE_FACTS */
    int64_t first = bb_cell_int(rq, rows, 0, ORGANIZATION);
    const char *list = "", *where = "";
    bool several = false; /* the devices belong to several organizations */

    for (size_t row = 1; row < bb_count(rq, rows); row++)
        several = several || bb_cell_int(rq, rows, row, ORGANIZATION) != first;
    for (size_t row = 0; row < bb_count(rq, rows) && row < NAMED_MAX; row++) {
        const char *name = bb_cell(rq, rows, row, EXTERNAL_ID);

        if (several)
            where = bb_format(rq, " (organization %s)", bb_cell(rq, rows, row, ORGANIZATION));
        name = bb_format(rq, "%s%s%s%s", list, *list ? ", " : "",
                         name ? name : bb_cell(rq, rows, row, THE_UUID), where);
        if (strlen(name) > NAMES_LENGTH)
            return bb_format(rq, "%s, …", list);
        list = name;
    }
    return list;
}

int device_find(struct bb_request *rq, enum device_look_up how, const char *name, int64_t asked,
                struct device_record *record)
{
    struct scope scope;
    int refused = scope_set(rq, asked, &scope);
    bool site = how == DEVICE_AT_SITE;

    if (refused)
        return refused;
    const char *key = device_trimmed(rq, name);
    enum sight sight = scope.all ? OF_ALL : scope.count == 1 ? OF_ONE : OF_SOME;
    const struct bb_rows *rows =
        bb_query(rq, &look_ups[how][sight].one,
                 BB_ARGS(SCOPE_ARGS(&scope), bb_t(key), bb_t(!site && bb_is_uuid(key) ? key : NULL),
                         bb_t(site ? NULL : record_id(key))));

    if (!rows)
        return bb_failed(rq);
    if (bb_count(rq, rows) == 0)
        return bb_fail_text(rq, 404, DEVICE_NONE);
    if (bb_count(rq, rows) > 1)
        return bb_fail(rq, 409, DEVICE_SEVERAL, site ? "siteName" : "identifier",
                       record_names(rq, rows));
    *record =
        how == DEVICE_ONLY_FACTS ? device_facts_of(rq, rows, 0, 0) : device_record_of(rq, rows, 0);
    return 0;
}

struct device_record device_in_path(struct bb_request *rq, enum device_look_up how)
{
    struct device_record record;
    int refused = device_find(rq, how, bb_segment(rq, "externalId"),
                              bb_arg_int(rq, "organizationId", 0), &record);

    if (refused)
        bb_end(rq, refused);
    return record;
}
