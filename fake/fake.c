/* Making, opening and scripting a fake host; looking at what it has recorded. */
#include "fake/fake.h"

#include <stdlib.h>
#include <string.h>

static const struct bb_principal admin = {.size = sizeof admin,
                                          .account = 1,
                                          .email = "ada@example.com",
                                          .role = BB_ROLE_ADMIN,
                                          .session = "00000000-0000-7000-8000-000000000000"};

const void *fake_table_find(const struct bb_table *table, const char *name)
{
    for (size_t i = 0; i < table->count; i++) {
        const char *const *row = (const void *)((const char *)table->rows + i * table->stride);

        if (*row && !strcmp(*row, name))
            return row;
    }
    return NULL;
}

/* Whether two patterns fit the same paths: a :name fits any segment, whatever it is called. */
static bool same_shape(const char *one, const char *other)
{
    while (*one && *other) {
        if (*one == ':' && *other == ':') {
            one += strcspn(one, "/");
            other += strcspn(other, "/");
        } else if (*one++ != *other++) {
            return false;
        }
    }
    return !*one && !*other;
}

/* The host refuses the module, too. */
static void check_routes(const struct bb_table *routes)
{
    for (size_t i = 0; i < routes->count; i++) {
        const struct bb_route *route = ROW(bb_route, *routes, i);

        for (size_t k = 0; k < i; k++) {
            const struct bb_route *before = ROW(bb_route, *routes, k);

            if (!strcmp(route->method, before->method) && same_shape(route->path, before->path))
                fake_die("two routes have the method and shape of %s %s", route->method,
                         route->path);
        }
    }
}

struct bb_fake *bb_fake_new(const struct bb_module *module)
{
    struct bb_fake *fake = calloc(1, sizeof *fake);

    check_routes(&module->routes);
    if (!fake || !(fake->kept = json_array()))
        fake_die("out of memory");
    fake->host = (struct bb_host){.size = sizeof fake->host, .api = &fake_api, .module = module};
    fake->principal = &admin;
    return fake;
}

void bb_fake_free(struct bb_fake *fake)
{
    const struct bb_module *module = fake->host.module;

    bb_fake_leave(fake);
    if (fake->opened && module->quiesce)
        module->quiesce(&fake->host, fake->host.state);
    if (fake->opened && module->close)
        module->close(&fake->host, fake->host.state);
    fake_run_free(fake->run);
    json_decref(fake->kept);
    fake_pool_free(&fake->pool);
    free(fake->open_problem);
    free(fake->streamed);
    free(fake);
}

void bb_fake_set(struct bb_fake *fake, const char *name, const char *value)
{
    if (!fake_table_find(&fake->host.module->settings, name))
        fake_die("the module has no setting %s", name);
    fake_pair_set(&fake->pool, &fake->settings, name, value);
}

void bb_fake_give(struct bb_fake *fake, const char *name, const void *interface, void *state)
{
    fake_pair_set(&fake->pool, &fake->services, name, NULL);
    fake->services->data = interface;
    fake->services->host = fake->host;
    fake->services->host.state = state;
}

int bb_fake_open(struct bb_fake *fake)
{
    const struct bb_module *module = fake->host.module;

    fake_settings_place(fake);
    int failed = module->open ? module->open(&fake->host, &fake->host.state) : 0;

    fake->opened = !failed;
    if (!failed && module->start)
        module->start(&fake->host, fake->host.state);
    return failed;
}

const char *bb_fake_open_problem(const struct bb_fake *fake)
{
    return fake->open_problem;
}

struct bb_host *bb_fake_host(struct bb_fake *fake)
{
    return &fake->host;
}

void bb_fake_principal(struct bb_fake *fake, const struct bb_principal *principal)
{
    fake->principal = principal;
}

void bb_fake_header(struct bb_fake *fake, const char *name, const char *value)
{
    fake_pair_set(&fake->pool, &fake->headers, name, value);
}

static struct script *script_add(struct bb_fake *fake, const char *part)
{
    struct script *script = fake_pool_alloc(&fake->pool, sizeof *script), **end = &fake->scripts;

    while (*end)
        end = &(*end)->next;
    script->part = fake_pool_text(&fake->pool, part);
    *end = script;
    return script;
}

void bb_fake_rows(struct bb_fake *fake, const char *part, size_t rows, size_t columns, ...)
{
    struct script *script = script_add(fake, part);
    va_list cells;

    script->rows = rows;
    script->columns = columns;
    script->affected = rows;
    script->cells = fake_pool_alloc(&fake->pool, (rows * columns + 1) * sizeof *script->cells);
    va_start(cells, columns);
    for (size_t i = 0; i < rows * columns; i++) {
        const char *cell = va_arg(cells, const char *);

        script->cells[i] = cell ? fake_pool_text(&fake->pool, cell) : NULL;
    }
    va_end(cells);
}

void bb_fake_affects(struct bb_fake *fake, const char *part, size_t rows)
{
    script_add(fake, part)->affected = rows;
}

void bb_fake_refuses(struct bb_fake *fake, const char *part, const char *sqlstate,
                     const char *constraint)
{
    struct script *script = script_add(fake, part);

    script->sqlstate = fake_pool_text(&fake->pool, sqlstate);
    script->constraint = fake_pool_text(&fake->pool, constraint ? constraint : "");
}

static const struct run *last_run(const struct bb_fake *fake)
{
    if (!fake->run)
        fake_die("nothing has been run yet");
    return fake->run;
}

int bb_fake_status(const struct bb_fake *fake)
{
    return last_run(fake)->status;
}

bool bb_fake_again(const struct bb_fake *fake)
{
    return last_run(fake)->again;
}

json_t *bb_fake_reply(const struct bb_fake *fake)
{
    return last_run(fake)->reply;
}

const char *bb_fake_message(const struct bb_fake *fake)
{
    return last_run(fake)->message;
}

const char *bb_fake_field(const struct bb_fake *fake)
{
    return last_run(fake)->field;
}

const char *bb_fake_replied(const struct bb_fake *fake, const char *header)
{
    const struct pair *pair = fake_pair_find(last_run(fake)->replied, header, true);

    return pair ? pair->text : NULL;
}

static const struct statement *statement_at(const struct bb_fake *fake, size_t index)
{
    const struct statement *at = last_run(fake)->statements;

    while (at && index--)
        at = at->next;
    return at;
}

const char *bb_fake_statement(const struct bb_fake *fake, size_t index)
{
    const struct statement *statement = statement_at(fake, index);

    return statement ? statement->text : NULL;
}

const char *bb_fake_parameter(const struct bb_fake *fake, size_t index, size_t parameter)
{
    const struct statement *statement = statement_at(fake, index);

    return statement && parameter < statement->count ? statement->parameters[parameter] : NULL;
}

static const struct raised *raised_at(const struct bb_fake *fake, size_t index)
{
    const struct raised *at = last_run(fake)->raised;

    while (at && index--)
        at = at->next;
    return at;
}

const char *bb_fake_event(const struct bb_fake *fake, size_t index)
{
    const struct raised *raised = raised_at(fake, index);

    return raised ? raised->descriptor.name : NULL;
}

const struct bb_audience *bb_fake_audience(const struct bb_fake *fake, size_t index)
{
    const struct raised *raised = raised_at(fake, index);

    return raised ? raised->descriptor.audience : NULL;
}

json_t *bb_fake_payload(const struct bb_fake *fake, size_t index)
{
    const struct raised *raised = raised_at(fake, index);

    return raised ? raised->payload : NULL;
}

const char *bb_fake_log(const struct bb_fake *fake)
{
    return last_run(fake)->log ? last_run(fake)->log : "";
}

const char *bb_fake_printed(const struct bb_fake *fake)
{
    return last_run(fake)->printed ? last_run(fake)->printed : "";
}
