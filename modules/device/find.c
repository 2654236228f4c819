/*
 * Which device a key means: externalId (in any case), then uuid, then serialNumber, within what the
 * caller sees; and which one stands at a site. Several: 409.
 */
#include <string.h>

#include "device.h"

enum { UUID_LENGTH = 36, NAMED_MAX = 20, NAMES_LENGTH = 380 };

#define HIT(rank, condition)                                                                       \
    "SELECT d.id, " rank " AS rank FROM device d WHERE " DEVICE_SEES " AND " condition

/* $3 the key, $4 the key if it is a uuid */
static const struct bb_sql by_key = {
    "WITH hit AS (" HIT("1", "lower(d.external_id) = lower($3::text)") " UNION ALL " HIT(
        "2",
        "d.uuid = $4::uuid") " UNION ALL " HIT("3",
                                               "d.serial_number = $3::text") " ORDER BY rank LIMIT "
                                                                             "21)"
                                                                             " SELECT"
                                                                             " " DEVICE_COLUMNS
                                                                             " FROM hit JOIN "
                                                                             "device d ON d.id = "
                                                                             "hit.id"
                                                                             " WHERE hit.rank = "
                                                                             "(SELECT min(rank) "
                                                                             "FROM hit) ORDER BY "
                                                                             "d.id",
    0,
};

/* $3 the name */
static const struct bb_sql by_site = {
    "SELECT " DEVICE_COLUMNS " FROM device d WHERE " DEVICE_SEES
    " AND d.site_name = $3::text ORDER BY d.id LIMIT 21",
    0,
};

static bool is_uuid(const char *text)
{
    if (strlen(text) != UUID_LENGTH || strspn(text, "0123456789abcdefABCDEF-") != UUID_LENGTH)
        return false;
    for (int i = 0; i < UUID_LENGTH; i++)
        if ((text[i] == '-') != (i == 8 || i == 13 || i == 18 || i == 23))
            return false;
    return true;
}

/* "A1, A2", as far as an error's text is long. */
static const char *names_of(struct bb_request *rq, const struct bb_rows *rows)
{
    const char *list = "";

    for (size_t row = 0; row < bb_count(rq, rows) && row < NAMED_MAX; row++) {
        struct device_record record = device_record_of(rq, rows, row);
        const char *name = record.text[DEVICE_EXTERNAL_ID];
        const char *longer =
            bb_format(rq, "%s%s%s", list, *list ? ", " : "", name ? name : record.uuid);

        if (strlen(longer) > NAMES_LENGTH)
            return bb_format(rq, "%s, …", list);
        list = longer;
    }
    return list;
}

static int only_one(struct bb_request *rq, const struct bb_rows *rows, const char *what,
                    struct device_record *record)
{
    if (!rows)
        return bb_failed(rq);
    if (bb_count(rq, rows) == 0)
        return bb_fail(rq, 404, "Device not found");
    if (bb_count(rq, rows) > 1)
        return bb_fail(rq, 409, "Several devices have this %s: %s", what, names_of(rq, rows));
    *record = device_record_of(rq, rows, 0);
    return 0;
}

int device_find(struct bb_request *rq, const char *key, int64_t asked, struct device_record *record)
{
    struct device_scope scope;
    int refused = device_scope(rq, asked, &scope);

    if (refused)
        return refused;
    const char *uuid = is_uuid(key) ? key : NULL;

    return only_one(
        rq, bb_query(rq, &by_key, BB_ARGS(DEVICE_SCOPE_ARGS(&scope), bb_t(key), bb_t(uuid))),
        "identifier", record);
}

int device_find_site(struct bb_request *rq, const char *site, int64_t asked,
                     struct device_record *record)
{
    struct device_scope scope;
    int refused = device_scope(rq, asked, &scope);

    if (refused)
        return refused;
    return only_one(rq, bb_query(rq, &by_site, BB_ARGS(DEVICE_SCOPE_ARGS(&scope), bb_t(site))),
                    "siteName", record);
}
