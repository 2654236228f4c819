#include "core/lib/settings.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/lib/settings_tree.h"

/* ---- problems ---- */

/*
 * A line counts even if memory runs out for it: the configuration must not be accepted for that
 * reason.
 */
BB_PRINTF(4, 0)
static void add_line(char ***lines, size_t *count, size_t *room, const char *format, va_list args)
{
    char *line;

    if (vasprintf(&line, format, args) < 0)
        line = NULL;
    if (*count >= *room) {
        size_t wanted = *room ? *room * 2 : 16;
        char **grown = realloc(*lines, wanted * sizeof **lines);

        if (!grown) {
            free(line);
            if (!*count)
                ++*count;
            return;
        }
        memset(grown + *room, 0, (wanted - *room) * sizeof *grown);
        *lines = grown;
        *room = wanted;
    }
    (*lines)[(*count)++] = line;
}

void setting_problem(struct setting_problems *problems, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    add_line(&problems->lines, &problems->count, &problems->room, format, args);
    va_end(args);
}

void setting_warning(struct setting_problems *problems, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    add_line(&problems->warnings, &problems->warning_count, &problems->warning_room, format, args);
    va_end(args);
}

static void print_lines(char *const *lines, size_t count, size_t room, const char *prefix,
                        FILE *out)
{
    for (size_t i = 0; i < count; i++)
        fprintf(out, "%s%s\n", prefix, i < room && lines[i] ? lines[i] : "out of memory");
}

void setting_errors_print(const struct setting_problems *problems, FILE *out)
{
    print_lines(problems->lines, problems->count, problems->room, "", out);
}

void setting_problems_print(const struct setting_problems *problems, FILE *out)
{
    setting_errors_print(problems, out);
    print_lines(problems->warnings, problems->warning_count, problems->warning_room,
                "warning: ", out);
}

void setting_problems_free(struct setting_problems *problems)
{
    for (size_t i = 0; i < problems->count && i < problems->room; i++)
        free(problems->lines[i]);
    for (size_t i = 0; i < problems->warning_count && i < problems->warning_room; i++)
        free(problems->warnings[i]);
    free(problems->lines);
    free(problems->warnings);
    *problems = (struct setting_problems){0};
}

/* ---- the environment ---- */

struct reader {
    struct settings *settings;
    struct setting_problems *problems;
    bool *seen; /* by the index of a node */
};

static void complain(struct reader *reader, unsigned line, const char *where, const char *reason)
{
    setting_problem(reader->problems, "%s:%u: %s%s%s", reader->settings->path, line, where,
                    *where ? ": " : "", reason);
}

/*
 * Returns the value of the variable after "${"; *rest is the text after "}". NULL with a problem.
 * The name may be followed by ":-" and a default up to the next "}".
 */
static const char *variable(struct reader *reader, const char *name, const char **rest,
                            unsigned line, const char *where)
{
    struct arena *arena = reader->settings->arena;
    const char *end = name;

    while (isalnum((unsigned char)*end) || *end == '_')
        end++;
    const char *fallback = end[0] == ':' && end[1] == '-' ? end + 2 : NULL;
    const char *close = fallback ? fallback + strcspn(fallback, "{}") : end;

    if (end == name || *close != '}') {
        complain(reader, line, where,
                 "${ needs a name, perhaps :- and a default, and } at the end (write $${ for a "
                 "plain ${)");
        return NULL;
    }
    char *copy = arena_text(arena, name, (size_t)(end - name));
    const char *value = copy ? getenv(copy) : NULL;

    *rest = close + 1;
    if (copy && fallback && (!value || !*value))
        value = arena_text(arena, fallback, (size_t)(close - fallback));
    if (!value)
        setting_problem(reader->problems, "%s:%u: %s: the environment has no %s",
                        reader->settings->path, line, where, copy && !fallback ? copy : "memory");
    return value;
}

/* Replaces ${NAME} in the text; NULL with a problem added. */
static const char *expand(struct reader *reader, const char *text, unsigned line, const char *where)
{
    struct arena *arena = reader->settings->arena;
    const char *done = "", *at;

    while (done && (at = strstr(text, "${"))) {
        bool escaped = at > text && at[-1] == '$';
        const char *rest = at + 2;
        const char *value = escaped ? "{" : variable(reader, at + 2, &rest, line, where);

        if (!value)
            return NULL;
        done = arena_format(arena, "%s%.*s%s", done, (int)(at - text), text, value);
        text = rest;
    }
    if (done)
        done = arena_format(arena, "%s%s", done, text);
    if (!done)
        complain(reader, line, where, "out of memory");
    return done;
}

/* ---- the tree ---- */

static unsigned line_of(yaml_mark_t mark)
{
    return (unsigned)mark.line + 1;
}

const yaml_node_t *settings_node(const struct settings *settings, int index)
{
    return settings->document.nodes.start + index - 1;
}

struct member settings_member(const struct settings *settings, const yaml_node_t *map,
                              const char *key)
{
    if (!map || map->type != YAML_MAPPING_NODE)
        return (struct member){NULL, 0};
    for (const yaml_node_pair_t *at = map->data.mapping.pairs.start;
         at < map->data.mapping.pairs.top; at++) {
        const yaml_node_t *name = settings_node(settings, at->key);

        if (!strcmp(node_text(name), key))
            return (struct member){settings_node(settings, at->value), line_of(name->start_mark)};
    }
    return (struct member){NULL, 0};
}

bool node_null(const yaml_node_t *node)
{
    return node->type == YAML_SCALAR_NODE && node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           (!*node_text(node) || !strcmp(node_text(node), "~") || !strcmp(node_text(node), "null"));
}

const char *node_kind(const yaml_node_t *node)
{
    if (node->type == YAML_SEQUENCE_NODE)
        return "a list";
    return node->type == YAML_MAPPING_NODE ? "a mapping" : "text";
}

/* Refuses a tag of YAML (such as !!str), because the settings have their own types. */
static void refuse_tag(struct reader *reader, const yaml_node_t *node, const char *where,
                       unsigned line)
{
    const char *usual = node->type == YAML_SCALAR_NODE     ? YAML_DEFAULT_SCALAR_TAG
                        : node->type == YAML_SEQUENCE_NODE ? YAML_DEFAULT_SEQUENCE_TAG
                                                           : YAML_DEFAULT_MAPPING_TAG;

    if (strcmp((const char *)node->tag, usual) != 0)
        complain(reader, line, where, "tags (!name) are not taken");
}

static void check_scalar(struct reader *reader, yaml_node_t *node, const char *where, unsigned line)
{
    const char *text = node_text(node);

    if (strlen(text) != node->data.scalar.length) {
        complain(reader, line, where, "must not hold a NUL");
        text = NULL;
    } else if (strstr(text, "${")) {
        text = expand(reader, text, line, where);
    } else {
        return;
    }
    free(node->data.scalar.value); /* libyaml has allocated it, and will free the copy */
    node->data.scalar.value = text ? (yaml_char_t *)strdup(text) : NULL;
    if (text && !node->data.scalar.value)
        complain(reader, line, where, "out of memory");
}

static int check_node(struct reader *reader, int index, const char *where, unsigned line,
                      unsigned depth);

/* Returns the path of the member; NULL with a problem. libyaml does not find duplicate keys. */
static const char *check_key(struct reader *reader, const yaml_node_t *map,
                             const yaml_node_pair_t *pair, const char *where)
{
    const yaml_node_t *key = settings_node(reader->settings, pair->key);
    unsigned line = line_of(key->start_mark);

    if (key->type != YAML_SCALAR_NODE || !key->data.scalar.length ||
        strlen(node_text(key)) != key->data.scalar.length) {
        complain(reader, line, where, "a key must be plain text");
        return NULL;
    }
    if (reader->seen[pair->key]) {
        complain(reader, line, where, "aliases (*name) are not taken");
        return NULL;
    }
    reader->seen[pair->key] = true;
    refuse_tag(reader, key, where, line);
    const char *path =
        arena_format(reader->settings->arena, "%s%s%s", where, *where ? "." : "", node_text(key));

    if (!path)
        complain(reader, line, where, "out of memory");
    for (const yaml_node_pair_t *at = map->data.mapping.pairs.start; path && at < pair; at++) {
        const yaml_node_t *twin = settings_node(reader->settings, at->key);

        if (!strcmp(node_text(twin), node_text(key)))
            setting_problem(reader->problems, "%s:%u: %s: was given on line %u already",
                            reader->settings->path, line, path, line_of(twin->start_mark));
    }
    return path;
}

static int check_map(struct reader *reader, const yaml_node_t *map, const char *where,
                     unsigned depth)
{
    for (const yaml_node_pair_t *at = map->data.mapping.pairs.start;
         at < map->data.mapping.pairs.top; at++) {
        const yaml_node_t *key = settings_node(reader->settings, at->key);
        const char *path = check_key(reader, map, at, where);

        if (!path || check_node(reader, at->value, path, line_of(key->start_mark), depth + 1))
            return -1;
    }
    return 0;
}

/*
 * Refuses what settings do not have, and replaces variables. Returns 0, or -1 with a problem if the
 * tree cannot be used. The document has an alias as another reference to its node.
 */
static int check_node(struct reader *reader, int index, const char *where, unsigned line,
                      unsigned depth)
{
    yaml_node_t *node = reader->settings->document.nodes.start + index - 1;
    size_t count = node->type == YAML_SEQUENCE_NODE
                       ? (size_t)(node->data.sequence.items.top - node->data.sequence.items.start)
                   : node->type == YAML_MAPPING_NODE
                       ? (size_t)(node->data.mapping.pairs.top - node->data.mapping.pairs.start)
                       : 0;
    const char *wrong = reader->seen[index]            ? "aliases (*name) are not taken"
                        : depth > SETTINGS_DEPTH_MAX   ? "is nested too deeply"
                        : count > SETTINGS_ENTRIES_MAX ? "has too many entries"
                                                       : NULL;

    if (wrong) {
        complain(reader, line, where, wrong);
        return -1;
    }
    reader->seen[index] = true;
    refuse_tag(reader, node, where, line);
    if (node->type == YAML_SCALAR_NODE)
        check_scalar(reader, node, where, line);
    if (node->type == YAML_MAPPING_NODE)
        return check_map(reader, node, where, depth);
    for (size_t i = 0; node->type == YAML_SEQUENCE_NODE && i < count; i++) {
        int item = node->data.sequence.items.start[i];

        if (check_node(reader, item, where,
                       line_of(settings_node(reader->settings, item)->start_mark), depth + 1))
            return -1;
    }
    return 0;
}

/* ---- loading ---- */

/*
 * Returns the bytes, which the caller frees; NULL with a problem. Without O_NONBLOCK a pipe that
 * nobody writes to would block the caller, and with it a reload and a later stop.
 */
static char *read_file(const char *path, size_t *length, struct setting_problems *problems)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    char *bytes = malloc(SETTINGS_SIZE_MAX + 1);
    struct stat about;
    ssize_t got = 1;

    *length = 0;
    if (fd < 0 || fstat(fd, &about)) {
        setting_problem(problems, "%s: cannot be read: %s", path, strerror(errno));
    } else if (!S_ISREG(about.st_mode)) {
        setting_problem(problems, "%s: is not a regular file", path);
    } else if (!bytes) {
        setting_problem(problems, "%s: out of memory", path);
    } else {
        while (got > 0 && *length <= SETTINGS_SIZE_MAX) {
            got = read(fd, bytes + *length, SETTINGS_SIZE_MAX + 1 - *length);
            *length += got > 0 ? (size_t)got : 0;
        }
        if (got < 0)
            setting_problem(problems, "%s: cannot be read: %s", path, strerror(errno));
        else if (*length > SETTINGS_SIZE_MAX)
            setting_problem(problems, "%s: is larger than %zu bytes", path, SETTINGS_SIZE_MAX);
        else
            got = 0;
    }
    if (fd >= 0)
        close(fd);
    if (!got && *length <= SETTINGS_SIZE_MAX)
        return bytes;
    free(bytes);
    return NULL;
}

/* Reads a document; -1 with a problem. */
static int load_document(struct reader *reader, yaml_parser_t *parser, yaml_document_t *document,
                         const char *bytes)
{
    unsigned line = 1;

    if (yaml_parser_load(parser, document))
        return 0;
    /* errors of the lowest layer (bad UTF-8, control characters) have a byte offset, but no line */
    if (parser->error != YAML_READER_ERROR)
        line = line_of(parser->problem_mark);
    else
        for (size_t i = 0; i < parser->problem_offset; i++)
            line += bytes[i] == '\n';
    complain(reader, line, "", parser->problem ? parser->problem : "out of memory");
    return -1;
}

static void delete_document(void *document)
{
    yaml_document_delete(document);
}

static int parse(struct reader *reader, const char *bytes, size_t length)
{
    struct settings *settings = reader->settings;
    yaml_document_t second;
    yaml_parser_t parser;

    if (!yaml_parser_initialize(&parser)) {
        setting_problem(reader->problems, "%s: out of memory", settings->path);
        return -1;
    }
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *)bytes, length);
    int failed = load_document(reader, &parser, &settings->document, bytes);

    if (!failed && arena_defer(settings->arena, delete_document, &settings->document)) {
        yaml_document_delete(&settings->document);
        complain(reader, 1, "", "out of memory");
        failed = -1;
    }
    settings->root = failed ? NULL : yaml_document_get_root_node(&settings->document);
    if (settings->root) { /* otherwise the stream has ended */
        bool loaded = !load_document(reader, &parser, &second, bytes);

        failed = !loaded || yaml_document_get_root_node(&second) ? -1 : 0;
        if (loaded && failed)
            complain(reader, line_of(second.start_mark), "",
                     "a second document (---) is not taken");
        if (loaded)
            yaml_document_delete(&second);
    }
    yaml_parser_delete(&parser);
    return failed;
}

/* An empty file has no settings; everything except a mapping is an error. */
static int check_tree(struct reader *reader)
{
    struct settings *settings = reader->settings;
    size_t count = (size_t)(settings->document.nodes.top - settings->document.nodes.start);
    int failed = -1;

    if (!settings->root)
        return 0;
    reader->seen = calloc(count + 1, sizeof *reader->seen);
    if (!reader->seen)
        complain(reader, 1, "", "out of memory");
    else
        failed = check_node(reader, 1, "", line_of(settings->root->start_mark), 0);
    free(reader->seen);
    if (failed)
        return -1;
    if (settings->root->type == YAML_SCALAR_NODE && node_text(settings->root) &&
        node_null(settings->root))
        settings->root = NULL;
    if (!settings->root || settings->root->type == YAML_MAPPING_NODE)
        return 0;
    complain(reader, line_of(settings->root->start_mark), "", "must be a mapping of sections");
    return -1;
}

struct settings *settings_load(struct arena *arena, const char *path,
                               struct setting_problems *problems)
{
    struct settings *settings = arena_alloc(arena, sizeof *settings);
    struct reader reader = {.settings = settings, .problems = problems};
    const char *slash = strrchr(path, '/');
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
    char *bytes = read_file(path, &length, problems);
    int failed = !bytes || parse(&reader, bytes, length) || check_tree(&reader);

    free(bytes);
    return failed ? NULL : settings;
}

/* ---- sections ---- */

const char *settings_path(const struct settings *settings)
{
    return settings->path;
}

const char *settings_directory(const struct settings *settings)
{
    return settings->directory;
}

const struct setting_section *settings_section(const struct settings *settings, const char *section)
{
    for (const struct setting_section *s = settings->sections; s; s = s->next)
        if (!strcmp(s->name, section))
            return s;
    return NULL;
}

static const struct setting_value *find(const struct setting_section *section, const char *name)
{
    for (size_t i = 0; section && i < section->count; i++)
        if (!strcmp(section->values[i].field->name, name))
            return &section->values[i];
    return NULL;
}

const struct setting_value *section_value(const struct setting_section *section, const char *name,
                                          char as)
{
    const struct setting_value *value = find(section, name);
    enum bb_type type = value ? value->field->type : BB_ANY;
    bool fits = as == 't'   ? type < BB_OBJECT
                : as == 'j' ? type >= BB_OBJECT
                            : type == BB_INT || type == (as == 'i' ? BB_BOOL : BB_NUMBER);

    return fits ? value : NULL;
}

void settings_unknown(struct settings *settings, settings_is_module *is_module, const void *arg,
                      struct setting_problems *problems)
{
    const struct setting_section *top = settings_section(settings, SETTINGS_ROOT);
    const yaml_node_t *root = settings->root;
    const char *idle = NULL; /* sections of installed modules that are not loaded */

    for (const yaml_node_pair_t *at = root ? root->data.mapping.pairs.start : NULL;
         root && at < root->data.mapping.pairs.top; at++) {
        const yaml_node_t *node = settings_node(settings, at->key);
        const char *key = node_text(node);
        unsigned line = line_of(node->start_mark);

        if (settings_section(settings, key) || find(top, key))
            continue;
        if (is_module && is_module(arg, key))
            idle = arena_format(settings->arena, "%s%s%s (line %u)", idle ? idle : "",
                                idle ? ", " : "", key, line);
        else
            setting_problem(problems,
                            "%s:%u: unknown section \"%s\": it is neither a setting of busbar nor "
                            "an installed module",
                            settings->path, line, key);
    }
    if (idle)
        setting_warning(problems,
                        "%s: sections without effect, because their modules are not in `modules`: "
                        "%s",
                        settings->path, idle);
}

unsigned settings_line(const struct settings *settings, const char *section, const char *name)
{
    struct member parent = *section ? settings_member(settings, settings->root, section)
                                    : (struct member){settings->root, 0};
    struct member own =
        name ? settings_member(settings, parent.node, name) : (struct member){NULL, 0};

    return own.node ? own.line : parent.line;
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
    if (name) /* of "pairs[0].x", the line of "pairs" */
        snprintf(top, sizeof top, "%.*s", (int)strcspn(name, "[."), name);
    line = settings_line(settings, section, name ? top : NULL);
    if (line)
        snprintf(place, sizeof place, ":%u", line);
    setting_problem(problems, "%s%s: %s%s%s: %s", settings->path, place, section,
                    *section && name ? "." : "", name ? name : "", reason);
}

static bool is_same(const struct setting_value *a, const struct setting_value *b)
{
    if (a->field->type >= BB_OBJECT)
        return json_equal(a->json, b->json) || a->json == b->json;
    return a->text && b->text ? !strcmp(a->text, b->text) : a->text == b->text;
}

void settings_fit(const struct settings *settings, const struct settings *live,
                  struct setting_problems *problems)
{
    for (const struct setting_section *at = settings->sections; at; at = at->next) {
        const struct setting_section *before = settings_section(live, at->name);

        for (size_t i = 0; i < at->count; i++) {
            const struct setting_value *value = &at->values[i];
            const struct setting_value *old = find(before, value->field->name);

            if (old && value->field->flags & BB_RESTART && !is_same(value, old))
                settings_complain(
                    settings, problems, at->name, value->field->name,
                    "cannot be changed by a reload: restart the host, or set it back");
        }
    }
}
