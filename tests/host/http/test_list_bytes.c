/*
 * Lists and streams read from PostgreSQL only the data that they show. The test counts bytes on the
 * connections, with the largest rows that clients can make.
 */
#include <limits.h>

#include "bulk.h"
#include "certificates.h"
#include "fault/common.h"
#include "fault/proxy.h"
#include "hook.h"
#include "readings.h"
#include "reference.h"
#include "schema.h"
#include "sse.h"

/* ROOM allows for the listener, jobs and the token; LOOKS_MS is how long a stream without news is
 * watched. */
enum { ROWS = 20, HEADER = 16000, ROOM = 32768, LOOKS_MS = 3000 };

static struct proxy *proxy;

static void host_behind_proxy(const char *name)
{
    struct host_spec spec = {
        .name = name,
        .modules = "[audit, auth, chat, webhook, device, reading, certificate, bulk]",
        .more =
            text("bulk:\n  files: \"%s\"\n  jobs_per_account: 100\ndevice:\n  documents: \"%s\"\n"
                 "webhook:\n  allow_networks: [\"127.0.0.0/8\"]\n",
                 harness_path(text("bulk-%s", name)), harness_path(text("documents-%s", name))),
    };

    spec.database = database_make(the_postgres, name);
    proxy = proxy_start(NULL, postgres_socket(the_postgres));
    spec.pg = postgres_at(the_postgres, text("127.0.0.1 port=%d", proxy_port(proxy)));
    host = host_start(&spec);
    bulk_settle(name);
    db = database_connect(the_postgres, name);
    admin = admin_of(host);
    m = person_make(host, admin, "bytes.m", NULL);
}

static void make_bulk_uploads(void)
{
    char *csv = kept(malloc(40000));

    sprintf(csv, "externalId,%s\n%s,1\n", text_repeated("x", HEADER), text_repeated("x", 16000));
    for (int i = 0; i < ROWS; i++)
        bulk_id(bulk_send(host, m, "type=Devices", "x.csv", csv, strlen(csv)));
}

/* Returns the head of one of the conversations. */
static const char *make_talks(void)
{
    const struct answer *made = NULL;

    for (int i = 0; i < 3; i++)
        made = ck_status(
            talk_try(host, m, m->email, "other@example.com", "roof", text_repeated("x", 900000)),
            201);
    return text_in(json_object_get(made->json, "conversation"), "headUuid");
}

static void make_webhooks(void)
{
    for (int i = 0; i < ROWS; i++)
        ck_status(
            webhook_create(host, m,
                           json_pack("{ss, s[s], ss}", "url",
                                     text("http://127.0.0.1:59999/%s", text_repeated("x", 1900)),
                                     "events", "message.new", "secret", text_repeated("x", 256))),
            201);
}

static void make_devices(void)
{
    const struct person *other = person_make(host, admin, "bytes.other", NULL);

    for (int i = 0; i < 2 * ROWS; i++) /* two organizations have devices of one serial number */
        ck_status(http(host, "POST", "/api/device", (i < ROWS ? m : other)->token,
                       json_pack("{ss, sf, ss, ss, ss, ss}", "externalId", text("d%d", i),
                                 "capacity", 100.0, "commissioningDate", "2018-01-01", "address",
                                 text_repeated("x", 1000), "serialNumber", text("SN%d", i % ROWS),
                                 "more", text_repeated("x", 30000))),
                  201);
    for (int i = 1; i <= ROWS; i++)
        ck_status(http(host, "POST", "/api/meter-reads/new/d0", m->token,
                       json_pack("{ss, ss, s[{ss, ss, si}]}", "type", "History", "unit", "kWh",
                                 "reads", "startDate", text("2026-01-%02d", i), "endDate",
                                 text("2026-01-%02d", i + 1), "value", i)),
                  201);
    for (int i = 0; i < ROWS; i++)
        ck_status(
            http(host, "POST", "/api/meter-reads/new/d1", m->token,
                 json_pack("{ss, ss, s[{ss, ss, si}]}", "type", "History", "unit", "GWh", "reads",
                           "startDate", "2026-01-01", "endDate", "2026-01-02", "value", 900)),
            409);
}

static bool is_list(const json_t *operation)
{
    const json_t *document = reference_document();
    const json_t *reply = json_object_get(json_object_get(operation, "responses"), "200");
    const json_t *media = json_object_get(json_object_get(reply, "content"), "application/json");
    const json_t *schema = json_object_get(media, "schema");
    const char *type = schema ? text_in(schema_resolved(document, schema), "type") : NULL;

    return type && !strcmp(type, "array");
}

/* Returns a path of the reference with the values of its parameters, `id` for {id}. */
static const char *path_with(const char *path, const json_t *operation, const char *id,
                             bool limited)
{
    const char *brace = strchr(path, '{');
    const json_t *each;
    size_t i;

    if (brace)
        path = text("%.*s%s%s", (int)(brace - path), path,
                    !strncmp(brace, "{externalId", 11) ? "d0"
                    : !strncmp(brace, "{email", 6)     ? encoded(m->email)
                                                       : id,
                    strchr(brace, '}') + 1);
    path = text("%s?", path);
    json_array_foreach (json_object_get(operation, "parameters"), i, each) {
        const char *name = text_in(each, "name");

        if (!strcmp(name, "limit") && limited)
            path = text("%s&limit=100", path);
        else if (!strcmp(name, "q") || !strcmp(name, "by"))
            path = text("%s&%s=month", path, name);
        else if (!strcmp(name, "deviceIds"))
            path = text("%s&deviceIds=1,2,3", path);
    }
    return path;
}

/* Jobs and deliveries read as well, so the least of three requests counts. */
static void reads_what_it_shows(const char *path)
{
    const struct answer *answer = http(host, "GET", path, m->token, NULL);
    const char *token = answer->status == 403 ? admin->token : m->token;
    long long least = LLONG_MAX;

    for (int i = 0; i < 3; i++) {
        long long before = proxy_passed(proxy);

        answer = http(host, "GET", path, token, NULL);
        before = proxy_passed(proxy) - before;
        least = before < least ? before : least;
    }
    ck_assert_msg(answer->status == 200 || strstr(path, "/clients"), "%s: %s", path, answer->body);
    ck_assert_msg(least <= 2 * (long long)answer->length + ROOM,
                  "%s read %lld bytes for an answer of %zu", path, least, answer->length);
}

TEST(lists_read_only_what_they_show_from_postgresql)
{
    const char *path;
    const json_t *operations;
    int count = 0;

    host_behind_proxy("list_bytes");
    make_webhooks();
    make_bulk_uploads();
    const char *head = make_talks();
    make_devices();
    const int64_t device = certificate_device(m, "grouped");
    int64_t group = certificate_group_make(m, "hourly", now_ms(), &device, 1);
    int64_t hook = json_integer_value(json_object_get(
        json_array_get(http(host, "GET", WEBHOOKS, m->token, NULL)->json, 0), "id"));

    json_object_foreach (json_object_get(reference_document(), "paths"), path, operations) {
        const json_t *get = json_object_get(operations, "get");
        const char *id = strstr(path, "chain")
                             ? head
                             : text("%lld", (long long)(strstr(path, "webhooks") ? hook : group));

        for (int limited = 0; limited < 2 && is_list(get); limited++, count++)
            reads_what_it_shows(path_with(path, get, id, limited));
    }
    ck_assert_int_ge(count, 2 * 30);
}

/* Each watched job is read once a second. */
TEST(streams_read_only_what_they_show_from_postgresql)
{
    int64_t since;

    host_behind_proxy("stream_bytes");
    make_bulk_uploads();
    struct answer *list = ck_status(http(host, "GET", BULK, m->token, NULL), 200);

    for (size_t i = 0; i < ROWS; i++)
        sse_open_at(host,
                    text(BULK "/%s/stream", json_string_value(json_object_get(
                                                json_array_get(list->json, i), "bulkUploadId"))),
                    m->token, NULL, 0);
    sse_open_at(host, "/api/chat/stream", m->token, NULL, 0);
    long long before = proxy_passed(proxy);

    since = now_ms();
    WAIT_UNTIL(now_ms() - since > LOOKS_MS, 10 * LOOKS_MS);
    long long bytes = proxy_passed(proxy) - before, looks = (now_ms() - since) / 1000;

    ck_assert_msg(bytes < 2 * looks * ROWS * 1000 + ROOM, "%lld bytes", bytes);
    host_kill(host);
}

SUITE(list_bytes, .timeout_s = 240)
