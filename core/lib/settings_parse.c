/*
 * Reads YAML into a tree, using libyaml's events. The library checks neither duplicate keys nor the
 * expansion of aliases, so duplicate keys are detected here, and aliases are refused.
 */
#include "core/lib/settings_tree.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

struct reader {
    yaml_parser_t parser;
    struct settings *settings;
    struct setting_problems *problems;
    const char *bytes;
};

static struct node *read_node(struct reader *reader, yaml_event_t *event, const char *where,
                              unsigned depth);

static unsigned line_of(yaml_mark_t mark)
{
    return (unsigned)mark.line + 1;
}

static void complain(struct reader *reader, unsigned line, const char *where, const char *reason)
{
    setting_problem(reader->problems, "%s:%u: %s%s%s", reader->settings->path, line, where,
                    *where ? ": " : "", reason);
}

/* Errors of the lowest layer (bad UTF-8, control characters) have a byte offset, but no line. */
static unsigned error_line(const struct reader *reader)
{
    const yaml_parser_t *parser = &reader->parser;
    unsigned line = 1;

    if (parser->error != YAML_READER_ERROR)
        return line_of(parser->problem_mark);
    for (size_t i = 0; i < parser->problem_offset; i++)
        line += reader->bytes[i] == '\n';
    return line;
}

static int next_event(struct reader *reader, yaml_event_t *event)
{
    if (yaml_parser_parse(&reader->parser, event))
        return 0;
    const char *reason = reader->parser.problem;

    complain(reader, error_line(reader), "", reason ? reason : "out of memory");
    return -1;
}

/* Settings need no tags, which are another type system, and no anchors, which make a graph. */
static void refuse_decoration(struct reader *reader, const yaml_event_t *event, const char *where)
{
    const yaml_char_t *anchor = NULL, *tag = NULL;

    if (event->type == YAML_SCALAR_EVENT) {
        anchor = event->data.scalar.anchor;
        tag = event->data.scalar.tag;
    } else if (event->type == YAML_SEQUENCE_START_EVENT) {
        anchor = event->data.sequence_start.anchor;
        tag = event->data.sequence_start.tag;
    } else if (event->type == YAML_MAPPING_START_EVENT) {
        anchor = event->data.mapping_start.anchor;
        tag = event->data.mapping_start.tag;
    }
    if (anchor)
        complain(reader, line_of(event->start_mark), where, "anchors (&name) are not taken");
    if (tag)
        complain(reader, line_of(event->start_mark), where, "tags (!name) are not taken");
}

static struct node *node_new(struct reader *reader, enum node_kind kind, yaml_mark_t mark)
{
    struct node *node = arena_alloc(reader->settings->arena, sizeof *node);

    if (!node) {
        complain(reader, line_of(mark), "", "out of memory");
        return NULL;
    }
    node->kind = kind;
    node->line = line_of(mark);
    return node;
}

static struct node *read_scalar(struct reader *reader, const yaml_event_t *event, const char *where)
{
    struct node *node = node_new(reader, NODE_SCALAR, event->start_mark);
    const char *text = (const char *)event->data.scalar.value;

    if (!node)
        return NULL;
    node->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    if (strlen(text) != event->data.scalar.length)
        complain(reader, node->line, where, "must not hold a NUL");
    else
        node->text = settings_expand(reader->settings, text, node->line, where, reader->problems);
    node->broken = !node->text;
    if (node->broken) /* a placeholder, so that reading can continue */
        node->text = "";
    return node;
}

static int append(struct reader *reader, struct node *parent, struct node *child, const char *where)
{
    if (parent->count >= SETTINGS_ENTRIES_MAX) {
        complain(reader, child->line, where, "has too many entries");
        return -1;
    }
    if (parent->last)
        parent->last->next = child;
    else
        parent->first = child;
    parent->last = child;
    parent->count++;
    return 0;
}

static struct node *read_list(struct reader *reader, const yaml_event_t *start, const char *where,
                              unsigned depth)
{
    struct node *list = node_new(reader, NODE_LIST, start->start_mark);
    yaml_event_t event;

    while (list && !next_event(reader, &event)) {
        bool end = event.type == YAML_SEQUENCE_END_EVENT;
        struct node *item = end ? NULL : read_node(reader, &event, where, depth + 1);

        yaml_event_delete(&event);
        if (end)
            return list;
        if (!item || append(reader, list, item, where))
            return NULL;
    }
    return NULL;
}

/* Returns the key of `event`, in the arena; NULL with a problem. */
static const char *read_key(struct reader *reader, const yaml_event_t *event, const char *where)
{
    unsigned line = line_of(event->start_mark);

    refuse_decoration(reader, event, where);
    if (event->type != YAML_SCALAR_EVENT || !event->data.scalar.length ||
        strlen((const char *)event->data.scalar.value) != event->data.scalar.length) {
        complain(reader, line, where, "a key must be plain text");
        return NULL;
    }
    const char *key = arena_text(reader->settings->arena, (const char *)event->data.scalar.value,
                                 event->data.scalar.length);
    if (!key)
        complain(reader, line, where, "out of memory");
    return key;
}

static struct node *read_member(struct reader *reader, const struct node *map, const char *key,
                                unsigned line, const char *where, unsigned depth)
{
    const char *path =
        arena_format(reader->settings->arena, "%s%s%s", where, *where ? "." : "", key);
    const struct node *twin = node_child(map, key);
    yaml_event_t event;

    if (!path || next_event(reader, &event)) {
        if (!path)
            complain(reader, line, where, "out of memory");
        return NULL;
    }
    if (twin)
        setting_problem(reader->problems, "%s:%u: %s: was given on line %u already",
                        reader->settings->path, line, path, twin->line);
    struct node *value = read_node(reader, &event, path, depth + 1);

    yaml_event_delete(&event);
    if (!value)
        return NULL;
    value->key = key;
    value->line = line;
    return value;
}

static struct node *read_map(struct reader *reader, const yaml_event_t *start, const char *where,
                             unsigned depth)
{
    struct node *map = node_new(reader, NODE_MAP, start->start_mark);
    yaml_event_t event;

    while (map && !next_event(reader, &event)) {
        bool end = event.type == YAML_MAPPING_END_EVENT;
        const char *key = end ? NULL : read_key(reader, &event, where);
        unsigned line = line_of(event.start_mark);

        yaml_event_delete(&event);
        if (end)
            return map;
        struct node *value = key ? read_member(reader, map, key, line, where, depth) : NULL;

        if (!value || append(reader, map, value, where))
            return NULL;
    }
    return NULL;
}

/*
 * Returns the tree below `event` (which stays the caller's); NULL with a problem if reading must
 * stop.
 */
static struct node *read_node(struct reader *reader, yaml_event_t *event, const char *where,
                              unsigned depth)
{
    refuse_decoration(reader, event, where);
    if (depth > SETTINGS_DEPTH_MAX) {
        complain(reader, line_of(event->start_mark), where, "is nested too deeply");
        return NULL;
    }
    switch ((int)event->type) {
    case YAML_SCALAR_EVENT:
        return read_scalar(reader, event, where);
    case YAML_SEQUENCE_START_EVENT:
        return read_list(reader, event, where, depth);
    case YAML_MAPPING_START_EVENT:
        return read_map(reader, event, where, depth);
    default:
        complain(reader, line_of(event->start_mark), where, "aliases (*name) are not taken");
        return NULL;
    }
}

/* Takes the event of the document's content, and refuses a second document. */
static int read_documents(struct reader *reader)
{
    bool end = false;

    while (!end) {
        yaml_event_t event;
        struct node *root = NULL;

        if (next_event(reader, &event))
            return -1;
        int type = (int)event.type;
        unsigned line = line_of(event.start_mark);
        bool second = type == YAML_DOCUMENT_START_EVENT && reader->settings->root;
        bool content = type == YAML_SCALAR_EVENT || type == YAML_MAPPING_START_EVENT ||
                       type == YAML_SEQUENCE_START_EVENT || type == YAML_ALIAS_EVENT;

        if (content)
            root = read_node(reader, &event, "", 0);
        end = type == YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
        if (second)
            complain(reader, line, "", "a second document (---) is not taken");
        if (second || (content && !root))
            return -1;
        if (root)
            reader->settings->root = root;
    }
    return 0;
}

int settings_parse(struct settings *settings, const char *bytes, size_t length,
                   struct setting_problems *problems)
{
    struct reader reader = {.settings = settings, .problems = problems, .bytes = bytes};

    if (!yaml_parser_initialize(&reader.parser)) {
        setting_problem(problems, "%s: out of memory", settings->path);
        return -1;
    }
    yaml_parser_set_encoding(&reader.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&reader.parser, (const unsigned char *)bytes, length);
    int failed = read_documents(&reader);

    yaml_parser_delete(&reader.parser);
    return failed;
}
