#include "deliver.h"

#include <time.h>

static struct talk talk;

void deliver_open(const char *name)
{
    stage_open(
        &(struct host_spec){.name = name, .modules = WEBHOOK_MODULES, .more = WEBHOOK_LOCAL});
    webhook_ready(name, 1);
    talk = talk_start(host, admin, ADMIN_EMAIL, "other@shop.example", "Rooftop 7");
}

void say(const char *entry)
{
    ck_status(talk_post(host, admin, &talk, ADMIN_EMAIL, entry), 201);
}

void forget(const struct webhook_made *webhook)
{
    ck_status(webhook_call(host, admin, "DELETE", webhook, ""), 200);
}

void expect_signed(const struct caught *caught, const char *secret)
{
    const char *id = caught_header(caught, "webhook-id");
    const char *at = caught_header(caught, "webhook-timestamp");

    ck_assert_ptr_nonnull(id);
    ck_assert_ptr_nonnull(at);
    ck_assert_int_le(labs(strtol(at, NULL, 10) - (long)time(NULL)), 30);
    ck_assert_str_eq(caught_header(caught, "X-Webhook-Signature"),
                     hmac_hex(secret, caught->body, caught->length));
    ck_assert_str_eq(caught_header(caught, "webhook-signature"),
                     hmac_standard(secret, id, at, caught->body, caught->length));
}
