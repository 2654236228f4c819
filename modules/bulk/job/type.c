/* The types of rows that loaded modules provide. */
#include <stddef.h>
#include <string.h>

#include "modules/bulk/job/bulk.h"

static struct bulk_type type_of(const struct bb_given *given)
{
    const struct bb_bulk_rows *rows = given->interface;
    size_t most = rows->rows_max ? rows->rows_max : BULK_ROWS_DEFAULT;

    return (struct bulk_type){
        .name = given->name + strlen(BB_BULK_ROWS),
        .rows = rows,
        .host = given->host,
        .rows_max = most < BB_BULK_ROWS_MAX ? most : BB_BULK_ROWS_MAX,
        .together = rows->size > offsetof(struct bb_bulk_rows, together) && rows->together,
        .columns = rows->columns.count,
    };
}

void bulk_start(struct bb_host *host, void *state)
{
    struct bulk *bulk = state;
    struct bb_given given = {.size = sizeof(given)};

    while (bulk->type_count < BULK_TYPES_MAX &&
           bb_service_at(host, BB_BULK_ROWS, bulk->type_count, &given))
        bulk->types[bulk->type_count++] = type_of(&given);
    if (!bulk->type_count)
        bb_host_log(host, BB_WARN, "no loaded module gives rows of any type for bulk uploads");
}

const struct bulk_type *bulk_type_named(const struct bulk *bulk, const char *name)
{
    for (size_t i = 0; i < bulk->type_count; i++)
        if (!strcmp(bulk->types[i].name, name))
            return &bulk->types[i];
    return NULL;
}
