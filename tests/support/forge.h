/*
 * Forged tokens: takes a valid token apart, changes it, and signs it with a secret that is not the
 * service's.
 */
#ifndef TESTS_FORGE_H
#define TESTS_FORGE_H

#include <stddef.h>

/* The three encoded segments of a token: header, payload, signature. */
struct parts {
    char *header, *payload, *signature;
};

struct parts token_parts(const char *token);

/* Encode and decode base64url without padding; the decoded text ends with a NUL. */
char *url64(const void *bytes, size_t length);
char *url64_text(const char *coded);

/* Makes a token of these decoded texts, signed with the HMAC of the digest ("SHA256") and the
 * secret. */
char *forged(const char *header, const char *payload, const char *digest, const char *secret);

/* Makes a token of these decoded texts with the given signature segment, which may be "". */
char *assembled(const char *header, const char *payload, const char *signature);

/* Returns the JSON object with one member set; `value` is JSON. */
char *with_member(const char *object, const char *key, const char *value);

#endif
