#ifndef BUSBAR_ABI_H
#define BUSBAR_ABI_H 
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#define BB_ABI_MAJOR 1
#define BB_ABI_MINOR 0
struct bb_table {
    const void *rows;
    size_t count;
    size_t stride;
};
#define BB_TABLE(array) \
    { \
        (array), sizeof(array) / sizeof((array)[0]), sizeof((array)[0]) \
    }
#define BB_CONTAINER_OF(pointer,type,member) \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))
#define BB_EXPORT __attribute__((visibility("default")))
#define BB_PRINTF(fmt,first) __attribute__((format(printf, fmt, first)))
#endif
