/*
 * The binary contract between the host and a module.
 *
 * Every struct that crosses the boundary begins with its size, and every table contains the stride
 * of its rows. Structs and rows grow only at the end, so a module built against an older header
 * still loads: the host reads the members that the module knew and uses zero for the rest. The
 * major versions must be equal; the host's minor version must be at least the module's.
 */
#ifndef BUSBAR_ABI_H
#define BUSBAR_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BB_ABI_MAJOR 1
#define BB_ABI_MINOR 0

/* A table of rows. `stride` is the size of a row in the header with which the module was built. */
struct bb_table {
    const void *rows;
    size_t count;
    size_t stride;
};

/* Initializes the table of a static array: .routes = BB_TABLE(routes) */
#define BB_TABLE(array)                                                                            \
    {                                                                                              \
        (array), sizeof(array) / sizeof((array)[0]), sizeof((array)[0])                            \
    }

/* Returns a row of a table: BB_ROW(bb_field, route->body, 0). */
#define BB_ROW(type, table, index)                                                                 \
    ((const struct type *)(const void *)((const char *)(table).rows + (index) * (table).stride))

/* Returns a pointer to the struct that contains the member to which `pointer` points. */
#define BB_CONTAINER_OF(pointer, type, member)                                                     \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

/* Marks the one symbol that a module exports; modules are built with hidden visibility. */
#define BB_EXPORT __attribute__((visibility("default")))

#define BB_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))

#endif
