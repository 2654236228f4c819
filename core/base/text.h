/*
 * Small pure functions over text: UTF-8, percent-encoding, UUIDs, times, base64url, hexadecimal;
 * and the two clocks. None blocks; any thread.
 */
#ifndef CORE_TEXT_H
#define CORE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/arena.h"

#define TEXT_UUID_SIZE 37 /* with the NUL */
#define TEXT_TIME_SIZE 25

/* Whether the bytes are UTF-8: no overlong form, no surrogate, nothing over U+10FFFF. */
bool text_utf8(const char *text, size_t length);

/* Bytes at its start that are UTF-8: a bound may have cut the last character in two. */
size_t text_valid(const char *text);

/*
 * The code point at the start of `text`, with its length in bytes in *size; -1 with *size 1 where
 * no valid sequence stands. `length` is at least 1.
 */
int32_t text_code_point(const char *text, size_t length, size_t *size);

/* Code points of a UTF-8 text. */
size_t text_characters(const char *text);

/* Unicode's white space, and U+FEFF, which JavaScript takes for it too. */
bool text_space(int32_t code_point);

/* Whether there is nothing but white space, Unicode's too. */
bool text_blank(const char *text);

/* Cuts white space, Unicode's too, off both ends of a UTF-8 text. */
void text_trim(const char **text, size_t *length);

/* Whether it is a UUID of 8-4-4-4-12 hexadecimal digits of either case. */
bool text_is_uuid(const char *text);

/*
 * Decodes %XX once, and + to a space if asked. *out is the arena's, with a NUL behind it;
 * out_length may be NULL. -1 for a bad escape, a NUL, another control character, invalid UTF-8, or
 * no memory.
 */
int text_percent(const char *in, size_t length, bool plus_is_space, struct arena *arena, char **out,
                 size_t *out_length);

enum { TEXT_RANDOM_MAX = 16 };

/* Up to TEXT_RANDOM_MAX random bytes, of a buffer of the thread's: for ids, not for keys. */
void text_random(unsigned char *out, size_t length);

#define TEXT_INTEGER_SIZE 21 /* "-9223372036854775808" */
#define TEXT_MS_SIZE 26

/* As "%lld", in a tenth of the time. The length without the NUL. */
size_t text_integer(int64_t number, char out[TEXT_INTEGER_SIZE]);

/* Milliseconds with three decimals of microseconds (>= 0): "12.345". */
void text_ms(int64_t us, char out[TEXT_MS_SIZE]);

/* A new UUID, version 7. */
void text_uuid7(char out[TEXT_UUID_SIZE]);

/* "2026-04-01T12:00:00.000Z" of milliseconds since 1970; years 0 to 9999, others are clamped. */
void text_time(int64_t wall_ms, char out[TEXT_TIME_SIZE]);

/*
 * Reads "2026-04-01T12:00[:00[.000]]" with Z or ±hh:mm behind it (without: UTC), or "2026-04-01"
 * (midnight UTC); a blank may stand for the T. Years 1 to 9999; digits beyond the millisecond are
 * cut. 0, or -1.
 */
int text_time_parse(const char *text, int64_t *wall_ms);

/* base64url without padding, in the arena; NULL when there is no memory. */
char *text_base64url(struct arena *arena, const void *bytes, size_t length);

/*
 * The reverse, strict: no padding, no other characters, no bits left over in the last character.
 * *out has a NUL behind it. -1 where it is not so, or without memory.
 */
int text_base64url_decode(struct arena *arena, const char *text, size_t text_length,
                          unsigned char **out, size_t *length);

/* Lower-case hexadecimal: 2 * length characters and a NUL into `out`. */
void text_hex(const void *bytes, size_t length, char *out);

/* Reads exactly 2 * length hexadecimal digits of either case, and nothing behind them. 0, or -1. */
int text_hex_decode(const char *text, unsigned char *out, size_t length);

int64_t clock_mono_ms(void);
int64_t clock_mono_us(void);
int64_t clock_wall_ms(void);

#endif
