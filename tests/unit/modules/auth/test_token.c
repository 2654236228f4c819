/* Tokens: those made by the service are valid, and all others are refused. No host is needed. */
#include <jansson.h>

#include "modules/auth/token.h"
#include "modules/common/hmac.h"
#include "suite.h"

#define KID "00112233445566aa"
#define JTI "0195f3a0-1111-7222-8333-444455556666"
#define NOW 1775044800

#define HEADER(alg, more) "{\"alg\":" alg ",\"typ\":\"JWT\"" more "}"
#define KEY ",\"kid\":\"" KID "\""
#define GOOD_HEADER HEADER("\"HS256\"", KEY)
#define GOOD_CLAIMS SUBJECT("\"42\"")
#define SUBJECT(sub) CLAIMS(sub, "1775044800", "1775048400", "session")
#define TIMES(iat, exp) CLAIMS("\"42\"", iat, exp, "session")
#define CLAIMS(sub, iat, exp, kind)                                                                \
    "{\"sub\":" sub ",\"jti\":\"" JTI "\",\"iat\":" iat ",\"exp\":" exp                            \
    ",\"role\":\"User\",\"kind\":\"" kind "\"}"

static const unsigned char secret[TOKEN_MAC] = "a key of the tests, and no other";
static EVP_MAC *hmac;
static EVP_MAC_CTX *key;

static void setup(void)
{
    hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    ck_assert_ptr_nonnull(hmac);
    key = hmac_context(hmac, secret, TOKEN_MAC);
    ck_assert_ptr_nonnull(key);
}

static void teardown(void)
{
    EVP_MAC_CTX_free(key);
    EVP_MAC_free(hmac);
}

/* Returns whether the service accepts the text as a token; *claims are its claims. */
static bool taken(const char *text, struct token_claims *claims)
{
    struct token token;

    return token_open(&token, text, strlen(text)) == 0 && token_verify(&token, key) == 0 &&
           token_claims(&token, NOW, claims) == 0;
}

static bool good(const char *text)
{
    struct token_claims claims;

    return taken(text, &claims);
}

/* Signs the two parts, whatever they are, with this keyed context. */
static const char *forge_with(EVP_MAC_CTX *keyed, const char *header, const char *payload)
{
    static char text[4 * TOKEN_MAX];
    unsigned char mac[EVP_MAX_MD_SIZE];
    size_t used = base64_encode(BASE64_URL, header, strlen(header), text), made = 0;

    text[used++] = '.';
    used += base64_encode(BASE64_URL, payload, strlen(payload), text + used);
    ck_assert(EVP_MAC_init(keyed, NULL, 0, NULL));
    ck_assert(EVP_MAC_update(keyed, (const unsigned char *)text, used));
    ck_assert(EVP_MAC_final(keyed, mac, &made, sizeof(mac)));
    text[used++] = '.';
    base64_encode(BASE64_URL, mac, made, text + used);
    return text;
}

static const char *forge(const char *header, const char *payload)
{
    return forge_with(key, header, payload);
}

static const char *make(void)
{
    static char text[TOKEN_MADE_MAX];
    const struct token_claims claims = {
        .account = 42, .jti = JTI, .issued_s = NOW, .expires_s = NOW + 3600, .role = "ApiUser"};

    ck_assert_uint_eq(token_make(key, KID, &claims, text), strlen(text));
    return text;
}

TEST(a_created_token_can_be_read)
{
    struct token_claims claims;

    ck_assert(taken(make(), &claims));
    ck_assert_int_eq(claims.account, 42);
    ck_assert_str_eq(claims.jti, JTI);
    ck_assert_str_eq(claims.role, "ApiUser");
    ck_assert_int_eq(claims.issued_s, NOW);
    ck_assert_int_eq(claims.expires_s, NOW + 3600);
    ck_assert(!claims.client);
}

TEST(client_and_session_tokens_are_distinguished)
{
    struct token_claims claims;

    ck_assert(
        taken(forge(GOOD_HEADER, CLAIMS("\"7\"", "1775044800", "1775048400", "client")), &claims));
    ck_assert(claims.client);
    ck_assert(!good(forge(GOOD_HEADER, CLAIMS("\"7\"", "1775044800", "1775048400", "other"))));
}

/* PostgreSQL would report an error for such ids, and the client would get a 500. */
TEST(the_session_id_must_be_a_uuid)
{
    EACH_TEXT (bad, "------------------------------------", "0195f3a0-1111-7222-8333-44445555666-",
               "0195f3a0-1111-7222-8333-4444555566666", "0195f3a01111-7222-8333-444455556666-",
               "0195f3a0-1111-7222-8333-44445555666", "0195F3A0-1111-7222-8333-444455556666",
               "00195f3a01111722283334444555566660000", "0195f3a0-1111-7222-8333_444455556666") {
        char payload[512];

        snprintf(payload, sizeof(payload),
                 "{\"sub\":\"42\",\"jti\":\"%s\",\"iat\":1775044800,\"exp\":1775048400,"
                 "\"role\":\"User\",\"kind\":\"session\"}",
                 bad);
        ck_assert_msg(!good(forge(GOOD_HEADER, payload)), "%s", bad);
    }
}

TEST(the_signature_is_hmac_sha256)
{
    /* printf e30.e30 | openssl dgst -sha256 -mac HMAC -macopt "key:…" -binary | base64 */
    ck_assert_str_eq(forge("{}", "{}"), "e30.e30.avoQTMx5TKTLZv5wG4AtPCe5xM6XNvgRCMXyd6Zge64");
}

TEST(a_token_is_not_valid_with_another_key)
{
    static const unsigned char other[TOKEN_MAC] = "secret";
    EVP_MAC_CTX *wrong = hmac_context(hmac, other, TOKEN_MAC);
    struct token token;
    const char *text = make();

    ck_assert_int_eq(token_open(&token, text, strlen(text)), 0);
    ck_assert_str_eq(token.kid, KID);
    ck_assert_int_eq(token_verify(&token, wrong), 1);
    EVP_MAC_CTX_free(wrong);
}

TEST(every_changed_character_is_refused)
{
    char text[TOKEN_MADE_MAX];

    snprintf(text, sizeof(text), "%s", make());
    for (size_t i = 0; text[i]; i++) {
        char before = text[i];

        for (const char *c = "Aa0_-+/=. \n"; *c; c++) {
            text[i] = *c;
            ck_assert_msg(*c == before || !good(text), "character %zu as '%c'", i, *c);
        }
        text[i] = before;
    }
    ck_assert(good(text));
}

TEST(a_token_has_exactly_three_complete_segments)
{
    char text[TOKEN_MADE_MAX + 64];
    const char *token = make();
    struct token opened;

    EACH_TEXT (bad, "", ".", "..", "...", "a.b.c", "a.b", "eyJ9.eyJ9.", ".eyJ9.")
        ck_assert_msg(!good(bad), "%s", bad);
    snprintf(text, sizeof(text), "%s.", token);
    ck_assert(!good(text));
    snprintf(text, sizeof(text), "%s.e30", token);
    ck_assert(!good(text));
    snprintf(text, sizeof(text), "%s=", token);
    ck_assert(!good(text));
    for (size_t cut = 1; cut < strlen(token); cut++) {
        snprintf(text, sizeof(text), "%.*s", (int)cut, token);
        ck_assert_int_eq(token_open(&opened, text, cut), -1);
    }
}

TEST(the_token_header_must_be_exactly_the_expected_one)
{
    ck_assert(good(forge(GOOD_HEADER, GOOD_CLAIMS)));
    EACH_TEXT (bad, HEADER("\"none\"", KEY), HEADER("\"None\"", KEY), HEADER("\"hs256\"", KEY),
               HEADER("\"HS384\"", KEY), HEADER("\"RS256\"", KEY), HEADER("256", KEY),
               "{\"alg\":\"HS256\",\"typ\":\"jwe\"" KEY "}", "{\"alg\":\"HS256\"" KEY "}",
               HEADER("\"HS256\"", ""), HEADER("\"HS256\"", ",\"kid\":7"),
               HEADER("\"HS256\"", ",\"kid\":\"../../dev/null\""),
               HEADER("\"HS256\"", ",\"kid\":\"' OR 1=1 --xxxx\""),
               HEADER("\"HS256\"", ",\"kid\":\"" KID KID "\""),
               HEADER("\"HS256\"", KEY ",\"crit\":[\"x\"]"),
               HEADER("\"HS256\"", KEY ",\"jku\":\"http://evil/\""),
               HEADER("\"HS256\"", KEY ",\"x5u\":\"http://evil/\""),
               HEADER("\"HS256\"", KEY ",\"jwk\":{}"), HEADER("\"none\",\"alg\":\"HS256\"", KEY),
               "[\"HS256\"]", "\"HS256\"", "{", GOOD_HEADER " x")
        ck_assert_msg(!good(forge(bad, GOOD_CLAIMS)), "%s", bad);
}

/* 20 words in five forms each. */
TEST(tokens_signed_with_common_secrets_are_refused)
{
    int tried = 0;

    EACH_TEXT (word, "secret", "password", "changeme", "jwt", "key", "test", "admin", "busbar",
               "123456", "qwerty", "default", "private", "token", "hs256", "supersecret", "",
               "letmein", "dev", "example", "root") {
        EACH_TEXT (form, "", "1", "123", "-key", "your-256-bit-") {
            bool before = strlen(form) > 4;
            char guess[64];
            int length =
                snprintf(guess, sizeof guess, "%s%s", before ? form : word, before ? word : form);
            EVP_MAC_CTX *keyed = hmac_context(hmac, guess, (size_t)length);

            ck_assert_msg(!good(forge_with(keyed, GOOD_HEADER, GOOD_CLAIMS)), "%s", guess);
            EVP_MAC_CTX_free(keyed);
            tried++;
        }
    }
    ck_assert_int_eq(tried, 100);
}

/* The right secret, but the MAC of the algorithm that the header names. */
TEST(other_algorithms_are_refused_even_with_their_valid_signature)
{
    static char digests[][8] = {"SHA384", "SHA512"};
    static const char *const headers[] = {HEADER("\"HS384\"", KEY), HEADER("\"HS512\"", KEY)};

    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
        EVP_MAC_CTX *keyed = EVP_MAC_CTX_new(hmac);
        OSSL_PARAM params[] = {
            OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digests[i], 0),
            OSSL_PARAM_construct_end(),
        };

        ck_assert(EVP_MAC_init(keyed, secret, sizeof(secret), params));
        ck_assert(!good(forge_with(keyed, headers[i], GOOD_CLAIMS)));
        ck_assert(!good(forge_with(keyed, GOOD_HEADER, GOOD_CLAIMS)));
        EVP_MAC_CTX_free(keyed);
    }
}

TEST(the_claims_must_be_exactly_the_expected_ones)
{
    EACH_TEXT (bad,
               "{\"sub\":\"1\",\"sub\":\"42\",\"jti\":\"" JTI
               "\",\"iat\":1775044800,\"exp\":1775048400,\"role\":\"User\",\"kind\":\"session\"}",
               "{\"sub\":\"42\",\"jti\":\"" JTI
               "\",\"iat\":1775044800,\"exp\":1775048400,\"role\":\"User\"}",
               "{\"sub\":\"42\",\"jti\":\"" JTI "\",\"iat\":1775044800,\"exp\":1775048400,"
               "\"role\":\"User\",\"kind\":\"session\",\"nbf\":1775048400}",
               "{\"sub\":\"42\",\"jti\":\"" JTI "\",\"iat\":1775044800,\"exp\":1775048400,"
               "\"role\":[\"User\"],\"kind\":\"session\"}",
               "{\"sub\":\"42\",\"jti\":\"" JTI "\",\"iat\":1775044800,\"exp\":1775048400,"
               "\"role\":\"Us\\r\",\"kind\":\"session\"}",
               "{\"sub\":\"42\",\"jti\":\"x\",\"iat\":1775044800,\"exp\":1775048400,"
               "\"role\":\"User\",\"kind\":\"session\"}",
               SUBJECT("42"), SUBJECT("\"\""), SUBJECT("\"0\""), SUBJECT("\"-1\""),
               SUBJECT("\"1e3\""), SUBJECT("\"9999999999999999999\""), "{}", "null", "")
        ck_assert_msg(!good(forge(GOOD_HEADER, bad)), "%s", bad);
}

TEST(token_times_must_be_whole_and_plausible)
{
    /* The first token has just expired; the last but one is issued 61 seconds in the future. */
    EACH_TEXT (bad, TIMES("1775044700", "1775044800"), TIMES("1775044700", "1775044799"),
               TIMES("1775044800", "\"1775048400\""), TIMES("1775044800", "1775048400.5"),
               TIMES("1775044800", "1e309"), TIMES("1775044800", "9223372036854775807"),
               TIMES("1775044800", "-1"), TIMES("1775044800", "null"), TIMES("-5", "1775048400"),
               TIMES("1775044861", "1775048400"), TIMES("true", "1775048400"))
        ck_assert_msg(!good(forge(GOOD_HEADER, bad)), "%s", bad);
    ck_assert(good(forge(GOOD_HEADER, TIMES("1775044860", "1775048400"))));
    ck_assert(good(forge(GOOD_HEADER, TIMES("1775044700", "1775044801"))));
}

TEST(deeply_nested_and_long_tokens_are_refused)
{
    static char deep[400], text[TOKEN_MAX + 2];

    memset(deep, '[', sizeof(deep) - 1);
    ck_assert(!good(forge(deep, GOOD_CLAIMS)));
    ck_assert(!good(forge(GOOD_HEADER, deep)));
    for (size_t i = 0; i + 6 < sizeof(deep); i += 5)
        snprintf(deep + i, 6, "{\"a\":");
    ck_assert(!good(forge(deep, GOOD_CLAIMS)));
    memset(text, 'A', sizeof(text) - 1);
    text[10] = text[20] = '.';
    ck_assert(!good(text));
}

TEST(base64_has_only_one_encoding)
{
    unsigned char bytes[8];
    char text[BASE64_ROOM(5)];

    ck_assert_uint_eq(base64_encode(BASE64_URL, "\xfb\xff", 2, text), 3);
    ck_assert_str_eq(text, "-_8");
    ck_assert_uint_eq(base64_encode(BASE64_PLAIN, "\xfb\xff", 2, text), 3);
    ck_assert_str_eq(text, "+/8");
    ck_assert_int_eq(base64_decode(BASE64_URL, "-_8", 3, bytes, sizeof(bytes)), 2);
    ck_assert_mem_eq(bytes, "\xfb\xff", 2);
    ck_assert_int_eq(base64_decode(BASE64_URL, "-_9", 3, bytes, sizeof(bytes)), -1);
    ck_assert_int_eq(base64_decode(BASE64_URL, "+/8", 3, bytes, sizeof(bytes)), -1);
    ck_assert_int_eq(base64_decode(BASE64_URL, "-_8=", 4, bytes, sizeof(bytes)), -1);
    ck_assert_int_eq(base64_decode(BASE64_URL, "A", 1, bytes, sizeof(bytes)), -1);
    ck_assert_int_eq(base64_decode(BASE64_URL, "AAAA", 4, bytes, 2), -1);
    ck_assert_int_eq(base64_decode(BASE64_URL, "", 0, bytes, sizeof(bytes)), 0);
}

SUITE(token, .before_each = setup, .after_each = teardown)
