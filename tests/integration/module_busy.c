/*
 * busy: a module for the tests of shares. Its routes take as much of the loop's time, of a
 * connection for reads or of one for writes as they are asked for.
 */
#include <busbar/busbar.h>

static const char sleeps[] = "SELECT pg_sleep($1::bigint / 1000.0)";
static const struct bb_sql read_slowly = {sleeps, 0};
static const struct bb_sql write_slowly = {sleeps, BB_SQL_WRITE};

static int done(struct bb_request *rq)
{
    return bb_reply(rq, 200, json_pack("{s:b}", "done", 1));
}

static int spin(struct bb_request *rq)
{
    int64_t until = bb_now_ms(rq->host) + bb_arg_int(rq, "ms", 0);

    while (bb_now_ms(rq->host) < until)
        ;
    return done(rq);
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

static const struct bb_field ms[] = {{.name = "ms", .type = BB_INT, .max = 10000}};

#define ROUTE(name, does)                                                                          \
    {                                                                                              \
        .method = "GET", .path = "/api/busy/" name, .roles = BB_ANY_ROLE, .query = BB_TABLE(ms),   \
        .handler = (does)                                                                          \
    }

static const struct bb_route routes[] = {
    ROUTE("spin", spin),
    ROUTE("read", read_it),
    ROUTE("write", write_it),
};

BB_EXPORT const struct bb_module busbar_module = {
    BB_MODULE_HEAD("busy", "1.0.0"),
    .routes = BB_TABLE(routes),
};
