#include "hook.h"
#include "exchange.h"

#include "secrets.h"

void webhook_ready(const char *database, int hosts)
{
    database_soon(the_postgres, database,
                  text("SELECT (count(*) >= %d)::int FROM webhook_host", hosts));
}

struct host *webhook_host(const char *name, const char *more)
{
    struct host *host = host_start(&(struct host_spec){
        .name = name, .modules = WEBHOOK_MODULES, .more = text("%s%s", WEBHOOK_LOCAL, more)});

    webhook_ready(name, 1);
    return host;
}

struct answer *webhook_try(const struct host *host, const struct person *by, const char *url,
                           const char *event)
{
    secrets_add(TEST_SECRET);
    return http(host, "POST", WEBHOOKS, by->token,
                json_pack("{ss s[s] ss}", "url", url, "events", event, "secret", TEST_SECRET));
}

struct webhook_made webhook_make(const struct host *host, const struct person *by, const char *url,
                                 const char *event)
{
    return webhook_of(ck_status(webhook_try(host, by, url, event), 201));
}

struct webhook_made webhook_with(const struct host *host, const struct person *by, const char *url,
                                 const char *members)
{
    return webhook_of(ask(by, 201, NULL, "POST " WEBHOOKS " %s",
                          json_with("{'events':['message.new'],'secret':'" TEST_SECRET "'}",
                                    text("{'url':'%s',%s}", url, members))));
}

struct webhook_made webhook_of(const struct answer *created)
{
    int64_t id = answer_int(created, "id");

    return (struct webhook_made){id, text("%s", answer_text(created, "secret")),
                                 text(WEBHOOKS "/%jd", id)};
}

struct answer *webhook_call(const struct host *host, const struct person *by, const char *method,
                            const struct webhook_made *webhook, const char *suffix)
{
    return http(host, method, text("%s%s", webhook->path, suffix), by->token, NULL);
}

const json_t *webhook_test(const struct host *host, const struct person *by,
                           const struct webhook_made *webhook, const char *body,
                           const char *expected)
{
    const struct answer *answer =
        ask_on(host, by, 200, NULL, "POST %s/test%s", webhook->path, body);
    const json_t *outcome = answer->json;

    if (strstr(answer->body, "has not responded yet")) {
        const json_t *newest = NULL;

        WAIT_UNTIL((newest = webhook_newest(host, by, webhook)) &&
                       json_array_size(json_object_get(newest, "attempts")),
                   10000);
        json_t *status = json_object_get(attempt_of(newest, 0), "status");
        json_t *error = json_object_get(attempt_of(newest, 0), "error");
        bool success = json_integer_value(status) / 100 == 2 && !json_is_string(error);

        outcome =
            kept(json_pack("{sb sO? sO?}", "success", success, "status", status, "error", error));
    }
    expect_json(outcome, expected);
    return outcome;
}

json_t *webhook_newest(const struct host *host, const struct person *by,
                       const struct webhook_made *webhook)
{
    struct answer *answer =
        ck_status(webhook_call(host, by, "GET", webhook, "/deliveries?limit=1"), 200);

    return json_array_get(answer->json, 0);
}

json_t *webhook_wait(const struct host *host, const struct person *by,
                     const struct webhook_made *webhook, const char *status, int ms)
{
    json_t *newest = NULL;

    WAIT_UNTIL_MSG((newest = webhook_newest(host, by, webhook)) &&
                       !strcmp(json_string_value(json_object_get(newest, "status")), status),
                   ms, "the newest delivery is not %s: %s", status,
                   newest ? (char *)kept(json_dumps(newest, 0)) : "there is none");
    return newest;
}

const json_t *attempt_of(const json_t *delivery, size_t index)
{
    const json_t *attempt = json_array_get(json_object_get(delivery, "attempts"), index);

    ck_assert_msg(attempt != NULL, "there is no attempt %zu", index);
    return attempt;
}

struct answer *webhook_create(const struct host *host, const struct person *by, json_t *body)
{
    return http(host, "POST", WEBHOOKS, by->token, body);
}

struct answer *webhook_change(const struct host *host, const struct person *by,
                              const struct webhook_made *webhook, json_t *body)
{
    return http(host, "PATCH", webhook->path, by->token, body);
}

const json_t *webhook_listed(const struct host *host, const struct person *by, int64_t id)
{
    struct answer *answer = ask(by, 200, NULL, "GET " WEBHOOKS);
    size_t index;
    json_t *one;

    json_array_foreach (answer->json, index, one) {
        if (json_integer_value(json_object_get(one, "id")) == id)
            return one;
    }
    return NULL;
}
