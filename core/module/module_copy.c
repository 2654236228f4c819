/* Copies a module's tables into arrays with the host's row sizes, see module_load.h. */
#include <stdalign.h>
#include <stdio.h>
#include <string.h>

#include "core/module/module_load.h"

#define ROWS_MAX 4096
#define ROWS_ALL_MAX 16384 /* per module, because tables can contain the same table many times */
#define FIELDS_DEPTH_MAX 16

/* Without these members no error message can be written. */
#define DESCRIPTOR_MIN (offsetof(struct bb_module, version) + sizeof(const char *))

struct copier {
    struct arena *arena;
    char *why;
    size_t why_size;
    size_t rows; /* number of rows copied */
};

static int refuse(struct copier *copier, const char *table, const char *reason)
{
    snprintf(copier->why, copier->why_size, "table `%s` %s", table, reason);
    return -1;
}

static int check_table(struct copier *copier, const struct bb_table *table, size_t row_size,
                       const char *name)
{
    if (!table->rows)
        return refuse(copier, name, "has a count but no rows");
    if (table->count > ROWS_MAX || table->count > ROWS_ALL_MAX - copier->rows)
        return refuse(copier, name, "has too many rows to be true");
    if (table->stride < sizeof(void *) || table->stride % alignof(void *))
        return refuse(copier, name, "has rows of an impossible size");
    if (table->stride > row_size)
        return refuse(copier, name,
                      "has larger rows than the module's ABI version knows: build "
                      "the module with the headers of this host");
    return 0;
}

/*
 * Replaces *table by a copy with rows of row_size. *rows points to the copy, so that it can be
 * changed.
 */
static int copy_table(struct copier *copier, struct bb_table *table, size_t row_size,
                      const char *name, void **rows)
{
    *rows = NULL;
    if (!table->count) {
        *table = (struct bb_table){NULL, 0, row_size};
        return 0;
    }
    if (check_table(copier, table, row_size, name))
        return -1;
    char *copy = arena_alloc(copier->arena, table->count * row_size);

    copier->rows += table->count;
    if (!copy)
        return refuse(copier, name, "out of memory");
    for (size_t i = 0; i < table->count; i++)
        memcpy(copy + i * row_size, (const char *)table->rows + i * table->stride, table->stride);
    *table = (struct bb_table){copy, table->count, row_size};
    *rows = copy;
    return 0;
}

static int copy_fields(struct copier *copier, struct bb_table *table, const char *name,
                       unsigned depth)
{
    void *rows;

    if (depth > FIELDS_DEPTH_MAX)
        return refuse(copier, name, "is nested too deeply");
    if (copy_table(copier, table, sizeof(struct bb_field), name, &rows))
        return -1;
    struct bb_field *fields = rows;

    for (size_t i = 0; i < table->count; i++)
        if (copy_fields(copier, &fields[i].fields, name, depth + 1))
            return -1;
    return 0;
}

static int copy_routes(struct copier *copier, struct bb_table *table)
{
    void *rows;

    if (copy_table(copier, table, sizeof(struct bb_route), "routes", &rows))
        return -1;
    struct bb_route *routes = rows;
    void *parts;

    for (size_t i = 0; i < table->count; i++)
        if (copy_table(copier, &routes[i].parts, sizeof(struct bb_part), "parts", &parts) ||
            copy_fields(copier, &routes[i].segments, "segments", 0) ||
            copy_fields(copier, &routes[i].query, "query", 0) ||
            copy_fields(copier, &routes[i].body, "body", 0) ||
            copy_fields(copier, &routes[i].reply, "reply", 0))
            return -1;
    return 0;
}

static int copy_events(struct copier *copier, struct bb_table *table)
{
    void *rows;

    if (copy_table(copier, table, sizeof(struct bb_event_descriptor), "events", &rows))
        return -1;
    struct bb_event_descriptor *events = rows;

    for (size_t i = 0; i < table->count; i++)
        if (copy_fields(copier, &events[i].payload, "payload", 0))
            return -1;
    return 0;
}

static int copy_commands(struct copier *copier, struct bb_table *table)
{
    void *rows;

    if (copy_table(copier, table, sizeof(struct bb_command), "commands", &rows))
        return -1;
    struct bb_command *commands = rows;

    for (size_t i = 0; i < table->count; i++)
        if (copy_fields(copier, &commands[i].options, "options", 0))
            return -1;
    return 0;
}

static int copy_tables(struct copier *copier, struct bb_module *copy)
{
    struct {
        struct bb_table *table;
        size_t row_size;
        const char *name;
    } plain[] = {
        {&copy->hooks, sizeof(struct bb_hook), "hooks"},
        {&copy->services, sizeof(struct bb_service_descriptor), "services"},
        {&copy->needs, sizeof(struct bb_need), "needs"},
        {&copy->channels, sizeof(struct bb_channel), "channels"},
        {&copy->jobs, sizeof(struct bb_job), "jobs"},
        {&copy->pools, sizeof(struct bb_pool), "pools"},
        {&copy->workers, sizeof(struct bb_worker), "workers"},
        {&copy->metrics, sizeof(struct bb_metric), "metrics"},
        {&copy->wants, sizeof(struct bb_need), "wants"},
    };
    void *rows;

    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
        if (copy_table(copier, plain[i].table, plain[i].row_size, plain[i].name, &rows))
            return -1;
    return copy_fields(copier, &copy->settings, "settings", 0) ||
                   copy_routes(copier, &copy->routes) || copy_events(copier, &copy->events) ||
                   copy_commands(copier, &copy->commands)
               ? -1
               : 0;
}

/*
 * The first members have the same position in every version, so they are checked before any others.
 */
static int check_head(struct copier *copier, const struct bb_module *descriptor, size_t symbol_size)
{
    if (symbol_size && symbol_size < DESCRIPTOR_MIN) {
        snprintf(copier->why, copier->why_size,
                 "its symbol " BB_MODULE_SYMBOL " is too small to be a module's descriptor");
        return -1;
    }
    if (descriptor->abi_major != BB_ABI_MAJOR) {
        snprintf(copier->why, copier->why_size,
                 "was built for ABI %u.%u, this host has %d.%d: build the module with the headers "
                 "of this host",
                 descriptor->abi_major, descriptor->abi_minor, BB_ABI_MAJOR, BB_ABI_MINOR);
        return -1;
    }
    if (descriptor->abi_minor > BB_ABI_MINOR) {
        snprintf(copier->why, copier->why_size,
                 "needs ABI %u.%u, this host has %d.%d: upgrade the host, or build the module with "
                 "older headers",
                 descriptor->abi_major, descriptor->abi_minor, BB_ABI_MAJOR, BB_ABI_MINOR);
        return -1;
    }
    if (descriptor->size < DESCRIPTOR_MIN || descriptor->size > sizeof(struct bb_module) ||
        (symbol_size && descriptor->size > symbol_size)) {
        snprintf(copier->why, copier->why_size,
                 "declares a descriptor of %zu bytes, which no header of ABI %u.%u does (this "
                 "host's, %d.%d: %zu): build the module with the headers of this host",
                 descriptor->size, descriptor->abi_major, descriptor->abi_minor, BB_ABI_MAJOR,
                 BB_ABI_MINOR, sizeof(struct bb_module));
        return -1;
    }
    return 0;
}

const struct bb_module *module_descriptor_copy(struct arena *arena,
                                               const struct bb_module *descriptor,
                                               size_t symbol_size, char *why, size_t why_size)
{
    struct copier copier = {arena, why, why_size, 0};

    if (check_head(&copier, descriptor, symbol_size))
        return NULL;
    struct bb_module *copy = arena_alloc(arena, sizeof *copy);

    if (!copy) {
        snprintf(why, why_size, "out of memory");
        return NULL;
    }
    memcpy(copy, descriptor, descriptor->size);
    copy->size = sizeof *copy;
    if (!copy->name || !copy->version) {
        snprintf(why, why_size, "has no name or no version in its descriptor");
        return NULL;
    }
    return copy_tables(&copier, copy) ? NULL : copy;
}
