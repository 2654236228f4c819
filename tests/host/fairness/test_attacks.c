/*
 * Everything that one account or address can do to a host, at the same time, from two of each: the
 * host's memory and disk use stay within limits, and others can log in, read and write. Their
 * waiting times are measured by `bench/run against`.
 */
#include <dirent.h>
#include <sys/stat.h>

#include "files.h"
#include "talk.h"
#include "wire.h"

enum {
    ATTACKERS = 2,
    HASHES = 40,
    HOOKS = 50,
    READERS = 16,
    WIRES_MAX = 400,
    MEMORY_KIB = 256 * 1024,
    UPLOADS_MAX = 16 * MIB,
    ENTRY = 200000,
    UPLOAD = 3 * MIB
};

struct attacker {
    struct person *person, *pending;
    const char *address;
    struct talk talk;
};

static struct host *host;
static struct person *other, *platform;
static struct attacker attackers[ATTACKERS];
static struct wire *wires[WIRES_MAX];
static size_t wire_count;
static const char *database;
static char *store;

static void set_up(void)
{
    database = database_make(the_postgres, "attacks");
    store = harness_path("documents-attacks");
    host = host_start(&(struct host_spec){
        .name = "attacks",
        .database = database,
        .modules = "[auth, chat, device, health, webhook]",
        .http = text("  deadline: 60000\n  max_uploads: %d\n", UPLOADS_MAX),
        .more = text("%swebhook:\n  allow_networks: [\"127.0.0.0/8\"]\n", files_section(store)),
        .environment = process_lean});
    other = person_make(host, admin_of(host), "attacks.other", NULL);
    platform = person_make(host, admin_of(host), "attacks.platform", NULL);
}

/* Makes a conversation of 24 MiB, 5,000 unread ones, and 300 devices of 30 kB. */
static void fill(PGconn *db, const struct attacker *at)
{
    const char *email = at->person->email;
    intmax_t organization = at->person->organization, talk = at->talk.id;

    sql_run(db, text("INSERT INTO chat_entry (conversation_id, seq, uuid, username, chat_entry,"
                     " created_at) SELECT %jd, g + 1, gen_random_uuid(), '%s',"
                     " rpad('entry ' || g || ' ', 1048576, md5(g::text)), now()"
                     " FROM generate_series(1, 24) g",
                     talk, email));
    sql_run(db, text("UPDATE chat_conversation SET entries = 25 WHERE id = %jd", talk));
    sql_run(db,
            text("INSERT INTO chat_conversation (id, organisation, entries, last_at, unread1,"
                 " unread2, head_uuid, last_entry_uuid, participant1, participant2,"
                 " device_project_name) SELECT nextval('chat_conversation_id'), %jd, 1, now(), 1,"
                 " 0, gen_random_uuid(), gen_random_uuid(), '%s', 'peer' || g || '@x.example',"
                 " 'Device ' || g FROM generate_series(1, 5000) g",
                 organization, email));
    sql_run(db, text("INSERT INTO device (id, uuid, organisation, external_id, attributes,"
                     " created_at, updated_at) SELECT nextval('device_id'), gen_random_uuid(), %jd,"
                     " 'd' || g, jsonb_build_object('note', repeat('sixteen letters ', 1875)),"
                     " now(), now() FROM generate_series(1, 300) g",
                     organization));
}

static void prepare(struct attacker *at, int number)
{
    at->address = text("127.0.0.%d", 2 + number);
    at->person = person_make(host, admin_of(host), text("attacks.attacker%d", number), NULL);
    at->pending = person_register(host, text("attacks.pending%d", number), NULL);
    at->talk = talk_start(host, at->person, at->person->email, "peer@x.example", NULL);
    for (int i = 0; i < HOOKS; i++)
        ck_status(
            http(host, "POST", "/api/chat/webhooks", at->person->token,
                 json_pack("{ss s[s]}", "url", "http://127.0.0.1:40009/", "events", "message.new")),
            201);
}

static struct wire *wire_from(const struct attacker *at)
{
    ck_assert_uint_lt(wire_count, WIRES_MAX);
    wires[wire_count] = wire_open_from(host, at->address, 4096);
    return wires[wire_count++];
}

/* Sends a request whose response is never read. */
static void get(const struct attacker *at, const char *path)
{
    struct wire *wire = wire_from(at);

    wire_say(wire, "GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", path,
             at->person->token);
}

static void post(const struct attacker *at, const char *path, bool open, const char *body)
{
    struct wire *wire = wire_from(at);
    const char *token = open ? "" : text("Authorization: Bearer %s\r\n", at->person->token);

    wire_say(wire,
             "POST %s HTTP/1.1\r\nHost: x\r\n%sContent-Type: application/json\r\n"
             "Content-Length: %zu\r\n\r\n%s",
             path, token, strlen(body), body);
}

static const char *credentials(const struct person *who)
{
    return text("{\"username\":\"%s\",\"password\":\"%s\"}", who->email, who->password);
}

/* Heads full of cookies, bodies that never come, connections without a request. */
static void connect_many(const struct attacker *at)
{
    for (int i = 0; i < 8; i++)
        wire_say(wire_from(at), "GET /api/health HTTP/1.1\r\nHost: x\r\nCookie: a=b%s\r\n\r\n",
                 text_repeated("; name=a value of a cookie", 155));
    for (int i = 0; i < 8; i++)
        wire_say(wire_from(at),
                 "POST /api/chat/conversations/start HTTP/1.1\r\nHost: x\r\n"
                 "Authorization: Bearer %s\r\nContent-Type: application/json\r\n"
                 "Content-Length: 5000\r\n\r\n{",
                 at->person->token);
    for (int i = 0; i < 32; i++)
        wire_from(at);
}

static void hash_many(const struct attacker *at)
{
    for (int i = 0; i < 8; i++)
        post(at, "/api/user/register", true,
             text("{\"firstName\":\"A\",\"lastName\":\"B\",\"email\":\"%d%s\","
                  "\"password\":\"long enough\",\"orgName\":\"%d of %s\"}",
                  i, at->person->email, i, at->person->email));
    for (int i = 0; i < 4; i++)
        post(at, "/api/auth/login", true, credentials(at->person));
    for (int i = 0; i < HASHES; i++)
        post(at, "/api/auth/login", true, credentials(at->pending));
}

static void ask_much(const struct attacker *at)
{
    const char *entry = text_repeated("x", ENTRY);

    for (int i = 0; i < 4; i++)
        post(at, text("/api/chat/conversations/%jd/messages", at->talk.id), false,
             text("{\"username\":\"%s\",\"chatEntry\":\"%s\"}", at->person->email, entry));
    for (int i = 0; i < READERS; i++)
        get(at, text("/api/chat/chain/%s", at->talk.head));
    for (int i = 0; i < READERS / 2; i++) {
        get(at, "/api/device?limit=1000");
        get(at, text("/api/chat/conversations/user/%s", at->person->email));
        get(at, text("/api/chat/unread-count/%s", at->person->email));
    }
}

/* Uploads that do not end. The host closes the connection, or discards bytes above its limit. */
static void upload_much(const struct attacker *at)
{
    for (int i = 0; i < 6; i++) {
        struct upload_body body = files_named(text("Never whole %d", i));
        struct wire *wire = wire_from(at);

        upload_file(&body, "SF_02C", "x", upload_noise((unsigned)i, UPLOAD), UPLOAD);
        wire_say(wire,
                 "POST " DEVICE " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"
                 "Content-Type: " UPLOAD_TYPE "\r\nContent-Length: 9000000\r\n\r\n",
                 at->person->token);
        wire_send(wire, body.bytes, body.length);
        free(body.bytes);
    }
}

static int64_t bytes_below(const char *directory)
{
    DIR *open = opendir(directory);
    const struct dirent *entry;
    int64_t bytes = 0;

    while (open && (entry = readdir(open))) {
        const char *path = text("%s/%s", directory, entry->d_name);
        struct stat now;

        if (entry->d_name[0] == '.' || stat(path, &now))
            continue; /* the file may be gone by now */
        bytes += S_ISDIR(now.st_mode) ? bytes_below(path) : now.st_size;
    }
    if (open)
        closedir(open);
    return bytes;
}

static void expect_bounds(int64_t before)
{
    WAIT_UNTIL(bytes_below(store) > 0, 10000);
    int64_t grown = process_status(host->pid, "VmHWM:") - before, bytes = bytes_below(store);

    ck_assert_msg(process_shadowed() || grown < MEMORY_KIB, "the host grew by %jd KiB", grown);
    ck_assert_msg(bytes <= UPLOADS_MAX, "%jd bytes are on the disk", bytes);
}

static void expect_service(const struct talk *talk)
{
    ck_assert_ptr_nonnull(person_login(host, other));
    ck_status(talk_post(host, other, talk, other->email, "hello"), 201);
    ck_status(talk_of(host, other, "unread-count", other->email, ""), 200);
}

TEST(other_accounts_are_served_during_all_attacks_together)
{
    struct talk talk = talk_start(host, other, other->email, "friend@x.example", NULL);
    PGconn *db = database_connect(the_postgres, database);

    for (int i = 0; i < ATTACKERS; i++) {
        prepare(&attackers[i], i);
        fill(db, &attackers[i]);
    }
    PQfinish(db);
    int64_t before = process_status(host->pid, "VmRSS:");

    for (int i = 0; i < ATTACKERS; i++) {
        connect_many(&attackers[i]);
        ask_much(&attackers[i]);
        upload_much(&attackers[i]);
    }
    for (int i = 0; i < ATTACKERS; i++)
        hash_many(&attackers[i]);
    expect_service(&talk);
    expect_bounds(before);
    for (int i = 0; i < 5; i++) {
        ck_assert_ptr_nonnull(person_login(host, other));
        ck_status(talk_of(host, platform, "unread-count", platform->email, ""), 200);
    }
    expect_bounds(before);
    for (size_t i = 0; i < wire_count; i++)
        wire_close(wires[i], true);
}

SUITE(attacks, .timeout_s = 120, .before_all = set_up)
