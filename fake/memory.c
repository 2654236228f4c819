#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "fake/fake.h"

struct block {
    struct block *before;
    _Alignas(max_align_t) char bytes[];
};

void fake_die(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fputs("busbar-fake: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    abort();
}

void *fake_pool_alloc(struct pool *pool, size_t size)
{
    struct block *block = calloc(1, sizeof *block + size);

    if (!block)
        fake_die("out of memory");
    block->before = pool->last;
    pool->last = block;
    return block->bytes;
}

char *fake_pool_text(struct pool *pool, const char *text)
{
    size_t size = strlen(text) + 1;

    return memcpy(fake_pool_alloc(pool, size), text, size);
}

char *fake_pool_format(struct pool *pool, const char *format, va_list args)
{
    char *made = NULL;

    if (vasprintf(&made, format, args) < 0)
        fake_die("out of memory");
    char *text = fake_pool_text(pool, made);

    free(made);
    return text;
}

void fake_pool_free(struct pool *pool)
{
    while (pool->last) {
        struct block *block = pool->last;

        pool->last = block->before;
        free(block);
    }
}

void fake_pair_set(struct pool *pool, struct pair **list, const char *name, const char *text)
{
    struct pair *pair = fake_pool_alloc(pool, sizeof *pair);

    *pair = (struct pair){.next = *list, .name = fake_pool_text(pool, name)};
    pair->text = text ? fake_pool_text(pool, text) : NULL;
    *list = pair;
}

const struct pair *fake_pair_find(const struct pair *list, const char *name, bool any_case)
{
    for (; list; list = list->next)
        if (!(any_case ? strcasecmp(list->name, name) : strcmp(list->name, name)))
            return list;
    return NULL;
}

void fake_text_append(char **text, const char *more)
{
    char *longer = NULL;

    if (asprintf(&longer, "%s%s", *text ? *text : "", more) < 0)
        fake_die("out of memory");
    free(*text);
    *text = longer;
}
