#include "modules/device/api/list.h"

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

const struct list_order list_orders[] = {
    {"id", true},       {"externalId", false},       {"siteName", false},
    {"capacity", true}, {"commissioningDate", true}, {"updatedAt", true},
    {.name = NULL},
};

const struct bb_sql list_few = {PAGE, 0}, list_many = {PAGE, BB_SQL_LONG};
const struct bb_sql list_count = {
    "SELECT device_count(CASE WHEN NOT $1::boolean THEN $2::bigint[] END, $3::jsonb, $4::boolean)",
    BB_SQL_LONG};
