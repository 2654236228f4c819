/*
 * Lookups that share an execution with others (struct bb_keyed): devices by name, conversations of
 * an e-mail, webhooks by number, accounts and sessions of logins. A table is locked during the
 * requests, so that they wait together; each must get the same response as when it is sent alone.
 */
#include "hook.h"
#include "stage.h"
#include "together.h"

enum { PEOPLE = 4, DEVICES = 3, CALLS = 60, LOGINS = 12 };

static PGconn *changing;
static struct person *people[PEOPLE];
static struct call calls[CALLS];
static int call_count;

static void add(const struct person *by, char *path)
{
    ck_assert_int_lt(call_count, CALLS);
    calls[call_count++] = (struct call){.method = "GET", .path = path, .token = by->token};
}

/* A person's devices share a serial number, except one, whose serial number is a device's name. */
static void make_devices(int person)
{
    for (int i = 0; i < DEVICES; i++) {
        json_t *device =
            json_pack("{ss sf ss ss}", "externalId", text("P%d Device %d", person, i), "capacity",
                      5.0, "serialNumber", i ? text("serial %d", person) : "P0 Device 1",
                      "siteName", text("site %d", i));

        ck_status(http(host, "POST", "/api/device", people[person]->token, device), 201);
    }
}

static void ask_devices(const struct person *by)
{
    add(by, "/api/device/p0%20device%201");
    add(by, "/api/device/P1%20DEVICE%202");
    add(by, "/api/device/serial%202");
    add(by, "/api/device/nobody's");
    add(by, "/api/device/1");
}

static void ask_conversations(const struct person *by, const struct person *of)
{
    const char *path = text("/api/chat/conversations/user/%s", encoded(of->email));

    add(by, text("%s", path));
    add(by, text("%s?limit=1", path));
}

static void seed(void)
{
    for (int i = 0; i < PEOPLE; i++)
        people[i] = person_make(host, admin, text("caller%d", i), NULL);
    sql_run(db, text("UPDATE auth_organisation SET api_user = %jd WHERE id = %jd", people[3]->id,
                     people[2]->organization));
    for (int i = 0; i < PEOPLE; i++) {
        make_devices(i);
        for (int with = 0; with < i; with++)
            talk_start(host, people[i], people[i]->email, people[with]->email,
                       text("project %d %d", i, with));
    }
    for (int i = 0; i < 2; i++) {
        struct webhook_made made =
            webhook_make(host, people[i], text(PUBLIC_URL "/%d", i), "message.new");

        for (int by = 0; by < 2; by++) {
            add(people[by], made.path);
            add(people[by], text("%s/deliveries", made.path));
        }
        add(admin, made.path);
    }
}

static void start(const char *name)
{
    stage_open(&(struct host_spec){
        .name = name,
        .modules = "[auth, chat, device, metrics, webhook]",
        .http = "  loops: 1\n  metrics_networks: [127.0.0.1]\n  connections_per_address: 1000\n",
        .db = "  read_connections: 1\n  write_connections: 1\n"});
    stage_connect();
    changing = database_connect(the_postgres, name);
    webhook_ready(name, 1);
    call_count = 0;
    seed();
}

static void stop(void)
{
    ck_assert_uint_eq(host_logged(host, "returned rows for unknown keys"), 0);
    ck_assert_uint_eq(host_logged(host, "failed for several keys"), 0);
    host_stop(host);
}

/* ---- together ---- */

/* Returns the response without the request's number. */
static const char *said(const struct answer *answer)
{
    const char *id = strstr(answer->body, ",\"requestId\"");

    return text("%ld %.*s", answer->status, (int)(id ? id - answer->body : (long)answer->length),
                answer->body);
}

static struct together held(const char *tables, const char *pool, int least)
{
    return (struct together){.host = host,
                             .admin = admin,
                             .db = db,
                             .changing = changing,
                             .tables = tables,
                             .pool = pool,
                             .least = least};
}

TEST(merged_lookups_give_the_same_responses_as_separate_ones)
{
    struct answer *alone[CALLS], *together[CALLS];

    start("look_ups");
    struct together lock =
        held("device, chat_conversation, webhook_hook IN ACCESS EXCLUSIVE MODE", "read", CALLS / 2);

    for (int i = 0; i < PEOPLE; i++)
        ask_devices(people[i]);
    ask_devices(admin);
    ask_conversations(people[0], people[0]);
    ask_conversations(people[1], people[1]);
    ask_conversations(people[2], people[3]);
    ask_conversations(people[3], people[2]);
    ask_conversations(admin, people[3]);
    for (int i = 0; i < call_count; i++)
        alone[i] = http_send(host, &calls[i]);
    ask_together(&lock, calls, together, call_count);
    for (int i = 0; i < call_count; i++) {
        ck_assert_msg(!strcmp(said(together[i]), said(alone[i])), "%s: %s, alone %s", calls[i].path,
                      said(together[i]), said(alone[i]));
    }
    expect_shared(&lock, 1);
    stop();
}

/* ---- logins ---- */

static struct person *who[LOGINS];
static struct answer *answers[LOGINS];

static void log_in_together(struct together *lock)
{
    struct call logins[LOGINS];

    for (int i = 0; i < LOGINS; i++) {
        if (i < PEOPLE)
            who[i] = people[i];
        else
            who[i] = i % 2 ? who[i - 1] : person_make(host, admin, text("late%d", i), NULL);
        logins[i] = (struct call){.method = "POST",
                                  .path = "/api/auth/login",
                                  .body = text("{\"username\":\"%s\",\"password\":\"%s\"}",
                                               who[i]->email, who[i]->password)};
    }
    sql_run(db, "DELETE FROM auth_session WHERE account <> 1");
    ask_together(lock, logins, answers, LOGINS);
}

TEST(merged_logins_each_get_a_session)
{
    start("look_ups_logins");
    struct together lock = held("auth_session IN SHARE MODE", "write", LOGINS / 2);

    log_in_together(&lock);
    for (int i = 0; i < LOGINS; i++) {
        who[i]->token = text("%s", answer_text(ck_status(answers[i], 200), "accessToken"));
        ck_assert_str_eq(answer_text(person_me(host, who[i]), "email"), who[i]->email);
    }
    expect_shared(&lock, 1);
    sql_is(db, LOGINS, "SELECT count(*) FROM auth_session WHERE account <> 1");
    stop();
}

/*
 * Passwords are changed while an execution waits for their rows. Only those logins fail: both
 * logins of one account, and the one login of another.
 */
TEST(only_merged_logins_with_an_old_password_fail)
{
    start("look_ups_changed");
    struct together lock = held("auth_session IN SHARE MODE", "write", LOGINS / 2);

    lock.change = "UPDATE auth_account SET password = 'another' WHERE email LIKE 'late10@%'"
                  " OR email LIKE 'caller1@%'";
    log_in_together(&lock);
    for (int i = 0; i < LOGINS; i++)
        ck_status(answers[i], i == 1 || i >= 10 ? 401 : 200);
    expect_shared(&lock, 1);
    stop();
}

SUITE(look_ups, .timeout_s = 120)
