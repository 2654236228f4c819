/* Statements: recorded, and answered by scripts. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake/fake.h"

static char *hex(struct pool *pool, const struct bb_value *value)
{
    const unsigned char *bytes = value->data;
    char *text = fake_pool_alloc(pool, 2 * value->length + 3);

    memcpy(text, "\\x", 3);
    for (size_t i = 0; i < value->length; i++)
        snprintf(text + 2 + 2 * i, 3, "%02x", bytes[i]);
    return text;
}

static char *numbers(struct pool *pool, const struct bb_value *value)
{
    const int64_t *items = value->data;
    char *text = fake_pool_alloc(pool, value->length * 21 + 3), *end = text;

    *end++ = '{';
    for (size_t i = 0; i < value->length; i++)
        end += sprintf(end, "%s%" PRId64, i ? "," : "", items[i]);
    *end = '}';
    return text;
}

static const char *parameter(struct pool *pool, const struct bb_value *value)
{
    char number[24];

    switch (value->kind) {
    case BB_V_TEXT:
        return fake_pool_text(pool, value->data);
    case BB_V_INT:
        snprintf(number, sizeof number, "%" PRId64, value->number);
        return fake_pool_text(pool, number);
    case BB_V_BYTES:
        return hex(pool, value);
    case BB_V_INTS:
        return numbers(pool, value);
    default:
        return NULL;
    }
}

struct statement *fake_sql_record(struct bb_request *rq, struct statement **list,
                                  const struct bb_sql *sql, const struct bb_value *values,
                                  size_t count)
{
    struct pool *pool = &run_of(rq)->pool;
    struct statement *statement = fake_pool_alloc(pool, sizeof *statement);

    statement->text = sql->text;
    statement->count = count;
    statement->parameters = fake_pool_alloc(pool, (count + 1) * sizeof *statement->parameters);
    for (size_t i = 0; i < count; i++)
        statement->parameters[i] = parameter(pool, &values[i]);
    while (*list)
        list = &(*list)->next;
    *list = statement;
    return statement;
}

static struct script *find_script(struct bb_fake *fake, const char *text)
{
    for (struct script *at = fake->scripts; at; at = at->next)
        if (!at->spent && strstr(text, at->part))
            return at;
    return NULL;
}

int fake_sql_run(struct bb_request *rq, struct statement *statement)
{
    struct run *run = run_of(rq);
    struct script *script = find_script(run->fake, statement->text);

    run->sqlstate = run->constraint = "";
    if (script)
        script->spent = true;
    if (script && script->sqlstate) {
        run->sqlstate = script->sqlstate;
        run->constraint = script->constraint;
        return -1;
    }
    statement->rows = fake_pool_alloc(&run->pool, sizeof *statement->rows);
    if (script)
        *statement->rows =
            (struct bb_rows){script->cells, script->rows, script->columns, script->affected};
    return 0;
}

struct bb_rows *fake_sql_query(struct bb_request *rq, const struct bb_sql *sql,
                               const struct bb_value *values, size_t count)
{
    struct statement *statement = fake_sql_record(rq, &run_of(rq)->statements, sql, values, count);

    return fake_sql_run(rq, statement) ? NULL : statement->rows;
}

size_t fake_sql_count(const struct bb_rows *rows)
{
    return rows->count;
}

size_t fake_sql_affected(const struct bb_rows *rows)
{
    return rows->affected;
}

const char *fake_sql_cell(const struct bb_rows *rows, size_t row, size_t column)
{
    if (row >= rows->count || column >= rows->columns)
        fake_die("there is no cell %zu, %zu in the scripted rows", row, column);
    return rows->cells[row * rows->columns + column];
}

size_t fake_sql_length(const struct bb_rows *rows, size_t row, size_t column)
{
    const char *text = fake_sql_cell(rows, row, column);

    return text ? strlen(text) : 0;
}

const char *fake_sql_state(struct bb_request *rq)
{
    return run_of(rq)->sqlstate ? run_of(rq)->sqlstate : "";
}

const char *fake_sql_constraint(struct bb_request *rq)
{
    return run_of(rq)->constraint ? run_of(rq)->constraint : "";
}

int64_t fake_sql_next_id(struct bb_request *rq, const char *sequence)
{
    (void)sequence;
    return ++run_of(rq)->fake->ids;
}
