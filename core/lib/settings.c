#include "core/lib/settings.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml.h>

#include "core/lib/field.h"
#include "core/lib/text.h"

struct setting_section {
    const char *name;
    const struct setting_node *node; /* the mapping with its settings; NULL: not in the file */
    struct setting_value *values;
    size_t count;
    struct setting_section *next;
};

/* ---- problems ---- */

/*
 * Adds a line. If memory runs out, the last line becomes NULL, which is printed as "out of memory",
 * and *count is positive nevertheless, so that the check fails.
 */
void setting_line_add(char ***lines, size_t *count, const char *format, ...)
{
    char **grown = realloc(*lines, (*count + 1) * sizeof *grown);
    va_list args;

    if (!grown) {
        *count += !*count;
        if (*lines) {
            free((*lines)[*count - 1]);
            (*lines)[*count - 1] = NULL;
        }
        return;
    }
    if (!*lines)
        memset(grown, 0, *count * sizeof *grown);
    *lines = grown;
    va_start(args, format);
    if (vasprintf(&grown[*count], format, args) < 0)
        grown[*count] = NULL;
    va_end(args);
    ++*count;
}

void setting_lines_print(char *const *lines, size_t count, const char *prefix, FILE *out)
{
    for (size_t i = 0; i < count; i++)
        fprintf(out, "%s%s\n", prefix, lines && lines[i] ? lines[i] : "out of memory");
}

void setting_problems_print(const struct setting_problems *problems, FILE *out)
{
    setting_lines_print(problems->lines, problems->count, "", out);
    setting_lines_print(problems->warnings, problems->warning_count, "warning: ", out);
}

void setting_problems_free(struct setting_problems *problems)
{
    for (size_t i = 0; problems->lines && i < problems->count; i++)
        free(problems->lines[i]);
    for (size_t i = 0; problems->warnings && i < problems->warning_count; i++)
        free(problems->warnings[i]);
    free(problems->lines);
    free(problems->warnings);
    *problems = (struct setting_problems){0};
}

/* ---- reading the file, checking its YAML, and replacing variables ---- */

/* A node of the file's tree. */
struct setting_node {
    enum { NODE_TEXT, NODE_LIST, NODE_MAPPING } kind;
    bool plain;       /* a text without quotes */
    unsigned line;    /* of its key, or of the node itself if it has no key */
    const char *key;  /* NULL: not a member of a mapping */
    const char *text; /* NULL: unusable, and the problem was added */
    struct setting_node *first, *next;
};

struct reader {
    struct settings *settings;
    struct setting_problems *problems;
    const char *bytes; /* content of the file */
    yaml_parser_t parser;
    yaml_event_t event; /* the current one */
};

static const char no_aliases[] = "aliases (*name) are not supported";
static const char no_tags[] =
    "tags (!name) are not supported"; /* the settings have their own types */

static int settings_refuse(struct reader *reader, unsigned line, const char *where,
                           const char *reason)
{
    setting_problem(reader->problems, "%s:%u: %s%s%s", reader->settings->path, line, where,
                    *where ? ": " : "", reason);
    return -1;
}

/*
 * Returns the value of the variable after "${", or its default, which follows ":-". Sets *rest to
 * the text after "}". Returns NULL after adding a problem.
 */
static const char *settings_variable(struct reader *reader, const char *name, const char **rest,
                                     unsigned line, const char *where)
{
    struct arena *arena = reader->settings->arena;
    const char *end = name;

    while (isalnum((unsigned char)*end) || *end == '_')
        end++;
    const char *fallback = end[0] == ':' && end[1] == '-' ? end + 2 : NULL;
    const char *close = fallback ? fallback + strcspn(fallback, "{}") : end;

    if (end == name || *close != '}') {
        settings_refuse(reader, line, where,
                        "${ must be followed by a name, optionally by :- and a default, and by } "
                        "(write $${ for a literal ${)");
        return NULL;
    }
    char *copy = arena_text(arena, name, (size_t)(end - name));
    const char *value = copy ? getenv(copy) : NULL;

    *rest = close + 1;
    if (copy && fallback && (!value || !*value))
        value = arena_text(arena, fallback, (size_t)(close - fallback));
    if (!value && copy && !fallback)
        setting_problem(reader->problems, "%s:%u: %s: the environment variable %s is not set",
                        reader->settings->path, line, where, copy);
    else if (!value)
        settings_refuse(reader, line, where, "out of memory");
    return value;
}

/* Returns a copy of the text with each ${NAME} replaced; NULL after adding a problem. */
static const char *settings_expand(struct reader *reader, const char *text, unsigned line,
                                   const char *where)
{
    struct arena *arena = reader->settings->arena;
    const char *done = "", *at;

    while (done && (at = strstr(text, "${"))) {
        bool escaped = at > text && at[-1] == '$';
        const char *rest = at + 2;
        const char *value = escaped ? "{" : settings_variable(reader, at + 2, &rest, line, where);

        if (!value)
            return NULL;
        done = arena_format(arena, "%s%.*s%s", done, (int)(at - text), text, value);
        text = rest;
    }
    if (done)
        done = arena_format(arena, "%s%s", done, text);
    if (done && text_utf8(done, strlen(done)))
        return done;
    settings_refuse(reader, line, where, done ? "must be UTF-8" : "out of memory");
    return NULL;
}

static unsigned settings_line_of(yaml_mark_t mark)
{
    return (unsigned)mark.line + 1;
}

/* Reads the next event. Returns 0, or -1 after adding a problem. */
static int settings_next(struct reader *reader)
{
    const yaml_parser_t *parser = &reader->parser;
    unsigned line = 1;

    yaml_event_delete(&reader->event);
    if (yaml_parser_parse(&reader->parser, &reader->event))
        return 0;
    /* libyaml's reader errors (bad UTF-8, control characters) have a byte offset, but no line */
    if (parser->error != YAML_READER_ERROR)
        line = settings_line_of(parser->problem_mark);
    else
        for (size_t i = 0; i < parser->problem_offset; i++)
            line += reader->bytes[i] == '\n';
    return settings_refuse(reader, line, "", parser->problem ? parser->problem : "out of memory");
}

/*
 * Reads the key of a mapping's next member, and sets *path to the path of the member. Returns NULL
 * after adding a problem. Adds a problem for a duplicate key, too, but returns the key.
 */
static const char *settings_read_key(struct reader *reader, const struct setting_node *map,
                                     const char *where, const char **path)
{
    struct arena *arena = reader->settings->arena;
    const yaml_event_t *event = &reader->event;
    unsigned line = settings_line_of(event->start_mark);
    bool scalar = event->type == YAML_SCALAR_EVENT;
    const char *text = scalar ? (const char *)event->data.scalar.value : "";

    if (!*text || strlen(text) != event->data.scalar.length) {
        settings_refuse(reader, line, where,
                        event->type == YAML_ALIAS_EVENT ? no_aliases : "a key must be plain text");
        return NULL;
    }
    if (event->data.scalar.tag)
        settings_refuse(reader, line, where, no_tags);
    const char *key = arena_text(arena, text, strlen(text));

    *path = key ? arena_format(arena, "%s%s%s", where, *where ? "." : "", key) : NULL;
    if (!*path)
        settings_refuse(reader, line, where, "out of memory");
    for (const struct setting_node *twin = map->first; *path && twin; twin = twin->next)
        if (!strcmp(twin->key, key))
            setting_problem(reader->problems, "%s:%u: %s: was already given on line %u",
                            reader->settings->path, line, *path, twin->line);
    return *path ? key : NULL;
}

/* Reads the node that begins with the current event. Returns NULL after adding a problem. */
static struct setting_node *settings_read_node(struct reader *reader, const char *where,
                                               unsigned line, unsigned depth)
{
    const yaml_event_t *event = &reader->event;
    bool map = event->type == YAML_MAPPING_START_EVENT;
    bool list = event->type == YAML_SEQUENCE_START_EVENT;
    struct setting_node *node = arena_alloc(reader->settings->arena, sizeof *node), **end;

    if (!node || depth > SETTINGS_DEPTH_MAX || event->type == YAML_ALIAS_EVENT) {
        settings_refuse(reader, line, where,
                        !node                        ? "out of memory"
                        : depth > SETTINGS_DEPTH_MAX ? "is nested too deeply"
                                                     : no_aliases);
        return NULL;
    }
    *node = (struct setting_node){.line = line,
                                  .kind = map    ? NODE_MAPPING
                                          : list ? NODE_LIST
                                                 : NODE_TEXT};
    if (map    ? event->data.mapping_start.tag
        : list ? event->data.sequence_start.tag
               : event->data.scalar.tag)
        settings_refuse(reader, line, where, no_tags);
    if (!map && !list) {
        const char *text = (const char *)event->data.scalar.value;

        node->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
        if (strlen(text) != event->data.scalar.length)
            settings_refuse(reader, line, where, "must not contain the character NUL");
        else
            node->text = settings_expand(reader, text, line, where);
        return node;
    }
    end = &node->first;
    for (size_t count = 0; !settings_next(reader); count++) {
        const char *key = NULL, *path = where;
        unsigned at = settings_line_of(event->start_mark);

        if (event->type == (map ? YAML_MAPPING_END_EVENT : YAML_SEQUENCE_END_EVENT))
            return node;
        if (count == SETTINGS_ENTRIES_MAX) {
            settings_refuse(reader, line, where, "has too many entries");
            return NULL;
        }
        if (map &&
            (!(key = settings_read_key(reader, node, where, &path)) || settings_next(reader)))
            return NULL;
        *end = settings_read_node(reader, path, at, depth + 1);
        if (!*end)
            return NULL;
        (*end)->key = key;
        end = &(*end)->next;
    }
    return NULL;
}

/* Returns the member `key` of `map`; NULL if there is none, or `map` is NULL. */
static const struct setting_node *settings_member(const struct setting_node *map, const char *key)
{
    const struct setting_node *at = map ? map->first : NULL;

    while (at && strcmp(at->key, key) != 0)
        at = at->next;
    return at;
}

/* Returns whether the node is null in YAML: null, ~ or no text, without quotes. */
static bool settings_is_null(const struct setting_node *node)
{
    const char *text = node->plain ? node->text : NULL;

    return text && (!*text || !strcmp(text, "~") || !strcmp(text, "null"));
}

/*
 * Returns the content of the file, which the caller frees; NULL after adding a problem. Without
 * O_NONBLOCK, a pipe without a writer would block a reload, and a later stop of the host.
 */
static char *settings_read(const char *path, size_t *length, struct setting_problems *problems)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    char *bytes = malloc(SETTINGS_SIZE_MAX + 1);
    struct stat about;
    ssize_t got = -1;

    *length = 0;
    if (fd >= 0 && !fstat(fd, &about) && !S_ISREG(about.st_mode)) {
        setting_problem(problems, "%s: is not a regular file", path);
    } else {
        while (fd >= 0 && bytes && *length <= SETTINGS_SIZE_MAX &&
               (got = read(fd, bytes + *length, SETTINGS_SIZE_MAX + 1 - *length)) > 0)
            *length += (size_t)got;
        if (got < 0)
            setting_problem(problems, "%s: cannot be read: %s", path,
                            strerror(bytes ? errno : ENOMEM));
        else if (got)
            setting_problem(problems, "%s: is larger than %zu bytes", path, SETTINGS_SIZE_MAX);
    }
    if (fd >= 0)
        close(fd);
    if (!got)
        return bytes;
    free(bytes);
    return NULL;
}

/* Reads the file to settings->root (NULL: empty file). Returns 0, or -1 after adding a problem. */
static int settings_read_root(struct reader *reader)
{
    if (settings_next(reader)) /* the start of the stream */
        return -1;
    if (settings_next(reader))
        return -1;
    if (reader->event.type == YAML_STREAM_END_EVENT)
        return 0;
    if (settings_next(reader))
        return -1;
    unsigned line = settings_line_of(reader->event.start_mark);
    struct setting_node *root = settings_read_node(reader, "", line, 0);

    /* reads the end of the document and the next event */
    if (!root || settings_next(reader) || settings_next(reader))
        return -1;
    if (reader->event.type != YAML_STREAM_END_EVENT)
        return settings_refuse(reader, settings_line_of(reader->event.start_mark), "",
                               "a second document (---) is not supported");
    if (settings_is_null(root))
        return 0;
    if (root->kind != NODE_MAPPING)
        return settings_refuse(reader, line, "", "must be a mapping of sections");
    reader->settings->root = root;
    return 0;
}

struct settings *settings_load(struct arena *arena, const char *path,
                               struct setting_problems *problems)
{
    struct settings *settings = arena_alloc(arena, sizeof *settings);
    struct reader reader = {.settings = settings, .problems = problems};
    const char *slash = strrchr(path, '/');
    int failed = -1;
    size_t length;

    if (settings) {
        settings->arena = arena;
        settings->path = arena_text(arena, path, strlen(path));
        settings->directory = !slash          ? "."
                              : slash == path ? "/"
                                              : arena_text(arena, path, (size_t)(slash - path));
    }
    if (!settings || !settings->path || !settings->directory) {
        setting_problem(problems, "%s: out of memory", path);
        return NULL;
    }
    char *bytes = settings_read(path, &length, problems);

    reader.bytes = bytes;
    if (bytes && !yaml_parser_initialize(&reader.parser)) {
        settings_refuse(&reader, 1, "", "out of memory");
    } else if (bytes) {
        yaml_parser_set_encoding(&reader.parser, YAML_UTF8_ENCODING);
        yaml_parser_set_input_string(&reader.parser, (const unsigned char *)bytes, length);
        failed = settings_read_root(&reader);
        yaml_event_delete(&reader.event);
        yaml_parser_delete(&reader.parser);
    }
    free(bytes);
    return failed ? NULL : settings;
}

/* ---- sections ---- */

const struct setting_section *settings_section(const struct settings *settings, const char *section)
{
    for (const struct setting_section *s = settings->sections; s; s = s->next)
        if (!strcmp(s->name, section))
            return s;
    return NULL;
}

static const struct setting_value *section_find(const struct setting_section *section,
                                                const char *name)
{
    for (size_t i = 0; section && i < section->count; i++)
        if (!strcmp(section->values[i].field->name, name))
            return &section->values[i];
    return NULL;
}

const struct setting_value *section_value(const struct setting_section *section, const char *name,
                                          char as)
{
    const struct setting_value *value = section_find(section, name);
    enum bb_type type = value ? value->field->type : BB_ANY;
    bool integer = type == BB_INT || type == BB_BOOL, number = type == BB_INT || type == BB_NUMBER;
    bool fits = as == 'i'   ? integer
                : as == 'n' ? number
                : as == 'j' ? type >= BB_OBJECT
                            : type < BB_OBJECT && !integer && !number;

    return fits ? value : NULL;
}

void settings_unknown(struct settings *settings, settings_is_module *is_module, const void *arg,
                      struct setting_problems *problems)
{
    const struct setting_section *top = settings_section(settings, SETTINGS_ROOT);
    const char *idle = NULL; /* sections of installed modules that are not loaded */

    for (const struct setting_node *at = settings->root ? settings->root->first : NULL; at;
         at = at->next) {
        if (settings_section(settings, at->key) || section_find(top, at->key))
            continue;
        if (is_module && is_module(arg, at->key))
            idle = arena_format(settings->arena, "%s%s%s (line %u)", idle ? idle : "",
                                idle ? ", " : "", at->key, at->line);
        else
            setting_problem(problems,
                            "%s:%u: unknown section \"%s\": it is neither a setting of busbar nor "
                            "an installed module",
                            settings->path, at->line, at->key);
    }
    if (idle)
        setting_warning(problems,
                        "%s: sections without effect, because their modules are not in `modules`: "
                        "%s",
                        settings->path, idle);
}

unsigned settings_line(const struct settings *settings, const char *section, const char *name)
{
    const struct setting_node *top = *section ? settings_member(settings->root, section) : NULL;
    const struct setting_node *own =
        name ? settings_member(*section ? top : settings->root, name) : NULL;

    return own ? own->line : top ? top->line : 0;
}

void settings_complain(const struct settings *settings, struct setting_problems *problems,
                       const char *section, const char *name, const char *format, ...)
{
    char reason[512], place[32] = "", top[256] = "";
    unsigned line;
    va_list args;

    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    if (name) /* uses the line of "pairs" for "pairs[0].x" */
        snprintf(top, sizeof top, "%.*s", (int)strcspn(name, "[."), name);
    line = settings_line(settings, section, name ? top : NULL);
    if (line)
        snprintf(place, sizeof place, ":%u", line);
    setting_problem(problems, "%s%s: %s%s%s: %s", settings->path, place, section,
                    *section && name ? "." : "", name ? name : "", reason);
}

void settings_fit(const struct settings *settings, const struct settings *live,
                  struct setting_problems *problems)
{
    for (const struct setting_section *at = settings->sections; at; at = at->next) {
        const struct setting_section *before = settings_section(live, at->name);

        for (size_t i = 0; i < at->count; i++) {
            const struct setting_value *value = &at->values[i];
            const struct setting_value *old = section_find(before, value->field->name);

            if (old && value->field->flags & BB_RESTART && value->json != old->json &&
                !json_equal(value->json, old->json))
                settings_complain(
                    settings, problems, at->name, value->field->name,
                    "cannot be changed by a reload: restart the host, or set it back");
        }
    }
}

/* ---- durations with units: "5s", "2m", "1h" or "500ms" ---- */

enum { DIGITS_MAX = 9 }; /* so that a duration in milliseconds fits into 64 bits */

struct unit {
    unsigned flag;
    int64_t ms;
    const char *suffix, *name;
};

static const struct unit units[] = {
    {BB_MILLISECONDS, 1, "ms", "milliseconds"}, {BB_SECONDS, 1000, "s", "seconds"},
    {BB_MINUTES, 60000, "m", "minutes"},        {BB_HOURS, 3600000, "h", "hours"},
    {BB_DAYS, 86400000, "d", "days"},
};

static const struct unit *settings_unit_of(const struct bb_field *field)
{
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (field->flags & units[i].flag)
            return &units[i];
    return NULL;
}

const char *setting_unit(const struct bb_field *field)
{
    const struct unit *unit = settings_unit_of(field);

    return unit ? unit->name : NULL;
}

/*
 * Converts a duration such as "2m" to a number in the unit of the setting. Returns `text` itself if
 * it is not a duration, or if an integer setting would get a fraction. NULL if memory ran out.
 */
static const char *settings_plain_time(const struct bb_field *field, const char *text,
                                       struct arena *arena)
{
    const struct unit *own = settings_unit_of(field), *given = NULL;
    size_t digits = strspn(text, "0123456789");

    for (size_t i = 0; own && digits && digits <= DIGITS_MAX && i < sizeof units / sizeof *units;
         i++)
        if (!strcmp(units[i].suffix, text + digits))
            given = &units[i];
    if (!given)
        return text;
    int64_t ms = strtoll(text, NULL, 10) * given->ms;

    if (ms % own->ms == 0)
        return arena_format(arena, "%" PRId64, ms / own->ms);
    if (field->type == BB_NUMBER)
        return arena_format(arena, "%.9g", (double)ms / (double)own->ms);
    return text;
}

/* ---- values: the tree as JSON, which fields_check() checks ---- */

struct binder {
    struct settings *settings;
    struct setting_section *section;
    struct setting_problems *problems;
    bool failed;
};

/*
 * Converts the text to the type of the field (NULL: by YAML's rules). If that is impossible,
 * returns a string, which fields_check() refuses.
 */
static json_t *settings_scalar_json(const struct settings *settings,
                                    const struct setting_node *node, const struct bb_field *field)
{
    static const struct bb_field number = {.type = BB_NUMBER};
    bool any = !field || field->type == BB_ANY;
    static const char *const yes[] = {"true", "yes", "on"}, *const no[] = {"false", "no", "off"};
    const char *text = node->text;
    json_t *json = NULL;
    int truth = -1;

    if ((any || field->flags & BB_NULLABLE) && settings_is_null(node))
        return json_null();
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        truth = !strcmp(text, yes[i]) ? 1 : !strcmp(text, no[i]) ? 0 : truth;
    if ((any ? node->plain : field->type == BB_BOOL) && truth >= 0)
        return json_boolean(truth);
    if (!any)
        text = settings_plain_time(field, text, settings->arena);
    if (text && (any ? node->plain : field->type == BB_INT || field->type == BB_NUMBER))
        json = field_json(any ? &number : field, text);
    return text && !json ? json_string(text) : json;
}

/*
 * Converts the value to JSON, with the type of `field` if possible; fields_check() refuses other
 * types later. Unknown members of declared objects are problems. The caller owns the result.
 * Returns NULL if memory ran out, or after this function or settings_load() has added a problem.
 */
static json_t *settings_json(struct binder *binder, const struct setting_node *node,
                             const struct bb_field *field, const char *where)
{
    struct settings *settings = binder->settings;
    bool list = node->kind == NODE_LIST;
    bool typed = field && field->fields.count && field->type == (list ? BB_LIST : BB_OBJECT);

    if (node->kind == NODE_TEXT)
        return node->text ? settings_scalar_json(settings, node, field) : NULL;
    json_t *json = list ? json_array() : json_object();
    bool failed = !json;

    for (const struct setting_node *at = node->first; at; at = at->next) {
        const struct bb_field *member = !typed ? NULL
                                        : list ? field_at(&field->fields, 0)
                                               : field_find(&field->fields, at->key);
        const char *path = list ? where : arena_format(settings->arena, "%s.%s", where, at->key);

        if (typed && !member) {
            setting_problem(binder->problems, "%s:%u: %s: is not a setting", settings->path,
                            at->line, path ? path : where);
            failed = true;
            continue;
        }
        json_t *value = path ? settings_json(binder, at, member, path) : NULL;

        if (list ? json_array_append_new(json, value) : json_object_set_new(json, at->key, value))
            failed = true;
    }
    if (!failed)
        return json;
    json_decref(json);
    return NULL;
}

#define COMPLAIN(binder, which, ...)                                                               \
    settings_complain((binder)->settings, (binder)->problems, (binder)->section->name, which,      \
                      __VA_ARGS__)

static void settings_json_undo(void *json)
{
    json_decref(json);
}

/* Names of the kinds of nodes, for messages. */
static const char *const settings_kinds[] = {"text", "a list", "a mapping"};

static void settings_bind_field(struct binder *binder, struct setting_value *value)
{
    const struct bb_field *field = value->field;
    struct settings *settings = binder->settings;
    const char *section = binder->section->name;
    const struct setting_node *map = *section ? binder->section->node : settings->root;
    const struct setting_node *node = settings_member(map, field->name);

    if (!node && field->alias)
        node = settings_member(map, field->alias);
    if (node && settings_is_null(node) && field->type != BB_ANY && !(field->flags & BB_NULLABLE)) {
        COMPLAIN(binder, field->name, "has no value (write \"\" for an empty text)");
        return;
    }
    if (node && node->kind != NODE_TEXT && field->type < BB_OBJECT) {
        COMPLAIN(binder, field->name, "must be one value, not %s", settings_kinds[node->kind]);
        return;
    }
    struct arena *arena = settings->arena;
    const char *where = arena_format(arena, "%s%s%s", section, *section ? "." : "", field->name);
    json_t *json = node && where ? settings_json(binder, node, field, where) : NULL;

    if (node && !json) {
        binder->failed = true;
        return;
    }
    /* An absent value gets its default. The arena owns the result. */
    struct problems found = {.arena = arena};
    struct bb_table table = {field, 1, sizeof *field};
    const char *unit = setting_unit(field);
    json_t *object = json_pack("{s:o*}", field->name, json);
    json_t *checked = object ? fields_check(&table, object, &found) : NULL;

    if (checked && arena_defer(arena, settings_json_undo, checked)) {
        json_decref(checked);
        checked = NULL;
    }
    for (size_t i = 0; i < found.count; i++)
        COMPLAIN(binder, found.list[i].field, "%s%s%s", found.list[i].text, unit ? ", in " : "",
                 unit ? unit : "");
    binder->failed = binder->failed || !checked;
    json_decref(object);
    value->json = json_object_get(checked, field->name);
}

/* Creates a section. The rows must live as long as the settings. NULL: out of memory. */
static struct setting_section *settings_section_new(struct settings *settings, const char *name,
                                                    const struct bb_table *fields)
{
    struct setting_section *section = arena_alloc(settings->arena, sizeof *section);

    if (section)
        section->values =
            arena_alloc(settings->arena, (fields->count + 1) * sizeof *section->values);
    if (!section || !section->values)
        return NULL;
    for (size_t i = 0; i < fields->count; i++)
        section->values[i].field = field_at(fields, i);
    section->name = name;
    section->count = fields->count;
    struct setting_section **end = &settings->sections;

    while (*end)
        end = &(*end)->next;
    *end = section;
    return section;
}

const struct setting_section *settings_bind(struct settings *settings, const char *name,
                                            const struct bb_table *fields,
                                            struct setting_problems *problems)
{
    struct setting_section *section = settings_section_new(settings, name, fields);
    struct binder binder = {.settings = settings, .section = section, .problems = problems};
    size_t before = problems->count;

    if (!section) {
        setting_problem(problems, "%s: %s: out of memory", settings->path, name);
        return NULL;
    }
    const struct setting_node *node = *name ? settings_member(settings->root, name) : NULL;

    if (node && node->kind == NODE_TEXT && !node->text)
        return NULL; /* reported when the file was read */
    if (node && node->kind != NODE_MAPPING && !settings_is_null(node)) {
        settings_complain(settings, problems, name, NULL, "must be a mapping of settings, not %s",
                          settings_kinds[node->kind]);
        return NULL;
    }
    section->node = node;
    for (size_t i = 0; i < section->count; i++)
        settings_bind_field(&binder, &section->values[i]);
    for (const struct setting_node *at = node ? node->first : NULL; at; at = at->next)
        if (!field_find(fields, at->key))
            COMPLAIN(&binder, at->key, "is not a setting");
    if (binder.failed && !problems->count)
        COMPLAIN(&binder, NULL, "out of memory");
    return problems->count == before && !binder.failed ? section : NULL;
}

void settings_claim(struct settings *settings, const char *section)
{
    static const struct bb_table none = {.count = 0};

    (void)settings_section_new(settings, section,
                               &none); /* if memory runs out, the section is reported as unknown */
}

/* ---- structs of settings ---- */

const char *settings_bind_fault(const struct bb_table *settings, size_t row, size_t size)
{
    const struct bb_field *field = field_at(settings, row);
    const struct bb_bind *bind = &field->bind;
    size_t wanted = field->type == BB_INT      ? sizeof(int64_t)
                    : field->type == BB_NUMBER ? sizeof(double)
                    : field->type == BB_BOOL   ? sizeof(bool)
                                               : sizeof(void *);

    if (!bind->size)
        return NULL;
    if (bind->size != wanted)
        return "is bound to a member whose size is not the size of its type";
    if (bind->offset % wanted) /* on all supported systems the alignment is the size */
        return "is bound to an offset that is not aligned for its type";
    if (bind->offset > size || size - bind->offset < wanted)
        return "is bound to an offset outside of `settings_size`";
    for (size_t i = 0; i < row; i++) {
        const struct bb_bind *other = &field_at(settings, i)->bind;

        if (other->size && other->offset < (size_t)bind->offset + bind->size &&
            bind->offset < (size_t)other->offset + other->size)
            return "is bound to the same member as another setting";
    }
    return NULL;
}

void section_store(const struct setting_section *section, void *members)
{
    for (size_t i = 0; i < section->count; i++) {
        const struct setting_value *value = &section->values[i];
        void *member = (char *)members + value->field->bind.offset;

        if (!value->field->bind.size)
            continue;
        if (value->field->type == BB_INT)
            *(int64_t *)member = setting_integer(value);
        else if (value->field->type == BB_NUMBER)
            *(double *)member = json_number_value(value->json);
        else if (value->field->type == BB_BOOL)
            *(bool *)member = json_is_true(value->json);
        else if (value->field->type >= BB_OBJECT)
            *(json_t **)member = value->json;
        else
            *(const char **)member = json_string_value(value->json);
    }
}

/* ---- printing the settings in force as YAML ---- */

/* Returns a copy of the value with "(hidden)" in place of secrets; NULL if memory ran out. */
static json_t *settings_shown(json_t *value, const struct bb_field *field)
{
    struct bb_field row = {.flags = field->flags & BB_SECRET};
    json_t *copy = NULL, *part;
    const char *key;
    size_t i;
    int failed = 0;

    if (json_is_array(value)) {
        copy = json_array();
        if (field->type == BB_LIST && field->fields.count)
            row = *field_at(&field->fields, 0);
        row.flags |= field->flags & BB_SECRET;
        json_array_foreach (value, i, part)
            failed |= json_array_append_new(copy, settings_shown(part, &row));
    } else if (json_is_object(value)) {
        copy = json_object();
        json_object_foreach (value, key, part) {
            const struct bb_field *known =
                field->type == BB_OBJECT ? field_find(&field->fields, key) : NULL;
            struct bb_field member = known ? *known : (struct bb_field){.flags = 0};

            member.flags |= field->flags & BB_SECRET;
            failed |= json_object_set_new(copy, key, settings_shown(part, &member));
        }
    } else if (field->flags & BB_SECRET && !json_is_null(value) &&
               !(json_is_string(value) && !json_string_length(value))) {
        copy = json_string("(hidden)");
    } else {
        return json_incref(value);
    }
    if (!failed)
        return copy;
    json_decref(copy);
    return NULL;
}

int settings_print(const struct settings *settings, FILE *out)
{
    fprintf(out, "# %s\n", settings->path);
    for (const struct setting_section *section = settings->sections; section;
         section = section->next) {
        if (*section->name)
            fprintf(out, "%s:%s\n", section->name, section->count ? "" : " {}");
        for (size_t i = 0; i < section->count; i++) {
            const struct setting_value *value = &section->values[i];
            const struct bb_field *field = value->field;
            const struct setting_node *map = *section->name ? section->node : settings->root;
            const char *unit = setting_unit(field), *indent = *section->name ? "  " : "";
            bool given = settings_member(map, field->name) ||
                         (field->alias && settings_member(map, field->alias));
            bool set = value->json != NULL;
            json_t *shown = set ? settings_shown(value->json, field) : NULL;
            char *text =
                shown ? json_dumps(shown, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15)) : NULL;

            json_decref(shown);
            if (set && !text)
                return -1;
            fprintf(out, "%s%s%s:%s", indent, set ? "" : "# ", field->name, set ? " " : "");
            for (const char *at = text; at && *at; at++) {
                if (at[0] == '$' &&
                    at[1] == '{') /* JSON is valid YAML, except that ${ would be expanded */
                    fputc('$', out);
                fputc(*at, out);
            }
            free(text);
            if (unit || !given)
                fprintf(out, "  # %s%s%s", unit ? unit : "", unit && !given ? ", " : "",
                        given ? ""
                        : set ? "default"
                              : "not set");
            fputc('\n', out);
        }
    }
    return 0;
}
