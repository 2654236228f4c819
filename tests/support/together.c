#include "together.h"

#include "exposition.h"

enum { TOGETHER_MS = 20000, PUBLISHED_MS = 5000 };

int64_t pool_metric(const struct together *of, const char *name)
{
    double value = exposition_value(exposition_get(of->host, of->admin->token), name,
                                    text("loop=\"0\",pool=\"%s\"", of->pool));

    ck_assert_msg(value >= 0, "no %s of %s", name, of->pool);
    return (int64_t)value;
}

static int64_t shared(const struct together *of)
{
    return pool_metric(of, "busbar_database_sharing_requests_total");
}

void expect_shared(const struct together *of, int64_t count)
{
    WAIT_UNTIL_MSG(shared(of) > count, PUBLISHED_MS, "%jd requests shared a statement", shared(of));
}

static void *let_go(void *arg)
{
    const struct together *held = arg;
    bool waited = false;

    WAIT_FOR(waited = pool_metric(held, "busbar_database_waiting") + shared(held) - held->shared >=
                      held->least,
             TOGETHER_MS);
    sql_run(held->db, "COMMIT");
    if (held->change) {
        bool row = false;

        WAIT_FOR(row = sql_number(held->db, "SELECT count(*) FROM pg_locks WHERE NOT granted"
                                            " AND locktype = 'transactionid'") > 0,
                 TOGETHER_MS);
        waited = waited && row;
        sql_run(held->changing, "COMMIT");
    }
    return waited ? arg : NULL;
}

void ask_together(struct together *held, const struct call *calls, struct answer **answers,
                  int count)
{
    pthread_t thread;
    void *waited;

    held->shared = shared(held);
    sql_run(held->db, "BEGIN");
    sql_run(held->db, text("LOCK TABLE %s", held->tables));
    if (held->change) {
        sql_run(held->changing, "BEGIN");
        sql_run(held->changing, held->change);
    }
    ck_assert_int_eq(pthread_create(&thread, NULL, let_go, held), 0);
    parallel(held->host, calls, answers, count);
    pthread_join(thread, &waited);
    ck_assert_msg(waited != NULL, "the requests did not wait together");
}
