/* Documents of devices that are refused or sent twice leave no files. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "suite.h"
#include "suites.h"

static struct host *host;
static struct person *m;
static const char *database, *store;

static void set_up(void)
{
    database = database_make(the_postgres, "device_refused");
    store = harness_path("documents-refused");
    host = files_host("device-refused", database, store);
    m = person_make(host, admin_of(host), "refused.m", NULL);
}

static void tear_down(void)
{
    host_stop(host);
}

static struct answer *post_as(const char *type, const char *bytes, size_t length)
{
    return http_send(host, &(struct call){.method = "POST",
                                          .path = DEVICE,
                                          .token = m->token,
                                          .type = type,
                                          .body = bytes,
                                          .length = length});
}

/* D06, D07 */
TEST(malformed_bodies_are_refused_whole)
{
    int before = files_now(store);
    struct upload_body body = files_named("Malformed");

    upload_file(&body, "SF_02C", "x", "content", 7);
    ck_error(post_as(UPLOAD_TYPE, body.bytes, body.length), 400, "Malformed multipart body");
    upload_bytes(&body, "\r\n--" UPLOAD_BOUNDARY, 4 + strlen(UPLOAD_BOUNDARY));
    ck_error(post_as(UPLOAD_TYPE, body.bytes, body.length), 400, "Malformed multipart body");
    ck_error(post_as("multipart/form-data", body.bytes, body.length), 400, "The boundary");
    ck_error(post_as("multipart/form-data; boundary=\"\"", body.bytes, body.length), 400, "");
    ck_error(post_as(text("multipart/form-data; boundary=%0200d", 1), body.bytes, body.length), 400,
             "The boundary");
    ck_error(post_as("multipart/mixed; boundary=x", body.bytes, body.length), 415, "");
    free(body.bytes);

    char *line = kept(malloc(65536));

    memset(line, 'x', 65536);
    line[65535] = '\0';
    body = files_named("Malformed");
    upload_part(&body, text("name=\"SF_02C\"; filename=\"%s\"", line), "1", 1);
    files_refused(host, m, store, files_post(host, m, &body), 400, "Malformed", before);
    body = files_named("Malformed");
    upload_part(&body, "filename=\"x\"", "1", 1);
    files_refused(host, m, store, files_post(host, m, &body), 400, "Malformed", before);
    body = files_named("Malformed");
    for (int i = 0; i < 10000; i++)
        upload_file(&body, "SF_02C", "", "", 0);
    files_refused(host, m, store, files_post(host, m, &body), 400, "Malformed", before);
    body = files_named("Malformed");
    upload_part(&body, "name=\"SF_02C\"\r\nContent-Type: multipart/mixed; boundary=y", "--y--", 5);
    files_refused(host, m, store, files_post(host, m, &body), 400, "Malformed", before);
}

/* D09 */
TEST(files_are_bounded)
{
    int before = files_now(store);
    char *large = upload_noise(7, 10 * MIB + 1);
    struct upload_body body = files_named("Large");

    upload_file(&body, "SF_02C", "x", large, 10 * MIB + 1);
    files_refused(host, m, store, files_post(host, m, &body), 413, "Large", before);
    body = files_named("Large");
    upload_file(&body, "SF_02C", "x", large, 10 * MIB);
    ck_status(files_post(host, m, &body), 201);
    before = files_now(store);
    body = files_named("Together");
    for (int i = 0; i < 10; i++)
        upload_file(&body, files_fields[i % FIELDS], "x", large, 10 * MIB);
    upload_file(&body, "COD_PROOF", "x", large, 1);
    files_refused(host, m, store, files_post(host, m, &body), 413, "Together", before);
}

/* D11 */
TEST(fields_that_are_not_valid_keep_no_file)
{
    int before = files_now(store);
    struct upload_body body = {NULL, 0};

    for (int i = 0; i < 5; i++)
        upload_file(&body, "SF_02C", "x", upload_noise((unsigned)i + 900, 100000), 100000);
    upload_field(&body, "deviceToRegister", "{\"externalId\":\"Invalid\",");
    files_refused(host, m, store, files_post(host, m, &body), 400, "Invalid", before);
    for (int i = 0; i < 5; i++)
        upload_file(&body, "SF_02C", "x", upload_noise((unsigned)i + 900, 100000), 100000);
    upload_field(&body, "deviceToRegister", "{\"externalId\":\"Invalid\",\"capacity\":-1}");
    files_expect_field(ck_error(files_post(host, m, &body), 400, ""), "capacity");
    ck_assert(store_settles(store));
    ck_assert_int_eq(files_now(store), before);
}

/* Returns the fields named in a response's errors, each after a space. */
static const char *fields_wrong(const struct answer *answer)
{
    const json_t *errors = json_object_get(answer->json, "errors");
    const char *all = "";

    for (size_t i = 0; i < json_array_size(errors); i++)
        all = text("%s %s", all,
                   json_string_value(json_object_get(json_array_get(errors, i), "field")));
    return all;
}

static void add_wrong_parts(struct upload_body *body)
{
    upload_file(body, "OTHER", "x", "nobody asked for it", 19);
    for (int i = 0; i < 12; i++)
        upload_file(body, "SF_02C", "x", "one of twelve", 13);
    upload_file(body, "COD_PROOF", "x", "", 0);
}

/* The host reports mistakes in parts, the module mistakes in fields; one response has both. */
TEST(mistakes_of_parts_and_fields_are_named_together)
{
    int before = files_now(store);
    struct upload_body body = {NULL, 0};

    add_wrong_parts(&body);
    upload_field(&body, "deviceToRegister",
                 "{\"externalId\":\"All\",\"capacity\":-1,\"timezone\":\"Nowhere/At All\"}");
    upload_field(&body, "deviceToRegister", "{\"externalId\":\"Twice\"}");
    struct answer *answer =
        files_refused(host, m, store, files_post(host, m, &body), 400, "All", before);

    ck_assert_str_eq(fields_wrong(answer),
                     " OTHER SF_02C SF_02C deviceToRegister capacity timezone");
    body = files_named("All");
    add_wrong_parts(&body);
    answer = files_refused(host, m, store, files_post(host, m, &body), 400, "All", before);
    ck_assert_str_eq(fields_wrong(answer), " OTHER SF_02C SF_02C");
    body = files_named("All");
    ck_status(files_post(host, m, &body), 201);
    body = (struct upload_body){NULL, 0};
    upload_field(&body, "deviceToUpdate", "{\"capacity\":7}");
    upload_file(&body, "OTHER", "x", "nobody asked for it", 19);
    answer = ck_error(upload_send(host, "PATCH", DEVICE "/All", m, &body), 400, "");
    ck_assert_str_eq(fields_wrong(answer), " OTHER");
    ck_assert(store_settles(store));
    ck_assert_int_eq(files_now(store), before);
    ck_assert(json_is_null(json_object_get(files_get(host, m, "All")->json, "capacity")));
}

/* A refused upload does not use up its Idempotency-Key either, so the corrected upload may have the
 * same key. */
TEST(a_refused_upload_does_not_take_its_key)
{
    const char *const headers[] = {"Idempotency-Key: parts", NULL};
    struct call call = {.method = "POST",
                        .path = DEVICE,
                        .token = m->token,
                        .type = UPLOAD_TYPE,
                        .headers = headers};
    struct upload_body body = files_named("Keyed");

    upload_file(&body, "OTHER", "x", "nobody asked for it", 19);
    upload_close(&body);
    call.body = body.bytes;
    call.length = body.length;
    ck_error(http_send(host, &call), 400, "");
    free(body.bytes);
    body = files_named("Keyed");
    upload_close(&body);
    call.body = body.bytes;
    call.length = body.length;
    ck_status(http_send(host, &call), 201);
    free(body.bytes);
}

/* D12, D13 */
TEST(other_types_of_bodies_are_not_taken)
{
    static const char json[] = "{\"externalId\":\"Type\"}";
    const char *const zipped[] = {"Content-Encoding: gzip", NULL};

    ck_error(post_as("text/json", json, 0), 415, "");
    ck_error(post_as("application/x-www-form-urlencoded", json, 0), 415, "");
    ck_error(http_send(host, &(struct call){.method = "POST",
                                            .path = DEVICE,
                                            .token = m->token,
                                            .body = json,
                                            .headers = zipped}),
             415, "");
    ck_error(files_get(host, m, "Type"), 404, "");
}

TEST(a_refused_request_leaves_no_file_and_takes_no_other)
{
    struct upload_body body = files_named("Refused");

    upload_file(&body, "SF_02C", "a", "of the first", 12);
    struct answer *made = ck_status(files_post(host, m, &body), 201);
    int before = files_now(store);

    body = files_named("refused");
    upload_file(&body, "SF_02C", "a", "of the first", 12);
    upload_file(&body, "SF_02C", "b", "of the second", 13);
    ck_error(files_post(host, m, &body), 409, "");
    ck_assert(store_settles(store));
    ck_assert_int_eq(files_now(store), before);
    const char *path = text("Refused/documents/%s", files_document(made, 0, "id"));

    ck_assert_str_eq(ck_status(files_get(host, m, path), 200)->body, "of the first");
}

/* One of several racing requests: all register the same device, each with the same content. */
struct racer {
    pthread_t thread;
    const char *external_id, *content;
    struct answer *answer;
};

static void *race(void *arg)
{
    struct racer *racer = arg;
    struct upload_body body = files_named(racer->external_id);

    upload_file(&body, "SF_02C", "x", racer->content, strlen(racer->content));
    racer->answer = files_post(host, m, &body);
    return NULL;
}

TEST(refused_requests_do_not_hurt_one_that_brings_the_same)
{
    enum { ROUNDS = 20, RACERS = 6 };
    struct racer racers[RACERS];

    for (int round = 0; round < ROUNDS; round++) {
        const char *content = text("raced for %d", round), *id = text("Raced %d", round);
        int before = files_now(store), won = 0;

        for (int i = 0; i < RACERS; i++) {
            racers[i] = (struct racer){.external_id = id, .content = content};
            ck_assert_int_eq(pthread_create(&racers[i].thread, NULL, race, &racers[i]), 0);
        }
        for (int i = 0; i < RACERS; i++) {
            pthread_join(racers[i].thread, NULL);
            won += racers[i].answer->status == 201;
            if (racers[i].answer->status != 201)
                ck_error(racers[i].answer, 409, "");
        }
        ck_assert_int_eq(won, 1);
        struct answer *device = ck_status(files_get(host, m, encoded(id)), 200);
        const char *path = text("%s/documents/%s", encoded(id), files_document(device, 0, "id"));

        ck_assert_str_eq(ck_status(files_get(host, m, path), 200)->body, content);
        ck_assert(store_settles(store));
        ck_assert_int_eq(files_now(store), before + 1);
    }
}

TEST(a_repeated_upload_is_answered_again_whatever_its_boundary)
{
    const char *const headers[] = {"Idempotency-Key: upload-1", NULL};
    static const char pattern[] =
        "--%s\r\nContent-Disposition: form-data; name=deviceToRegister\r\n\r\n{\"externalId\":"
        "\"Repeated\"}\r\n--%s\r\nContent-Disposition: form-data; name=SF_02C; filename=x\r\n\r\n"
        "%s\r\n--%s--\r\n";
    struct call call = {.method = "POST", .path = DEVICE, .token = m->token, .headers = headers};

    call.type = "multipart/form-data; boundary=one";
    call.body = text(pattern, "one", "one", "content", "one");
    struct answer *first = ck_status(http_send(host, &call), 201);

    call.type = "multipart/form-data; boundary=two";
    call.body = text(pattern, "two", "two", "content", "two");
    ck_assert_str_eq(ck_status(http_send(host, &call), 201)->body, first->body);
    call.body = text(pattern, "two", "two", "another", "two");
    ck_error(http_send(host, &call), 422, "");
}

static void *post_with_key(void *arg)
{
    static const char *const headers[] = {"Idempotency-Key: upload-twins", NULL};
    static const char body[] =
        "--b\r\nContent-Disposition: form-data; name=deviceToRegister\r\n\r\n{\"externalId\":"
        "\"Twin uploads\"}\r\n--b\r\nContent-Disposition: form-data; name=SF_02C; filename=x\r\n"
        "\r\nof twins\r\n--b--\r\n";

    *(struct answer **)arg =
        http_send(host, &(struct call){.method = "POST",
                                       .path = DEVICE,
                                       .token = m->token,
                                       .type = "multipart/form-data; boundary=b",
                                       .headers = headers,
                                       .body = body});
    return NULL;
}

/* All get the first one's response; the files of the others are removed at once. */
TEST(twin_uploads_with_one_key_keep_one_file)
{
    enum { TWINS = 8 };
    PGconn *db = database_connect(the_postgres, database);
    pthread_t threads[TWINS];
    struct answer *answers[TWINS];
    int before = files_now(store);

    for (int i = 0; i < TWINS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, post_with_key, &answers[i]), 0);
    for (int i = 0; i < TWINS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < TWINS; i++)
        ck_assert_str_eq(ck_status(answers[i], 201)->body, answers[0]->body);
    ck_assert(store_settles(store));
    ck_assert_int_eq(files_now(store), before + 1);
    ck_assert_int_eq(sql_number(db, "SELECT count(*) FROM device_upload"), 0);
    PQfinish(db);
}

SUITE(device_refused, .timeout_s = 120, .before_all = set_up, .after_all = tear_down)
