/*
 * Reads JSON from untrusted sources. It is stricter than jansson: it refuses NUL, more than 64
 * levels, more than 100,000 commas, duplicate keys, a byte order mark, text after the value, and
 * anything except an object or array at the top. Problem texts never contain input, which may be
 * secret.
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
 * Installs an allocator for jansson that records lack of memory, because jansson reports it in the
 * same way as invalid JSON. Call once, before any value is created.
 */
void json_watch_memory(void);

/*
 * Sets *flag to true whenever memory runs out for a JSON value in this thread, until the next call
 * (NULL: nothing is set). Returns the previous pointer, which the caller must restore.
 */
bool *json_set_oom_flag(bool *flag);

/* Sets the flag of json_set_oom_flag(), because memory ran out for something that JSON needs. */
void json_note_oom(void);

/* Parses and returns a value, which the caller owns; NULL with *problem filled in. Any thread. */
json_t *json_read(const char *bytes, size_t length, struct json_problem *problem);

/*
 * Like json_read() with at most `most` commas, because reading a value takes up to 1 us of the
 * loop's time.
 */
json_t *json_read_most(const char *bytes, size_t length, size_t most, struct json_problem *problem);

/*
 * Parses a text that the service itself wrote, without limits on content or size. Returns the
 * value, which the caller owns; NULL if the text is not JSON or memory ran out (sets *memory).
 */
json_t *json_read_stored(const char *text, bool *memory);

#endif
