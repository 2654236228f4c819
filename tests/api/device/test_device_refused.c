/* Documents of devices that are refused or sent twice leave no files. */
#include "devices.h"
#include "files.h"
#include "talk.h"

static const char *store;

static void set_up(void)
{
    store = harness_path("documents-refused");
    stage_open(&(struct host_spec){
        .name = "device_refused", .modules = "[auth, device]", .more = files_section(store)});
    m = person_make(host, admin, "refused.m", NULL);
}

/* Returns a POST with a body of another type, or with another boundary. */
static struct call post_of(const char *type, const char *const *headers, const char *body)
{
    struct call call = call_by(m, "POST " DEVICE " %s", body);

    call.type = type;
    call.headers = headers;
    return call;
}

static struct answer *post_as(const char *type, const struct upload_body *body)
{
    const struct call call = post_of(type, NULL, body->bytes);

    return http_send(host, &call);
}

TEST(malformed_multipart_bodies_are_refused)
{
    struct upload_body body = files_named("Malformed");

    upload_file(&body, "SF_02C", "x", "content", 7);
    ck_error(post_as(UPLOAD_TYPE, &body), 400, "Malformed multipart body");
    ck_error(post_as("multipart/form-data", &body), 400, "The boundary");
    ck_error(post_as("multipart/mixed; boundary=x", &body), 415, "");
    free(body.bytes);
    body = files_named("Malformed");
    upload_part(&body, text("name=\"SF_02C\"; filename=\"%s\"", text_repeated("x", 65535)), "1", 1);
    files_refused(host, m, store, &body, 400, "Malformed");
    body = files_named("Malformed");
    upload_part(&body, "filename=\"x\"", "1", 1);
    files_refused(host, m, store, &body, 400, "Malformed");
    body = files_named("Malformed");
    for (int i = 0; i < 10000; i++)
        upload_file(&body, "SF_02C", "", "", 0);
    files_refused(host, m, store, &body, 400, "Malformed");
}

TEST(files_have_a_size_limit)
{
    char *large = upload_noise(7, 10 * MIB + 1);
    struct upload_body body = files_named("Large");

    upload_file(&body, "SF_02C", "x", large, 10 * MIB + 1);
    files_refused(host, m, store, &body, 413, "Large");
    body = files_named("Large");
    upload_file(&body, "SF_02C", "x", large, 10 * MIB);
    ck_status(files_post(host, m, &body), 201);
    body = files_named("Together");
    for (int i = 0; i < 10; i++)
        upload_file(&body, files_fields[i % FIELDS], "x", large, 10 * MIB);
    upload_file(&body, "COD_PROOF", "x", large, 1);
    files_refused(host, m, store, &body, 413, "Together");
}

TEST(an_upload_with_invalid_fields_leaves_no_file)
{
    static const char *const fields[] = {"{\"externalId\":\"Invalid\",",
                                         "{\"externalId\":\"Invalid\",\"capacity\":-1}"};

    for (int i = 0; i < 2; i++) {
        struct upload_body body = {NULL, 0};

        for (unsigned file = 900; file < 905; file++)
            upload_file(&body, "SF_02C", "x", upload_noise(file, 100000), 100000);
        upload_field(&body, "deviceToRegister", fields[i]);
        struct answer *answer = files_refused(host, m, store, &body, 400, "Invalid");

        if (i)
            files_expect_field(answer, "capacity");
    }
}

static void add_wrong_parts(struct upload_body *body)
{
    upload_file(body, "OTHER", "x", "nobody asked for it", 19);
    for (int i = 0; i < 12; i++)
        upload_file(body, "SF_02C", "x", "one of twelve", 13);
    upload_file(body, "COD_PROOF", "x", "", 0);
}

/* The host reports mistakes in parts, the module mistakes in fields; one response has both. */
TEST(errors_of_parts_and_fields_are_reported_together)
{
    int before = files_now(store);
    struct upload_body body = {NULL, 0};

    add_wrong_parts(&body);
    upload_field(&body, "deviceToRegister",
                 "{\"externalId\":\"All\",\"capacity\":-1,\"timezone\":\"Nowhere/At All\"}");
    upload_field(&body, "deviceToRegister", "{\"externalId\":\"Twice\"}");
    struct answer *answer = files_refused(host, m, store, &body, 400, "All");

    expect_json(answer->json, "{'errors':[{'field':'OTHER','code':'unknown_part'},"
                              "{'field':'SF_02C','code':'too_many_files'},"
                              "{'field':'SF_02C','code':'too_many_files'},"
                              "{'field':'deviceToRegister','code':'part_twice'},"
                              "{'field':'capacity','code':'too_small','params':{'limit':0}},"
                              "{'field':'timezone','code':'not_a_time_zone'}]}");
    body = files_named("All");
    add_wrong_parts(&body);
    answer = files_refused(host, m, store, &body, 400, "All");
    expect_json(answer->json,
                "{'errors':[{'field':'OTHER'},{'field':'SF_02C'},{'field':'SF_02C'}]}");
    body = files_named("All");
    ck_status(files_post(host, m, &body), 201);
    body = (struct upload_body){NULL, 0};
    upload_field(&body, "deviceToUpdate", "{\"capacity\":7}");
    upload_file(&body, "OTHER", "x", "nobody asked for it", 19);
    answer = ck_error(upload_send(host, "PATCH", DEVICE "/All", m, &body), 400, "");
    expect_json(answer->json, "{'errors':[{'field':'OTHER'}]}");
    ck_assert(store_settles(store));
    ck_assert_int_eq(files_now(store), before);
    ck_assert(json_is_null(json_object_get(files_get(host, m, "All")->json, "capacity")));
}

/* A refused upload does not use up its Idempotency-Key either, so the corrected upload may have the
 * same key. */
TEST(a_refused_upload_does_not_use_up_its_idempotency_key)
{
    const char *const headers[] = {"Idempotency-Key: parts", NULL};

    for (int i = 0; i < 2; i++) {
        struct upload_body body = files_named("Keyed");

        if (i == 0)
            upload_file(&body, "OTHER", "x", "nobody asked for it", 19);
        struct call call = upload_call(DEVICE, m, &body);

        call.headers = headers;
        ck_status(http_send(host, &call), i ? 201 : 400);
    }
}

TEST(a_refused_upload_leaves_no_file_and_removes_no_other)
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

TEST(refused_uploads_do_not_remove_the_same_file_of_a_parallel_upload)
{
    enum { ROUNDS = 20, RACERS = 6 };
    struct call calls[RACERS];
    struct answer *answers[RACERS];

    for (int round = 0; round < ROUNDS; round++) {
        const char *content = text("raced for %d", round), *id = text("Raced %d", round);
        struct upload_body body = files_named(id);
        int before = files_now(store), won = 0;

        upload_file(&body, "SF_02C", "x", content, strlen(content));
        const struct call call = upload_call(DEVICE, m, &body);

        for (int i = 0; i < RACERS; i++)
            calls[i] = call;
        parallel(host, calls, answers, RACERS);
        for (int i = 0; i < RACERS; i++) {
            won += answers[i]->status == 201;
            if (answers[i]->status != 201)
                ck_error(answers[i], 409, "");
        }
        ck_assert_int_eq(won, 1);
        struct answer *device = ck_status(files_get(host, m, encoded(id)), 200);
        const char *path = text("%s/documents/%s", encoded(id), files_document(device, 0, "id"));

        ck_assert_str_eq(ck_status(files_get(host, m, path), 200)->body, content);
        ck_assert(store_settles(store));
        ck_assert_int_eq(files_now(store), before + 1);
    }
}

static const char pattern[] =
    "--%s\r\nContent-Disposition: form-data; name=deviceToRegister\r\n\r\n{\"externalId\":"
    "\"%s\"}\r\n--%s\r\nContent-Disposition: form-data; name=SF_02C; filename=x\r\n\r\n"
    "%s\r\n--%s--\r\n";

TEST(a_repeated_upload_with_another_boundary_gets_the_same_response)
{
    const char *const headers[] = {"Idempotency-Key: upload-1", NULL};
    static const struct {
        const char *boundary, *content;
        int status;
    } rows[] = {{"one", "content", 201}, {"two", "content", 201}, {"two", "another", 422}};
    const char *first = NULL;

    for (size_t i = 0; i < 3; i++) {
        const char *boundary = rows[i].boundary;
        const struct call call =
            post_of(text("multipart/form-data; boundary=%s", boundary), headers,
                    text(pattern, boundary, "Repeated", boundary, rows[i].content, boundary));
        struct answer *answer = ck_status(http_send(host, &call), rows[i].status);

        first = first ? first : answer->body;
        ck_assert(rows[i].status != 201 || !strcmp(answer->body, first));
    }
}

/* All get the first one's response; the files of the others are removed at once. */
TEST(parallel_uploads_with_one_idempotency_key_keep_one_file)
{
    enum { TWINS = 8 };
    static const char *const headers[] = {"Idempotency-Key: upload-twins", NULL};
    struct call calls[TWINS];
    struct answer *answers[TWINS];
    int before = files_now(store);

    for (int i = 0; i < TWINS; i++)
        calls[i] = post_of("multipart/form-data; boundary=b", headers,
                           text(pattern, "b", "Twin uploads", "b", "of twins", "b"));
    parallel(host, calls, answers, TWINS);
    for (int i = 0; i < TWINS; i++)
        ck_assert_str_eq(ck_status(answers[i], 201)->body, answers[0]->body);
    ck_assert(store_settles(store));
    ck_assert_int_eq(files_now(store), before + 1);
    sql_is(db, 0, "SELECT count(*) FROM device_upload");
}

STAGE_SUITE(device_refused, set_up, 120)
