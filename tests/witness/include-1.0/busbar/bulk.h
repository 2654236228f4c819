#ifndef BUSBAR_BULK_H
#define BUSBAR_BULK_H 
#include <busbar/sql.h>
#define BB_BULK_ROWS "bulk rows:"
enum { BB_BULK_ROWS_MAX = 2000 };
struct bb_bulk_job {
    size_t size;
    const char *id;
    int64_t organization;
    int64_t account;
    const char *email;
    unsigned role;
    const char *file;
};
struct bb_bulk_problem {
    struct bb_bulk_problem *next;
    const char *field;
    const char *problem;
};
struct bb_bulk_claim {
    const char *name;
    const char *field;
    int64_t from, until;
};
struct bb_bulk_row {
    size_t size;
    int64_t number;
    const char *const *cells;
    struct bb_bulk_problem *problems;
    struct bb_bulk_claim claim;
    const char *name_as_sent;
    struct bb_bulk_problem *warnings;
};
struct bb_bulk_rows {
    size_t size;
    const char *help;
    unsigned roles;
    size_t rows_max;
    struct bb_table columns;
    size_t name_column;
    int (*check)(struct bb_request *rq, const struct bb_bulk_job *job,
                 struct bb_bulk_row *const *rows, size_t count);
    int (*store)(struct bb_request *rq, struct bb_tx *tx, const struct bb_bulk_job *job,
                 struct bb_bulk_row *const *rows, size_t count);
    bool together;
};
static inline void bb_bulk_append(struct bb_request *rq, struct bb_bulk_problem **last,
                                  const char *field, const char *problem)
{
    struct bb_bulk_problem *one = (struct bb_bulk_problem *)bb_alloc(rq, sizeof(*one));
    one->field = field;
    one->problem = problem;
    while (*last)
        last = &(*last)->next;
    *last = one;
}
static inline void bb_bulk_problem(struct bb_request *rq, struct bb_bulk_row *row,
                                   const char *field, const char *problem)
{
    bb_bulk_append(rq, &row->problems, field, problem);
}
static inline void bb_bulk_warn(struct bb_request *rq, struct bb_bulk_row *row, const char *field,
                                const char *warning)
{
    bb_bulk_append(rq, &row->warnings, field, warning);
}
#endif
