/* A body: if it can be read and passes the field checks, then it is written, read again, passes
 * again, and is written the same way. */
#include <string.h>

#include "core/lib/field.h"
#include "core/lib/json.h"
#include "fuzz/fuzz.h"
#include "unit/support/field_rows.h"

static json_t *check(json_t *object, struct arena *arena)
{
    struct problems problems = {.arena = arena};
    json_t *checked = fields_check(&table, object, &problems);

    must(checked || problems.count);
    return checked;
}

/* A real number is written as in JavaScript; from 2^63 on, that text reads as an integer that is
 * too large. */
static bool too_large(const struct json_problem *problem)
{
    return !strcmp(problem->text, "a number is too large");
}

static void check_again(json_t *checked, struct arena *arena)
{
    struct json_problem problem;
    size_t length = 0;
    char *text = json_write(checked, &length);

    must(text && strlen(text) == length);
    json_t *read = json_read(text, length, JSON_COMMAS_MAX, &problem);

    must(read || too_large(&problem));
    if (!read) {
        free(text);
        return;
    }
    json_t *again = check(read, arena);

    must(again != NULL);
    char *same = json_write(again, NULL);

    must(same && !strcmp(same, text));
    free(same);
    json_decref(again);
    json_decref(read);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct json_problem problem = {.text = ""};
    struct arena *arena = arena_new();
    json_t *read = json_read((const char *)data, size, JSON_COMMAS_MAX, &problem);
    json_t *checked = read ? check(read, arena) : NULL;

    must(read || *problem.text);
    if (checked)
        check_again(checked, arena);
    json_decref(checked);
    json_decref(read);
    arena_free(arena);
    return 0;
}
