/* Documents of devices: multipart bodies, downloads, and the sweep of the store. */
#include <sys/stat.h>

#include "devices.h"
#include "files.h"
#include "talk.h"

static const char database[] = "device_files";
static const char *store;

static void set_up(void)
{
    store = harness_path("documents-files");
    stage_open(&(struct host_spec){
        .name = database, .modules = "[auth, device]", .more = files_section(store)});
    m = person_make(host, admin, "files.m", NULL);
    k = person_make(host, admin, "files.k", "ApiUser");
}

/* The registration of this device must be refused, because of a part or of a field. */
static void refuses(struct upload_body *body, const char *external_id, const char *field)
{
    files_expect_field(files_refused(host, m, store, body, 400, external_id), field);
}

/* Downloads the document with this index in the response to a registration. */
static struct answer *document_get(const char *device, const struct answer *made, size_t index)
{
    return ck_status(
        files_get(host, m, text("%s/documents/%s", device, files_document(made, index, "id"))),
        200);
}

TEST(each_field_has_up_to_ten_files)
{
    struct upload_body body = files_named("Sixty");
    unsigned seed = 0;

    for (int f = 0; f < FIELDS; f++)
        for (int i = 0; i < 10; i++, seed++)
            upload_file(&body, files_fields[f], text("file %d.bin", i),
                        upload_noise(seed, 3000 + seed), 3000 + seed);
    struct answer *made = ck_status(files_post(host, m, &body), 201);

    ck_assert_uint_eq(files_count(made), 60);
    ck_assert_str_eq(made->body, ck_status(files_get(host, m, "Sixty"), 200)->body);
    for (unsigned i = 0; i < 60; i++) {
        struct answer *file = document_get("Sixty", made, i);

        ck_assert_str_eq(files_document(made, i, "field"), files_fields[i / 10]);
        ck_assert_uint_eq(file->length, 3000 + i);
        ck_assert_mem_eq(file->body, upload_noise(i, 3000 + i), 3000 + i);
    }
    body = files_named("Eleven");
    for (int i = 0; i < 11; i++)
        upload_file(&body, "SF_02C", "x", text("eleven %d", i), 9);
    refuses(&body, "Eleven", "SF_02C");
}

TEST(json_and_multipart_create_the_same_device)
{
    static const char device[] =
        "{\"externalId\":\"Same\",\"siteName\":\"S\",\"countryCode\":\"de\",\"capacity\":9.5,"
        "\"latitude\":\"1.50\",\"longitude\":2,\"commissioningDate\":\"2024-01-31\","
        "\"fuelCode\":\"X\",\"more\":{\"a\":[1,2]}}";
    /* The second response also has a warning, because its device looks like the first one. */
    struct upload_body body = {NULL, 0};

    upload_part(&body, "name=\"deviceToRegister\"; filename=\"blob\"", device, sizeof device - 1);
    struct answer *multipart = ck_status(files_post(host, m, &body), 201);
    struct answer *json = ask(k, 201, NULL, "POST /api/device %s", device);

    EACH_TEXT (member, "id", "uuid", "organizationId", "createdAt", "updatedAt", "warnings",
               "warningDetails") {
        json_object_del(multipart->json, member);
        json_object_del(json->json, member);
    }
    ck_assert_msg(json_equal(multipart->json, json->json), "%s\n%s", multipart->body, json->body);
}

TEST(the_part_with_the_fields_is_required_and_has_another_name_for_each_route)
{
    struct upload_body body = {NULL, 0};

    upload_file(&body, "SF_02C", "x", "1", 1);
    refuses(&body, "Parts", "deviceToRegister");
    body = files_named("Parts");
    upload_file(&body, "FORM_SF_03", "x", "1", 1);
    refuses(&body, "Parts", "FORM_SF_03");
    body = files_named("Parts");
    upload_field(&body, "deviceToRegister", "{}");
    refuses(&body, "Parts", "deviceToRegister");
    body = files_named("Parts");
    upload_field(&body, "deviceToUpdate", "{\"externalId\":\"Parts\"}");
    upload_file(&body, "SF_02C[0]", "x", "1", 1);
    files_refused(host, m, store, &body, 400, "Parts");
}

/* These are forms as browsers and older clients send them. */
TEST(unknown_text_parts_and_files_without_a_name_are_accepted)
{
    struct upload_body body = files_named("Liberal");

    upload_field(&body, "csrf", "4711");
    upload_field(&body, "SF_02C", "no file name");
    upload_file(&body, "PROJECT_PHOTOS[]", "one.jpg", "1", 1);
    upload_file(&body, "PROJECT_PHOTOS[]", "two.jpg", "22", 2);
    upload_file(&body, "PROJECT_PHOTOS", "three.jpg", "333", 3);
    struct answer *made = ck_status(files_post(host, m, &body), 201);

    ck_assert_uint_eq(files_count(made), 4);
    ck_assert_str_eq(files_document(made, 0, "field"), "SF_02C");
    ck_assert_str_eq(files_document(made, 0, "name"), "SF_02C");
    for (size_t i = 1; i < 4; i++)
        ck_assert_str_eq(files_document(made, i, "field"), "PROJECT_PHOTOS");
    ck_assert_uint_eq(json_array_size(json_object_get(made->json, "warnings")), 1);
    ck_assert_str_eq(document_get("Liberal", made, 0)->body, "no file name");
    body = files_named("Many");
    for (int i = 0; i < 11; i++)
        upload_file(&body, i % 2 ? "COD_PROOF" : "COD_PROOF[]", "x", text("many %d", i), 6);
    refuses(&body, "Many", "COD_PROOF");
}

/* Returns whether each file has a document after a sweep. */
static bool swept(void)
{
    store_age(store);
    host_says(host, 0, "device", "sweep");
    return store_files(store) ==
           sql_number(db, "SELECT count(DISTINCT coalesce(object, encode(sha256, 'hex')))"
                          " FROM device_document");
}

static void expect_swept(void)
{
    WAIT_UNTIL_MSG(swept(), 10000, "%d files", store_files(store));
}

TEST(a_document_gets_another_name)
{
    struct upload_body body = files_named("Renames");

    upload_file(&body, "SF_02C", "scan.pdf", "renamed", 7);
    struct answer *made = ck_status(files_post(host, m, &body), 201);
    const char *path = text(DEVICE "/Renames/documents/%s", files_document(made, 0, "id"));
    const char *rename = text("PATCH %s {'name':'Zähler  2.pdf'}", path);

    exchanges(
        host, {rename, k, 404}, {rename, NULL, 401},
        {text("PATCH %s {'name':' '}", path), m, 400, "{'errors':[{'field':'name'}]}"},
        {text("PATCH %s {'name':'a\\u202eb'}", path), m, 400, "{'errors':[{'field':'name'}]}"},
        {text("PATCH %s", path), m, 400}, {rename, m, 200, "{'success':true}"},
        {"GET " DEVICE "/Renames/documents", m, 200, "[{'name':'Zähler 2.pdf','field':'SF_02C'}]"});
    ck_assert_ptr_nonnull(strstr(
        answer_header(ask(m, 200, NULL, "GET %s", path), "Content-Disposition"), "hler%202.pdf"));
    ck_assert_str_gt(answer_text(ck_status(files_get(host, m, "Renames"), 200), "updatedAt"),
                     answer_text(made, "updatedAt"));
}

TEST(a_removed_document_is_deleted_with_its_file)
{
    struct upload_body body = files_named("Removes");

    for (int i = 0; i < 10; i++)
        upload_file(&body, "SF_02C", "x", text("removed %d", i), 9);
    struct answer *made = ck_status(files_post(host, m, &body), 201);
    const char *path = text("Removes/documents/%s", files_document(made, 3, "id"));
    const char *deletion = text("DELETE " DEVICE "/%s", path);

    exchanges(host, {deletion, k, 404}, {deletion, NULL, 401},
              {deletion, m, 200, "{'success':true}"}, {deletion, m, 404, "Document not found"},
              {text("GET " DEVICE "/%s", path), m, 404, "Document not found"});
    struct answer *device = ck_status(files_get(host, m, "Removes"), 200);

    ck_assert_uint_eq(files_count(device), 9);
    ck_assert_str_gt(answer_text(device, "updatedAt"), answer_text(made, "updatedAt"));
    upload_file(&body, "SF_02C", "y", "in its place", 12);
    ck_status(upload_send(host, "PATCH", DEVICE "/Removes", m, &body), 200);
    expect_swept();
}

/* Uses a host without the modules reading and certificate. */
TEST(a_deleted_device_is_deleted_with_its_documents)
{
    struct upload_body body = files_named("Taken along");

    for (int i = 0; i < 3; i++)
        upload_file(&body, "SF_02C", "x", text("taken along %d", i), 13);

    ck_status(files_post(host, m, &body), 201);
    ask(m, 200, NULL, "DELETE " DEVICE "/Taken%%20along");
    ask(m, 404, NULL, "GET " DEVICE "/Taken%%20along");
    expect_swept();
}

TEST(empty_fields_of_a_form_are_ignored)
{
    struct upload_body body = files_named("Empty fields");

    for (int i = 0; i < 20; i++)
        upload_file(&body, "COD_PROOF", "", "", 0);
    upload_field(&body, "SF_02C", "");
    upload_file(&body, "PROJECT_PHOTOS", "empty.jpg", "", 0);
    struct answer *made = ck_status(files_post(host, m, &body), 201);

    ck_assert_uint_eq(files_count(made), 1);
    ck_assert_str_eq(files_document(made, 0, "name"), "empty.jpg");
}

static const struct {
    const char *sent, *kept;      /* in the header, and in the response */
    const char *plain, *extended; /* in the download; extended: NULL if it has none */
} names[] = {
    {"filename=\"../../etc/x\"", "../../etc/x", "x", "x"},
    {"filename=\"..\\\\x\"", "..\\x", "x", "x"},
    {"filename=\"/abs\"", "/abs", "abs", "abs"},
    {"filename=\"C:\\\"", "C:\\", "document", NULL},
    {"filename=\"\"", "", "document", NULL},
    {"filename=\".hidden\"", ".hidden", "hidden", "hidden"},
    {"filename=\"CON\"", "CON", "CON", "CON"},
    {"filename=\"a\u202Efdp.exe\"", "a\u202Efdp.exe", "afdp.exe", "afdp.exe"},
    {"filename=\"\u202E .\u200F.htaccess\"", "\u202E .\u200F.htaccess", "htaccess", "htaccess"},
    {"filename=\"a\\\"b.txt\"", "a\"b.txt", "a_b.txt", "a%22b.txt"},
    {"filename=\"x\"; filename*=UTF-8''..%2fy%20z", "../y z", "y z", "y%20z"},
    {"filename=\"\u00E4.pdf\"", "\u00E4.pdf", "__.pdf", "%C3%A4.pdf"},
    {"filename=\"\xff\"", "?", "_", "%3F"},
    {"filename=\"a\xc2\x85z\"", "a?z", "a_z", "a%3Fz"},
    {"filename=\"y\"; filename*=UTF-8''a%C2%85%7Fz", "y", "y", "y"},
};

TEST(file_names_are_sanitized)
{
    struct upload_body body = files_named("Names");
    size_t count = sizeof names / sizeof *names;

    for (size_t i = 0; i < count; i++)
        upload_part(&body, text("name=\"%s\"; %s", files_fields[i % FIELDS], names[i].sent),
                    "content", 7);
    struct answer *made = ck_status(files_post(host, m, &body), 201);

    ck_assert_uint_eq(files_count(made), count);
    for (size_t i = 0; i < count; i++) {
        const char *extended = names[i].extended;

        ck_assert_str_eq(files_document(made, i, "name"), names[i].kept);
        ck_assert_str_eq(answer_header(document_get("Names", made, i), "Content-Disposition"),
                         text("attachment; filename=\"%s\"%s%s", names[i].plain,
                              extended ? "; filename*=UTF-8''" : "", extended ? extended : ""));
    }
}

/* The name in the row may have any value. A very long one is cut. */
TEST(stored_file_names_cannot_inject_headers)
{
    struct upload_body body = files_named("Stored name");

    upload_file(&body, "SF_02C", "x", "stored", 6);
    upload_file(&body, "SF_02C", text_repeated("n", 5000), "1", 1);
    struct answer *made = ck_status(files_post(host, m, &body), 201);
    const char *id = files_document(made, 0, "id");

    ck_assert_uint_eq(strlen(files_document(made, 1, "name")), 255);
    ck_assert_str_eq(answer_header(document_get("Stored%20name", made, 1), "Content-Disposition"),
                     text("attachment; filename=\"%s\"; filename*=UTF-8''%s",
                          text_repeated("n", 120), text_repeated("n", 120)));
    /* Both ends of each omitted range are omitted; their neighbors are kept. */
    sql_text(db,
             "UPDATE device_document SET name = E'a\"\\r\\nX-Y: z\\x1f\\x7f\\u0080\\u009f;%.txt"
             "\\u200e\\u200f\\u202a\\u202e\\u2066\\u2069~"
             "\\u00a0\\u200d\\u2010\\u2029\\u202f\\u2065\\u206a'"
             " WHERE id = $1::uuid",
             1, &id);
    struct answer *file = document_get("Stored%20name", made, 0);

    ck_assert_str_eq(answer_header(file, "Content-Disposition"),
                     "attachment; filename=\"a_X-Y_ z__.txt_____________________\";"
                     " filename*=UTF-8''a%22X-Y%3A%20z%3B%25.txt~%C2%A0%E2%80%8D%E2%80%90%E2%80%A9"
                     "%E2%80%AF%E2%81%A5%E2%81%AA");
    ck_assert_ptr_null(answer_header(file, "X-Y"));
}

TEST(documents_have_the_type_of_their_content_and_are_attachments)
{
    static const char html[] = "<!DOCTYPE html><html><script>alert(1)</script></html>";
    struct upload_body body = files_named("Typed");

    upload_file(&body, "SF_02C", "harmless.pdf", html, sizeof html - 1);
    upload_file(&body, "SF_02C", "x", "%PDF-1.4\n%\xe2\xe3\xcf\xd3\n", 15);
    struct answer *made = ck_status(files_post(host, m, &body), 201);
    struct answer *file = document_get("Typed", made, 0);

    ck_assert_str_eq(files_document(made, 0, "type"), "text/html");
    ck_assert_str_eq(files_document(made, 1, "type"), "application/pdf");
    ck_assert_str_eq(answer_header(file, "X-Content-Type-Options"), "nosniff");
    ck_assert_str_eq(answer_header(file, "Content-Type"), "text/html");
    ck_assert_int_eq(strncmp(answer_header(file, "Content-Disposition"), "attachment", 10), 0);
}

TEST(a_patch_adds_files_with_or_without_fields)
{
    struct upload_body body = files_named("Adds");

    upload_file(&body, "SF_02C", "first", "1", 1);
    ck_status(files_post(host, m, &body), 201);
    upload_file(&body, "SF_02C", "second", "2", 1);
    struct answer *alone = ck_status(upload_send(host, "PATCH", DEVICE "/Adds", m, &body), 200);

    ck_assert_uint_eq(files_count(alone), 2);
    upload_field(&body, "deviceToUpdate", "{\"capacity\":5,\"siteName\":\"Adds site\"}");
    upload_file(&body, "COD_PROOF", "third", "3", 1);
    ck_status(upload_send(host, "PATCH", DEVICE "/Adds", m, &body), 200);
    for (int i = 0; i < 8; i++)
        upload_file(&body, "SF_02C", "more", text("more %d", i), 6);
    struct answer *full =
        ck_status(upload_send(host, "PATCH", DEVICE "/by-site/Adds%20site", m, &body), 200);

    ck_assert_uint_eq(files_count(full), 11);
    upload_field(&body, "deviceToUpdate", "{\"capacity\":6}");
    upload_file(&body, "SF_02C", "one too many", "x", 1);
    ck_error(upload_send(host, "PATCH", DEVICE "/Adds", m, &body), 409, "");
    struct answer *device = ck_status(files_get(host, m, "Adds"), 200);

    ck_assert_uint_eq(files_count(device), 11);
    ck_assert_int_eq(answer_int(device, "capacity"), 5);
}

TEST(files_for_a_device_that_is_being_deleted_are_refused)
{
    PGconn *deletion = database_connect(the_postgres, database);
    struct upload_body body = files_named("Deleted");

    ck_status(files_post(host, m, &body), 201);
    body = (struct upload_body){NULL, 0};
    upload_file(&body, "SF_02C", "x", "too late", 8);
    struct call call = upload_call(DEVICE "/Deleted", m, &body);

    call.method = "PATCH";
    sql_run(deletion, "BEGIN");
    sql_run(deletion, "DELETE FROM device WHERE external_id = 'Deleted'");
    struct pending_call *patch = call_begin(host, &call);

    sql_soon(db, SQL_LOCK_WAITS);
    sql_run(deletion, "COMMIT");
    ck_error(call_end(patch), 404, "Device not found");
    PQfinish(deletion);
}

TEST(documents_of_another_organization_are_404)
{
    struct upload_body body = files_named("Private");

    upload_file(&body, "SF_02C", "x", "secret", 6);
    const char *path = text("Private/documents/%s",
                            files_document(ck_status(files_post(host, m, &body), 201), 0, "id"));

    ck_status(files_get(host, m, path), 200);
    ck_status(files_get(host, admin, path), 200);
    ck_error(files_get(host, k, path), 404, "");
    body = files_named("Another");
    ck_status(files_post(host, m, &body), 201);
    ck_error(files_get(host, m, text("Another%s", path + strlen("Private"))), 404,
             "Document not found");
}

TEST(document_types_can_be_restricted)
{
    char *directory = harness_path("restricted");
    struct host *strict = host_start(
        &(struct host_spec){.name = "device-strict",
                            .database = database,
                            .modules = "[auth, device]",
                            .more = text("%s  document_types: [application/pdf, image/*]\n",
                                         files_section(directory))});
    struct upload_body body = files_named("Restricted");

    upload_file(&body, "SF_02C", "a.pdf", "plain text", 10);
    ck_error(upload_send(strict, "POST", DEVICE, m, &body), 415, "SF_02C");
    ck_assert(store_settles(directory));
    ck_assert_int_le(store_files(directory), 0);
    body = files_named("Restricted");
    upload_file(&body, "SF_02C", "a.txt", "%PDF-1.4\n", 9);
    upload_file(&body, "SF_02C", "b", "GIF89a\1\0\1\0\0\0\0;", 14);
    ck_assert_uint_eq(files_count(ck_status(upload_send(strict, "POST", DEVICE, m, &body), 201)),
                      2);
}

TEST(the_sweep_removes_only_files_without_a_document)
{
    static const char orphan[] = "00b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b8ff";
    char *directory = harness_path("documents-swept");
    struct host *own = host_start(&(struct host_spec){.name = "device-swept",
                                                      .database = database,
                                                      .modules = "[auth, device, metrics]",
                                                      .more = files_section(directory)});
    struct upload_body body = files_named("Swept");

    upload_file(&body, "SF_02C", "x", "kept", 4);
    struct answer *made = ck_status(upload_send(own, "POST", DEVICE, m, &body), 201);
    const char *shard = text("%s/00", directory), *path = text("%s/%s", shard, orphan);

    /* too young: files without a document are kept for an hour */
    ck_assert_int_eq(system(text("mkdir -pm 700 %s && touch %s", shard, path)), 0);
    ck_prints(own, 0, "0 files without a document were removed\n", "device", "sweep");
    ck_assert_int_eq(access(path, F_OK), 0);
    store_age(directory);
    const char *said = host_says(own, 0, "device", "sweep");

    if (!strstr(said, "1 files without a document were removed\n")) /* the host's job was faster */
        host_logs(own, 0, "1 files without a document were removed");
    ck_assert_int_eq(access(path, F_OK), -1);
    struct answer *file =
        http(own, "GET", text(DEVICE "/Swept/documents/%s", files_document(made, 0, "id")),
             m->token, NULL);

    ck_assert_str_eq(ck_status(file, 200)->body, "kept");
}

static struct upload_body shared(const char *content)
{
    struct upload_body body = {NULL, 0};

    upload_file(&body, "SF_02C", "x", content, strlen(content));
    return body;
}

/*
 * Registers two devices, the first one with the content, and sends the content for the second one.
 * Returns the registration of the first one once the transaction that adds the second document
 * waits for `lock`, which `db` holds.
 */
static struct answer *share(const char *lock, const char *content, struct pending_call **later)
{
    struct upload_body body = shared(content), second = shared(content);
    struct call call = upload_call(DEVICE "/Sharer", m, &second);

    call.method = "PATCH";
    upload_field(&body, "deviceToRegister", text("{\"externalId\":\"First %s\"}", content));
    struct answer *made = ck_status(upload_send(host, "POST", DEVICE, m, &body), 201);

    sql_run(db, "BEGIN");
    sql_run(db, lock);
    *later = call_begin(host, &call);
    database_soon(the_postgres, database, SQL_LOCK_WAITS);
    return made;
}

/* A sweep may have deleted the content, because it looks for documents and new uploads only. */
TEST(a_document_whose_content_is_deleted_before_the_commit_is_refused)
{
    struct upload_body body = files_named("Sharer"), again = shared("shared content");
    struct pending_call *later;

    ck_status(files_post(host, m, &body), 201);
    const struct answer *made =
        share("LOCK TABLE device_document IN SHARE MODE", "shared content", &later);

    sql_run(db, text("DELETE FROM device_document WHERE id = '%s'", files_document(made, 0, "id")));
    sql_run(db, "COMMIT");
    struct answer *answer = call_end(later);

    ck_error(answer, 503, "Another document with this content was deleted meanwhile");
    ck_assert_ptr_nonnull(answer_header(answer, "Retry-After"));
    answer = ck_status(upload_send(host, "PATCH", DEVICE "/Sharer", m, &again), 200);
    ck_assert_str_eq(document_get("Sharer", answer, 0)->body, "shared content");
}

/* The other document cannot be deleted until the commit, so a sweep always finds one of them. */
TEST(a_document_is_kept_until_the_commit_of_another_one_with_its_content)
{
    struct pending_call *later;
    const struct answer *made =
        share("LOCK TABLE device_usage IN EXCLUSIVE MODE", "kept content", &later);
    const char *select = text("SELECT count(*) FROM (SELECT FROM device_document WHERE id = '%s'"
                              " FOR UPDATE SKIP LOCKED) d",
                              files_document(made, 0, "id"));

    sql_is(db, 0, "%s", select);
    sql_run(db, "ROLLBACK");
    struct answer *answer = ck_status(call_end(later), 200);

    sql_is(db, 1, "%s", select);
    ask(m, 200, NULL, "DELETE " DEVICE "/First%%20kept%%20content/documents/%s",
        files_document(made, 0, "id"));
    store_age(store);
    host_says(host, 0, "device", "sweep");
    ck_assert_str_eq(document_get("Sharer", answer, files_count(answer) - 1)->body, "kept content");
}

enum { QUOTA = 20000, PIECE = 8000, AT_ONCE = 8 };

static struct upload_body piece_named(const char *external_id)
{
    struct upload_body body = files_named(external_id);

    upload_file(&body, "SF_02C", "x", upload_noise((unsigned)external_id[0], PIECE), PIECE);
    return body;
}

static struct upload_body piece_more(void)
{
    struct upload_body body = {NULL, 0};

    upload_file(&body, "COD_PROOF", "x", upload_noise(77, PIECE), PIECE);
    return body;
}

/* Two of eight uploads fit; it does not matter which. */
static void at_once(const struct host *bounded, const struct person *who)
{
    struct call calls[AT_ONCE];
    struct answer *answers[AT_ONCE];
    int taken = 0;

    for (int i = 0; i < AT_ONCE; i++) {
        struct upload_body body = piece_named(text("%c at once", 'A' + i));

        calls[i] = upload_call(DEVICE, who, &body);
    }
    parallel(bounded, calls, answers, AT_ONCE);
    for (int i = 0; i < AT_ONCE; i++) {
        if (answers[i]->status == 201)
            taken++;
        else
            ck_error(answers[i], 409, "The organization may have 20000 bytes of documents");
    }
    ck_assert_int_eq(taken, QUOTA / PIECE);
}

TEST(documents_of_an_organization_have_a_quota_of_bytes)
{
    const char *directory = harness_path("quota");
    struct host *bounded = host_start(&(struct host_spec){
        .name = "device-quota",
        .modules = "[auth, device]",
        .more = text("%s  documents_per_organization: %d\n", files_section(directory), QUOTA)});
    const struct person *one = person_make(bounded, admin_of(bounded), "quota.one", NULL);
    const struct person *other = person_make(bounded, admin_of(bounded), "quota.other", NULL);
    struct upload_body body = piece_named("First");
    struct answer *first = ck_status(files_post(bounded, one, &body), 201);

    body = piece_more();
    ck_status(upload_send(bounded, "PATCH", DEVICE "/First", one, &body), 200);
    body = piece_named("Third");
    files_refused(bounded, one, directory, &body, 409, "Third");
    body = piece_more();
    ck_error(upload_send(bounded, "PATCH", DEVICE "/First", one, &body), 409, "The organization");
    ask_on(bounded, one, 200, NULL, "DELETE " DEVICE "/First/documents/%s",
           files_document(first, 0, "id"));
    body = piece_named("Third");
    ck_status(files_post(bounded, one, &body), 201);
    at_once(bounded, other);
}

STAGE_SUITE(device_files, set_up, 120)
