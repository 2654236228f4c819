/*
 * Base64 without padding, in two alphabets: for JWT and for password hashes. Decoding is strict:
 * each byte sequence has exactly one valid encoding, so a valid token cannot be altered and stay
 * valid. Pure functions, any thread.
 */
#ifndef AUTH_BASE64_H
#define AUTH_BASE64_H

#include <stddef.h>

enum base64_alphabet { BASE64_URL, BASE64_PLAIN };

/* Number of characters for `length` bytes, without the NUL. */
#define BASE64_LENGTH(length) (((length)*4 + 2) / 3)

/* Writes BASE64_LENGTH(length) characters and a NUL. Returns the number of characters. */
size_t base64_encode(enum base64_alphabet alphabet, const void *bytes, size_t length, char *text);

/* Decodes into at most `room` bytes. Returns their number, or -1 if the text is not canonical. */
ptrdiff_t base64_decode(enum base64_alphabet alphabet, const char *text, size_t length,
                        unsigned char *bytes, size_t room);

#endif
