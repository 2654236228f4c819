/*
 * Many clients that request the largest responses and read them slowly or not at all. The
 * memory that the host uses for all of them is limited.
 */
#include "fault/common.h"
#include "hook.h"
#include "meter.h"
#include "wire.h"

enum {
    READERS = 32,
    WEBHOOKS_MADE = 500,
    ACCOUNTS = 8,
    MOST_KIB = 256 * 1024, /* max_answers, and as much for uncounted memory */
    RECEIVE_BYTES = 4096,
    ANSWERED_MS = 60000
};

#define MODULES                                                                                    \
    "[auth, chat, device, reading, certificate, webhook, health, metrics]\n"                       \
    "webhook:\n  allow_networks: [\"127.0.0.0/8\"]"

static struct host *host;
static struct person *accounts[ACCOUNTS];
static PGconn *db;
static char *paths[8];
static size_t path_count;

static void add_path(const char *path)
{
    paths[path_count++] = kept(strdup(path));
}

/* Makes as many deliveries as a page may have, each with as many attempts and as long responses as
 * are stored. */
static void fill_deliveries(const struct person *admin)
{
    struct webhook_made webhook = webhook_make(host, admin, PUBLIC_URL, "message.new");

    sql_run(db, text("WITH d AS (INSERT INTO webhook_delivery (webhook, event_id, event, body)"
                     " SELECT %jd, gen_random_uuid(), 'message.new', '{}'"
                     " FROM generate_series(1, 200) RETURNING id, webhook)"
                     " INSERT INTO webhook_outcome (id, webhook, at, duration_ms, delivered, log)"
                     " SELECT id, webhook, now(), 12, true, (SELECT "
                     "jsonb_agg(jsonb_build_object('number', a, 'at', now(), 'status',"
                     " 500, 'durationMs', 12, 'error', NULL, 'answer', repeat('a', 1024)))"
                     " FROM generate_series(1, 100) a) FROM d",
                     webhook.id));
    add_path(text("%s/deliveries?limit=200", webhook.path));
}

/* Makes webhooks with URLs of the maximum length. */
static void fill_webhooks(const struct person *admin)
{
    for (int i = 0; i < WEBHOOKS_MADE; i++)
        webhook_make(host, admin, text("%s/%d?%01900d", PUBLIC_URL, i, 0), "conversation.created");
    add_path(WEBHOOKS "?limit=1000");
}

static void fill_readings(const struct person *owner)
{
    int64_t device = meter_make(host, owner, "plant", 10, days_ago(600));

    sql_run(db, text("INSERT INTO reading (device, type, start_at, end_at, wh, created_at)"
                     " SELECT %jd, 'D', now() - g * interval '1 hour', now() - (g - 1) *"
                     " interval '1 hour', 1000000, now() FROM generate_series(1, 12000) g",
                     device));
    sql_run(db, text("INSERT INTO certificate_entry (certificate, organisation, device, start_at,"
                     " end_at, wh) SELECT 1, %jd, %jd, now() - g * interval '1 hour', now() - (g -"
                     " 1) * interval '1 hour', 1000 FROM generate_series(1, 3000) g",
                     owner->organization, device));
    add_path(text("/api/meter-reads/new/plant?limit=5000&organizationId=%jd", owner->organization));
    add_path("/api/certificate-log?limit=1000");
    add_path("/api/certificate-log/export.csv");
}

static void fill_chain(const struct person *owner)
{
    struct talk talk = talk_start(host, owner, owner->email, ADMIN_EMAIL, "Roof");

    sql_run(db, text("INSERT INTO chat_entry (conversation_id, seq, uuid, username, chat_entry,"
                     " created_at) SELECT %jd, g + 1, gen_random_uuid(), '%s',"
                     " rpad('', 1048576, md5(g::text)), now() FROM generate_series(1, 30) g",
                     talk.id, owner->email));
    sql_run(db, text("UPDATE chat_conversation SET entries = 31 WHERE id = %jd", talk.id));
    add_path(text("/api/chat/chain/%s", talk.head));
}

static void open_all(void)
{
    host = host_start(&(struct host_spec){.name = "readers",
                                          .modules = MODULES,
                                          .http = "  max_answers: 134217728\n"
                                                  "  deadline: 60000\n",
                                          .db = "  statement_timeout: 60000\n",
                                          .plain = true});
    db = database_connect(the_postgres, "readers");
    struct person *admin = admin_of(host), *owner = person_make(host, admin, "olga", NULL);

    for (int i = 0; i < ACCOUNTS; i++)
        accounts[i] = person_with_role(host, admin, text("reader%d", i), "Admin");
    fill_deliveries(admin);
    fill_webhooks(admin);
    fill_readings(owner);
    fill_chain(owner);
}

static struct wire *ask(int i, const char *path)
{
    struct wire *wire = wire_open_from(host, "127.0.0.1", RECEIVE_BYTES);

    wire_say(wire, "GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", path,
             accounts[i % ACCOUNTS]->token);
    return wire;
}

static bool is_refusal(const struct wire *wire)
{
    return !strncmp(wire->bytes, "HTTP/1.1 429", 12) || !strncmp(wire->bytes, "HTTP/1.1 503", 12);
}

/* All clients send requests at once and read only the beginning of the response; returns how many
 * were served. path NULL: all paths in turn. */
static int crowd(const char *path)
{
    struct wire *wires[READERS];
    int served = 0;

    for (int i = 0; i < READERS; i++)
        wires[i] = ask(i, path ? path : paths[(size_t)i % path_count]);
    for (int i = 0; i < READERS; i++) {
        ck_assert(wire_has_more(wires[i], ANSWERED_MS));
        bool good = !strncmp(wires[i]->bytes, "HTTP/1.1 200", 12);

        ck_assert_msg(good || is_refusal(wires[i]), "%s", wires[i]->bytes);
        served += good;
    }
    for (int i = 0; i < READERS; i++)
        wire_close(wires[i], true);
    return served;
}

TEST(clients_that_do_not_read_take_a_limited_amount_of_memory)
{
    open_all();
    int64_t before = process_status(host->pid, "VmHWM:"); /* with the memory of a login */

    for (size_t i = 0; i <= path_count; i++) { /* each path separately, and a mix */
        const char *path = i < path_count ? paths[i] : NULL;

        process_forget_peak(host->pid);
        int served = crowd(path);
        int64_t grown = process_status(host->pid, "VmHWM:") - before;

        ck_assert_int_ge(served, READERS / 4);
        ck_assert_msg(grown < MOST_KIB, "%s: the host grew by %jd KiB", path ? path : "all", grown);
    }
}

FAULT_SUITE(readers)
