/*
 * Finds the device for a key among the devices that the caller sees: by externalId (compared with
 * DEVICE_KEY()), then uuid, then serialNumber, then id. Also finds the device at a site. If several
 * match, the response is 409.
 */
#include <string.h>

#include "modules/device/record/device.h"

enum { UUID_LENGTH = 36, ID_DIGITS = 18, NAMED_MAX = 20, NAMES_LENGTH = 380 };

/*
 * k, the caller: the scope, the key or the site's name, the key if it is a uuid, and the key if it
 * may be an id. For one request k is built from parameters, for several from arrays of them (struct
 * bb_keyed).
 *
 * Even if many devices share a serial number or a site, here or in other organizations, only a few
 * rows are read, from an index that begins with it. For callers that see everything the condition
 * is a range that begins with the value, because with equality the planner might sort. For the
 * others, rows are searched by organization. Most callers act in a single one: with a plan for any
 * number of organizations PostgreSQL would plan each look-up again.
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

static const struct bb_keyed by_key[] = {
    [OF_ALL] = BY_KEY(FROM_ALL, DEVICE_COLUMNS),
    [OF_ONE] = BY_KEY(FROM_ONE, DEVICE_COLUMNS),
    [OF_SOME] = BY_KEY(FROM_SOME, DEVICE_COLUMNS),
};
static const struct bb_keyed facts_by_key[] = {
    [OF_ALL] = BY_KEY(FROM_ALL, DEVICE_FACTS),
    [OF_ONE] = BY_KEY(FROM_ONE, DEVICE_FACTS),
    [OF_SOME] = BY_KEY(FROM_SOME, DEVICE_FACTS),
};
static const struct bb_keyed by_site[] = {
    [OF_ALL] = BY_SITE(FROM_ALL),
    [OF_ONE] = BY_SITE(FROM_ONE),
    [OF_SOME] = BY_SITE(FROM_SOME),
};

static enum sight sight_of(const struct device_scope *scope)
{
    if (scope->all)
        return OF_ALL;
    return scope->count == 1 ? OF_ONE : OF_SOME;
}

static bool is_uuid(const char *text)
{
    if (strlen(text) != UUID_LENGTH || strspn(text, "0123456789abcdefABCDEF-") != UUID_LENGTH)
        return false;
    for (int i = 0; i < UUID_LENGTH; i++)
        if ((text[i] == '-') != (i == 8 || i == 13 || i == 18 || i == 23))
            return false;
    return true;
}

/* Returns the key if it has as many digits as an id may have, else NULL. */
static const char *id_of(const char *key)
{
    size_t digits = strspn(key, "0123456789");

    return digits && digits <= ID_DIGITS && !key[digits] && *key != '0' ? key : NULL;
}

/* Returns "A1", or "A1 (organization 3)" if organizationId can choose between the devices. */
static const char *name_of(struct bb_request *rq, const struct device_record *record, bool several)
{
    const char *name = record->text[DEVICE_EXTERNAL_ID];

    name = name ? name : record->uuid;
    return several ? bb_format(rq, "%s (organization %jd)", name, (intmax_t)record->organization)
                   : name;
}

/* Returns "A1, A2" and so on, up to the length of an error message. */
static const char *names_of(struct bb_request *rq, const struct bb_rows *rows)
{
    const char *list = "";
    int64_t first = device_facts_of(rq, rows, 0).organization;
    bool several = false;

    for (size_t row = 1; row < bb_count(rq, rows); row++)
        several = several || device_facts_of(rq, rows, row).organization != first;
    for (size_t row = 0; row < bb_count(rq, rows) && row < NAMED_MAX; row++) {
        struct device_record record = device_facts_of(rq, rows, row);
        const char *longer =
            bb_format(rq, "%s%s%s", list, *list ? ", " : "", name_of(rq, &record, several));

        if (strlen(longer) > NAMES_LENGTH)
            return bb_format(rq, "%s, …", list);
        list = longer;
    }
    return list;
}

/* Returns 0 if there is exactly one row, else the status of the response sent. */
static int only_one(struct bb_request *rq, const struct bb_rows *rows, const char *what)
{
    if (!rows)
        return bb_failed(rq);
    if (bb_count(rq, rows) == 0)
        return bb_fail_text(rq, 404, DEVICE_NONE);
    if (bb_count(rq, rows) > 1)
        return bb_fail(rq, 409, DEVICE_SEVERAL, what, names_of(rq, rows));
    return 0;
}

/*
 * Returns the only row for a key in the caller's scope; else sets *refused to the status of the
 * response sent.
 */
static const struct bb_rows *find(struct bb_request *rq, const struct bb_keyed *sql,
                                  const char *sent, int64_t asked, int *refused)
{
    struct device_scope scope;

    *refused = device_scope(rq, asked, &scope);
    if (*refused)
        return NULL;
    const char *key = device_trimmed(rq, sent);
    const char *uuid = is_uuid(key) ? key : NULL;
    const struct bb_rows *rows =
        bb_query(rq, &sql[sight_of(&scope)].one,
                 BB_ARGS(DEVICE_SCOPE_ARGS(&scope), bb_t(key), bb_t(uuid), bb_t(id_of(key))));

    *refused = only_one(rq, rows, "identifier");
    return rows;
}

int device_find(struct bb_request *rq, const char *key, int64_t asked, struct device_record *record)
{
    int refused;
    const struct bb_rows *rows = find(rq, by_key, key, asked, &refused);

    if (!refused)
        *record = device_record_of(rq, rows, 0);
    return refused;
}

int device_find_facts(struct bb_request *rq, const char *key, int64_t asked,
                      struct device_record *record)
{
    int refused;
    const struct bb_rows *rows = find(rq, facts_by_key, key, asked, &refused);

    if (!refused)
        *record = device_facts_of(rq, rows, 0);
    return refused;
}

int device_find_site(struct bb_request *rq, const char *site, int64_t asked,
                     struct device_record *record)
{
    struct device_scope scope;
    int refused = device_scope(rq, asked, &scope);

    if (refused)
        return refused;
    const struct bb_rows *rows = bb_query(
        rq, &by_site[sight_of(&scope)].one,
        BB_ARGS(DEVICE_SCOPE_ARGS(&scope), bb_t(device_trimmed(rq, site)), bb_null(), bb_null()));

    refused = only_one(rq, rows, "siteName");
    if (!refused)
        *record = device_record_of(rq, rows, 0);
    return refused;
}
