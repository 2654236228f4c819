/* A token: no unsigned token is accepted, and claims are parsed from any payload. */
#include "modules/auth/token.h"

#include <string.h>

#include "fuzz/fuzz.h"
#include "modules/common/hmac.h"

static const unsigned char secret[TOKEN_MAC] = "a key of the tests, and no other";

static EVP_MAC_CTX *key(void)
{
    static EVP_MAC_CTX *made;

    if (!made)
        made = hmac_context(EVP_MAC_fetch(NULL, "HMAC", NULL), secret, TOKEN_MAC);
    must(made != NULL);
    return made;
}

/* A token made of the claims is valid and has the same claims. */
static void make_again(const struct token *token, const struct token_claims *claims)
{
    char text[TOKEN_MADE_MAX];
    size_t length = token_make(key(), token->kid, claims, text);
    struct token_claims again;
    struct token made;

    must(length && !token_open(&made, text, length) && !token_verify(&made, key()));
    must(!token_claims(&made, claims->issued_s, &again));
    must(again.account == claims->account && !strcmp(again.jti, claims->jti));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct token_claims claims;
    struct token token;
    char *text = malloc(size + 1);

    must(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    if (!token_open(&token, text, size)) {
        token_verify(&token, key());
        if (!token_claims(&token, 1775044800, &claims))
            make_again(&token, &claims);
    }
    free(text);
    return 0;
}
