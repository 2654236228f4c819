/* Uploads, with devices and their documents as an example: stored bytes, clients that disconnect, a
 * kill in the middle, a full disk, and limits. */
#include <sys/stat.h>

#include "devices.h"
#include "exposition.h"
#include "files.h"
#include "wire.h"

enum { HALF = 600000, FILE_BYTES = 100000 }; /* more than a host buffers before it writes; less */

static const char database[] = "upload";
static const char *store;

static void set_up(void)
{
    store = harness_path("documents-uploads");
    stage_open(&(struct host_spec){
        .name = database, .modules = "[auth, device]", .more = files_section(store)});
    m = person_make(host, admin, "uploads.m", NULL);
}

static const char *head_of(const struct person *who, size_t length)
{
    return text("POST " DEVICE " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"
                "Content-Type: " UPLOAD_TYPE "\r\nContent-Length: %zu\r\n\r\n",
                who->token, length);
}

/* Sends the first part of an upload on a connection that stays open. */
static struct wire *send_half(const struct person *who, const struct host *to,
                              const char *external_id)
{
    struct upload_body body = files_named(external_id);
    struct wire *wire = wire_open(to);

    upload_file(&body, "SF_02C", "x", upload_noise(5, HALF), HALF);
    ck_assert(wire_say(wire, "%s", head_of(who, 9000000)));
    ck_assert(wire_send(wire, body.bytes, body.length));
    free(body.bytes);
    return wire;
}

TEST(a_body_declared_too_large_is_refused_at_once)
{
    wire_exchange(host, head_of(m, 200 * MIB), "413 end");
}

static int descriptors(void)
{
    return store_files(text("/proc/%d/fdinfo", (int)host->pid));
}

TEST(clients_that_disconnect_in_an_upload_leave_no_files)
{
    int files = files_now(store), before = descriptors() + 2;

    for (int i = 0; i < repetitions(50, 200); i++)
        wire_close(send_half(m, host, "Died"), true);
    WAIT_UNTIL(descriptors() <= before, 10000);
    ck_assert(store_settles(store));
    ck_assert_int_eq(files_now(store), files);
    ck_error(files_get(host, m, "Died"), 404, "");
}

/* Starts a separate host, because the test harms it. */
static struct host *victim(const char *name, const char *directory)
{
    return host_start(&(struct host_spec){.name = name,
                                          .database = database,
                                          .modules = "[auth, device, metrics]",
                                          .more = files_section(directory)});
}

static double failures_of(const struct host *of)
{
    return exposition_value(exposition_get(of, admin_of(host)->token),
                            "busbar_device_store_failures_total", "call=\"keep\"");
}

static struct answer *send_one(const struct host *to, const struct person *by,
                               const char *external_id)
{
    struct upload_body body = files_named(external_id);

    upload_file(&body, "SF_02C", "x", upload_noise(6, FILE_BYTES), FILE_BYTES);
    return upload_send(to, "POST", DEVICE, by, &body);
}

static bool has_buffers(const struct host *of)
{
    const char *metrics = ck_status(http(of, "GET", "/metrics", NULL, NULL), 200)->body;

    return !strstr(metrics, "\nbusbar_body_bytes 0\n");
}

TEST(uploads_share_the_memory_limit_of_large_bodies)
{
    struct host *tight = host_start(
        &(struct host_spec){.name = "device-tight",
                            .database = database,
                            .modules = "[auth, device, metrics]",
                            .http = "  max_bodies: 1048576\n  metrics_networks: [127.0.0.1]\n",
                            .more = files_section(harness_path("tight"))});
    const struct person *other = person_make(tight, admin_of(tight), "uploads.other", NULL);
    struct wire *half = send_half(m, tight, "First");

    WAIT_UNTIL(has_buffers(tight), 5000);

    ck_error(send_one(tight, m, "Second"), 429,
             "Too many large bodies in progress for this account");
    ck_error(send_one(tight, other, "Second"), 503, "");
    ck_error(files_get(host, m, "Second"), 404, "");
    ck_error(files_get(host, other, "Second"), 404, "");
    wire_close(half, true);
    WAIT_UNTIL(!has_buffers(tight), 5000);
    ck_status(send_one(tight, m, "Second"), 201);
    WAIT_UNTIL(!has_buffers(tight), 5000);
}

TEST(a_kill_in_an_upload_leaves_neither_file_nor_row)
{
    char *directory = harness_path("killed");
    struct host *killed = victim("device-killed", directory);
    struct wire *half = send_half(m, killed, "Killed");

    WAIT_UNTIL(store_files(text("%s/incoming", directory)) > 0, 5000);
    host_kill(killed);
    wire_close(half, false);
    ck_assert(host_run(killed));
    ck_error(files_get(host, m, "Killed"), 404, "");
    store_age(directory);
    ck_assert_int_eq(host_command(killed, NULL, (const char *const[]){"device", "sweep", NULL}), 0);
    ck_assert_int_eq(store_files(directory), 0);
}

TEST(uploads_are_refused_while_the_disk_is_full)
{
    char *directory = harness_path("full");
    char *ballast = text("%s/ballast", directory);
    struct upload_body body = files_named("Full");

    const char *options = text("size=1m,mode=700,uid=%u,gid=%u", geteuid(), getegid());
    const char *const mount[] = {"mount", "-t", "tmpfs", "-o", options, "none", directory, NULL};
    const char *const unmount[] = {"umount", directory, NULL};

    ck_assert_int_eq(mkdir(directory, 0700), 0);
    if (!process_as_root(mount))
        return;
    struct host *full = victim("device-full", directory);

    file_write(ballast, text("%0700000d", 1));
    upload_file(&body, "SF_02C", "x", upload_noise(3, 800000), 800000);
    ck_error(upload_send(full, "POST", DEVICE, m, &body), 503, "");
    ck_assert_double_eq(failures_of(full), 1);
    ck_error(files_get(host, m, "Full"), 404, "");
    ck_assert(store_settles(directory));
    ck_assert_int_eq(store_files(directory), 1);
    ck_assert_int_eq(unlink(ballast), 0);
    body = files_named("Full");
    upload_file(&body, "SF_02C", "x", upload_noise(3, 800000), 800000);
    ck_status(upload_send(full, "POST", DEVICE, m, &body), 201);
    host_stop(full);
    ck_assert(process_as_root(unmount));
}

TEST(uploads_are_refused_if_the_directory_is_not_writable)
{
    char *directory = harness_path("no-directory");
    struct upload_body body = files_named("Unwritable");

    file_write(directory, "a file");
    struct host *without = victim("device-unwritable", directory);

    upload_file(&body, "SF_02C", "x", "1", 1);
    ck_assert_double_eq(failures_of(without), 0);
    ck_error(upload_send(without, "POST", DEVICE, m, &body), 503, "");
    ck_assert_double_eq(failures_of(without), 1);
    ck_error(files_get(host, m, "Unwritable"), 404, "");
    body = files_named("Unwritable");
    ck_status(upload_send(without, "POST", DEVICE, m, &body), 201);
}

static long send_whole(const struct host *to, const struct person *who, const char *external_id)
{
    struct upload_body body = files_named(external_id);

    upload_file(&body, "SF_02C", "x", upload_noise(9, HALF), HALF);
    return upload_send(to, "POST", DEVICE, who, &body)->status;
}

/* Bytes of unfinished uploads are counted per account and in total, and released when the
 * upload ends. */
TEST(unfinished_uploads_share_a_limit_of_bytes)
{
    struct host *tight = host_start(
        &(struct host_spec){.name = "device-uploads-share",
                            .modules = "[auth, device, metrics]",
                            .http = "  max_uploads: 4194304\n  metrics_networks: [127.0.0.1]\n",
                            .more = files_section(harness_path("documents-uploads-share"))});
    const struct person *greedy = person_make(tight, admin_of(tight), "uploads.greedy", NULL);
    const struct person *other = person_make(tight, admin_of(tight), "uploads.other", NULL);
    struct wire *half = send_half(greedy, tight, "Never whole");

    /* otherwise a later upload of the same account could be accepted in its place */
    WAIT_UNTIL(exposition_value(exposition_get(tight, NULL), "busbar_share_taken",
                                "resource=\"uploads\"") >= (double)HALF,
               10000);
    ck_assert_int_eq(send_whole(tight, greedy, "Too much"), 429);
    ck_assert_int_eq(send_whole(tight, other, "Whole"), 201);
    wire_close(half, false);
    WAIT_UNTIL(send_whole(tight, greedy, "Later") == 201, 5000);
}

/* Bytes that libmicrohttpd has are still delivered while the connection waits for the disk. */
TEST(an_upload_in_many_small_chunks_is_stored_unchanged)
{
    enum { CHUNK = 700, LARGE = 5000000, UPLOADS = 4 };

    for (int i = 0; i < UPLOADS; i++) {
        const char *name = text("Chunks%d", i), *bytes = upload_noise((unsigned)i, LARGE);
        struct upload_body body = files_named(name);
        struct wire *wire = wire_open(host);
        char *sent;
        size_t size;

        upload_file(&body, "SF_02C", "x", bytes, LARGE);
        upload_close(&body);
        FILE *chunks = open_memstream(&sent, &size);

        fprintf(chunks,
                "POST " DEVICE " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"
                "Content-Type: " UPLOAD_TYPE "\r\nTransfer-Encoding: chunked\r\n\r\n",
                m->token);
        for (size_t at = 0; at < body.length; at += CHUNK) {
            size_t length = body.length - at < CHUNK ? body.length - at : CHUNK;

            fprintf(chunks, "%zx\r\n", length);
            fwrite(body.bytes + at, 1, length, chunks);
            fputs("\r\n", chunks);
        }
        fputs("0\r\n\r\n", chunks);
        fclose(chunks);
        ck_assert(wire_send(wire, sent, size));
        free(sent);
        struct wire_answer *answer = wire_read(wire, 20000);

        ck_assert_msg(answer && answer->status == 201, "%s", answer ? answer->body : "no answer");
        wire_close(wire, false);
        free(body.bytes);
        const char *id = files_document(ck_status(files_get(host, m, name), 200), 0, "id");
        struct answer *stored = files_get(host, m, text("%s/documents/%s", name, id));

        ck_assert_uint_eq(ck_status(stored, 200)->length, LARGE);
        ck_assert_mem_eq(stored->body, bytes, LARGE);
    }
}

STAGE_SUITE(upload, set_up, 120)
