/*
 * keys: a module for the tests of keyed statements (struct bb_keyed). A read returns rows made of
 * its key, or none, or fails for some keys; a unit adds to a counter, records that it did, and
 * fails for some numbers. Each checks that the rows it received are its own.
 */
#include <string.h>

#include <busbar/busbar.h>

static const char schema[] =
    "-- step 1: counters and their increments\n"
    "CREATE TABLE keys_counter (id bigint PRIMARY KEY, value bigint NOT NULL DEFAULT 0);\n"
    "INSERT INTO keys_counter SELECT g FROM generate_series(1, 40) g;\n"
    "CREATE TABLE keys_done (id uuid PRIMARY KEY, counter bigint NOT NULL, added bigint NOT "
    "NULL);\n"
    "CREATE TABLE keys_name (key bigint PRIMARY KEY, name text NOT NULL);\n"
    "INSERT INTO keys_name SELECT g, 'name \"' || g || '\\' FROM generate_series(1, 1000) g;\n";

/* Returns key % 4 rows: key, place, its name and the text that came with it. Fails for multiples of
 * 13 that have rows. */
#define ROWS(key, text)                                                                            \
    "SELECT busbar_require(" key " % 13 <> 0, 409, 'thirteen'), " key " AS key, g AS place,"       \
    " (SELECT n.name FROM keys_name n WHERE n.key = " key ") AS name, " text " AS said"            \
    " FROM generate_series(1, " key " % 4) g ORDER BY g"

#define KEYS BB_KEYS_2("bigint", "text")
#define ROWS_OF_KEY ROWS("k.key", "k.said")

static const struct bb_keyed read_rows = {
    {ROWS("$1::bigint", "$2::text"), BB_SQL_KEYED},
    {"SELECT r.*, k.i FROM " KEYS " k(key, said, i) CROSS JOIN LATERAL (" ROWS_OF_KEY ") r", 0},
};

#define ADDED BB_KEYS_3("bigint", "bigint", "uuid")

static const struct bb_keyed add = {
    {"WITH c AS (UPDATE keys_counter SET value = value + $2::bigint WHERE id = $1::bigint"
     " RETURNING id, value),"
     " d AS (INSERT INTO keys_done SELECT $3::uuid, id, $2::bigint FROM c)"
     " SELECT busbar_require(count(*) = 1, 404, 'no such counter'),"
     " busbar_require($2::bigint <> 13, 409, 'thirteen'), max(id) FROM c",
     BB_SQL_WRITE | BB_SQL_KEYED},
    {"WITH k AS (SELECT * FROM " ADDED " k(id, added, uuid, i)),"
     " c AS (UPDATE keys_counter o SET value = value + k.added FROM k WHERE o.id = k.id"
     " RETURNING k.id, k.added, k.uuid, k.i),"
     " d AS (INSERT INTO keys_done SELECT uuid, id, added FROM c)"
     " SELECT busbar_require(c.i IS NOT NULL, 404, 'no such counter'),"
     " busbar_require(k.added <> 13, 409, 'thirteen'), c.id, k.i FROM k LEFT JOIN c ON c.i = k.i",
     BB_SQL_WRITE},
};

/* The statement for arrays is invalid; each request must get its response nevertheless. */
static const struct bb_keyed half = {
    {"SELECT name FROM keys_name WHERE key = $1::bigint", BB_SQL_KEYED},
    {"SELECT no_such_column, k.i FROM " BB_KEYS_1("bigint") " k(key, i)", 0},
};

static json_t *row_json(struct bb_request *rq, const struct bb_rows *rows, size_t row)
{
    return json_pack("[I, I, s?, s?]", (json_int_t)bb_cell_int(rq, rows, row, 1),
                     (json_int_t)bb_cell_int(rq, rows, row, 2), bb_cell(rq, rows, row, 3),
                     bb_cell(rq, rows, row, 4));
}

static int get_rows(struct bb_request *rq)
{
    const struct bb_rows *rows = bb_query_or_end(
        rq, &read_rows.one, BB_ARGS(bb_i(bb_segment_int(rq, "key")), bb_t(bb_arg(rq, "said"))));

    return bb_reply_page(rq, rows, bb_count(rq, rows), NULL, row_json);
}

static int get_half(struct bb_request *rq)
{
    const struct bb_rows *rows = bb_query(rq, &half.one, BB_ARGS(bb_i(bb_segment_int(rq, "key"))));

    if (!rows)
        return bb_failed(rq);
    return bb_reply(
        rq, 200, json_pack("{s:s?}", "name", bb_count(rq, rows) ? bb_cell(rq, rows, 0, 0) : NULL));
}

struct added {
    int64_t counter;
    int index; /* index of the unit's statement */
};

static void look(struct bb_request *rq, struct bb_tx *unit, void *arg)
{
    const struct added *added = arg;
    const struct bb_rows *rows = bb_unit_rows(rq, unit, added->index);

    if (!rows || bb_count(rq, rows) != 1 || bb_cell_int(rq, rows, 0, 2) != added->counter)
        bb_log(rq, BB_ERROR, "the unit has another one's row");
}

static int put_counter(struct bb_request *rq)
{
    struct added *added = bb_alloc(rq, sizeof *added);
    const char *uuid = bb_new_uuid(rq);

    added->counter = bb_segment_int(rq, "counter");
    struct bb_tx *unit = bb_unit(rq, (uint64_t)added->counter);

    if (!unit)
        return bb_failed(rq);
    added->index = bb_add(rq, unit, &add.one,
                          BB_ARGS(bb_i(added->counter), bb_i(bb_arg_int(rq, "by", 1)), bb_t(uuid)));
    if (added->index < 0)
        return bb_failed(rq);
    bb_after(rq, unit, look, added);
    int status = bb_commit(rq, unit, 200, json_pack("{s:s}", "uuid", uuid));

    return status ? status : bb_failed(rq);
}

static const struct bb_field key[] = {{.name = "key", .type = BB_INT, .max = 1000000}};
static const struct bb_field said[] = {{.name = "said", .type = BB_TEXT, .max = 4000}};
static const struct bb_field counter[] = {{.name = "counter", .type = BB_INT, .max = 1000000}};
static const struct bb_field by[] = {{.name = "by", .type = BB_INT, .max = 1000000}};

#define ROUTE(of, at, does, ...)                                                                   \
    {                                                                                              \
        .method = (of), .path = "/api/keys/" at, .roles = BB_ANYONE, .handler = (does),            \
        __VA_ARGS__                                                                                \
    }

static const struct bb_route routes[] = {
    ROUTE("GET", "rows/:key", get_rows, .segments = BB_TABLE(key), .query = BB_TABLE(said)),
    ROUTE("GET", "half/:key", get_half, .segments = BB_TABLE(key)),
    ROUTE("PUT", "counter/:counter", put_counter, .segments = BB_TABLE(counter),
          .query = BB_TABLE(by)),
};

BB_EXPORT const struct bb_module busbar_module = {
    BB_MODULE_HEAD("keys", "1.0.0"),
    .schema = schema,
    .routes = BB_TABLE(routes),
};
