/*
 * Tokens: JWT with HS256 only. They are created and parsed here without the host, so that every
 * refusal has a unit test.
 *
 * Parsing has three steps, in this order: token_open() (segments, header, kid), token_verify() (the
 * signature), token_claims(). The payload is not parsed before its signature is verified. A token
 * must have exactly the header and claims that token_make() writes, byte by byte. Any difference
 * (crit, jku, nbf, a list, another order) means that another program made it, so it is refused.
 * Parsing allocates no memory, so a lack of memory never makes a valid token invalid.
 *
 * Any thread. An EVP_MAC_CTX may be used by only one thread at a time (keys.c holds a lock).
 */
#ifndef AUTH_TOKEN_H
#define AUTH_TOKEN_H

#include <openssl/evp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOKEN_MAX 8192     /* longer tokens are refused */
#define TOKEN_MADE_MAX 640 /* room for a token of this service, with its NUL */
#define TOKEN_MAC 32       /* bytes of the signature and of a signing key */
#define TOKEN_KID 16       /* hexadecimal digits of a key's name */
#define TOKEN_SKEW_S 60    /* how far in the future `iat` may be, because clocks differ */

struct token_claims {
    int64_t account;   /* sub */
    char jti[37];      /* UUID of the session, in lower case */
    int64_t issued_s;  /* iat, seconds since 1970 */
    int64_t expires_s; /* exp */
    char role[24];     /* informs clients; the service reads the role from the database */
    bool client;       /* kind: "client", or "session" if false */
};

/* A token being parsed; borrows the text. */
struct token {
    const char *text;
    size_t signed_length; /* length of `header.payload` */
    size_t payload_at;
    char kid[TOKEN_KID + 1];
    unsigned char signature[TOKEN_MAC];
};

/* Writes a token and a NUL to `text`. `key`: from hmac_context(). Returns the length; 0: failed. */
size_t token_make(EVP_MAC_CTX *key, const char *kid, const struct token_claims *claims,
                  char text[TOKEN_MADE_MAX]);

/* token_open() and token_claims(), steps 1 and 3, return 0, or -1 if the token is invalid. */
int token_open(struct token *token, const char *text, size_t length);

/* Step 2. Returns 0 if the signature is right, 1 if it is wrong, or -1 if out of memory. */
int token_verify(const struct token *token, EVP_MAC_CTX *key);

int token_claims(const struct token *token, int64_t now_s, struct token_claims *claims);

/*
 * Base64 without padding, in two alphabets: for JWT, and for password hashes and HTTP Basic.
 * Decoding is strict: each byte sequence has exactly one valid encoding, so a valid token cannot be
 * altered and stay valid.
 */
enum base64_alphabet { BASE64_URL, BASE64_PLAIN };

/* Room for the text of `length` bytes; OpenSSL writes the padding and a NUL. */
#define BASE64_ROOM(length) (((length) + 2) / 3 * 4 + 1)

/* Encodes bytes. Returns the number of characters. */
size_t base64_encode(enum base64_alphabet alphabet, const void *bytes, size_t length, char *text);

/*
 * Returns the number of decoded bytes, or -1 if the text is not canonical base64, or if it decodes
 * to more than `room` or 512 bytes.
 */
ptrdiff_t base64_decode(enum base64_alphabet alphabet, const char *text, size_t length, void *bytes,
                        size_t room);

#endif
