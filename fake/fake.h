/*
 * The fake host inside, see busbar/fake.h.
 *
 * Fields, queries, statements, JSON, texts and times are the host's own code (Makefile.inc). Its
 * transactions, routes and requests are not: they park on fibers, count on quotas and loops, and
 * belong to a generation, so to run them without a host takes more than these files do in its
 * place.
 */
#ifndef FAKE_FAKE_H
#define FAKE_FAKE_H

#include <busbar/fake.h>

/* Memory that lives until its pool is emptied. */
struct pool {
    struct block *last;
};

struct pair {
    struct pair *next;
    const char *name;
    const char *text;    /* settings, headers, segments, query */
    const void *data;    /* services: the interface */
    struct bb_host host; /* services: the giver's, whose state is the service's */
};

struct script {
    struct script *next;
    const char *part;
    const char **cells;
    size_t rows, columns, affected;
    const char *sqlstate, *constraint; /* sqlstate NULL: it goes well */
    bool spent;
};

struct bb_rows {
    const char *const *cells;
    size_t count, columns, affected;
};

struct statement {
    struct statement *next;
    const char *text;
    const char **parameters;
    size_t count;
    struct bb_rows *rows; /* NULL: not run yet, or failed */
};

struct raised {
    struct raised *next;
    struct bb_event descriptor;
    json_t *payload;
};

struct undo {
    struct undo *next;
    void (*call)(void *);
    void *arg;
};

struct after {
    struct after *next;
    void (*then)(struct bb_request *, struct bb_tx *, void *);
    void *arg;
};

struct before {
    struct before *next;
    int (*last)(struct bb_request *, struct bb_tx *, void *);
    void *state;
};

struct bb_tx {
    struct bb_request *rq;
    bool interactive;
    bool over;                    /* committed, or its function has returned */
    struct statement *statements; /* a unit's, in their order */
    struct raised *raised;
    struct before *before;
    struct after *after;
};

struct bb_completion {
    bool open, waited;
};

/* All of a run: the request, what was put in and what came out. */
struct run {
    struct bb_request rq; /* first */
    struct bb_fake *fake;
    struct pool pool;
    struct arena *arena; /* of the host's code that checks fields; NULL: not needed yet */
    struct pair *segments, *query, *replied;
    const char *path; /* with its query; NULL: not a request over HTTP */
    json_t *body;
    int status;
    json_t *reply, *warnings;
    bool again;
    const char *message, *field, *sqlstate, *constraint;
    struct statement *statements;
    struct raised *raised;
    struct undo *undo;
    char *log, *printed;
};

enum { FAKE_METRICS = 32 };

struct bb_fake {
    struct bb_host host; /* first */
    struct pool pool;
    struct pair *settings, *services, *headers;
    json_t *kept; /* array: parsed settings, so that they can be lent */
    struct script *scripts;
    const struct bb_principal *principal;
    void *bound; /* the module's struct of settings; NULL: none, or not opened yet */
    char *open_problem;
    bool opened;
    unsigned uuids;
    int64_t ids;
    struct bb_stream *streams; /* all that were opened */
    char *streamed;
    uint64_t metrics[FAKE_METRICS][FAKE_METRICS]; /* of a metric, by value */
    struct run *run;                              /* the last one, NULL: none yet */
};

_Noreturn void fake_die(const char *format, ...) BB_PRINTF(1, 2);

/* memory.c */
void *fake_pool_alloc(struct pool *pool, size_t size);
char *fake_pool_text(struct pool *pool, const char *text);
BB_PRINTF(2, 0) char *fake_pool_format(struct pool *pool, const char *format, va_list args);
void fake_pool_free(struct pool *pool);
void fake_pair_set(struct pool *pool, struct pair **list, const char *name, const char *text);
const struct pair *fake_pair_find(const struct pair *list, const char *name, bool any_case);
void fake_text_append(char **text, const char *more);

/* run.c */
struct run *fake_run_begin(struct bb_fake *fake);
void fake_run_free(struct run *run);
/* As the host does at the end of a request; what was recorded stays. */
void fake_run_undo(struct run *run);
static inline struct run *run_of(struct bb_request *rq)
{
    return (struct run *)(void *)rq;
}
static inline struct bb_fake *fake_of(struct bb_host *host)
{
    return (struct bb_fake *)(void *)host;
}

int fake_request_reply(struct bb_request *rq, int status, json_t *json);
int fake_request_reply_json(struct bb_request *rq, int status, json_t *json);

/* check.c: 0; or 400, with the request refused. `query`: raw, or NULL. */
int fake_check(struct run *run, const struct bb_route *route, const char *query);

/* The row of a table that begins with its name; NULL: there is none. */
const void *fake_table_find(const struct bb_table *table, const char *name);
#define ROW(type, table, index)                                                                    \
    ((const struct type *)(const void *)((const char *)(table).rows + (index) * (table).stride))

/* settings.c: fills the struct that the module has its settings bound to, if it has one. */
void fake_settings_place(struct bb_fake *fake);

/* api.c, sql.c, tx.c: the functions of the host */
extern const struct bb_api fake_api;

struct bb_rows *fake_sql_query(struct bb_request *rq, const struct bb_sql *sql,
                               const struct bb_value *values, size_t count);
size_t fake_sql_count(const struct bb_rows *rows);
size_t fake_sql_affected(const struct bb_rows *rows);
const char *fake_sql_cell(const struct bb_rows *rows, size_t row, size_t column);
size_t fake_sql_length(const struct bb_rows *rows, size_t row, size_t column);
const char *fake_sql_state(struct bb_request *rq);
const char *fake_sql_constraint(struct bb_request *rq);
int64_t fake_sql_next_id(struct bb_request *rq, const char *sequence);
struct statement *fake_sql_record(struct bb_request *rq, struct statement **list,
                                  const struct bb_sql *sql, const struct bb_value *values,
                                  size_t count);
int fake_sql_run(struct bb_request *rq, struct statement *statement);

struct bb_tx *fake_tx_unit(struct bb_request *rq, uint64_t key);
int fake_tx_add(struct bb_tx *tx, const struct bb_sql *sql, const struct bb_value *values,
                size_t count);
int fake_tx_commit(struct bb_request *rq, struct bb_tx *tx, int status, json_t *json);
struct bb_rows *fake_tx_rows(struct bb_tx *tx, int index);
int fake_tx_transaction(struct bb_request *rq,
                        int (*work)(struct bb_request *, struct bb_tx *, void *), void *arg);
struct bb_rows *fake_tx_query(struct bb_tx *tx, const struct bb_sql *sql,
                              const struct bb_value *values, size_t count);
void fake_tx_after(struct bb_tx *tx, void (*then)(struct bb_request *, struct bb_tx *, void *),
                   void *arg);
void *fake_tx_before(struct bb_tx *tx, int (*last)(struct bb_request *, struct bb_tx *, void *),
                     size_t size);
int fake_tx_emit(struct bb_tx *tx, const char *name, json_t *payload,
                 const struct bb_audience *audience);
bool fake_tx_finish(struct bb_tx *tx);

#endif
