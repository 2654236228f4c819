/*
 * Tokens: JWT with HS256 and nothing else. Made and read here without the host, so that every
 * refusal has a unit test.
 *
 * Reading goes in three steps, and the order matters: open (segments, header, kid), verify (the
 * signature), claims. The payload is not parsed before the signature is known to be ours. A token
 * has exactly the header and claims that token_make() writes, byte by byte; anything else (crit,
 * jku, nbf, a list, another order) makes it somebody else's, and it is refused. Reading allocates
 * nothing, so that a lack of memory never turns a valid token into an invalid one.
 *
 * Any thread; an EVP_MAC_CTX is used by one thread at a time (keys.c holds a lock).
 */
#ifndef AUTH_TOKEN_H
#define AUTH_TOKEN_H

#include <openssl/evp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOKEN_MAX 8192     /* bytes of a token that is looked at */
#define TOKEN_MADE_MAX 640 /* room for a made one, with NUL */
#define TOKEN_MAC 32       /* bytes of the signature and of a signing key */
#define TOKEN_KID 16       /* hexadecimal digits of a key's name */
#define TOKEN_SKEW_S 60    /* how far in the future `iat` may be, for clocks that differ */

struct token_claims {
    int64_t account;   /* sub */
    char jti[37];      /* UUID of the session, in lower case */
    int64_t issued_s;  /* iat, seconds since 1970 */
    int64_t expires_s; /* exp */
    char role[24];     /* for the client's eyes: the service asks the database */
    bool client;       /* kind: "client", else "session" */
};

/* A token being read; borrows the text. */
struct token {
    const char *text;
    size_t signed_length; /* header.payload */
    size_t payload_at;
    char kid[TOKEN_KID + 1];
    unsigned char signature[TOKEN_MAC];
};

/* A keyed HMAC-SHA256, to be freed with EVP_MAC_CTX_free(); NULL on failure. */
EVP_MAC_CTX *token_key(EVP_MAC *hmac, const unsigned char secret[TOKEN_MAC]);

/* Writes the token and a NUL into `text`; returns its length, 0 on failure. */
size_t token_make(const EVP_MAC_CTX *key, const char *kid, const struct token_claims *claims,
                  char text[TOKEN_MADE_MAX]);

/* 0, or -1 where the token is not good; so does token_claims(). */
int token_open(struct token *token, const char *text, size_t length);

/* 0; 1 where the signature is another; -1 where it could not be computed: no memory. */
int token_verify(const struct token *token, const EVP_MAC_CTX *key);

int token_claims(const struct token *token, int64_t now_s, struct token_claims *claims);

#endif
