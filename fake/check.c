/* Segments, queries and bodies against the module's tables, by the host's own code. */
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "core/field/query.h"
#include "fake/api.h"

static struct problems problems_of(struct run *run)
{
    if (!run->arena)
        run->arena = arena_new();
    if (!run->arena)
        fake_die("out of memory");
    return (struct problems){.arena = run->arena, .warnings = &run->warnings};
}

static void check_segments(struct run *run, const struct bb_route *route, struct problems *problems)
{
    for (struct pair *pair = run->segments; pair; pair = pair->next) {
        struct bb_field room;
        const struct bb_field *row = field_find(&route->segments, pair->name, &room);

        if (!row)
            fake_die("the route %s has no row for %s", route->path, pair->name);
        struct bb_field field = *row;
        char *text;

        field.flags |= BB_REQUIRED;
        if (text_percent(pair->text, strlen(pair->text), false, run->arena, &text, NULL))
            problems_add(problems, field.name, "must be text in UTF-8, percent-encoded");
        else
            pair->text = field_check_text(&field, text, run->arena, problems);
    }
}

/* What is declared of "a=b&c=d". */
static void check_query(struct run *run, const struct bb_route *route, const char *query,
                        struct problems *problems)
{
    struct query_values values;

    if (query_check(&route->query, query, run->arena, &values, problems))
        return;
    for (size_t i = 0; i < values.count; i++)
        fake_pair_set(&run->pool, &run->query, values.list[i].name, values.list[i].value);
    if (values.ignored)
        fake_request_reply_header(&run->rq, "X-Ignored-Parameters", values.ignored);
}

static void check_body(struct run *run, const struct bb_route *route, struct problems *problems)
{
    json_t *sent = run->body;

    run->body = fields_check(&route->body, sent, problems);
    if (run->body && route->flags & BB_KEEP_OTHERS &&
        fields_keep_others(&route->body, sent, run->body))
        fake_die("out of memory");
    json_decref(sent);
}

int fake_check(struct run *run, const struct bb_route *route, const char *query)
{
    struct problems problems = problems_of(run);

    check_segments(run, route, &problems);
    check_query(run, route, query, &problems);
    if (!problems.count)
        check_body(run, route, &problems);
    if (!problems.count)
        return 0;
    json_t *errors = json_array();

    problems_list(&problems, errors);
    return fake_request_refuse(&run->rq, errors);
}

json_t *fake_request_check(struct bb_request *rq, const struct bb_table *fields, json_t *object,
                           json_t *errors)
{
    struct problems problems = problems_of(run_of(rq));
    json_t *checked = fields_check(fields, object, &problems);

    problems_list(&problems, errors);
    return checked;
}
