/*
 * busy: a module for the tests of fairness. Its routes use a connection for reads, writes or long
 * statements, and return at once or wait there for the test's advisory lock. /burn uses the
 * processor. /rows does so for each row of a list, and shows in which row another request had run.
 */
#include <time.h>

#include <busbar/busbar.h>

static const char sleeps[] = "SELECT pg_sleep($1::bigint / 1000.0)";
static const struct bb_sql read_slowly = {sleeps, 0};
static const struct bb_sql write_slowly = {sleeps, BB_SQL_WRITE};
static const char locks[] = "SELECT pg_advisory_xact_lock_shared($1::bigint)";
static const struct bb_sql read_locked = {locks, 0};
static const struct bb_sql write_locked = {locks, BB_SQL_WRITE};
static const struct bb_sql long_locked = {locks, BB_SQL_LONG};

static bool another; /* a request has run since /rows began */

static int done(struct bb_request *rq)
{
    another = true;
    return bb_reply(rq, 200, json_pack("{s:b}", "done", 1));
}

static int ask(struct bb_request *rq, const struct bb_sql *sql)
{
    return bb_query(rq, sql, BB_ARGS(bb_i(bb_arg_int(rq, "ms", 0)))) ? done(rq) : bb_failed(rq);
}

static int read_it(struct bb_request *rq)
{
    return ask(rq, &read_slowly);
}

static int write_it(struct bb_request *rq)
{
    return ask(rq, &write_slowly);
}

static int read_lock(struct bb_request *rq)
{
    return ask(rq, &read_locked);
}

static int write_lock(struct bb_request *rq)
{
    return ask(rq, &write_locked);
}

static int long_lock(struct bb_request *rq)
{
    return ask(rq, &long_locked);
}

static int64_t used_ms(void)
{
    struct timespec used;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (int64_t)used.tv_sec * 1000 + used.tv_nsec / 1000000;
}

static void burn_ms(int64_t ms)
{
    int64_t until = used_ms() + ms + 1; /* at least: rounded down */

    while (used_ms() < until)
        ;
}

static int burn(struct bb_request *rq)
{
    burn_ms(bb_arg_int(rq, "ms", 0));
    return done(rq);
}

static json_t *burnt_row(struct bb_request *rq, const struct bb_rows *rows, size_t row)
{
    (void)rows;
    (void)row;
    if (!another)
        burn_ms(bb_arg_int(rq, "ms", 0));
    return json_boolean(another);
}

static int rows_it(struct bb_request *rq)
{
    static const struct bb_sql some = {"SELECT generate_series(1, 500)", 0};
    const struct bb_rows *rows = bb_query_or_end(rq, &some, BB_NO_ARGS);

    another = false;
    return bb_reply_page(rq, rows, bb_count(rq, rows), NULL, burnt_row);
}

static const struct bb_field ms[] = {{.name = "ms", .type = BB_INT, .max = 10000}};

#define ROUTE(name, does)                                                                          \
    {                                                                                              \
        .method = "GET", .path = "/api/busy/" name, .roles = BB_ANY_ROLE, .query = BB_TABLE(ms),   \
        .handler = (does)                                                                          \
    }

static const struct bb_route routes[] = {
    ROUTE("read", read_it),          ROUTE("write", write_it),      ROUTE("read-lock", read_lock),
    ROUTE("write-lock", write_lock), ROUTE("long-lock", long_lock), ROUTE("burn", burn),
    ROUTE("rows", rows_it),
};

BB_EXPORT const struct bb_module busbar_module = {
    BB_MODULE_HEAD("busy", "1.0.0"),
    .routes = BB_TABLE(routes),
};
