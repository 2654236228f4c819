/*
 * Tokens of one's own making, for tests of what must not be taken: a good token is taken apart,
 * changed, and signed with a secret that is not the service's.
 */
#ifndef TESTS_FORGE_H
#define TESTS_FORGE_H

#include <stddef.h>

/* The three segments of a token as they stand: header, payload, signature. */
struct parts {
    char *header, *payload, *signature;
};

struct parts token_parts(const char *token);

/* base64url without padding, there and back; the decoded text has a NUL behind it. */
char *url64(const void *bytes, size_t length);
char *url64_text(const char *coded);

/* A token of these texts (decoded), with the HMAC of the digest ("SHA256") under the secret. */
char *forged(const char *header, const char *payload, const char *digest, const char *secret);

/* A token of these texts with the given last segment, which may be "". */
char *assembled(const char *header, const char *payload, const char *signature);

/* The JSON object with one member set; `value` is JSON. */
char *with_member(const char *object, const char *key, const char *value);

#endif
