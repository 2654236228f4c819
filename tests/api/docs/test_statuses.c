/*
 * The reference gives the same statuses (400, 408, 413, 414, 415, 422, 503) for every operation;
 * this suite makes each operation return each of them. It also tests conflicts that several
 * operations share or that no other suite produces.
 */
#include "stage.h"
#include "talk.h"
#include "wire.h"

#define ALL_MODULES                                                                                \
    "[audit, auth, bulk, certificate, chat, console, device, docs, health, mail, metrics, "        \
    "reading, webhook]"

enum { OPERATIONS_MAX = 400, SOON_MS = 10000, UPLOADS_MAX = 3 };

struct operation {
    const char *method, *written, *path; /* the path with values for its variables */
    const char *token;
    bool open; /* no token is needed */
    const json_t *responses, *body;
};

static struct operation operations[OPERATIONS_MAX];
static size_t count;
static struct person *api_user, *owner;

static struct host_spec spec_of(const char *name)
{
    return (struct host_spec){.name = name,
                              .modules = ALL_MODULES,
                              .auth = "  argon2_memory: 64\n  argon2_rounds: 1\n"
                                      "  invitations: true\n",
                              .more = text("bulk:\n  files: \"%s\"\n  jobs_per_account: %d\n"
                                           "device:\n  documents: \"%s\"\n",
                                           harness_path(text("%s-bulk", name)), UPLOADS_MAX,
                                           harness_path(text("%s-documents", name)))};
}

/* The ids in the path do not exist. */
static const char *path_for(const char *written)
{
    const char *at = strchr(written, '{'), *value = "999999999";

    if (!at)
        return text("%s", written);
    const char *rest = at + strcspn(at, "}") + 1;

    if (!strncmp(at, "{email", 6))
        value = "nobody%40example.com";
    if (strstr(at, "Uuid}") == rest - 5 || strstr(at, "documentId}") == rest - 11 ||
        strstr(at, "bulkUploadId}") == rest - 13)
        value = "0195f3a0-1111-7222-8333-444455556666";
    return path_for(text("%.*s%s%s", (int)(at - written), written, value, rest));
}

static bool is_for(const json_t *roles, const char *role)
{
    const json_t *one;
    size_t i;

    json_array_foreach (roles, i, one) {
        if (!strcmp(json_string_value(one), role))
            return true;
    }
    return false;
}

static const char *token_for(const json_t *roles)
{
    return is_for(roles, "Admin")               ? admin->token
           : is_for(roles, "ApiUser")           ? api_user->token
           : is_for(roles, "OrganizationAdmin") ? owner->token
                                                : NULL;
}

static void add(const char *path, const char *method, const json_t *about)
{
    char *upper = text("%s", method);

    ck_assert_uint_lt(count, OPERATIONS_MAX);
    for (char *letter = upper; *letter; letter++)
        *letter = (char)(*letter & ~0x20);
    operations[count++] = (struct operation){
        .method = upper,
        .written = text("%s", path),
        .path = path_for(path),
        .token = token_for(json_object_get(about, "x-roles")),
        .open = json_array_size(json_object_get(about, "security")) == 0,
        .responses = json_object_get(about, "responses"),
        .body = json_object_get(about, "requestBody"),
    };
}

static void set_up(void)
{
    struct host_spec spec = spec_of("statuses");
    const char *path, *method;
    json_t *item, *about;

    stage_open(&spec);
    api_user = person_make(host, admin, "statuses.api", "ApiUser");
    owner = person_make(host, admin, "statuses.owner", NULL);
    const json_t *document = ck_status(http(host, "GET", "/openapi.json", NULL, NULL), 200)->json;

    json_object_foreach (json_object_get(document, "paths"), path, item) {
        json_object_foreach (item, method, about) {
            add(path, method, about);
        }
    }
}

static bool has(const struct operation *operation, const char *status)
{
    return json_object_get(operation->responses, status) != NULL;
}

static struct answer *request(const struct host *at, const struct operation *operation,
                              const char *suffix, const char *type)
{
    return http_send(at, &(struct call){.method = operation->method,
                                        .path = text("%s%s", operation->path, suffix),
                                        .token = operation->token,
                                        .type = type,
                                        .body = type ? "x" : NULL});
}

static void expect(const struct operation *operation, long got, long wanted)
{
    ck_assert_msg(got == wanted, "%s %s has status %ld instead of %ld", operation->method,
                  operation->path, got, wanted);
}

TEST(a_malformed_query_is_400_on_every_operation)
{
    for (size_t i = 0; i < count; i++)
        expect(&operations[i], request(host, &operations[i], "?limit=%00", NULL)->status, 400);
}

TEST(a_body_of_another_type_is_415_on_every_operation_with_a_body)
{
    for (size_t i = 0; i < count; i++) {
        if (has(&operations[i], "415"))
            expect(&operations[i], request(host, &operations[i], "", "image/png")->status, 415);
        ck_assert_msg(!operations[i].body == !has(&operations[i], "415"), "%s", operations[i].path);
    }
}

static char *head_of(const struct operation *operation, const char *length)
{
    return text("%s %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                "Content-Length: %s\r\n%s%s%s\r\n",
                operation->method, operation->path, length,
                operation->token ? "Authorization: Bearer " : "",
                operation->token ? operation->token : "", operation->token ? "\r\n" : "");
}

TEST(a_body_that_is_too_large_is_413_on_every_operation_with_a_body)
{
    for (size_t i = 0; i < count; i++) {
        if (has(&operations[i], "413"))
            expect(&operations[i],
                   wire_ask(host, "%s", head_of(&operations[i], "99999999999"))->status, 413);
    }
}

TEST(a_target_that_is_too_long_is_414_on_every_operation)
{
    size_t told = 0;

    for (size_t i = 0; i < count; i++) {
        if (!has(&operations[i], "414"))
            continue;
        expect(&operations[i],
               wire_ask(host, "%s %s?search=%017000d HTTP/1.1\r\nHost: x\r\n\r\n",
                        operations[i].method, operations[i].path, 0)
                   ->status,
               414);
        told++;
    }
    ck_assert_uint_gt(told, 0);
}

/* All requests are sent at once, because each waits as long as the host does; the suite's other
 * tests use a host with a longer time limit. */
TEST(a_body_that_does_not_arrive_is_408_on_every_operation_with_a_body)
{
    struct host_spec spec = spec_of("statuses");
    struct wire *wires[OPERATIONS_MAX] = {NULL};

    spec.database = spec.name;
    spec.name = "statuses_late";
    spec.http = "  body_timeout: 1\n";
    struct host *strict = host_start(&spec);

    for (size_t i = 0; i < count; i++) {
        if (!has(&operations[i], "408"))
            continue;
        wires[i] = wire_open(strict);
        ck_assert(wire_say(wires[i], "%s{", head_of(&operations[i], "20")));
    }
    for (size_t i = 0; i < count; i++) {
        if (!wires[i])
            continue;
        const char *said = head_of(&operations[i], "20");

        expect(&operations[i], wire_read_for(wires[i], said, SOON_MS)->status, 408);
        wire_close(wires[i], false);
    }
}

/* ---- Idempotency-Key ---- */

#define FORM "multipart/form-data; boundary=b"
#define FILE_OF(row)                                                                               \
    "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"x.csv\"\r\n\r\n"             \
    "externalId\n" row "\n\r\n--b--\r\n"
#define ATTACHED(text)                                                                             \
    "--b\r\nContent-Disposition: form-data; name=\"message\"\r\n\r\n"                              \
    "{\"username\":\"one@example.com\"}\r\n"                                                       \
    "--b\r\nContent-Disposition: form-data; name=\"files\"; filename=\"x\"\r\n\r\n" text           \
    "\r\n--b--\r\n"
#define READING(day)                                                                               \
    "{\"type\":\"History\",\"unit\":\"Wh\",\"value\":1,\"startDate\":\"2026-01-" day               \
    "T00:00:00Z\",\"endDate\":\"2026-01-" day "T01:00:00Z\"}"
#define TALK(name)                                                                                 \
    "{\"participant1\":\"one@example.com\",\"participant2\":\"" name                               \
    "@example.com\",\"username\":\"one@example.com\",\"chatEntry\":\"a\"}"

/* A valid body for each operation that creates something, and a second one for another object. */
static const struct made {
    const char *path, *type, *body, *other;
    bool by_api_user;
} made[] = {
    {"/api/auth/clients", NULL, "{\"name\":\"a\"}", "{\"name\":\"b\"}", true},
    {"/api/organization", NULL, "{\"name\":\"Keyed a\"}", "{\"name\":\"Keyed b\"}", true},
    {"/api/organization/invitations", NULL, "{\"email\":\"c@example.com\",\"role\":\"Buyer\"}",
     "{\"email\":\"d@example.com\",\"role\":\"Buyer\"}", false},
    {"/api/admin/users", NULL, "{\"email\":\"a@example.com\",\"role\":\"Buyer\"}",
     "{\"email\":\"b@example.com\",\"role\":\"Buyer\"}", false},
    {"/api/bulk-upload", FORM, FILE_OF("K-3"), FILE_OF("K-4"), false},
    {"/api/device", NULL, "{\"externalId\":\"K-1\"}", "{\"externalId\":\"K-2\"}", false},
    {"/api/meter-reads/new/K-0", NULL, READING("01"), READING("02"), false},
    {"/api/meter-reads/addByAdmin/new/K-0", NULL, READING("03"), READING("04"), false},
    {"/api/meter-reads/K-0", NULL, READING("05"), READING("06"), false},
    {"/api/device-group", NULL,
     "{\"name\":\"a\",\"deviceIds\":[\"K-0\"],\"frequency\":\"daily\",\"start\":\"2026-01-01\"}",
     "{\"name\":\"b\",\"deviceIds\":[\"K-0\"],\"frequency\":\"daily\",\"start\":\"2026-01-01\"}",
     false},
    {"/api/chat/conversations/start", NULL, TALK("two"), TALK("three"), false},
    {"/api/chat/conversations/%jd/messages", NULL,
     "{\"username\":\"one@example.com\",\"chatEntry\":\"a\"}",
     "{\"username\":\"one@example.com\",\"chatEntry\":\"b\"}", false},
    {"/api/chat/conversations/%jd/attachments", FORM, ATTACHED("a"), ATTACHED("b"), false},
    {"/api/chat/webhooks", NULL, "{\"url\":\"https://a.example/\",\"events\":[]}",
     "{\"url\":\"https://b.example/\",\"events\":[]}", false},
};

static long made_with(const struct made *row, const char *path, const char *body)
{
    static const char *const headers[] = {"Idempotency-Key: of all of them", NULL};
    const struct person *by = row->by_api_user ? api_user : owner;

    if (!strncmp(path, "/api/admin/", strlen("/api/admin/")))
        by = admin;
    return http_send(host, &(struct call){.method = "POST",
                                          .path = path,
                                          .token = by->token,
                                          .type = row->type,
                                          .body = body,
                                          .headers = headers})
        ->status;
}

static char *path_of(const struct made *row)
{
    if (!strchr(row->path, '%'))
        return text("%s", row->path);
    return text("/api/chat/conversations/%jd%s",
                talk_start(host, owner, "one@example.com", "four@example.com", NULL).id,
                strrchr(row->path, '/'));
}

TEST(an_idempotency_key_of_another_request_is_422_on_every_operation)
{
    enum { MADE = sizeof(made) / sizeof(made[0]) };
    size_t told = 0;

    for (size_t i = 0; i < count; i++)
        told += has(&operations[i], "422");
    ck_assert_uint_eq(told, MADE);
    ask(owner, 201, NULL,
        "POST /api/device {'externalId':'K-0','capacity':10,'commissioningDate':'2020-01-01'}");
    for (size_t i = 0; i < MADE; i++) {
        const char *path = path_of(&made[i]);
        long first = made_with(&made[i], path, made[i].body);
        long again = made_with(&made[i], path, made[i].body);
        long other = made_with(&made[i], path, made[i].other);

        ck_assert_msg(first == 201 && again == 201 && other == 422, "POST %s: %ld, %ld, %ld", path,
                      first, again, other);
    }
}

/* ---- conflicts ---- */

#define TWIN "Twin"

/* Returns the path with a name that two devices have, or NULL if the path names no device. */
static const char *twin_path(const struct operation *operation)
{
    static const char name[] = "{externalId}";
    const char *at = strstr(operation->written, name);

    if (!strcmp(operation->written, "/api/meter-reads/refused"))
        return "/api/meter-reads/refused?externalId=" TWIN;
    return at ? path_for(text("%.*s%s%s", (int)(at - operation->written), operation->written, TWIN,
                              at + strlen(name)))
              : NULL;
}

static const char *twin_body(const struct operation *operation)
{
    if (!operation->body)
        return NULL;
    if (!strcmp(operation->method, "DELETE"))
        return "{\"reason\":\"It was wrong\"}";
    return strstr(operation->written, "/meter-reads/") ? READING("07")
                                                       : "{\"name\":\"x\",\"siteName\":\"x\"}";
}

/* Two organizations have a device of this name, and the Admin must say which one it means. */
TEST(an_ambiguous_device_name_is_409_on_every_operation)
{
    const struct person *other = person_make(host, admin, "statuses.twin", NULL);
    size_t told = 0;

    for (int i = 0; i < 2; i++)
        ask(i ? other : owner, 201, NULL, "POST /api/device {'externalId':'" TWIN "'}");
    for (size_t i = 0; i < count; i++) {
        const char *path = twin_path(&operations[i]);

        if (!path || operations[i].token != admin->token)
            continue;
        ck_assert_msg(has(&operations[i], "409"), "%s", path);
        expect(&operations[i],
               http_send(host, &(struct call){.method = operations[i].method,
                                              .path = path,
                                              .token = admin->token,
                                              .body = twin_body(&operations[i])})
                   ->status,
               409);
        told++;
    }
    ck_assert_uint_ge(told, 12);
}

TEST(too_many_parallel_bulk_uploads_are_refused)
{
    const struct person *one = person_make(host, admin, "statuses.bulk", NULL);
    long status = 201;
    int taken = -1;

    for (; status == 201 && taken <= UPLOADS_MAX; taken++)
        status = http_send(host, &(struct call){.method = "POST",
                                                .path = "/api/bulk-upload",
                                                .token = one->token,
                                                .type = FORM,
                                                .body = FILE_OF("B-1")})
                     ->status;
    ck_assert_int_eq(status, 409);
    ck_assert_int_eq(taken, UPLOADS_MAX);
}

/* Both requests have the correct old password; the second change finds another password. */
TEST(one_of_two_parallel_password_changes_is_409)
{
    long seen = 0;

    for (int turn = 0; turn < 20 && seen != 409; turn++) {
        const struct person *one = person_make(host, admin, text("statuses.pass.%d", turn), NULL);
        const char *body = text("{\"current\":\"%s\",\"new\":\"another wording\"}", one->password);
        const char *said = text("PUT /api/user/password HTTP/1.1\r\nHost: x\r\n"
                                "Content-Type: application/json\r\nContent-Length: %zu\r\n"
                                "Authorization: Bearer %s\r\n\r\n%s",
                                strlen(body), one->token, body);
        struct wire *wires[] = {wire_open(host), wire_open(host)};

        for (int i = 0; i < 2; i++)
            ck_assert(wire_say(wires[i], "%s", said));
        for (int i = 0; i < 2; i++) {
            long status = wire_read_for(wires[i], said, SOON_MS)->status;

            seen = status > seen ? status : seen;
            wire_close(wires[i], false);
        }
    }
    ck_assert_int_eq(seen, 409);
}

/* An Admin may act for any existing organization. */
TEST(a_group_in_an_unknown_organization_is_404)
{
    ask(admin, 404, NULL,
        "POST /api/device-group?organizationId=999999999 {'name':'a','deviceIds':['K-0'],"
        "'frequency':'daily','start':'2026-01-01'}");
}

/* Members for all operations that return tokens or create accounts; each uses its own. */
static const char everything[] =
    "{\"firstName\":\"A\",\"lastName\":\"B\",\"email\":\"a@example.com\",\"orgName\":\"C\","
    "\"password\":\"twelve letters\",\"grant_type\":\"client_credentials\",\"client_id\":\"a\","
    "\"client_secret\":\"b\",\"token\":\"c\"}";

/* Returns whether the operation queries the database. Operations without a token do so only if they
 * report its state or look up an account. */
static bool asks_database(const struct operation *operation)
{
    return !operation->open || operation->body || !strcmp(operation->path, "/api/health/ready") ||
           !strcmp(operation->path, "/api/health/status");
}

/* Without the database, no caller can be authenticated. */
TEST(operations_are_503_without_the_database)
{
    struct host_spec spec = spec_of("statuses_without");

    spec.database = "statuses_absent";
    struct host *without = host_start(&spec);

    for (size_t i = 0; i < count; i++) {
        if (asks_database(&operations[i]))
            expect(
                &operations[i],
                http_send(without, &(struct call){.method = operations[i].method,
                                                  .path = operations[i].path,
                                                  .token = operations[i].token,
                                                  .body = operations[i].open && operations[i].body
                                                              ? everything
                                                              : NULL})
                    ->status,
                503);
    }
}

STAGE_SUITE(statuses, set_up, 60)
