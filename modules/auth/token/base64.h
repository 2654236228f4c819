/*
 * Base64 without padding, in both alphabets: the one of JWT and the one of password hashes. Strict:
 * what decodes has exactly one spelling, so that a token cannot be varied and still be good.
 * Pure functions, any thread.
 */
#ifndef AUTH_BASE64_H
#define AUTH_BASE64_H

#include <stddef.h>

enum base64_alphabet { BASE64_URL, BASE64_PLAIN };

/* Characters for `length` bytes, without the NUL. */
#define BASE64_LENGTH(length) (((length)*4 + 2) / 3)

/* Writes BASE64_LENGTH(length) characters and a NUL; returns the number of characters. */
size_t base64_encode(enum base64_alphabet alphabet, const void *bytes, size_t length, char *text);

/* Decodes into at most `room` bytes; returns their number, or -1 where the text is not canonical.
 */
ptrdiff_t base64_decode(enum base64_alphabet alphabet, const char *text, size_t length,
                        unsigned char *bytes, size_t room);

#endif
