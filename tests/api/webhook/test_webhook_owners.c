/* Ownership of webhooks, and the events that they receive. */
#include "hook_owners.h"
#include "receive.h"

#define UNKNOWN "Webhook not found"

static void set_up(void)
{
    hook_owners_open("hookowners", "  timeout: 2\n");
}

/* Another account's webhook looks as if it did not exist, and nothing is sent or changed. */
TEST(another_accounts_webhook_is_404_on_every_route_and_unchanged)
{
    struct catcher *catcher = catcher_start(NULL);
    struct webhook_made made =
        webhook_make(host, anna, catcher_url(catcher, "hook"), "message.new");
    const struct person *others[] = {ben, agent};

    for (int i = 0; i < 2; i++) {
        const struct exchange rows[] = {
            {text("GET %s", made.path), others[i], 404, UNKNOWN},
            {text("PATCH %s {'active':false}", made.path), others[i], 404, UNKNOWN},
            {text("DELETE %s", made.path), others[i], 404, UNKNOWN},
            {text("POST %s/test", made.path), others[i], 404, UNKNOWN},
            {text("POST %s/rotate-secret", made.path), others[i], 404, UNKNOWN},
            {text("GET %s/deliveries", made.path), others[i], 404, UNKNOWN},
            {text("POST %s/deliveries/1/resend", made.path), others[i], 404},
            {text("POST %s/recover {'since':'2020-01-01T00:00:00Z'}", made.path), others[i], 404,
             UNKNOWN},
        };

        exchange_rows(host, rows);
    }
    ck_assert(json_is_true(json_object_get(webhook_listed(host, anna, made.id), "active")));
    ck_assert_ptr_null(webhook_listed(host, ben, made.id));
    ck_assert_ptr_nonnull(webhook_listed(host, admin, made.id));
    ck_status(webhook_call(host, admin, "POST", &made, "/test"), 200);
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

STAGE_SUITE(webhook_owners, set_up, 60)
