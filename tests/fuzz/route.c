/* A request line "METHOD path?query" and a form body: in every route found, the segments lie in the
 * path, and all values of a query are declared. */
#include <string.h>

#include "core/lib/field.h"
#include "core/lib/text.h"
#include "core/module/route.h"
#include "fuzz/fuzz.h"
#include "unit/support/route_rows.h"

static const struct bb_field query[] = {
    {.name = "limit", .type = BB_INT, .min = 1, .max = 100, .alias = "size"},
    {.name = "after", .type = BB_TEXT, .max = 20},
    {.name = "start", .type = BB_TIME},
    {.name = "email", .type = BB_EMAIL},
    {.name = "yes", .type = BB_BOOL},
    {.name = "any", .type = BB_ANY},
};
static const struct bb_table table = BB_TABLE(query);

static const struct router *router(void)
{
    static struct router *made;
    char why[160];

    if (made)
        return made;
    made = router_new(arena_new());
    must(made != NULL);
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
        must(!router_add(made, &routes[i], NULL, why, sizeof why));
    return made;
}

static void follow(const char *method, const char *path, struct arena *arena)
{
    struct route_match match = {0};
    struct problems problems = {.arena = arena};

    if (router_match(router(), method, path, &match) != ROUTE_OK)
        return;
    for (size_t i = 0; i < match.count; i++) {
        const char *start = match.segment[i].start;

        must(start >= path && start + match.segment[i].length <= path + strlen(path));
        const char *text = text_percent(start, match.segment[i].length, false, arena);

        if (text)
            field_check_text(match.segment[i].field, text, arena, &problems);
    }
}

static void ask(const char *raw, struct arena *arena)
{
    struct problems problems = {.arena = arena};
    struct query_values values;
    int failed = query_check(&table, raw, arena, &values, &problems);

    must(!failed || problems.count);
    const char *limit = failed ? NULL : query_get(&values, "limit");

    must(!limit || (strtol(limit, NULL, 10) >= 1 && strtol(limit, NULL, 10) <= 100));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct json_problem problem = {.text = ""};
    struct arena *arena = arena_new();
    char *line = arena_text(arena, (const char *)data, size);
    char *path = strchr(line, ' '), *raw = strchr(line, '?');
    json_t *form = form_read((const char *)data, size, &problem);

    must(form || *problem.text);
    json_decref(form);
    if (raw) {
        *raw = '\0';
        ask(raw + 1, arena);
    }
    if (path && (!raw || path < raw)) {
        *path = '\0';
        follow(line, path + 1, arena);
    }
    arena_free(arena);
    return 0;
}
