/* Converts values of the tree to JSON, and replaces environment variables. */
#include "core/lib/settings_tree.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/lib/field.h"

static const char *name_end(const char *name)
{
    while (isalnum((unsigned char)*name) || *name == '_')
        name++;
    return name;
}

/* Parses the text after the name of a variable: "}", or ":-" with a default up to the next "}". */
static bool default_of(const char *end, const char **fallback, const char **close)
{
    bool given = end[0] == ':' && end[1] == '-';

    *fallback = given ? end + 2 : NULL;
    *close = given ? end + 2 + strcspn(end + 2, "{}") : end;
    return **close == '}';
}

/* Returns the value of the variable after "${"; *rest is the text after "}". */
static const char *variable(const struct settings *settings, const char *name, const char **rest,
                            unsigned line, const char *where, struct setting_problems *problems)
{
    const char *end = name_end(name), *fallback, *close;

    if (end == name || !default_of(end, &fallback, &close)) {
        setting_problem(problems,
                        "%s:%u: %s: ${ needs a name, perhaps :- and a default, and } at the end "
                        "(write $${ for a plain ${)",
                        settings->path, line, where);
        return NULL;
    }
    char *copy = arena_text(settings->arena, name, (size_t)(end - name));
    const char *value = copy ? getenv(copy) : NULL;

    *rest = close + 1;
    if (copy && fallback && (!value || !*value))
        value = arena_text(settings->arena, fallback, (size_t)(close - fallback));
    if (!value)
        setting_problem(problems, "%s:%u: %s: the environment has no %s", settings->path, line,
                        where, copy && !fallback ? copy : "memory");
    return value;
}

const char *settings_expand(const struct settings *settings, const char *text, unsigned line,
                            const char *where, struct setting_problems *problems)
{
    const char *done = "", *at;

    while (done && (at = strstr(text, "${"))) {
        bool escaped = at > text && at[-1] == '$';
        const char *rest = at + 2;
        const char *value =
            escaped ? "{" : variable(settings, at + 2, &rest, line, where, problems);

        if (!value)
            return NULL;
        done = arena_format(settings->arena, "%s%.*s%s", done, (int)(at - text), text, value);
        text = rest;
    }
    if (done)
        done = arena_format(settings->arena, "%s%s", done, text);
    if (!done)
        setting_problem(problems, "%s:%u: %s: out of memory", settings->path, line, where);
    return done;
}

static bool is_one_of(const char *text, const char *a, const char *b, const char *c)
{
    return !strcmp(text, a) || !strcmp(text, b) || !strcmp(text, c);
}

/* Parses a boolean as written in YAML; NULL: not a boolean. */
static json_t *boolean_json(const char *text)
{
    if (is_one_of(text, "true", "yes", "on"))
        return json_true();
    return is_one_of(text, "false", "no", "off") ? json_false() : NULL;
}

/* Parses a whole number or one with a fraction; NULL: not a number. */
static json_t *number_json(const char *text)
{
    char *end;

    if (!*text || text[strspn(text, "0123456789.eE+-")])
        return NULL;
    errno = 0;
    int64_t whole = strtoll(text, &end, 10);

    if (!*end && !errno)
        return json_integer(whole);
    double real = strtod(text, &end);

    return !*end && isfinite(real) ? json_real(real) : NULL;
}

/*
 * Converts the text to the type of the field; if that is impossible it stays a string, which is
 * then refused.
 */
static json_t *scalar_json(const struct settings *settings, const struct node *node,
                           const struct bb_field *field)
{
    bool any = !field || field->type == BB_ANY;
    const char *text = any ? node->text : setting_time(field, node->text, settings->arena);
    json_t *json = NULL;

    if ((any || field->flags & BB_NULLABLE) && node_null(node))
        return json_null();
    if (any ? node->plain : field->type == BB_BOOL)
        json = boolean_json(node->text);
    if (text && !json && (any ? node->plain : field->type == BB_INT || field->type == BB_NUMBER))
        json = number_json(text);
    return text && !json ? json_string(text) : json;
}

static json_t *list_json(const struct settings *settings, const struct node *node,
                         const struct bb_field *field, const char *where,
                         struct setting_problems *problems)
{
    bool typed = field && field->type == BB_LIST && field->fields.count;
    struct bb_field room;
    const struct bb_field *item = typed ? field_at(&field->fields, 0, &room) : NULL;
    json_t *list = json_array();

    for (const struct node *child = node->first; list && child; child = child->next) {
        json_t *value = node_json(settings, child, item, where, problems);

        if (!value || json_array_append_new(list, value)) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *map_json(const struct settings *settings, const struct node *node,
                        const struct bb_field *field, const char *where,
                        struct setting_problems *problems)
{
    bool typed = field && field->type == BB_OBJECT && field->fields.count;
    json_t *object = json_object();
    bool failed = !object;

    for (const struct node *child = node->first; object && child; child = child->next) {
        struct bb_field room;
        const struct bb_field *member =
            typed ? field_find(&field->fields, child->key, &room) : NULL;
        const char *path = arena_format(settings->arena, "%s.%s", where, child->key);

        if (typed && !member) {
            setting_problem(problems, "%s:%u: %s.%s: is not a setting", settings->path, child->line,
                            where, child->key);
            failed = true;
            continue;
        }
        json_t *value = path ? node_json(settings, child, member, path, problems) : NULL;

        failed = !value || json_object_set_new(object, child->key, value) || failed;
    }
    if (!failed)
        return object;
    json_decref(object);
    return NULL;
}

json_t *node_json(const struct settings *settings, const struct node *node,
                  const struct bb_field *field, const char *where,
                  struct setting_problems *problems)
{
    size_t before = problems->count;
    json_t *json = node->kind == NODE_LIST  ? list_json(settings, node, field, where, problems)
                   : node->kind == NODE_MAP ? map_json(settings, node, field, where, problems)
                                            : scalar_json(settings, node, field);

    if (!json && problems->count == before)
        setting_problem(problems, "%s:%u: %s: is not UTF-8, or memory ran out", settings->path,
                        node->line, where);
    return json;
}
