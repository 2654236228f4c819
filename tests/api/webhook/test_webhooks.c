/*
 * The API of webhooks: when a secret is shown, accepted fields, lists, tests. See
 * test_webhook_owners.c for ownership and test_webhook_delivery.c for deliveries.
 */
#include "hook_owners.h"
#include "receive.h"

enum { MANY = 1100 };

static void set_up(void)
{
    hook_owners_open("webhooks", "  timeout: 2\n  per_account: 20\n");
}

TEST(a_creation_returns_exactly_the_specified_fields)
{
    struct answer *answer = ck_status(webhook_try(host, anna, PUBLIC_URL, "message.new"), 201);

    ck_assert_str_eq(keys_of(answer->json), "id userId url events secret active createdAt");
    expect_json(answer->json, text("{'url':'" PUBLIC_URL "','secret':'" TEST_SECRET
                                   "','userId':%jd,'active':true}",
                                   anna->id));
}

TEST(a_missing_secret_is_generated_with_64_hexadecimal_digits)
{
    const char *last = "";

    for (int i = 0; i < 2; i++) {
        const char *secret =
            answer_text(ask(anna, 201, NULL,
                            "POST " WEBHOOKS " {'url':'" PUBLIC_URL "','events':['message.new']}"),
                        "secret");

        ck_assert_uint_eq(strlen(secret), 64);
        ck_assert_uint_eq(strspn(secret, "0123456789abcdef"), 64);
        ck_assert_str_ne(secret, last);
        last = secret;
    }
}

/* A secret is shown only in the response to the creation. */
TEST(the_secret_is_masked_in_later_responses_and_encrypted_in_the_table)
{
    struct webhook_made made = webhook_make(host, anna, PUBLIC_URL, "message.new");
    struct answer *answers[] = {
        ck_status(http(host, "GET", made.path, anna->token, NULL), 200),
        ck_status(http(host, "GET", WEBHOOKS, anna->token, NULL), 200),
        ck_status(http(host, "GET", WEBHOOKS, admin->token, NULL), 200),
        ck_status(webhook_change(host, anna, &made, json_pack("{sb}", "active", 1)), 200),
    };

    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++)
        ck_assert_ptr_null(strstr(answers[i]->body, made.secret));
    ck_assert_str_eq(answer_text(answers[0], "secret"), "****ters");
    ck_assert_str_eq(
        json_string_value(json_object_get(webhook_listed(host, admin, made.id), "secret")),
        "****ters");
    sql_is(db, 0,
           "SELECT count(*) FROM webhook_hook WHERE "
           "position(convert_to('thirty', 'UTF8') in secret) > 0");
}

TEST(a_short_secret_is_fully_masked_and_gives_a_warning)
{
    static const char *const secrets[] = {"ab", "äöüß", "abcde", "sixteen letters!", NULL};
    static const char *const masks[] = {"****", "****", "****bcde", "****ers!"};

    for (int i = 0; secrets[i]; i++) {
        struct answer *answer =
            ask(ben, 201, text("{'secret':'%s'}", secrets[i]),
                "POST " WEBHOOKS " {'url':'" PUBLIC_URL "','events':[],'secret':'%s'}", secrets[i]);
        const json_t *warnings = json_object_get(answer->json, "warnings");
        const json_t *later = webhook_listed(host, ben, answer_int(answer, "id"));

        ck_assert_str_eq(json_string_value(json_object_get(later, "secret")), masks[i]);
        ck_assert_uint_eq(json_array_size(warnings), i < 3);
        if (i < 3)
            expect_json(answer->json,
                        "{'warningDetails':[{'field':'secret','code':'short_secret'}]}");
    }
}

TEST(a_patch_changes_only_the_fields_in_it)
{
    struct webhook_made made = webhook_make(host, anna, PUBLIC_URL, "message.new");
    const struct exchange rows[] = {
        {text("PATCH %s {'url':'http://other.example/x'}", made.path), anna, 200,
         "{'url':'http://other.example/x','active':true,'events':['message.new']}"},
        {text("PATCH %s {'active':false}", made.path), anna, 200,
         "{'url':'http://other.example/x','active':false,'events':['message.new']}"},
        {text("PATCH %s {'events':['conversation.created']}", made.path), anna, 200,
         "{'url':'http://other.example/x','active':false,'events':['conversation.created']}"},
    };

    exchange_rows(host, rows);
}

TEST(an_inactive_webhook_can_be_tested)
{
    struct catcher *catcher = catcher_start(NULL);
    struct webhook_made made = webhook_make(host, anna, catcher_url(catcher, "off"), "message.new");

    ck_status(webhook_change(host, anna, &made, json_pack("{sb}", "active", 0)), 200);
    ask(anna, 200, "{'success':true}", "POST %s/test", made.path);
    ck_assert_str_eq(caught_header(catcher_wait(catcher, 1, 1000), "X-Webhook-Event"), "ping");
}

/* The events of a creation, and those that are stored; NULL: it is refused. */
static const char *const events[][2] = {
    {"[\"message.new\",\"x\"]", NULL},
    {"\"message.new\"", NULL},
    {"null", NULL},
    {"[1]", NULL},
    {"[null]", NULL},
    {"[[]]", NULL},
    {"[\"message.new\\r\\nX-Evil: 1\"]", NULL},
    {"[\"MESSAGE.NEW\"]", NULL},
    {"[\"*\",\"x\"]", NULL},
    {"[\"x\",\"*\"]", NULL},
    {"[\"ping\",\"x\"]", NULL},
    {"[\"message.new\",\"conversation.created\",\"message.new\"]",
     "[\"message.new\",\"conversation.created\"]"},
    {"[]", "[\"*\"]"},
    {"[\"*\"]", "[\"*\"]"},
    {"[\"message.new\",\"*\"]", "[\"*\"]"},
    {"[\"ping\",\"message.new\"]", "[\"message.new\"]"},
    {"[\"ping\"]", "[\"*\"]"},
    {"[\"ping\",\"ping\"]", "[\"*\"]"},
    {"[\"*\",\"ping\"]", "[\"*\"]"},
};

TEST_EACH(events_must_be_a_list_of_known_event_names, sizeof events / sizeof *events)
{
    struct answer *answer =
        ask(anna, events[_i][1] ? 201 : 400, NULL,
            "POST " WEBHOOKS " {'url':'" PUBLIC_URL "','events':%s}", events[_i][0]);
    const json_t *stored = json_object_get(answer->json, "events");

    if (!events[_i][1])
        return;
    ck_assert_str_eq(kept(json_dumps(stored, JSON_COMPACT)), events[_i][1]);
    ask(anna, 200, NULL, "DELETE " WEBHOOKS "/%jd", answer_int(answer, "id"));
}

TEST(required_fields_and_types_are_checked)
{
    struct webhook_made made = webhook_make(host, anna, PUBLIC_URL, "message.new");
    const struct exchange rows[] = {
        {"POST " WEBHOOKS " {'events':['message.new']}", anna, 400},
        {"POST " WEBHOOKS " {'url':'https://a.example/'}", anna, 400},
        {"POST " WEBHOOKS " {'url':1,'events':['message.new']}", anna, 400},
        {"POST " WEBHOOKS " {'url':'','events':['message.new']}", anna, 400},
        {"POST " WEBHOOKS " {'url':'https://a.example/','events':[],'secret':5}", anna, 400},
        {text("POST " WEBHOOKS " {'url':'https://a.example/','events':[],'secret':'%0257d'}", 1),
         anna, 400},
        {"POST " WEBHOOKS " []", anna, 400},
        {text("PATCH %s {'active':null}", made.path), anna, 400},
        {text("PATCH %s {'url':null}", made.path), anna, 400},
        {text("PATCH %s {'events':null}", made.path), anna, 400},
        {text("PATCH %s {'active':'no'}", made.path), anna, 400},
        {text("PATCH %s {'events':['x']}", made.path), anna, 400},
        {"GET " WEBHOOKS "/0", anna, 400},
        {"GET " WEBHOOKS "/99999999", anna, 404, "Webhook not found"},
    };
    struct answer *answer =
        ask(anna, 201, NULL,
            "POST " WEBHOOKS " {'url':'" PUBLIC_URL "','events':[],'secret':''}"); /* none */

    ck_assert_uint_eq(strlen(answer_text(answer, "secret")), 64);
    exchange_rows(host, rows);
}

TEST(the_event_list_has_the_events_of_the_loaded_modules)
{
    struct answer *answer = ask(anna, 200, NULL, "GET " WEBHOOKS "/events");
    bool found[2] = {false, false};
    size_t index;
    json_t *name;

    json_array_foreach (answer->json, index, name) {
        found[0] |= !strcmp(json_string_value(name), "conversation.created");
        found[1] |= !strcmp(json_string_value(name), "message.new");
        ck_status(webhook_try(host, agent, PUBLIC_URL, json_string_value(name)), 201);
    }
    ck_assert(found[0] && found[1]);
}

TEST(a_deleted_webhook_is_404_for_its_owner_and_admins)
{
    struct webhook_made made = webhook_make(host, anna, PUBLIC_URL, "message.new");
    struct answer *answer = ck_status(webhook_call(host, anna, "DELETE", &made, ""), 200);

    ck_assert_str_eq(answer->body, "{\"success\":true}");
    ck_error(webhook_call(host, anna, "DELETE", &made, ""), 404, "Webhook not found");
    ck_error(webhook_call(host, anna, "GET", &made, ""), 404, "Webhook not found");
    ck_error(webhook_call(host, admin, "POST", &made, "/test"), 404, "Webhook not found");
    ck_assert_ptr_null(webhook_listed(host, admin, made.id));
}

/* Each of the copies has 8 KiB. */
TEST(a_page_of_the_list_has_at_most_a_mebibyte)
{
    enum { LARGE = 300 };
    struct person *many = person_make(host, admin, "hook-large", NULL);
    struct webhook_made made = webhook_make(host, many, PUBLIC_URL, "message.new");
    const char *path = WEBHOOKS "?limit=1000";
    size_t found = 0, pages = 0;

    const char *more =
        "'{\"limit\":1,\"per\":\"second\"}', '{\"name\":\"' || repeat('x', 8000) || '\"}'";

    sql_run(db, text("INSERT INTO webhook_hook (id, account, url, events, secret, active, admitted,"
                     " sees_all, organisations, email, rate_limit, filter) SELECT"
                     " nextval('webhook_hook_id'), account, 'https://example.com/' || n, events,"
                     " secret, false, admitted, sees_all, organisations, email, %s"
                     " FROM webhook_hook, generate_series(1, %d) n WHERE id = %jd",
                     more, LARGE, made.id));
    for (; path; pages++) {
        struct answer *answer = ck_status(http(host, "GET", path, many->token, NULL), 200);

        ck_assert_uint_le(answer->length, 1024 * 1024 + 16384);
        found += json_array_size(answer->json);
        path = next_page(answer);
    }
    ck_assert_uint_eq(found, LARGE + 1);
    ck_assert_uint_eq(pages, 3);
    struct answer *all = ck_status(http(host, "GET", WEBHOOKS, many->token, NULL), 200);

    ck_assert_uint_eq(json_array_size(all->json), LARGE + 1);
    ck_assert_ptr_null(strstr(all->body, "\": ")); /* compact, as in the pages */
    sql_run(db, "DELETE FROM webhook_hook WHERE url LIKE 'https://example.com/%'");
}

/* More webhooks than the maximum of a page. */
TEST(the_list_without_a_limit_has_all_webhooks)
{
    struct webhook_made made = webhook_make(host, anna, PUBLIC_URL, "message.new");

    sql_run(db, text("INSERT INTO webhook_hook (id, account, url, events, secret, active, admitted,"
                     " sees_all, organisations, email) SELECT nextval('webhook_hook_id'), account,"
                     " 'https://example.com/' || n, events, secret, false, admitted, sees_all,"
                     " organisations, email FROM webhook_hook, generate_series(1, %d) n"
                     " WHERE id = %jd",
                     MANY, made.id));
    const struct person *readers[] = {anna, admin};

    for (int i = 0; i < 2; i++) {
        struct answer *list = ck_status(http(host, "GET", WEBHOOKS, readers[i]->token, NULL), 200);
        struct answer *rest = ask(readers[i], 200, NULL, "GET " WEBHOOKS "?after=%jd", made.id);
        int64_t last = 0;
        size_t index;
        const json_t *hook;

        ck_assert_uint_ge(json_array_size(list->json), MANY + 1);
        ck_assert_uint_eq(json_array_size(rest->json), MANY);
        ck_assert_ptr_null(next_page(list));
        json_array_foreach (list->json, index, hook) {
            int64_t id = json_integer_value(json_object_get(hook, "id"));

            ck_assert_int_gt(id, last);
            ck_assert_ptr_null(json_object_get(hook, "organisations"));
            last = id;
        }
        sql_is(db, last, "SELECT max(id) FROM webhook_hook");
        ck_assert_ptr_null(strstr(list->body, made.secret));
        list = ck_status(http(host, "GET", WEBHOOKS "?limit=1000", readers[i]->token, NULL), 200);
        ck_assert_uint_eq(json_array_size(list->json), 1000);
        ck_assert_ptr_nonnull(next_page(list));
    }
    sql_run(db, "DELETE FROM webhook_hook WHERE url LIKE 'https://example.com/%'");
}

TEST(an_account_may_have_up_to_20_webhooks)
{
    struct person *many = person_make(host, admin, "hook-full", NULL);

    for (int i = 0; i < 20; i++)
        webhook_make(host, many, PUBLIC_URL, "message.new");
    ck_error(webhook_try(host, many, PUBLIC_URL, "message.new"), 409,
             "An account may have at most 20");
}

TEST(a_test_of_a_hung_receiver_responds_after_four_seconds)
{
    struct host *slow = webhook_host("webhook_patient", "  timeout: 20\n");
    struct person *own = person_make(slow, admin_of(slow), "patient", NULL);
    struct catcher *catcher = catcher_of(ANSWER_NONE);

    webhook_ready("webhook_patient", 1);
    struct webhook_made made = webhook_make(slow, own, catcher_url(catcher, "x"), "message.new");
    struct answer *answer =
        ask_on(slow, own, 200, "{'success':false,'status':null,'error':'*has not responded yet*'}",
               "POST %s/test", made.path);

    ck_assert_double_ge(answer->seconds, 3.9);
    ck_assert_double_lt(answer->seconds, 20); /* the timeout of the attempt */
}

TEST(a_test_of_a_hung_receiver_responds_when_the_attempt_times_out)
{
    struct catcher *catcher = catcher_of(ANSWER_NONE);
    struct webhook_made made =
        webhook_make(host, anna, catcher_url(catcher, "ping"), "message.new");
    struct answer *answer =
        ask(anna, 200, "{'success':false,'status':null}", "POST %s/test", made.path);

    ck_assert_ptr_nonnull(strcasestr(answer_text(answer, "error"), "timed out"));
}

STAGE_SUITE(webhooks, set_up, 60)
