/* The disk for documents fails, is full or is slow; each call fails in turn. */
#include "fault/common.h"
#include "fault/torture.h"
#include "talk.h"
#include "upload.h"
#include "wire.h"

enum {
    FILE_BYTES = 400000,
    CALLS_MAX = 60,
    ALLOCATIONS_MAX = 3000,
    SLOW_MS = 5000,
    HELD_BYTES = 400000,
    SMALL_FILES = 20,
    SMALL_BYTES = 30000,
    LARGE_BYTES = 1000000,
    FLUSH_MS = 100,
    STALL_MS = 200,
    CHUNK_BYTES = 512
};

#define CHUNK_LINE "200\r\n" /* CHUNK_BYTES */

struct desk {
    struct rack rack;
    struct host *host;
    struct person *person;
    const char *store;
};

/* `http` as in struct host_spec. */
static struct desk desk_make(const char *name, const char *http)
{
    struct desk desk = {.rack = rack_make(name), .store = harness_path(text("%s.store", name))};

    desk.host =
        host_start(&(struct host_spec){.name = name,
                                       .modules = "[auth, device, health]",
                                       .http = http,
                                       .plain = true,
                                       .environment = desk.rack.environment,
                                       .more = text("device:\n  documents: \"%s\"\n", desk.store)});
    desk.person = person_make(desk.host, admin_of(desk.host), "desk", NULL);
    return desk;
}

/* Posts three files; their contents differ for each number. */
static struct answer *post(const struct desk *desk, const char *name, int number)
{
    struct upload_body body = {NULL, 0};

    upload_field(&body, "deviceToRegister", text("{\"externalId\":\"%s-%d\"}", name, number));
    for (unsigned i = 0; i < 3; i++)
        upload_file(&body, "SF_02C", "x", upload_noise((unsigned)number * 3 + i, FILE_BYTES),
                    FILE_BYTES);
    return upload_send(desk->host, "POST", "/api/device", desk->person, &body);
}

/* Makes the first call fail, then the second, until a request succeeds. Returns the number of
 * failures. */
static int fail_in_turn(const struct desk *desk, const char *name, atomic_long *counter)
{
    int before = 0;

    for (int n = 1; n <= CALLS_MAX; n++) {
        atomic_store(counter, n);
        struct answer *answer = post(desk, name, n);
        bool failed = atomic_load(counter) == 0;

        atomic_store(counter, 0);
        ck_assert(store_settles(desk->store));
        if (!failed) {
            ck_status(answer, 201);
            ck_assert_int_eq(store_files(desk->store), before + 3);
            return n - 1;
        }
        ck_error(answer, 503, "");
        ck_error(
            http(desk->host, "GET", text("/api/device/%s-%d", name, n), desk->person->token, NULL),
            404, "");
        int files = store_files(desk->store);

        ck_assert_msg(files <= before, "call %d: %d files, not %d", n, files, before);
    }
    ck_abort_msg("%s: still no success after %d failures", name, CALLS_MAX);
}

/* fsync() is called for each file, and for the directories that contain the files. */
TEST(a_failed_fsync_refuses_the_upload_and_keeps_no_file)
{
    struct desk desk = desk_make("fault_flush", NULL);

    ck_assert_int_ge(fail_in_turn(&desk, "flush", &desk.rack.numbers->syncs), 6);
}

TEST(a_full_disk_refuses_the_upload_and_keeps_no_file)
{
    struct desk desk = desk_make("fault_full", NULL);

    ck_assert_int_ge(fail_in_turn(&desk, "full", &desk.rack.numbers->writes), 3);
}

/* The commands run while the host does not, because its job archives, too. */
TEST(a_failed_fsync_leaves_messages_in_the_database)
{
    struct rack rack = rack_make("fault_archive");
    struct host *host = host_start(&(struct host_spec){
        .name = "fault_archive",
        .modules = "[auth, chat, device, health]",
        .plain = true,
        .chat = "  retention_days: 30\n",
        .more = text("device:\n  documents: \"%s\"\n", harness_path("fault_archive.store"))});
    struct person *person = person_make(host, admin_of(host), "archivist", NULL);
    struct talk talk = talk_start(host, person, "old@shop.example", ADMIN_EMAIL, NULL);
    PGconn *db = database_connect(the_postgres, "fault_archive");
    int status = 1, n = 0;

    ck_status(talk_post(host, person, &talk, "old@shop.example", "second"), 201);
    host_stop(host);
    sql_run(db, "UPDATE chat_conversation SET last_at = now() - interval '31 days'");
    while (status && ++n <= CALLS_MAX) {
        atomic_store(&rack.numbers->syncs, n);
        status =
            host_command(host, rack.environment, (const char *const[]){"chat", "archive", NULL});
        ck_assert_int_eq(status, atomic_exchange(&rack.numbers->syncs, 0) == 0 ? 1 : 0);
        sql_is(db, status ? 2 : 1, "SELECT count(*) FROM chat_entry");
    }
    ck_assert_int_gt(n, 2); /* the file, and the directory with its name */
    PQfinish(db);
    ck_assert(host_run(host));
    ck_assert_uint_eq(talk_length(host, person, &talk), 2);
}

/* Makes the nth allocation fail while a message with a file is posted. Returns whether it did. */
static bool attach_tortured(struct host *host, const struct rack *rack, const struct person *person,
                            const struct talk *talk, int n)
{
    struct upload_body body = {NULL, 0};
    const char *content = text("plate %d", n);

    upload_field(&body, "message", "{\"username\":\"plate@shop.example\"}");
    upload_file(&body, "files", "plate.jpg", content, strlen(content));
    rack_arm(rack, n);
    struct answer *answer = upload_send(
        host, "POST", text("/api/chat/conversations/%jd/attachments", (intmax_t)talk->id), person,
        &body);
    bool failed = rack_arm(rack, 0);

    ck_assert_msg(answer->status == 201 || (failed && (answer->status >= 500 || !answer->status)),
                  "allocation %d: %ld: %s", n, answer->status, answer->body);
    expect_running(host);
    return failed;
}

/* If a request ends after its files were stored, the sweep removes them. libmagic, which crashes
 * without memory, always gets it. */
TEST(attachments_without_memory_are_stored_as_a_whole_or_not_at_all)
{
    const char *store = harness_path("fault_attach.store");
    struct rack rack = rack_make("fault_attach");
    struct host_spec spec = rack_spec("fault_attach", &rack);

    spec.modules = "[auth, chat, device, health]";
    spec.more = text("device:\n  documents: \"%s\"\n", store);
    struct host *host = host_start(&spec);
    struct person *person = person_make(host, admin_of(host), "plate", NULL);
    struct talk talk = talk_start(host, person, "plate@shop.example", ADMIN_EMAIL, NULL);
    PGconn *db = database_connect(the_postgres, "fault_attach");
    static const char *const libraries[] = {"busbar", "/libpq.so"};

    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        int n = 1;

        strcpy(rack.numbers->only, libraries[i]);
        while (attach_tortured(host, &rack, person, &talk, n))
            ck_assert_int_le(++n, ALLOCATIONS_MAX);
        ck_assert_msg(n > 5, "%s: %d allocations", libraries[i], n);
    }
    sql_is(db, 0,
           "SELECT count(*) FROM (SELECT a->>'id' AS id FROM chat_entry,"
           " json_array_elements(attachments::json) a) a FULL JOIN device_document d"
           " ON d.id::text = a.id WHERE d.id IS NULL OR a.id IS NULL");
    sql_run(db, "UPDATE device_upload SET begun_at = now() - interval '1 day'");
    store_age(store);
    ck_assert_int_eq(host_command(host, NULL, (const char *const[]){"device", "sweep", NULL}), 0);
    sql_is(db, store_files(store), "SELECT count(DISTINCT object) FROM device_document");
    sql_is(db, 0, "SELECT count(*) FROM device_upload");
    PQfinish(db);
    host_stop(host);
}

struct slow_post {
    const struct desk *desk;
    struct answer *answer;
    atomic_bool over;
};

static void *post_slowly(void *arg)
{
    struct slow_post *slow = arg;

    slow->answer = post(slow->desk, "slow", 1);
    atomic_store(&slow->over, true);
    return NULL;
}

TEST(a_slow_disk_delays_no_other_request)
{
    struct desk desk = desk_make("fault_slow", NULL);
    struct slow_post slow = {.desk = &desk};
    pthread_t thread;
    int asked = 0;

    atomic_store(&desk.rack.numbers->sync_ms, SLOW_MS);
    ck_assert_int_eq(pthread_create(&thread, NULL, post_slowly, &slow), 0);
    for (; !atomic_load(&slow.over); asked++)
        ck_status(http(desk.host, "GET", "/api/auth/me", desk.person->token, NULL), 200);
    pthread_join(thread, NULL);
    atomic_store(&desk.rack.numbers->sync_ms, 0);
    ck_status(slow.answer, 201);
    ck_assert_int_gt(asked, 10); /* while a single flush takes as long as many requests */
}

/* Sends most of another account's large body, which takes up most of the memory for bodies. */
static struct wire *hold_room(const struct desk *desk)
{
    const struct person *other = person_make(desk->host, admin_of(desk->host), "holder", NULL);
    struct wire *wire = wire_open(desk->host);

    wire_say(wire,
             "POST /api/device HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"
             "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%*s",
             other->token, HELD_BYTES, HELD_BYTES - 2, "");
    return wire;
}

/*
 * The first bytes are several complete files, which are flushed one by one and slowly. Meanwhile
 * the rest of the body arrives and fills the other buffer.
 */
static struct upload_body small_and_large(const char *name)
{
    struct upload_body body = {NULL, 0};

    upload_field(&body, "deviceToRegister", text("{\"externalId\":\"%s\"}", name));
    for (unsigned i = 0; i < SMALL_FILES; i++)
        upload_file(&body, i % 2 ? "SF_02C" : "FORM_SF_02", "x", upload_noise(i, SMALL_BYTES),
                    SMALL_BYTES);
    for (unsigned i = 0; i < 3; i++)
        upload_file(&body, "COD_PROOF", "x", upload_noise(100 + i, LARGE_BYTES), LARGE_BYTES);
    return body;
}

/* There is no memory for the other buffer. */
TEST(an_upload_to_a_slow_disk_works_with_one_buffer)
{
    struct desk desk = desk_make("fault_one_buffer", "  max_bodies: 1048576\n");
    struct upload_body body = small_and_large("one buffer");
    struct wire *held = hold_room(&desk);

    atomic_store(&desk.rack.numbers->sync_ms, FLUSH_MS);
    ck_status(upload_send(desk.host, "POST", "/api/device", desk.person, &body), 201);
    atomic_store(&desk.rack.numbers->sync_ms, 0);
    ck_assert_int_eq(store_files(desk.store), SMALL_FILES + 3);
    wire_say(held, "{}");
    struct wire_answer *answer = wire_read(held, 5000);

    ck_assert(answer && answer->status == 400);
}

/*
 * The chunks are so small that unread bytes are also in the reader, not only in the socket. The
 * host may respond before it has read everything.
 */
static void say_in_chunks(struct wire *wire, const struct upload_body *body)
{
    size_t count = body->length / CHUNK_BYTES, size = CHUNK_BYTES + strlen(CHUNK_LINE "\r\n");
    char *chunks = malloc(count * size), *to = chunks;

    ck_assert_ptr_nonnull(chunks);
    for (size_t i = 0; i < count; i++) {
        to = mempcpy(to, CHUNK_LINE, strlen(CHUNK_LINE));
        to = mempcpy(to, body->bytes + i * CHUNK_BYTES, CHUNK_BYTES);
        to = mempcpy(to, "\r\n", 2);
    }
    (void)wire_send(wire, chunks, count * size);
    free(chunks);
}

/* A body with a Content-Length would get more time. */
TEST(an_upload_that_stalls_beyond_body_timeout_is_answered)
{
    struct desk desk = desk_make("fault_stalls", "  body_timeout: 1\n");
    struct upload_body body = small_and_large("stalls");
    struct wire *wire = wire_open(desk.host);

    upload_close(&body);
    atomic_store(&desk.rack.numbers->sync_ms, STALL_MS);
    wire_say(wire,
             "POST /api/device HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"
             "Content-Type: %s\r\nTransfer-Encoding: chunked\r\n\r\n",
             desk.person->token, UPLOAD_TYPE);
    say_in_chunks(wire, &body);
    const struct wire_answer *answer = ck_wire_error(wire_read(wire, 10000), 408);

    ck_assert_ptr_nonnull(strstr(answer->body, "The body did not arrive in time"));
    atomic_store(&desk.rack.numbers->sync_ms, 0);
    free(body.bytes);
    ck_assert(store_settles(desk.store));
    ck_assert_int_le(store_files(desk.store), 0);
}

FAULT_SUITE(documents)
