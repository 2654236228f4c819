/*
 * The API of webhooks: when a secret is shown, accepted fields, lists, tests, owners and the events
 * that they receive. See test_webhook_delivery.c for deliveries.
 */
#include "receive.h"
#include "stage.h"

#define UNKNOWN "Webhook not found"

enum { MANY = 1100 };

static struct person *anna, *ben, *agent; /* two Users and an ApiUser of three organizations */

static void set_up(void)
{
    stage_open(&(struct host_spec){.name = "webhooks",
                                   .modules = WEBHOOK_MODULES,
                                   .more = WEBHOOK_LOCAL "  per_account: 20\n"});
    webhook_ready("webhooks", 1);
    anna = person_with_role(host, admin, "hook-anna", "User");
    ben = person_with_role(host, admin, "hook-ben", "User");
    agent = person_make(host, admin, "hook-agent", "ApiUser");
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

    exchanges(
        host,
        {text("PATCH %s {'url':'http://other.example/x'}", made.path), anna, 200,
         "{'url':'http://other.example/x','active':true,'events':['message.new']}"},
        {text("PATCH %s {'active':false}", made.path), anna, 200,
         "{'url':'http://other.example/x','active':false,'events':['message.new']}"},
        {text("PATCH %s {'events':['conversation.created']}", made.path), anna, 200,
         "{'url':'http://other.example/x','active':false,'events':['conversation.created']}"});
}

TEST(an_inactive_webhook_can_be_tested)
{
    struct catcher *catcher = catcher_start(NULL);
    struct webhook_made made = webhook_make(host, anna, catcher_url(catcher, "off"), "message.new");

    ck_status(webhook_change(host, anna, &made, json_pack("{sb}", "active", 0)), 200);
    webhook_test(host, anna, &made, "", "{'success':true}");
    ck_assert_str_eq(caught_header(catcher_wait(catcher, 1, 1000), "X-Webhook-Event"), "ping");
}

/* The events of a creation, and those that are stored; NULL: it is refused. */
static const char *const events[][2] = {
    {"[\"message.new\",\"x\"]", NULL},
    {"\"message.new\"", NULL},
    {"[null]", NULL},
    {"[\"message.new\\r\\nX-Evil: 1\"]", NULL},
    {"[\"MESSAGE.NEW\"]", NULL},
    {"[\"*\",\"x\"]", NULL},
    {"[\"ping\",\"x\"]", NULL},
    {"[\"message.new\",\"conversation.created\",\"message.new\"]",
     "[\"message.new\",\"conversation.created\"]"},
    {"[]", "[\"*\"]"},
    {"[\"message.new\",\"*\"]", "[\"*\"]"},
    {"[\"ping\",\"message.new\"]", "[\"message.new\"]"},
    {"[\"ping\"]", "[\"*\"]"},
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
        {"POST " WEBHOOKS " {'url':'','events':['message.new']}", anna, 400},
        {text("PATCH %s {'active':null}", made.path), anna, 400},
        {text("PATCH %s {'url':null}", made.path), anna, 400},
        {text("PATCH %s {'events':null}", made.path), anna, 400},
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
    size_t found = 0, pages = 0;
    const char *more =
        "'{\"limit\":1,\"per\":\"second\"}', '{\"name\":\"' || repeat('x', 8000) || '\"}'";

    sql_run(db, text("INSERT INTO webhook_hook (id, account, url, events, secret, active, admitted,"
                     " sees_all, organisations, email, rate_limit, filter) SELECT"
                     " nextval('webhook_hook_id'), account, 'https://example.com/' || n, events,"
                     " secret, false, admitted, sees_all, organisations, email, %s"
                     " FROM webhook_hook, generate_series(1, %d) n WHERE id = %jd",
                     more, LARGE, made.id));
    EACH_PAGE (page, many, WEBHOOKS "?limit=1000") {
        ck_assert_uint_le(page->length, 1024 * 1024 + 16384);
        found += json_array_size(page->json);
        pages++;
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
    struct host *hasty = webhook_host("webhook_hasty", "  timeout: 1\n");
    struct person *own = admin_of(hasty);
    struct catcher *catcher = catcher_of(ANSWER_NONE);
    struct webhook_made made = webhook_make(hasty, own, catcher_url(catcher, "x"), "message.new");

    WAIT_UNTIL(strcasestr(answer_text(ask_on(hasty, own, 200, "{'success':false,'status':null}",
                                             "POST %s/test", made.path),
                                      "error"),
                          "timed out"),
               10000);
}

/* ---- owners ---- */

/* Another account's webhook looks as if it did not exist, and nothing is sent or changed. */
TEST(another_accounts_webhook_is_404_on_every_route_and_unchanged)
{
    struct catcher *catcher = catcher_start(NULL);
    struct webhook_made made =
        webhook_make(host, anna, catcher_url(catcher, "hook"), "message.new");
    const struct person *others[] = {ben, agent};

    for (int i = 0; i < 2; i++) {
        exchanges(host, {text("GET %s", made.path), others[i], 404, UNKNOWN},
                  {text("PATCH %s {'active':false}", made.path), others[i], 404, UNKNOWN},
                  {text("DELETE %s", made.path), others[i], 404, UNKNOWN},
                  {text("POST %s/test", made.path), others[i], 404, UNKNOWN},
                  {text("POST %s/rotate-secret", made.path), others[i], 404, UNKNOWN},
                  {text("GET %s/deliveries", made.path), others[i], 404, UNKNOWN},
                  {text("POST %s/deliveries/1/resend", made.path), others[i], 404},
                  {text("POST %s/recover {'since':'2020-01-01T00:00:00Z'}", made.path), others[i],
                   404, UNKNOWN});
    }
    ck_assert(json_is_true(json_object_get(webhook_listed(host, anna, made.id), "active")));
    ck_assert_ptr_null(webhook_listed(host, ben, made.id));
    ck_assert_ptr_nonnull(webhook_listed(host, admin, made.id));
    ck_status(webhook_call(host, admin, "POST", &made, "/test"), 200);
    catcher_wait(catcher, 1, 5000);
    ck_assert_uint_eq(catcher_count(catcher), 1); /* the Admin's ping only */
}

TEST(read_only_fields_are_ignored_at_creation)
{
    struct answer *answer =
        ask(anna, 201, text("{'userId':%jd,'active':true}", anna->id),
            "POST " WEBHOOKS " {'url':'" PUBLIC_URL "','events':['message.new'],'userId':1,"
            "'id':7777,'active':false,'createdAt':'2001-01-01T00:00:00.000Z'}");

    ck_assert_int_ne(answer_int(answer, "id"), 7777);
    ck_assert_int_ne(strncmp(answer_text(answer, "createdAt"), "2001", 4), 0);
}

TEST(a_patch_changes_neither_owner_nor_secret)
{
    struct webhook_made made = webhook_make(host, anna, PUBLIC_URL, "message.new");

    ck_status(webhook_change(host, anna, &made,
                             json_pack("{ss si si}", "secret", "another secret of ours", "userId",
                                       (int)ben->id, "id", 7777)),
              200);
    const json_t *after = webhook_listed(host, anna, made.id);

    ck_assert_ptr_nonnull(after);
    ck_assert_str_eq(json_string_value(json_object_get(after, "secret")), "****ters");
    ck_assert_ptr_null(webhook_listed(host, ben, made.id));
}

TEST(webhooks_get_only_events_of_conversations_visible_to_their_owner)
{
    struct catcher *of_anna = catcher_start(NULL), *of_ben = catcher_start(NULL);
    struct catcher *of_admin = catcher_start(NULL);

    webhook_make(host, anna, catcher_url(of_anna, "a"), "conversation.created");
    webhook_make(host, ben, catcher_url(of_ben, "b"), "conversation.created");
    webhook_make(host, admin, catcher_url(of_admin, "c"), "conversation.created");
    talk_start(host, anna, anna->email, "somebody@else.example", "only Anna's");
    catcher_wait(of_anna, 1, 5000);
    talk_start(host, ben, ben->email, "somebody@else.example", "only Ben's");
    const struct caught *caught = catcher_wait(of_ben, 1, 5000);

    ck_assert_ptr_nonnull(strstr(caught->body, "only Ben's"));
    catcher_wait(of_admin, 2, 5000);
    ck_assert_uint_eq(catcher_count(of_anna), 1);
    ck_assert_uint_eq(catcher_count(of_ben), 1);
}

static void expect_admitted(const struct webhook_made *made, int admitted)
{
    sql_soon(db, text("SELECT (admitted::int = %d)::int FROM webhook_hook WHERE id = %jd", admitted,
                      made->id));
}

TEST(webhooks_of_a_suspended_owner_get_events_again_after_reactivation)
{
    struct person *guest = person_with_role(host, admin, "hook-guest", "User");
    struct catcher *catcher = catcher_start(NULL);
    struct webhook_made made =
        webhook_make(host, guest, catcher_url(catcher, "g"), "conversation.created");

    ck_status(person_change(host, admin, guest, "status", "Suspended"), 200);
    expect_admitted(&made, 0);
    talk_start(host, anna, anna->email, guest->email, "while suspended");
    ck_status(person_change(host, admin, guest, "status", "Active"), 200);
    expect_admitted(&made, 1);
    talk_start(host, anna, anna->email, guest->email, "once back");
    ck_assert_ptr_nonnull(strstr(catcher_wait(catcher, 1, 5000)->body, "once back"));
}

STAGE_SUITE(webhooks, set_up, 60)
