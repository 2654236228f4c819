#include "deliver.h"

#include <time.h>

struct talk deliver_talk;
static const char *settings;

void deliver_open(const char *name, const char *more)
{
    settings = text("%s%s", WEBHOOK_LOCAL, more);
    stage_open(&(struct host_spec){.name = name, .modules = WEBHOOK_MODULES, .more = settings});
    webhook_ready(name, 1);
    deliver_talk = talk_start(host, admin, ADMIN_EMAIL, "other@shop.example", "Rooftop 7");
}

void deliver_close(void)
{
    const json_t *hook;
    size_t i;

    if (host_alive(host)) {
        const json_t *list = ask(admin, 200, NULL, "GET " WEBHOOKS)->json;

        json_array_foreach (list, i, hook)
            ask(admin, 200, NULL, "DELETE " WEBHOOKS "/%jd",
                (intmax_t)json_integer_value(json_object_get(hook, "id")));
    }
    stage_disconnect();
}

void deliver_apart(const char *name, const char *more)
{
    deliver_open(name, more);
    stage_connect();
}

struct host *deliver_another(const char *name)
{
    return host_start(&(struct host_spec){
        .name = name, .database = PQdb(db), .modules = WEBHOOK_MODULES, .more = settings});
}

void deliver_await_halves(void)
{
    sql_soon(db, "SELECT (count(*) = 2)::int FROM (SELECT FROM webhook_shard WHERE owner IS NOT"
                 " NULL GROUP BY owner HAVING count(*) = 32) h");
}

void deliver_await_cursor(int64_t webhook)
{
    sql_soon(db, text("SELECT (cursor >= (SELECT max(id) FROM webhook_delivery))::int FROM"
                      " webhook_shard WHERE shard = webhook_shard_of(%jd)",
                      webhook));
}

void say(const char *entry)
{
    ck_status(talk_post(host, admin, &deliver_talk, ADMIN_EMAIL, entry), 201);
}

json_t *say_until(const struct webhook_made *made, const char *entry, const char *status)
{
    say(entry);
    return webhook_wait(host, admin, made, status, 20000);
}

struct webhook_made hook_to(const struct catcher *catcher)
{
    return webhook_make(host, admin, catcher_url(catcher, "hook"), "message.new");
}

void expect_signed(const struct caught *caught, const char *secret)
{
    const char *id = caught_header(caught, "webhook-id");
    const char *at = caught_header(caught, "webhook-timestamp");

    ck_assert_ptr_nonnull(id);
    ck_assert_ptr_nonnull(at);
    long arrived = (long)(time(NULL) - (now_ms() - caught->at_ms) / 1000);
    ck_assert_int_le(labs(strtol(at, NULL, 10) - arrived), 30);
    ck_assert_str_eq(caught_header(caught, "X-Webhook-Signature"),
                     hmac_hex(secret, caught->body, caught->length));
    ck_assert_str_eq(caught_header(caught, "webhook-signature"),
                     hmac_standard(secret, id, at, caught->body, caught->length));
}
