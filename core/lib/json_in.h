/*
 * Reads JSON from untrusted sources. Stricter than the library: no NUL, at most 64 levels, at most
 * 100,000 commas, no duplicate keys, no byte order mark, nothing after the value, and an object or
 * array at the top. Problem texts never contain any of the input, which may be secret.
 */
#ifndef CORE_JSON_IN_H
#define CORE_JSON_IN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define JSON_DEPTH_MAX 64
#define JSON_COMMAS_MAX 100000 /* the library needs up to 1 us for each member */

struct json_problem {
    char text[160];
    int line, column; /* from 1; 0: unknown */
    bool memory;      /* the JSON may be valid: memory ran out */
};

/*
 * Installs an allocator for the library that distinguishes lack of memory from invalid JSON, which
 * the library reports in the same way. Call once, before any value is created.
 */
void json_watch_memory(void);

/*
 * From now on, if memory runs out for a JSON value in this thread, *whose is set to true. *whose
 * must live until the next call; NULL: nothing is set. Returns the previous pointer, which the
 * caller must restore.
 */
bool *json_starves(bool *whose);

/* Memory ran out for something that JSON needs: sets *whose, too. */
void json_set_starved(void);

/* Returns the value, which the caller owns; NULL with *problem filled in. Any thread. */
json_t *json_read(const char *bytes, size_t length, struct json_problem *problem);

/*
 * Like json_read() with at most `most` commas, because reading a value takes up to 1 us of the
 * loop's time.
 */
json_t *json_read_most(const char *bytes, size_t length, size_t most, struct json_problem *problem);

/*
 * Reads a text that the service itself wrote, without limits on content or size. Returns the value,
 * which the caller owns; NULL if the text is not JSON, or, with *memory set, if memory ran out.
 */
json_t *json_read_stored(const char *text, bool *memory);

#endif
