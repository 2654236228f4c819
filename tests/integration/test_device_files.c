/*
 * Documents of devices: multipart bodies of every kind (threats D01 to D13, O28), downloads, a full
 * store, a kill in the middle, and what is left behind: nothing.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "suites.h"
#include "upload.h"

#define DEVICE "/api/device"
#define MIB 1048576

static const char *const fields[] = {"FORM_SF_02",          "SF_02C",         "METERING_EVIDENCE",
                                     "SINGLE_LINE_DIAGRAM", "PROJECT_PHOTOS", "COD_PROOF"};
enum { FIELDS = 6 };

static struct host *host;
static struct person *admin, *m, *k;
static const char *database, *store;

static const char *device_section(const char *directory)
{
    return text("device:\n  documents: \"%s\"\n  document_grace: 1\n", directory);
}

static void set_up(void)
{
    database = database_make(the_postgres, "device_files");
    store = harness_path("documents");
    host = host_start(&(struct host_spec){.name = "device-files",
                                          .database = database,
                                          .modules = "[auth, device]",
                                          .more = device_section(store)});
    admin = admin_of(host);
    m = person_make(host, admin, "files.m", NULL);
    k = person_make(host, admin, "files.k", "ApiUser");
}

static void tear_down(void)
{
    host_stop(host);
}

static struct answer *get(const struct person *who, const char *path)
{
    return http(host, "GET", text(DEVICE "/%s", path), who->token, NULL);
}

static struct upload_body named(const char *external_id)
{
    struct upload_body body = {NULL, 0};

    upload_field(&body, "deviceToRegister", text("{\"externalId\":\"%s\"}", external_id));
    return body;
}

static struct answer *post(struct upload_body *body)
{
    return upload_send(host, "POST", DEVICE, m, body);
}

static size_t documents(const struct answer *answer)
{
    return json_array_size(json_object_get(answer->json, "documents"));
}

static const char *document(const struct answer *answer, size_t index, const char *key)
{
    return json_string_value(
        json_object_get(json_array_get(json_object_get(answer->json, "documents"), index), key));
}

/* Refused with this status: no row, no file. */
static struct answer *refused(struct answer *answer, long status, const char *external_id,
                              int files_before)
{
    ck_error(answer, status, "");
    ck_error(get(m, external_id), 404, "");
    ck_assert(store_settles(store));
    ck_assert_int_eq(store_files(store), files_before);
    return answer;
}

static int files_now(void)
{
    int files = store_files(store);

    return files < 0 ? 0 : files;
}

static void expect_field(const struct answer *answer, const char *name)
{
    const json_t *errors = json_object_get(answer->json, "errors");

    ck_assert_str_eq(json_string_value(json_object_get(json_array_get(errors, 0), "field")), name);
}

/* D01 */
START_TEST(ten_files_in_each_field_are_kept_and_eleven_are_not)
{
    struct upload_body body = named("Sixty");
    unsigned seed = 0;

    for (int f = 0; f < FIELDS; f++)
        for (int i = 0; i < 10; i++, seed++)
            upload_file(&body, fields[f], text("file %d.bin", i), upload_noise(seed, 3000 + seed),
                        3000 + seed);
    struct answer *made = ck_status(post(&body), 201);

    ck_assert_uint_eq(documents(made), 60);
    ck_assert(json_equal(made->json, ck_status(get(m, "Sixty"), 200)->json));
    for (unsigned i = 0; i < 60; i++) {
        struct answer *file =
            ck_status(get(m, text("Sixty/documents/%s", document(made, i, "id"))), 200);

        ck_assert_str_eq(document(made, i, "field"), fields[i / 10]);
        ck_assert_uint_eq(file->length, 3000 + i);
        ck_assert_mem_eq(file->body, upload_noise(i, 3000 + i), 3000 + i);
    }
    int before = files_now();

    body = named("Eleven");
    for (int i = 0; i < 11; i++)
        upload_file(&body, "SF_02C", "x", text("eleven %d", i), 9);
    expect_field(refused(post(&body), 400, "Eleven", before), "SF_02C");
}

START_TEST(json_and_multipart_give_the_same_record)
{
    static const char device[] =
        "{\"externalId\":\"Same\",\"siteName\":\"S\",\"countryCode\":\"de\",\"capacity\":9.5,"
        "\"latitude\":\"1.50\",\"longitude\":2,\"commissioningDate\":\"2024-01-31\","
        "\"fuelCode\":\"X\",\"more\":{\"a\":[1,2]}}";
    static const char *const own[] = {"id", "uuid", "organizationId", "createdAt", "updatedAt"};
    struct upload_body body = {NULL, 0};

    upload_part(&body, "name=\"deviceToRegister\"; filename=\"blob\"", device, sizeof device - 1);
    struct answer *multipart = ck_status(post(&body), 201);
    struct answer *json = ck_status(
        http_send(
            host,
            &(struct call){.method = "POST", .path = DEVICE, .token = k->token, .body = device}),
        201);

    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        json_object_del(multipart->json, own[i]);
        json_object_del(json->json, own[i]);
    }
    ck_assert_msg(json_equal(multipart->json, json->json), "%s\n%s", multipart->body, json->body);
}

/* D02 */
START_TEST(parts_must_be_those_that_there_are)
{
    int before = files_now();
    struct upload_body body = named("Parts");

    upload_file(&body, "FORM_SF_03", "x", "1", 1);
    expect_field(refused(post(&body), 400, "Parts", before), "FORM_SF_03");
    body = named("Parts");
    upload_field(&body, "deviceToRegister", "{}");
    expect_field(refused(post(&body), 400, "Parts", before), "deviceToRegister");
    upload_file(&body, "SF_02C", "x", "1", 1);
    expect_field(refused(post(&body), 400, "Parts", before), "deviceToRegister");
    body = named("Parts");
    upload_field(&body, "SF_02C", "no file");
    expect_field(refused(post(&body), 400, "Parts", before), "SF_02C");
    upload_field(&body, "deviceToUpdate", "{\"externalId\":\"Parts\"}");
    refused(post(&body), 400, "Parts", before);
}

START_TEST(fields_of_a_form_that_were_left_empty_are_passed_over)
{
    struct upload_body body = named("Empty fields");

    for (int i = 0; i < 20; i++)
        upload_file(&body, "COD_PROOF", "", "", 0);
    upload_field(&body, "SF_02C", "");
    upload_file(&body, "PROJECT_PHOTOS", "empty.jpg", "", 0);
    struct answer *made = ck_status(post(&body), 201);

    ck_assert_uint_eq(documents(made), 1);
    ck_assert_str_eq(document(made, 0, "name"), "empty.jpg");
}

struct name {
    const char *sent;        /* in the header */
    const char *kept;        /* NULL: as sent */
    const char *disposition; /* of the download */
};

/* D03, D04 */
static const struct name names[] = {
    {"filename=\"../../etc/x\"", "../../etc/x", "attachment; filename=\"x\"; filename*=UTF-8''x"},
    {"filename=\"..\\\\x\"", "..\\x", "attachment; filename=\"x\"; filename*=UTF-8''x"},
    {"filename=\"/abs\"", "/abs", "attachment; filename=\"abs\"; filename*=UTF-8''abs"},
    {"filename=\"C:\\\"", "C:\\", "attachment; filename=\"document\""},
    {"filename=\"\"", "", "attachment; filename=\"document\""},
    {"filename=\".hidden\"", ".hidden", "attachment; filename=\"hidden\"; filename*=UTF-8''hidden"},
    {"filename=\"CON\"", "CON", "attachment; filename=\"CON\"; filename*=UTF-8''CON"},
    {"filename=\"a\xe2\x80\xae"
     "fdp.exe\"",
     "a\xe2\x80\xae"
     "fdp.exe",
     "attachment; filename=\"afdp.exe\"; filename*=UTF-8''afdp.exe"},
    {"filename=\"a\\\"b.txt\"", "a\"b.txt",
     "attachment; filename=\"a_b.txt\"; filename*=UTF-8''a%22b.txt"},
    {"filename=\"x\"; filename*=UTF-8''..%2fy%20z", "../y z",
     "attachment; filename=\"y z\"; filename*=UTF-8''y%20z"},
    {"filename=\"\xc3\xa4.pdf\"", "\xc3\xa4.pdf",
     "attachment; filename=\"__.pdf\"; filename*=UTF-8''%C3%A4.pdf"},
    {"filename=\"\xff\"", "?", "attachment; filename=\"_\"; filename*=UTF-8''%3F"},
};

START_TEST(names_of_files_are_data)
{
    struct upload_body body = named("Names");
    size_t count = sizeof names / sizeof *names;

    for (size_t i = 0; i < count; i++)
        upload_part(&body, text("name=\"%s\"; %s", fields[i % FIELDS], names[i].sent), "content",
                    7);
    struct answer *made = ck_status(post(&body), 201);

    ck_assert_uint_eq(documents(made), count);
    for (size_t i = 0; i < count; i++) {
        struct answer *file =
            ck_status(get(m, text("Names/documents/%s", document(made, i, "id"))), 200);

        ck_assert_str_eq(document(made, i, "name"), names[i].kept);
        ck_assert_str_eq(answer_header(file, "Content-Disposition"), names[i].disposition);
    }
}

START_TEST(a_very_long_name_is_cut)
{
    struct upload_body body = named("Long name");
    char *name = kept(calloc(1, 5001));

    memset(name, 'n', 5000);
    upload_file(&body, "SF_02C", name, "1", 1);
    struct answer *made = ck_status(post(&body), 201);

    ck_assert_uint_eq(strlen(document(made, 0, "name")), 255);
    struct answer *file =
        ck_status(get(m, text("Long%%20name/documents/%s", document(made, 0, "id"))), 200);

    ck_assert_ptr_nonnull(strstr(answer_header(file, "Content-Disposition"), "nnnn"));
}

/* D05 */
START_TEST(content_decides_the_type_and_is_never_shown)
{
    static const char html[] = "<!DOCTYPE html><html><script>alert(1)</script></html>";
    struct upload_body body = named("Typed");

    upload_file(&body, "SF_02C", "harmless.pdf", html, sizeof html - 1);
    upload_file(&body, "SF_02C", "x", "%PDF-1.4\n%\xe2\xe3\xcf\xd3\n", 15);
    struct answer *made = ck_status(post(&body), 201);
    struct answer *file =
        ck_status(get(m, text("Typed/documents/%s", document(made, 0, "id"))), 200);

    ck_assert_str_eq(document(made, 0, "type"), "text/html");
    ck_assert_str_eq(document(made, 1, "type"), "application/pdf");
    ck_assert_str_eq(answer_header(file, "X-Content-Type-Options"), "nosniff");
    ck_assert_str_eq(answer_header(file, "Content-Type"), "text/html");
    ck_assert_int_eq(strncmp(answer_header(file, "Content-Disposition"), "attachment", 10), 0);
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
START_TEST(malformed_bodies_are_refused_whole)
{
    int before = files_now();
    struct upload_body body = named("Malformed");

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
    body = named("Malformed");
    upload_part(&body, text("name=\"SF_02C\"; filename=\"%s\"", line), "1", 1);
    refused(post(&body), 400, "Malformed", before);
    body = named("Malformed");
    upload_part(&body, "filename=\"x\"", "1", 1);
    refused(post(&body), 400, "Malformed", before);
    body = named("Malformed");
    for (int i = 0; i < 10000; i++)
        upload_file(&body, "SF_02C", "", "", 0);
    refused(post(&body), 400, "Malformed", before);
    body = named("Malformed");
    upload_part(&body, "name=\"SF_02C\"\r\nContent-Type: multipart/mixed; boundary=y", "--y--", 5);
    refused(post(&body), 400, "Malformed", before);
}

/* D09 */
START_TEST(files_are_bounded)
{
    int before = files_now();
    char *large = upload_noise(7, 10 * MIB + 1);
    struct upload_body body = named("Large");

    upload_file(&body, "SF_02C", "x", large, 10 * MIB + 1);
    refused(post(&body), 413, "Large", before);
    body = named("Large");
    upload_file(&body, "SF_02C", "x", large, 10 * MIB);
    ck_status(post(&body), 201);
    before = files_now();
    body = named("Together");
    for (int i = 0; i < 10; i++)
        upload_file(&body, fields[i % FIELDS], "x", large, 10 * MIB);
    upload_file(&body, "COD_PROOF", "x", large, 1);
    refused(post(&body), 413, "Together", before);
}

/* D11 */
START_TEST(fields_that_are_not_valid_keep_no_file)
{
    int before = files_now();
    struct upload_body body = {NULL, 0};

    for (int i = 0; i < 5; i++)
        upload_file(&body, "SF_02C", "x", upload_noise((unsigned)i + 900, 100000), 100000);
    upload_field(&body, "deviceToRegister", "{\"externalId\":\"Invalid\",");
    refused(post(&body), 400, "Invalid", before);
    for (int i = 0; i < 5; i++)
        upload_file(&body, "SF_02C", "x", upload_noise((unsigned)i + 900, 100000), 100000);
    upload_field(&body, "deviceToRegister", "{\"externalId\":\"Invalid\",\"capacity\":-1}");
    expect_field(ck_error(post(&body), 400, ""), "capacity");
    ck_assert(store_settles(store));
    ck_assert_int_eq(files_now(), before);
}

/* D12, D13 */
START_TEST(other_types_of_bodies_are_not_taken)
{
    static const char json[] = "{\"externalId\":\"Type\"}";
    const char *const zipped[] = {"Content-Encoding: gzip", NULL};

    ck_error(post_as("text/json", json, 0), 415, "");
    ck_error(post_as("application/json; charset=utf-16", json, 0), 415, "");
    ck_error(http_send(host, &(struct call){.method = "POST",
                                            .path = DEVICE,
                                            .token = m->token,
                                            .body = json,
                                            .headers = zipped}),
             415, "");
    ck_error(get(m, "Type"), 404, "");
}

START_TEST(a_change_adds_files_with_or_without_fields)
{
    struct upload_body body = named("Adds");

    upload_file(&body, "SF_02C", "first", "1", 1);
    ck_status(post(&body), 201);
    upload_file(&body, "SF_02C", "second", "2", 1);
    struct answer *alone = ck_status(upload_send(host, "PATCH", DEVICE "/Adds", m, &body), 200);

    ck_assert_uint_eq(documents(alone), 2);
    upload_field(&body, "deviceToUpdate", "{\"capacity\":5,\"siteName\":\"Adds site\"}");
    upload_file(&body, "COD_PROOF", "third", "3", 1);
    ck_status(upload_send(host, "PATCH", DEVICE "/Adds", m, &body), 200);
    for (int i = 0; i < 8; i++)
        upload_file(&body, "SF_02C", "more", text("more %d", i), 6);
    struct answer *full =
        ck_status(upload_send(host, "PATCH", DEVICE "/by-site/Adds%20site", m, &body), 200);

    ck_assert_uint_eq(documents(full), 11);
    upload_field(&body, "deviceToUpdate", "{\"capacity\":6}");
    upload_file(&body, "SF_02C", "one too many", "x", 1);
    ck_error(upload_send(host, "PATCH", DEVICE "/Adds", m, &body), 409, "");
    struct answer *device = ck_status(get(m, "Adds"), 200);

    ck_assert_uint_eq(documents(device), 11);
    ck_assert_int_eq(answer_int(device, "capacity"), 5);
    ck_assert_uint_eq(json_array_size(ck_status(get(m, "Adds/documents"), 200)->json), 11);
}

/* O28 */
START_TEST(documents_of_others_are_unknown)
{
    struct upload_body body = named("Private");

    upload_file(&body, "SF_02C", "x", "secret", 6);
    const char *path = text("Private/documents/%s", document(ck_status(post(&body), 201), 0, "id"));

    ck_status(get(m, path), 200);
    ck_status(get(admin, path), 200);
    ck_error(get(k, path), 404, "");
    body = named("Another");
    ck_status(post(&body), 201);
    ck_error(get(m, text("Another%s", path + strlen("Private"))), 404, "Document not found");
}

START_TEST(a_repeated_upload_is_answered_again_whatever_its_boundary)
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

static void send_head(int fd, size_t length, const char *more)
{
    const char *head = text("POST " DEVICE " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"
                            "Content-Type: " UPLOAD_TYPE "\r\nContent-Length: %zu\r\n%s\r\n",
                            m->token, length, more);

    ck_assert_int_eq(send(fd, head, strlen(head), MSG_NOSIGNAL), (ssize_t)strlen(head));
}

/* The first part of an upload, on a socket that is left open. */
static int send_half(const struct host *to, const char *external_id)
{
    struct upload_body body = named(external_id);
    int fd = raw_open(to);

    upload_file(&body, "SF_02C", "x", upload_noise(5, 300000), 300000);
    send_head(fd, 9000000, "");
    ck_assert_int_eq(send(fd, body.bytes, body.length, MSG_NOSIGNAL), (ssize_t)body.length);
    free(body.bytes);
    return fd;
}

/* Reads up to the end of the headers that begin with this. */
static void expect_head(int fd, const char *begin)
{
    char heard[4096] = "";
    size_t length = 0;

    while (!strstr(heard, "\r\n\r\n") && length + 1 < sizeof heard &&
           recv(fd, heard + length, 1, 0) == 1)
        heard[++length] = '\0';
    ck_assert_msg(!strncmp(heard, begin, strlen(begin)), "%s", heard);
}

START_TEST(an_upload_may_wait_until_it_is_asked_for)
{
    struct upload_body body = named("Expected");
    int fd = raw_open(host);

    upload_file(&body, "SF_02C", "x", upload_noise(8, 2 * MIB), 2 * MIB);
    upload_close(&body);
    send_head(fd, body.length, "Expect: 100-continue\r\n");
    expect_head(fd, "HTTP/1.1 100 ");
    ck_assert_int_eq(send(fd, body.bytes, body.length, MSG_NOSIGNAL), (ssize_t)body.length);
    expect_head(fd, "HTTP/1.1 201 ");
    close(fd);
    free(body.bytes);
    ck_assert_uint_eq(documents(ck_status(get(m, "Expected"), 200)), 1);
}

/* Closes with a reset. */
static void die(int fd)
{
    struct linger reset = {1, 0};

    setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    close(fd);
}

START_TEST(a_body_that_is_declared_too_large_is_not_awaited)
{
    int fd = raw_open(host);

    send_head(fd, 200 * MIB, "");
    expect_head(fd, "HTTP/1.1 413 ");
    close(fd);
}

static int descriptors(void)
{
    return store_files(text("/proc/%d/fdinfo", (int)host->pid));
}

static bool few_descriptors(void *arg)
{
    return descriptors() <= *(int *)arg;
}

/* D10 */
START_TEST(clients_that_die_leave_nothing)
{
    int files = files_now(), before = descriptors() + 2;

    for (int i = 0; i < 1000; i++)
        die(send_half(host, "Died"));
    ck_assert(wait_until(few_descriptors, &before, 10000));
    ck_assert(store_settles(store));
    ck_assert_int_eq(files_now(), files);
    ck_error(get(m, "Died"), 404, "");
}

static bool has_incoming(void *arg)
{
    return store_files(arg) > 0;
}

/* A host of one's own, for what hurts it. */
static struct host *victim(const char *name, const char *directory)
{
    return host_start(&(struct host_spec){.name = name,
                                          .database = database,
                                          .modules = "[auth, device]",
                                          .more = device_section(directory)});
}

static bool swept(void *arg)
{
    static const char *const sweep[] = {"device", "sweep", NULL};
    struct host *swept = arg;

    return !host_command(swept, NULL, sweep) && store_files(harness_path("killed")) == 0;
}

START_TEST(a_kill_in_the_middle_leaves_neither_file_nor_row)
{
    char *directory = harness_path("killed");
    struct host *killed = victim("device-killed", directory);
    int fd = send_half(killed, "Killed");

    ck_assert(wait_until(has_incoming, text("%s/incoming", directory), 5000));
    host_kill(killed);
    close(fd);
    ck_assert(host_run(killed));
    ck_error(get(m, "Killed"), 404, "");
    ck_assert(wait_until(swept, killed, 10000));
    host_stop(killed);
}

START_TEST(the_sweep_takes_what_has_no_document_and_nothing_else)
{
    static const char *const sweep[] = {"device", "sweep", NULL};
    static const char orphan[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b8ff";
    char *directory = harness_path("killed");
    struct host *own = victim("device-swept", directory);
    struct upload_body body = named("Swept");

    upload_file(&body, "SF_02C", "x", "kept", 4);
    struct answer *made = ck_status(upload_send(own, "POST", DEVICE, m, &body), 201);
    const char *shard = text("%s/e3", directory), *path = text("%s/%s", shard, orphan);

    mkdir(shard, 0700);
    file_write(path, "orphan");
    ck_assert_int_eq(host_command(own, NULL, sweep), 0);
    ck_assert_int_eq(access(path, F_OK), 0); /* too young */
    ck_assert_int_eq(system(text("find %s -type f -exec touch -d '1 hour ago' {} +", directory)),
                     0);
    ck_assert_int_eq(host_command(own, NULL, sweep), 0);
    ck_assert_int_eq(access(path, F_OK), -1);
    struct answer *file = http(
        own, "GET", text(DEVICE "/Swept/documents/%s", document(made, 0, "id")), m->token, NULL);

    ck_assert_str_eq(ck_status(file, 200)->body, "kept");
    host_stop(own);
}

/* F24 */
START_TEST(a_full_store_refuses_and_recovers)
{
    char *directory = harness_path("full");
    char *ballast = text("%s/ballast", directory);
    struct upload_body body = named("Full");

    ck_assert_int_eq(mkdir(directory, 0700), 0);
    ck_assert_int_eq(mount("none", directory, "tmpfs", 0, "size=1m"), 0);
    struct host *full = victim("device-full", directory);

    file_write(ballast, text("%0700000d", 1));
    upload_file(&body, "SF_02C", "x", upload_noise(3, 800000), 800000);
    struct answer *answer = ck_error(upload_send(full, "POST", DEVICE, m, &body), 503, "");

    ck_assert_ptr_nonnull(answer_header(answer, "Retry-After"));
    ck_error(get(m, "Full"), 404, "");
    ck_assert(store_settles(directory));
    ck_assert_int_eq(store_files(directory), 1);
    ck_assert_int_eq(unlink(ballast), 0);
    body = named("Full");
    upload_file(&body, "SF_02C", "x", upload_noise(3, 800000), 800000);
    ck_status(upload_send(full, "POST", DEVICE, m, &body), 201);
    host_stop(full);
    ck_assert_int_eq(umount(directory), 0);
}

/* F25 */
START_TEST(a_store_that_cannot_be_written_refuses)
{
    char *directory = harness_path("no-directory");
    struct upload_body body = named("Unwritable");

    file_write(directory, "a file");
    struct host *without = victim("device-unwritable", directory);

    upload_file(&body, "SF_02C", "x", "1", 1);
    ck_error(upload_send(without, "POST", DEVICE, m, &body), 503, "");
    ck_error(get(m, "Unwritable"), 404, "");
    body = named("Unwritable");
    ck_status(upload_send(without, "POST", DEVICE, m, &body), 201);
    host_stop(without);
}

START_TEST(types_may_be_restricted)
{
    char *directory = harness_path("restricted");
    struct host *strict = host_start(
        &(struct host_spec){.name = "device-strict",
                            .database = database,
                            .modules = "[auth, device]",
                            .more = text("%s  document_types: [application/pdf, image/*]\n",
                                         device_section(directory))});
    struct upload_body body = named("Restricted");

    upload_file(&body, "SF_02C", "a.pdf", "plain text", 10);
    ck_error(upload_send(strict, "POST", DEVICE, m, &body), 415, "SF_02C");
    ck_assert(store_settles(directory));
    ck_assert_int_le(store_files(directory), 0);
    body = named("Restricted");
    upload_file(&body, "SF_02C", "a.txt", "%PDF-1.4\n", 9);
    upload_file(&body, "SF_02C", "b", "GIF89a\1\0\1\0\0\0\0;", 14);
    ck_assert_uint_eq(documents(ck_status(upload_send(strict, "POST", DEVICE, m, &body), 201)), 2);
    host_stop(strict);
}

Suite *device_files_suite(void)
{
    Suite *suite = suite_create("device_files");
    TCase *tests = tcase_create("device_files");

    tcase_set_timeout(tests, 120);
    tcase_add_unchecked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, ten_files_in_each_field_are_kept_and_eleven_are_not);
    tcase_add_test(tests, json_and_multipart_give_the_same_record);
    tcase_add_test(tests, parts_must_be_those_that_there_are);
    tcase_add_test(tests, fields_of_a_form_that_were_left_empty_are_passed_over);
    tcase_add_test(tests, names_of_files_are_data);
    tcase_add_test(tests, a_very_long_name_is_cut);
    tcase_add_test(tests, content_decides_the_type_and_is_never_shown);
    tcase_add_test(tests, malformed_bodies_are_refused_whole);
    tcase_add_test(tests, files_are_bounded);
    tcase_add_test(tests, fields_that_are_not_valid_keep_no_file);
    tcase_add_test(tests, other_types_of_bodies_are_not_taken);
    tcase_add_test(tests, a_change_adds_files_with_or_without_fields);
    tcase_add_test(tests, documents_of_others_are_unknown);
    tcase_add_test(tests, a_repeated_upload_is_answered_again_whatever_its_boundary);
    tcase_add_test(tests, an_upload_may_wait_until_it_is_asked_for);
    tcase_add_test(tests, a_body_that_is_declared_too_large_is_not_awaited);
    tcase_add_test(tests, clients_that_die_leave_nothing);
    tcase_add_test(tests, a_kill_in_the_middle_leaves_neither_file_nor_row);
    tcase_add_test(tests, the_sweep_takes_what_has_no_document_and_nothing_else);
    tcase_add_test(tests, a_full_store_refuses_and_recovers);
    tcase_add_test(tests, a_store_that_cannot_be_written_refuses);
    tcase_add_test(tests, types_may_be_restricted);
    suite_add_tcase(suite, tests);
    return suite;
}
