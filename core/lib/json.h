/*
 * Reads JSON from untrusted sources. It is stricter than jansson: it refuses NUL, more than 64
 * levels, more commas than allowed, duplicate keys, a byte order mark, text after the value, and
 * any value except an object or array at the top. Problems contain no input, which may be secret.
 */
#ifndef CORE_JSON_H
#define CORE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define JSON_DEPTH_MAX 64
#define JSON_COMMAS_MAX 100000 /* 0.1 s, because jansson needs up to 1 us for each member */

struct json_problem {
    char text[160];
    int line, column; /* from 1; 0: unknown */
    bool memory;      /* memory ran out, so the JSON may be valid */
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

/* Sets the flag of json_set_oom_flag(). Call when an allocation outside of jansson has failed. */
void json_note_oom(void);

/*
 * Parses JSON. Returns the value, which the caller owns, or NULL with *problem. A whole number that
 * does not fit in 64 bits becomes a double. Refuses more than `most` commas, because each member
 * takes up to 1 us of the loop's time. Any thread.
 */
json_t *json_read(const char *bytes, size_t length, size_t most, struct json_problem *problem);

/*
 * Like json_read(), but reads a text that busbar itself wrote, without limits on content or size.
 * Returns the value, which the caller owns; NULL if the text is not JSON or memory ran out. Sets
 * *memory to whether memory ran out.
 */
json_t *json_read_stored(const char *text, bool *memory);

/*
 * Writes JSON as JavaScript does: JSON.stringify(JSON.parse(x)) returns the same bytes, so that a
 * receiver can parse a body and still verify its signature. The output is compact, with keys in
 * insertion order, `/` and non-ASCII characters unescaped, and numbers in the shortest form that
 * reads back as the same value.
 *
 * There are two unavoidable differences: integers beyond ±2^53 are written exactly, but JavaScript
 * cannot represent them; and keys that are array indexes ("1") keep their position, but JavaScript
 * sorts them first.
 */

/*
 * Returns the text with a NUL, which the caller frees with free(); *length (may be NULL) excludes
 * the NUL. Returns NULL if memory ran out or the value cannot be written (more than 128 levels).
 * Any type of value is allowed at the top.
 */
char *json_write(const json_t *value, size_t *length);

/*
 * Creates a string from any bytes, with U+FFFD for each byte that is not UTF-8. The caller owns it.
 * NULL: out of memory.
 */
json_t *json_out_text(const char *text);

#endif
