/*
 * External texts as input: the big list of naughty strings as messages and device names. The
 * unit test json reads JSONTestSuite.
 */
#include <openssl/evp.h>

#include "stage.h"

static struct person *user;

static void set_up(void)
{
    stage_open(&(struct host_spec){.name = "cases"});
    user = person_make(host, admin, "cases", NULL);
}

static struct answer *find(CURL *connection, const char *body, size_t length)
{
    return http_send(host, &(struct call){.method = "POST",
                                          .path = "/api/chat/conversations/find",
                                          .token = user->token,
                                          .body = body,
                                          .length = length,
                                          .connection = connection});
}

/* EVP_DecodeBlock() counts the bytes of the padding, too. */
static char *base64_decoded(const char *code, size_t *length)
{
    char *bytes = kept(calloc(1, strlen(code) + 1));
    int all =
        EVP_DecodeBlock((unsigned char *)bytes, (const unsigned char *)code, (int)strlen(code));

    ck_assert_int_ge(all, 0);
    for (size_t i = strlen(code); i && code[i - 1] == '='; i--)
        all--;
    *length = (size_t)all;
    return bytes;
}

static struct answer *send_json(CURL *connection, const char *path, json_t *json)
{
    const char *body = kept(json_dumps(json, JSON_COMPACT));

    json_decref(json);
    return http_send(host, &(struct call){.method = "POST",
                                          .path = path,
                                          .token = user->token,
                                          .body = body,
                                          .connection = connection});
}

static const json_t *message_of(const struct answer *chain, size_t index)
{
    return json_object_get(json_array_get(chain->json, index), "chatEntry");
}

static bool same(const json_t *string, const char *bytes, size_t length)
{
    return json_is_string(string) && json_string_length(string) == length &&
           !memcmp(json_string_value(string), bytes, length);
}

/* Starts a conversation with the bytes as text and name, posts them again, and reads them back. */
static void round_trip(CURL *connection, const char *bytes, size_t length)
{
    json_t *body = json_pack("{ss ss ss}", "participant1", user->email, "participant2", ADMIN_EMAIL,
                             "username", user->email);

    json_object_set_new(body, "chatEntry", json_stringn(bytes, length));
    if (length <= 255)
        json_object_set_new(body, "deviceProjectName", json_stringn(bytes, length));
    struct answer *started = send_json(connection, "/api/chat/conversations/start", body);

    if (started->status == 400) { /* only a blank text may be refused */
        ck_assert_msg(strstr(started->body, "chatEntry") != NULL, "%s: %s", bytes, started->body);
        ck_assert_msg(strstr(started->body, "blank") || strstr(started->body, "empty"), "%s: %s",
                      bytes, started->body);
        ck_assert_msg(length < 64, "%s", bytes);
        return;
    }
    ck_assert_msg(started->status == 201, "%s: %ld %s", bytes, started->status, started->body);
    const json_t *conversation = json_object_get(started->json, "conversation");
    const json_t *name = json_object_get(conversation, "deviceProjectName");

    ck_assert_msg(length > 255 || same(name, bytes, length), "%s: %s", bytes, started->body);
    body = json_pack("{ss}", "username", user->email);
    json_object_set_new(body, "chatEntry", json_stringn(bytes, length));
    struct answer *posted =
        send_json(connection,
                  text("/api/chat/conversations/%jd/messages",
                       (intmax_t)json_integer_value(json_object_get(conversation, "id"))),
                  body);

    ck_status(posted, 201);
    ck_assert(same(json_object_get(posted->json, "chatEntry"), bytes, length));
    struct answer *chain = http_send(
        host,
        &(struct call){.method = "GET",
                       .path = text("/api/chat/chain/%s",
                                    json_string_value(json_object_get(conversation, "headUuid"))),
                       .token = user->token,
                       .connection = connection});

    ck_status(chain, 200);
    ck_assert_uint_eq(json_array_size(chain->json), 2);
    ck_assert_msg(same(message_of(chain, 0), bytes, length), "%s: %s", bytes, chain->body);
    ck_assert_msg(same(message_of(chain, 1), bytes, length), "%s: %s", bytes, chain->body);
}

/* Bytes that are not UTF-8 cannot be sent as JSON. */
static void refused_as_it_is(CURL *connection, const char *bytes)
{
    const char *body = text("{\"deviceProjectName\":\"%s\"}", bytes);

    ck_error(find(connection, body, strlen(body)), 400, "Malformed JSON");
}

/* The same strings are used to search conversations. */
static void finds_its_own_name(CURL *connection, const char *bytes, size_t length)
{
    struct answer *found =
        send_json(connection, "/api/chat/conversations/find",
                  json_pack("{so}", "deviceProjectName", json_stringn(bytes, length)));
    const json_t *name = json_object_get(found->json, "deviceProjectName");

    ck_status(found, 200);
    ck_assert_msg(json_is_null(found->json) || same(name, bytes, length) || !length, "%s: %s",
                  bytes, found->body);
}

TEST(naughty_strings_are_returned_byte_for_byte)
{
    const char *path = shared_cases("blns/blns.base64.json");
    json_t *list = path ? json_load_file(path, 0, NULL) : NULL;
    CURL *connection = client_open();
    const json_t *code;
    size_t index;

    ck_assert_msg(!path || json_array_size(list) > 500, "%s is not a list", path);
    json_array_foreach (list, index, code) {
        size_t length;
        const char *bytes = base64_decoded(json_string_value(code), &length);
        json_t *string = json_stringn(bytes, length);

        if (string && !memchr(bytes, 0, length)) {
            round_trip(connection, bytes, length);
            finds_its_own_name(connection, bytes, length);
        } else {
            refused_as_it_is(connection, bytes);
        }
        json_decref(string);
    }
}

STAGE_SUITE(cases, set_up, 90)
