/*
 * Reading JSON that strangers sent. Stricter than the library: no NUL, no depth over 64, no
 * more than 100,000 commas, no duplicate key, no byte order mark, nothing behind the value, an
 * object or array at the top. The text of a problem never holds any of the input, which may be
 * secret.
 */
#ifndef CORE_JSON_IN_H
#define CORE_JSON_IN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define JSON_DEPTH_MAX 64
#define JSON_COMMAS_MAX 100000 /* the library takes up to 1 us for each member */

struct json_problem {
    char text[160];
    int line, column; /* from 1; 0: not known */
    bool memory;      /* nothing is known to be wrong: memory ran out */
};

/*
 * Lets the library allocate in a way that tells a lack of memory from bad JSON, which it reports
 * alike. Once, before any value is made.
 */
void json_watch_memory(void);

/*
 * Whoever gets no memory for a value in this thread from here on has it noted in *whose, which must
 * last as long; NULL: nowhere. Returns where it was noted before, to be restored.
 */
bool *json_starves(bool *whose);

/* The value, the caller's; NULL with *problem filled. Any thread. */
json_t *json_read(const char *bytes, size_t length, struct json_problem *problem);

/* The same with at most so many commas: reading a value takes up to 1 us of the loop's time. */
json_t *json_read_most(const char *bytes, size_t length, size_t most, struct json_problem *problem);

/*
 * A text that the service wrote itself, whatever it holds and however much: the value, the
 * caller's. NULL: not JSON, or *memory, where there was not enough for it.
 */
json_t *json_read_stored(const char *text, bool *memory);

#endif
