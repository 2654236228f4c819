/*
 * Small functions for text: UTF-8, percent-encoding, UUIDs, times, hexadecimal digits, trace ids;
 * and clocks. No function blocks; any thread.
 */
#ifndef CORE_TEXT_H
#define CORE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/lib/arena.h"

#define TEXT_UUID_SIZE 37 /* including the NUL */
#define TEXT_TIME_SIZE 25

/*
 * Returns how many bytes at the start of a text, which may have been cut, are valid UTF-8: no
 * overlong form, no surrogate, nothing over U+10FFFF.
 */
size_t text_valid(const char *text, size_t length);

static inline bool text_utf8(const char *text, size_t length)
{
    return text_valid(text, length) == length;
}

/*
 * Returns the code point at the start of `text`, with its length in bytes in *size; -1 with *size 1
 * if the sequence is invalid. `length` is at least 1.
 */
int32_t text_code_point(const char *text, size_t length, size_t *size);

/* Returns the number of code points of a UTF-8 text. */
size_t text_characters(const char *text);

/* Returns the text; NULL if it is empty. */
static inline const char *text_some(const char *text)
{
    return *text ? text : NULL;
}

/* Returns whether a code point is white space in Unicode or, like U+FEFF, in JavaScript. */
bool text_space(int32_t code_point);

/* Returns whether the text contains only white space, including Unicode's. */
bool text_blank(const char *text);

/* Removes white space, including Unicode's, from both ends of a UTF-8 text. */
void text_trim(const char **text, size_t *length);

/*
 * Decodes %XX once, and + to a space if requested, in place; `text` has room for a NUL after
 * `length`. Returns 0, or -1 for an invalid escape, a NUL, another control character, or invalid
 * UTF-8.
 */
int text_percent_decode(char *text, size_t length, bool plus_is_space);

/* Like text_percent_decode(), but returns a copy in the arena; NULL: invalid, or no memory. */
const char *text_percent(const char *in, size_t length, bool plus_is_space, struct arena *arena);

enum { TEXT_RANDOM_MAX = 16 };

/* Writes up to TEXT_RANDOM_MAX random bytes, from a buffer of the thread. For ids, not for keys. */
void text_random(unsigned char *out, size_t length);

#define TEXT_INTEGER_SIZE 21 /* "-9223372036854775808" */
#define TEXT_MS_SIZE 26

/* Formats like "%lld" in a tenth of the time. Returns the length without the NUL. */
size_t text_integer(int64_t number, char out[TEXT_INTEGER_SIZE]);

/* Formats microseconds (>= 0) as milliseconds with three decimals: "12.345". */
void text_ms(int64_t us, char out[TEXT_MS_SIZE]);

/* Creates a UUID, version 7. */
void text_uuid7(char out[TEXT_UUID_SIZE]);

/* Formats milliseconds since 1970 as "2026-04-01T12:00:00.000Z"; clamps to the years 0 to 9999. */
void text_time(int64_t wall_ms, char out[TEXT_TIME_SIZE]);

/*
 * Parses an ISO 8601 time, truncated to milliseconds; UTC if it has no offset. Refuses 24:00, years
 * outside 1 to 9999, and more than 30 decimals. Returns 0 or -1.
 */
int text_time_parse(const char *text, int64_t *wall_ms);

/* Writes 2 * length lower-case hexadecimal digits and a NUL to `out`. */
void text_hex(const void *bytes, size_t length, char *out);

/* Reads a text of 2 * length hex digits of either case. Returns 0, or -1 for any other text. */
int text_hex_decode(const char *text, unsigned char *out, size_t length);

/* ---- normal forms, in which e-mails and names are compared: Unicode NFC and case folding ---- */

bool unicode_is_ascii(const char *text);

/* Returns the text in NFC. `more`: additional utf8proc options. NULL if memory ran out. */
const char *unicode_composed(const char *text, int more, struct arena *arena);

/*
 * Folds the case of a text (full folding: ß becomes ss) and converts it to NFC. The database
 * function busbar_fold() returns the same result. Returns a copy in `arena`; NULL if memory ran
 * out.
 */
const char *unicode_fold(const char *text, struct arena *arena);

/* Copies the text with one ASCII space for each run of Unicode spaces. NULL if memory ran out. */
const char *unicode_single_spaces(const char *text, struct arena *arena);

/*
 * W3C Trace Context: the header traceparent. A request belongs to the client's trace if the client
 * sent a valid one, otherwise to a new trace. The request is always a new span of its trace.
 */
enum { TRACE_ID_SIZE = 33, TRACE_PARENT_SIZE = 56 }; /* with the NUL */

/*
 * Writes the traceparent of this host's span: "00-<trace>-<span>-<flags>". Copies trace and flags
 * from `given` (NULL: none) if it is well-formed and its version is compatible with 00; otherwise
 * the trace is new and not sampled.
 */
void trace_parent(const char *given, char out[TRACE_PARENT_SIZE]);

/* Copies the trace id of a traceparent to `out`. */
void trace_id(const char parent[TRACE_PARENT_SIZE], char out[TRACE_ID_SIZE]);

int64_t clock_mono_ms(void);
int64_t clock_mono_us(void);
int64_t clock_cpu_us(void); /* processor time of the calling thread */
int64_t clock_wall_ms(void);

/*
 * The shared clock is PostgreSQL's clock, which all hosts of a cluster use for tokens, times in
 * responses and signatures, so that a host with a wrong clock does no harm. The PostgreSQL listener
 * queries the clock several times a second; requests never do.
 *
 * The host stores the difference to the monotonic clock, so that the shared clock does not jump if
 * an operator or NTP sets the wall clock. Until the first measurement, shared_clock_ms() returns
 * the wall clock. Any thread may read the shared clock; one thread measures it.
 */
enum {
    SHARED_CLOCK_WARN_MS = 1000,  /* from this offset on, the host logs a warning */
    SHARED_CLOCK_MOST_MS = 30000, /* beyond this offset the host is not ready */
};

/* Returns milliseconds since 1970-01-01T00:00:00Z. */
int64_t shared_clock_ms(void);

/* Returns whether the shared clock has been measured. */
bool shared_clock_known(void);

/*
 * Returns the milliseconds by which the shared clock is ahead of this host's wall clock; 0 before
 * the first measurement.
 */
int64_t shared_clock_offset_ms(void);

/*
 * Records that the shared clock was `theirs_us` (microseconds since 1970) at some time between
 * `sent_us` and `received_us` of clock_mono_us(). The clock is adjusted only if it contradicts the
 * measurement, and only as far as needed, so slow responses do not make the clock inaccurate.
 */
void shared_clock_measured(int64_t theirs_us, int64_t sent_us, int64_t received_us);

#endif
