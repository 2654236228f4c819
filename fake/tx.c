/* Transactions: units, interactive ones, and the events raised in them. */
#include "fake/fake.h"

struct bb_tx *fake_tx_unit(struct bb_request *rq, uint64_t key)
{
    struct bb_tx *tx = fake_pool_alloc(&run_of(rq)->pool, sizeof *tx);

    (void)key;
    tx->rq = rq;
    return tx;
}

/* Aborts where the host would answer 500. */
static void use(const struct bb_tx *tx, const char *what)
{
    if (!tx || tx->over)
        fake_die("%s: the unit or transaction is over, or none", what);
}

static int index_of(const struct statement *list, const struct statement *wanted)
{
    int index = 0;

    for (; list != wanted; list = list->next)
        index++;
    return index;
}

int fake_tx_add(struct bb_tx *tx, const struct bb_sql *sql, const struct bb_value *values,
                size_t count)
{
    use(tx, "bb_add()");
    struct statement *statement = fake_sql_record(tx->rq, &tx->statements, sql, values, count);

    if (tx->interactive && fake_sql_run(tx->rq, statement))
        return -1;
    return index_of(tx->statements, statement);
}

struct bb_rows *fake_tx_query(struct bb_tx *tx, const struct bb_sql *sql,
                              const struct bb_value *values, size_t count)
{
    use(tx, "bb_tx_query()");
    struct statement *statement = fake_sql_record(tx->rq, &tx->statements, sql, values, count);

    return fake_sql_run(tx->rq, statement) ? NULL : statement->rows;
}

struct bb_rows *fake_tx_rows(struct bb_tx *tx, int index)
{
    struct statement *at = tx->statements;

    while (at && index--)
        at = at->next;
    return at ? at->rows : NULL;
}

/* What was written and raised becomes the run's. */
static void keep(struct bb_tx *tx)
{
    struct run *run = run_of(tx->rq);
    struct statement **statements = &run->statements;
    struct raised **raised = &run->raised;

    while (*statements)
        statements = &(*statements)->next;
    while (*raised)
        raised = &(*raised)->next;
    *statements = tx->statements;
    *raised = tx->raised;
}

static void drop(struct bb_tx *tx)
{
    for (struct raised *at = tx->raised; at; at = at->next)
        json_decref(at->payload);
    tx->raised = NULL;
}

bool fake_tx_finish(struct bb_tx *tx)
{
    for (struct statement *at = tx->statements; at; at = at->next) {
        if (!at->rows && fake_sql_run(tx->rq, at)) {
            drop(tx);
            return false;
        }
    }
    for (struct after *at = tx->after; at; at = at->next)
        at->then(tx->rq, tx, at->arg);
    keep(tx);
    return true;
}

int fake_tx_commit(struct bb_request *rq, struct bb_tx *tx, int status, json_t *json)
{
    bool good = json || status == 204;

    use(tx, "bb_commit()");
    if (tx->rq != rq)
        fake_die("bb_commit(): the unit is of another request");
    tx->over = good;
    if (!good)
        bb_reply(rq, status, NULL);
    if (good && fake_tx_finish(tx))
        return bb_reply(rq, status, json);
    json_decref(json);
    return 0;
}

int fake_tx_transaction(struct bb_request *rq,
                        int (*work)(struct bb_request *, struct bb_tx *, void *), void *arg)
{
    struct bb_tx *tx = fake_tx_unit(rq, 0);

    tx->interactive = true;
    int status = work(rq, tx, arg);
    bool good = status >= 0 && status < 400;

    while (tx->before && good) {
        struct before *at = tx->before;

        tx->before = at->next;
        good = at->last(rq, tx, at->state) == 0;
    }
    tx->over = true;
    if (good)
        fake_tx_finish(tx);
    else
        drop(tx);
    return good || status < 0 || status >= 400 ? status : bb_failed(rq);
}

void *fake_tx_before(struct bb_tx *tx, int (*last)(struct bb_request *, struct bb_tx *, void *),
                     size_t size)
{
    struct before **end = &tx->before;

    use(tx, "bb_before()");
    while (*end && (*end)->last != last)
        end = &(*end)->next;
    if (!*end && tx->interactive) {
        struct pool *pool = &run_of(tx->rq)->pool;

        *end = fake_pool_alloc(pool, sizeof **end);
        (*end)->last = last;
        (*end)->state = fake_pool_alloc(pool, size);
    }
    return *end ? (*end)->state : NULL;
}

void fake_tx_after(struct bb_tx *tx, void (*then)(struct bb_request *, struct bb_tx *, void *),
                   void *arg)
{
    use(tx, "bb_after()");
    struct after *after = fake_pool_alloc(&run_of(tx->rq)->pool, sizeof *after), **end = &tx->after;

    while (*end)
        end = &(*end)->next;
    *after = (struct after){.then = then, .arg = arg};
    *end = after;
}

/* From what the publisher gave, which may lie on its stack; NULL: nobody but Admins. */
static const struct bb_audience *audience_copy(struct pool *pool, const struct bb_audience *from)
{
    struct bb_audience *copy = fake_pool_alloc(pool, sizeof *copy);
    size_t count = 0;

    while (from && from->emails && from->emails[count])
        count++;
    const char **emails = fake_pool_alloc(pool, (count + 1) * sizeof *emails);

    for (size_t i = 0; i < count; i++)
        emails[i] = fake_pool_text(pool, from->emails[i]);
    *copy = (struct bb_audience){
        .size = sizeof *copy, .organisation = from ? from->organisation : 0, .emails = emails};
    return copy;
}

int fake_tx_emit(struct bb_tx *tx, const char *name, json_t *payload,
                 const struct bb_audience *audience)
{
    use(tx, "bb_emit()");
    struct run *run = run_of(tx->rq);
    struct raised *raised = fake_pool_alloc(&run->pool, sizeof *raised), **end = &tx->raised;

    if (!payload || !fake_table_find(&run->fake->host.module->events, name))
        fake_die("the event %s has no payload, or the module does not declare it", name);
    if (audience && audience->size < sizeof *audience)
        fake_die("the audience of the event %s has no .size", name);
    while (*end)
        end = &(*end)->next;
    raised->descriptor = (struct bb_event){.size = sizeof raised->descriptor,
                                           .name = name,
                                           .audience = audience_copy(&run->pool, audience)};
    raised->payload = payload;
    *end = raised;
    return 0;
}
