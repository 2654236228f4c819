/*
 * Access to conversations and the right to speak as a person (threats O01 to O11), scoped and open.
 * A and B are plain users of two organizations, M is an OrganizationAdmin in an organization like
 * A's, K an ApiUser.
 */
#include <string.h>

#include "suite.h"
#include "suites.h"
#include "talk.h"

static struct host *host, *open_host;
static struct person *admin, *m, *k, *a, *b;

static void set_up(void)
{
    const char *database = database_make(the_postgres, "chat_rules");

    host = host_start(&(struct host_spec){.name = "chat-rules", .database = database});
    open_host = host_start(&(struct host_spec){
        .name = "chat-open", .database = database, .chat = "  ownership: open\n"});
    admin = admin_of(host);
    m = person_make(host, admin, "rules.m", NULL);
    k = person_make(host, admin, "rules.k", "ApiUser");
    a = person_with_role(host, admin, "rules.a", "User");
    b = person_with_role(host, admin, "rules.b", "User");
}

static void tear_down(void)
{
    host_stop(host);
    host_stop(open_host);
}

static struct talk talk_of_a(const char *device)
{
    return talk_start(host, a, a->email, "partner.of.a@shop.example", device);
}

/* O01 and O02: requests about another person's e-mail are never refused, but return only the
 * conversations that the caller may see. */
TEST(lists_and_counts_of_others_have_what_the_caller_sees)
{
    struct talk talk = talk_of_a("O01"), shared = talk_start(host, a, a->email, b->email, "O02");

    ck_status(talk_post(host, b, &shared, b->email, "O02 entry"), 201);
    const json_t *list = ck_status(talk_of(host, b, "conversations/user", a->email, ""), 200)->json;

    ck_assert_uint_eq(json_array_size(list), 1);
    ck_assert_int_eq(json_integer_value(json_object_get(json_array_get(list, 0), "id")), shared.id);
    struct answer *count = ck_status(talk_of(host, b, "unread-count", a->email, ""), 200);

    ck_assert_int_eq(answer_int(count, "count"), 1);
    ck_assert_str_eq(ck_status(talk_of(host, b, "unread-devices", a->email, ""), 200)->body,
                     "[\"O02\"]");
    list = ck_status(talk_of(host, admin, "conversations/user", a->email, "?limit=2"), 200)->json;
    ck_assert_int_eq(json_integer_value(json_object_get(json_array_get(list, 1), "id")), talk.id);
    ck_status(talk_read(host, a, &shared, a->email), 200);
    count = ck_status(talk_of(host, b, "unread-count", a->email, ""), 200);
    ck_assert_int_eq(answer_int(count, "count"), 0);
}

TEST(who_has_no_part_gets_nothing_of_others)
{
    static const char *const whats[] = {"conversations/user", "unread-devices"};
    const struct person *all[] = {b, m, k};

    talk_of_a("nothing");
    for (int i = 0; i < 3; i++) {
        const char *email = i == 0 ? "partner.of.a@shop.example" : a->email;

        for (int what = 0; what < 2; what++)
            ck_assert_str_eq(ck_status(talk_of(host, all[i], whats[what], email, ""), 200)->body,
                             "[]");
        ck_assert_int_eq(
            answer_int(ck_status(talk_of(host, all[i], "unread-count", email, ""), 200), "count"),
            0);
    }
}

/* The Admin uses its own e-mail without being a participant; the message is unread for both
 * participants. */
TEST(an_admin_writes_in_any_conversation)
{
    const char *user = "helped@shop.example", *other = "helper@shop.example";
    struct talk talk = talk_start(host, k, user, other, "helped");

    ck_status(talk_read(host, k, &talk, other), 200);
    ck_status(talk_post(host, admin, &talk, ADMIN_EMAIL, "from the Admin"), 201);
    ck_assert_int_eq(answer_int(talk_of(host, k, "unread-count", user, ""), "count"), 1);
    ck_assert_int_eq(answer_int(talk_of(host, k, "unread-count", other, ""), "count"), 1);
    ck_assert_uint_eq(talk_length(host, k, &talk), 2);
    ck_error(talk_post(host, admin, &talk, "third@shop.example", "as a third"), 403, "");
    ck_error(talk_post(host, k, &talk, ADMIN_EMAIL, "as the Admin"), 403, "");
    ck_error(talk_read(host, admin, &talk, ADMIN_EMAIL), 403, "");
}

/* O03, O05 and O06: other people's conversations look as if they did not exist, and are not
 * changed. */
TEST(a_conversation_of_others_is_unknown)
{
    struct talk talk = talk_of_a("O03"), none = {INT64_C(987654321), NULL};

    ck_error(talk_chain(host, b, &talk, ""), 404, "");
    struct answer *foreign = ck_error(talk_post(host, b, &talk, b->email, "O05 entry"), 404, "");
    struct answer *unknown = ck_error(talk_post(host, b, &none, b->email, "O05 entry"), 404, "");

    ck_assert_str_eq(answer_text(foreign, "message"), answer_text(unknown, "message"));
    ck_error(talk_post(host, b, &talk, a->email, "O05 entry as A"), 404, "");
    ck_error(talk_read(host, b, &talk, a->email), 404, "");
    ck_error(talk_read(host, a, &talk, b->email), 403, "");
    ck_assert_uint_eq(talk_length(host, a, &talk), 1);
}

/* O04 */
TEST(a_chain_is_found_by_its_head_alone)
{
    struct talk talk = talk_of_a("O04");
    struct answer *second = ck_status(talk_post(host, a, &talk, a->email, "O04 entry"), 201);
    struct talk middle = {talk.id, text("%s", answer_text(second, "uuid"))};

    ck_error(talk_chain(host, a, &middle, ""), 404, "");
    ck_assert_uint_eq(talk_length(host, a, &talk), 2);
}

/* O07 */
TEST(nobody_writes_as_somebody_else)
{
    struct talk talk = talk_start(host, a, a->email, b->email, "O07");

    ck_error(talk_post(host, a, &talk, b->email, "O07 entry"), 403, "");
    ck_assert_uint_eq(talk_length(host, a, &talk), 1);
    ck_status(talk_post(host, b, &talk, b->email, "O07 own entry"), 201);
}

/* O08 */
TEST(a_user_starts_only_what_it_takes_part_in)
{
    ck_error(talk_try(host, a, "one@shop.example", "two@shop.example", NULL, "O08 entry"), 403, "");
    ck_error(talk_try(host, a, b->email, "two@shop.example", NULL, "O08 entry"), 403, "");
    ck_error(talk_try(host, a, b->email, a->email, NULL, "O08 entry as B"), 403, "");
}

/* O09 */
TEST(participants_differ_and_need_no_account)
{
    ck_error(talk_try(host, a, a->email, text("  %s ", a->email), NULL, "O09 entry"), 400, "");
    ck_status(talk_try(host, a, a->email, "nobody.knows@shop.example", NULL, "O09 entry"), 201);
    ck_error(talk_try(host, a, a->email, "not an e-mail", NULL, "O09 entry"), 400, "");
}

/* O10 */
TEST(find_without_filters_finds_only_ones_own)
{
    struct talk mine = talk_of_a("O10");

    talk_start(host, b, b->email, "partner.of.b@shop.example", "O10");
    ck_assert_int_eq(answer_int(ck_status(talk_find(host, a, json_object()), 200), "id"), mine.id);
    ck_assert_int_eq(
        answer_int(
            ck_status(talk_find(host, a, json_pack("{ss}", "deviceProjectName", "O10")), 200),
            "id"),
        mine.id);
    ck_assert_str_eq(
        ck_status(
            talk_find(host, a, json_pack("{ss}", "participant1", "partner.of.b@shop.example")), 200)
            ->body,
        "null");
}

/* O11 */
TEST(names_are_found_literally)
{
    static const char *const patterns[] = {"%", "_", "*", "O11_name", "O11%", "' OR 1=1 --"};

    talk_of_a("O11-name");
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        ck_assert_str_eq(
            ck_status(talk_find(host, a, json_pack("{ss}", "deviceProjectName", patterns[i])), 200)
                ->body,
            "null");
    struct talk literal = talk_of_a("100 % of_*");

    ck_assert_int_eq(
        answer_int(talk_find(host, a, json_pack("{ss}", "deviceProjectName", "100 % of_*")), "id"),
        literal.id);
}

/* An external platform speaks for its end users, but never for accounts of other organizations. */
TEST(platforms_speak_for_end_users_of_their_own)
{
    struct talk talk = talk_start(host, k, "end.user@shop.example", ADMIN_EMAIL, "platform");

    ck_status(talk_post(host, k, &talk, "end.user@shop.example", "platform entry"), 201);
    ck_error(talk_post(host, k, &talk, ADMIN_EMAIL, "platform entry"), 403, "");
    ck_error(talk_try(host, k, a->email, "end.user@shop.example", NULL, "platform entry"), 403, "");
    ck_assert_int_eq(answer_int(talk_of(host, k, "unread-count", a->email, ""), "count"), 0);
    ck_error(talk_chain(host, m, &talk, ""), 404, "");
    ck_error(talk_post(host, m, &talk, "end.user@shop.example", "platform entry"), 404, "");
    ck_status(talk_read(host, k, &talk, "end.user@shop.example"), 200);
}

/* The same e-mail may talk to two platforms: each sees its own part, an Admin sees both. */
TEST(counts_and_lists_cover_what_the_caller_sees)
{
    const char *shared = "shared.user@shop.example";
    struct talk of_k = talk_start(host, k, shared, ADMIN_EMAIL, "seen by K");
    struct talk of_m = talk_start(host, m, shared, ADMIN_EMAIL, "seen by M");

    ck_status(talk_post(host, admin, &of_k, ADMIN_EMAIL, "shared entry 1"), 201);
    ck_status(talk_post(host, admin, &of_m, ADMIN_EMAIL, "shared entry 2"), 201);
    ck_status(talk_post(host, admin, &of_m, ADMIN_EMAIL, "shared entry 3"), 201);
    ck_assert_int_eq(answer_int(talk_of(host, k, "unread-count", shared, ""), "count"), 1);
    ck_assert_int_eq(answer_int(talk_of(host, m, "unread-count", shared, ""), "count"), 2);
    ck_assert_int_eq(answer_int(talk_of(host, admin, "unread-count", shared, ""), "count"), 3);
    ck_assert_str_eq(talk_of(host, k, "unread-devices", shared, "")->body, "[\"seen by K\"]");
    ck_assert_str_eq(talk_of(host, admin, "unread-devices", shared, "")->body,
                     "[\"seen by M\",\"seen by K\"]");
    ck_assert_uint_eq(json_array_size(talk_of(host, m, "conversations/user", shared, "")->json), 1);
    ck_assert_uint_eq(json_array_size(talk_of(host, admin, "conversations/user", shared, "")->json),
                      2);
}

TEST(open_ownership_turns_the_scoping_off)
{
    struct talk talk = talk_of_a("open");

    ck_status(talk_of(open_host, b, "conversations/user", a->email, ""), 200);
    ck_status(talk_chain(open_host, b, &talk, ""), 200);
    ck_status(talk_post(open_host, b, &talk, a->email, "open entry"), 201);
    ck_status(talk_read(open_host, b, &talk, a->email), 200);
    ck_error(talk_post(open_host, b, &talk, b->email, "open entry"), 403, "");
    ck_error(talk_chain(host, b, &talk, ""), 404, "");
}

static struct answer *start_by(const struct person *by, const char *query, json_t *organization)
{
    return http(host, "POST", text("/api/chat/conversations/start%s", query), by->token,
                json_pack("{ss ss ss ss so*}", "participant1", by->email, "participant2",
                          "partner@shop.example", "username", by->email, "chatEntry", "hello",
                          "organizationId", organization));
}

static struct answer *start_in(const struct person *by, int64_t organization)
{
    return start_by(by, "", json_integer(organization));
}

TEST(an_organization_is_named_by_who_may_act_in_it_and_must_exist)
{
    ck_status(start_in(m, m->organization), 201);
    answer_warns(ck_status(start_in(m, k->organization), 201), "organizationId: ");
    ck_status(start_in(admin, m->organization), 201);
    ck_error(start_in(admin, 987654321), 404, "Organization not found");
}

TEST(the_query_names_an_organization_where_the_body_does_not)
{
    const char *foreign = text("?organizationId=%jd", (intmax_t)k->organization);

    answer_warns(ck_status(start_by(m, foreign, NULL), 201), "organizationId: ");
    answer_warns(ck_status(start_by(m, foreign, json_integer(m->organization)), 201), NULL);
    ck_status(start_by(m, text("?organizationId=%jd", (intmax_t)m->organization), NULL), 201);
}

/* Without the parameter, the organization of the conversation would have to be guessed. */
TEST(an_api_user_of_several_organizations_says_in_which)
{
    struct person *platform = person_make(host, admin, "rules.several", "ApiUser");

    ck_status(start_by(platform, "", NULL), 201);
    struct answer *made = ck_status(http(host, "POST", "/api/organization", platform->token,
                                         json_pack("{ss}", "name", "Second of rules.several")),
                                    201);
    struct answer *refused = ck_error(start_by(platform, "", NULL), 400, "");

    ck_assert_str_eq(json_string_value(json_object_get(
                         json_array_get(json_object_get(refused->json, "errors"), 0), "field")),
                     "organizationId");
    ck_status(start_in(platform, platform->organization), 201);
    ck_status(start_in(platform, answer_int(made, "id")), 201);
    ck_error(start_in(platform, k->organization), 403, "You may not act in this organization");
    ck_status(start_in(admin, answer_int(made, "id")), 201);
}

SUITE(chat_rules, .timeout_s = 60, .before_all = set_up, .after_all = tear_down)
