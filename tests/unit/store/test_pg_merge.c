/* Keyed statements: which entries share an execution, what is sent for all of them, and which rows
 * belong to which entry; without a database. */
#include "core/store/pg_pool.h"
#include "suite.h"

enum { ENTRIES = 8 };

static const struct bb_keyed by_name = {{"one", BB_SQL_KEYED}, {"many", 0}};
static const struct bb_keyed by_number = {{"another", BB_SQL_KEYED}, {"many others", 0}};
static const struct bb_sql plain = {"plain", 0};

static struct loop loop;
static struct pg pg;
static struct host_settings settings;
static struct core_request requests[ENTRIES];
static struct pg_request *entries[ENTRIES];
static int made;

static void set_up(void)
{
    settings.database.gather = 64;
    loop.host = &settings;
    pg = (struct pg){.loop = &loop};
    pg.pools[PG_READ] = (struct pg_pool){.pg = &pg, .kind = PG_READ};
    pg.pools[PG_UNIT] = (struct pg_pool){.pg = &pg, .kind = PG_UNIT};
    made = 0;
}

static void tear_down(void)
{
    while (made > 0)
        pg_request_free(entries[--made]);
}

/* Adds the next entry of the batch, which executes `sql` with two values. */
static struct pg_request *asks(const struct bb_sql *sql, struct bb_value first,
                               struct bb_value second)
{
    struct pg_request *entry = pg_request_new(&requests[made]);

    ck_assert_ptr_nonnull(entry);
    ck_assert_ptr_nonnull(pg_request_add(entry, sql, BB_ARGS(first, second)));
    if (made)
        entries[made - 1]->next = entry;
    entries[made++] = entry;
    return entry;
}

static struct pg_request *unit(const struct bb_sql *sql, uint64_t key)
{
    struct pg_request *entry = asks(sql, bb_i((int64_t)key), bb_null());

    entry->key = key;
    return entry;
}

TEST(entries_of_the_same_statement_share_an_execution)
{
    struct pg_request *first = asks(&by_name.one, bb_t("a"), bb_null());
    struct pg_request *other = asks(&by_number.one, bb_i(1), bb_null());
    struct pg_request *unkeyed = asks(&plain, bb_i(1), bb_null());
    struct pg_request *second = asks(&by_name.one, bb_t("b"), bb_null());

    pg_merge(&pg.pools[PG_READ], entries[0]);
    ck_assert_uint_eq(first->members, 2);
    ck_assert_ptr_eq(first->next_member, second);
    ck_assert(second->uses_earlier_result);
    ck_assert_uint_eq(other->members, 0);
    ck_assert(!other->uses_earlier_result && !unkeyed->uses_earlier_result);
    ck_assert_uint_eq(pg.pools[PG_READ].shared, 1);
    ck_assert_uint_eq(pg.pools[PG_READ].sharers, 2);
}

TEST(failed_and_abandoned_entries_are_not_merged)
{
    struct pg_request *first = asks(&by_name.one, bb_t("a"), bb_null());
    struct pg_request *again = asks(&by_name.one, bb_t("b"), bb_null());
    struct pg_request *gone = asks(&by_name.one, bb_t("c"), bb_null());

    again->single = true;
    gone->rq = NULL;
    pg_merge(&pg.pools[PG_READ], entries[0]);
    ck_assert_uint_eq(first->members, 0);
    ck_assert(!again->uses_earlier_result && !gone->uses_earlier_result);
}

TEST(merge_max_limits_the_entries_of_an_execution)
{
    for (int i = 0; i < 5; i++)
        asks(&by_name.one, bb_i(i), bb_null());
    settings.database.gather = 2;
    pg_merge(&pg.pools[PG_READ], entries[0]);
    ck_assert_uint_eq(entries[0]->members, 2);
    ck_assert_uint_eq(entries[2]->members, 2);
    ck_assert_uint_eq(entries[4]->members, 0);
    for (int i = 0; i < 5; i++)
        pg_merge_forget(entries[i]);
    settings.database.gather = 1;
    pg_merge(&pg.pools[PG_READ], entries[0]);
    for (int i = 0; i < 5; i++)
        ck_assert(!entries[i]->uses_earlier_result && !entries[i]->members);
}

/* The second unit with the same key must see the changes of the first. */
TEST(only_the_first_unit_of_a_key_is_merged)
{
    struct pg_request *first = unit(&by_number.one, 1), *twin = unit(&by_number.one, 1);
    struct pg_request *other = unit(&by_number.one, 2), *third = unit(&by_number.one, 3);

    pg_merge(&pg.pools[PG_UNIT], entries[0]);
    ck_assert_uint_eq(first->members, 3);
    ck_assert(!twin->uses_earlier_result && !twin->members);
    ck_assert(other->uses_earlier_result && third->uses_earlier_result);
}

TEST(parameters_of_merged_entries_become_arrays)
{
    static const unsigned char bytes[] = {0, 0xfe};
    struct pg_request *first = asks(&by_name.one, bb_t("a\"b\\c,{}"), bb_i(-7));

    asks(&by_name.one, bb_null(), bb_ints((const int64_t[]){1, 2}, 2));
    asks(&by_name.one, bb_t(""), bb_bytes(bytes, sizeof bytes));
    asks(&by_name.one, bb_t("NULL"), bb_texts((const char *const[]){"a\"", NULL}, 2));
    pg_merge(&pg.pools[PG_READ], entries[0]);
    const char *const *values = pg_merge_values(first, first->ops);

    ck_assert_ptr_nonnull(values);
    ck_assert_str_eq(values[0], "{\"a\\\"b\\\\c,{}\",NULL,\"\",\"NULL\"}");
    ck_assert_str_eq(values[1], "{\"-7\",\"{1,2}\",\"\\\\x00fe\",\"{\\\"a\\\\\\\"\\\",NULL}\"}");
}

/* Makes rows of a text and an ordinal; "" is NULL. */
static PGresult *answer(const char *const rows[][2], int count)
{
    static PGresAttDesc columns[] = {{.name = (char *)"text"}, {.name = (char *)"i"}};
    PGresult *result = PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK);

    ck_assert_ptr_nonnull(result);
    ck_assert_int_eq(PQsetResultAttrs(result, 2, columns), 1);
    for (int row = 0; row < count; row++)
        for (int column = 0; column < 2; column++) {
            const char *cell = rows[row][column];
            int length = *cell ? (int)strlen(cell) : -1;

            ck_assert_int_eq(PQsetvalue(result, row, column,
                                        length < 0 ? NULL : (char *)(uintptr_t)cell, length),
                             1);
        }
    return result;
}

/* Returns the texts of an entry's rows, joined. */
static const char *told(const struct pg_request *entry)
{
    static char text[64];
    struct bb_rows rows = entry->ops->rows;
    size_t used = 0;

    text[0] = '\0';
    for (int i = 0; i < rows.count; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s;",
                                 PQgetvalue(rows.result, rows.order[i], 0));
    return text;
}

TEST(each_merged_entry_gets_its_rows_in_order)
{
    static const char *const rows[][2] = {{"c1", "3"}, {"a1", "1"}, {"c2", "3"}, {"a2", "1"}};
    struct pg_request *first = asks(&by_name.one, bb_t("a"), bb_null());

    asks(&by_name.one, bb_t("b"), bb_null());
    asks(&by_name.one, bb_t("c"), bb_null());
    pg_merge(&pg.pools[PG_READ], entries[0]);
    ck_assert_int_eq(pg_merge_distribute(first, first->ops, answer(rows, 4)), 0);
    ck_assert_str_eq(told(entries[0]), "a1;a2;");
    ck_assert_str_eq(told(entries[1]), "");
    ck_assert_str_eq(told(entries[2]), "c1;c2;");
    for (int i = 0; i < 3; i++)
        ck_assert_ptr_nonnull(entries[i]->ops->rows.result);
    pg_request_free(entries[0]); /* the other entries still use the result */
    entries[0] = pg_request_new(&requests[0]);
    ck_assert_str_eq(told(entries[2]), "c1;c2;");
}

TEST(rows_of_unknown_members_are_dropped)
{
    static const char *const rows[][2] = {
        {"x", "0"}, {"y", "3"}, {"z", ""}, {"b", "2"}, {"n", "-1"}};
    struct pg_request *first = asks(&by_name.one, bb_t("a"), bb_null());

    asks(&by_name.one, bb_t("b"), bb_null());
    pg_merge(&pg.pools[PG_READ], entries[0]);
    ck_assert_int_eq(pg_merge_distribute(first, first->ops, answer(rows, 5)), 0);
    ck_assert_str_eq(told(entries[0]), "");
    ck_assert_str_eq(told(entries[1]), "b;");
}

TEST(a_failed_merged_execution_is_sent_again_separately)
{
    struct pg_request *first = asks(&by_name.one, bb_t("a"), bb_null());
    struct pg_request *second = asks(&by_name.one, bb_t("b"), bb_null());
    PGresult *error = PQmakeEmptyPGresult(NULL, PGRES_FATAL_ERROR);

    pg_merge(&pg.pools[PG_READ], entries[0]);
    pg_merge_failed(first, error);
    PQclear(error);
    for (int i = 0; i < made; i++)
        pg_merge_forget(entries[i]);
    pg_merge(&pg.pools[PG_READ], entries[0]);
    ck_assert(!first->members && !second->uses_earlier_result);
}

SUITE(pg_merge, .before_each = set_up, .after_each = tear_down)
