/*
 * Registration, an Admin's changes to accounts, and organizations: who acts where, visible on
 * another host within a second.
 */
#include "stage.h"
#include "talk.h"

#define SOON_MS 30000
#define TWINS 8

static struct host *other;

static void set_up(void)
{
    stage_open(&(struct host_spec){.name = "admin"});
    other = host_start(&(struct host_spec){.name = "admin-2", .database = "admin"});
}

/* ---- registration ---- */

/* Returns a registration with these changes. */
static const char *form_of(const char *name, const char *change)
{
    return json_with(text("{'firstName':'A','lastName':'B','email':'%s@example.com',"
                          "'password':'long enough','orgName':'Organization of %s'}",
                          name, name),
                     change);
}

static struct answer *enrol(const char *form, long status, const char *expected)
{
    return ask(NULL, status, expected, "POST /api/user/register %s", form);
}

static int64_t accounts_like(const char *pattern)
{
    return sql_number(db, text("SELECT count(*) FROM auth_account WHERE email LIKE '%s'", pattern));
}

TEST(registration_derives_the_role_from_the_organization_type)
{
    static const char *const types[][2] = {
        {"Developer", "OrganizationAdmin"}, {"Buyer", "Buyer"}, {"ApiUser", "ApiUser"}};

    for (size_t i = 0; i < COUNT(types); i++) {
        const char *type = text("{'organizationType':'%s'}", types[i][0]);
        struct answer *made = enrol(form_of(text("type-%zu", i), type), 201,
                                    text("{'role':'%s','status':'Pending'}", types[i][1]));

        ck_assert_int_gt(answer_int(made, "organizationId"), 0);
        ck_assert_ptr_null(strstr(made->body, "assword"));
        ck_assert_ptr_null(strstr(made->body, "argon2"));
    }
    enrol(form_of("typeless", "{}"), 201, "{'role':'OrganizationAdmin'}");
}

TEST(a_registered_account_waits_for_approval)
{
    struct person *person = person_register(host, "pending", NULL);

    ask(NULL, 403, "Your account is pending approval",
        "POST /api/auth/login {'username':'%s','password':'%s'}", person->email, person->password);
    ck_status(person_change(host, admin, person, "status", "Active"), 200);
    person_login(host, person);
    struct answer *me = ask_on(other, person, 200,
                               text("{'email':'%s','role':'OrganizationAdmin',"
                                    "'organizationId':%jd}",
                                    person->email, person->organization),
                               "GET /api/auth/me");

    ck_assert_ptr_null(strstr(me->body, "argon2"));
}

TEST(registration_ignores_role_status_and_ids)
{
    const char *more = "{'role':'Admin','status':'Active','id':1,'organizationId':1}";
    struct answer *made =
        enrol(form_of("greedy", more), 201, "{'role':'OrganizationAdmin','status':'Pending'}");

    ck_assert_int_gt(answer_int(made, "id"), 1);
    ck_assert_int_gt(answer_int(made, "organizationId"), 1);
}

TEST(registration_reports_every_invalid_field)
{
    static const char *const wrong[][2] = {{"firstName", "''"},      {"firstName", "'  '"},
                                           {"lastName", "7.5"},      {"email", "'a'"},
                                           {"email", "null"},        {"password", "'1234567'"},
                                           {"password", "[]"},       {"orgName", "' '"},
                                           {"orgName", "{}"},        {"organizationType", "'X'"},
                                           {"organizationType", "1"}};

    for (size_t i = 0; i < COUNT(wrong); i++)
        enrol(form_of("wrong", text("{'%s':%s}", wrong[i][0], wrong[i][1])), 400,
              text("{'errors':[{'field':'%s'}]}", wrong[i][0]));
    enrol("{'firstName':'A','email':'no address','password':'short','orgName':'Org'}", 400,
          "{'errors':[{},{},{}]}");
    ck_assert_int_eq(accounts_like("wrong@%"), 0);
}

TEST(registration_with_a_known_organization_name_is_409)
{
    enrol(form_of("first", "{}"), 201, NULL);
    enrol(form_of("second", "{'orgName':' ORGANIZATION of First '}"), 409, "{'success':false}");
    ck_assert_int_eq(accounts_like("second@%"), 0);
}

TEST(one_of_several_equal_parallel_registrations_succeeds)
{
    struct call calls[TWINS];
    struct answer *answers[TWINS];
    int made = 0, known = 0;

    for (int i = 0; i < TWINS; i++)
        calls[i] = call_by(NULL, "POST /api/user/register %s", form_of("twins", "{}"));
    parallel(host, calls, answers, TWINS);
    for (int i = 0; i < TWINS; i++) {
        made += answers[i]->status == 201;
        known += answers[i]->status == 409;
    }
    ck_assert_int_eq(made, 1);
    ck_assert_int_eq(known, TWINS - 1);
    ck_assert_int_eq(accounts_like("twins@%"), 1);
    sql_is(db, 1, "SELECT count(*) FROM auth_organisation WHERE name LIKE '%%of twins'");
}

/* ---- an Admin's changes to accounts ---- */

static const char *user_path(const struct person *person)
{
    return text("/api/admin/users/%jd", person->id);
}

TEST(null_clears_no_field_of_an_account)
{
    static const char *const fields[] = {"firstName", "lastName", "email", "status", "role"};
    struct person *person = person_make(host, admin, "not-cleared", NULL);
    const char *path = user_path(person);
    struct answer *before = ask(admin, 200, NULL, "GET %s", path);

    for (size_t i = 0; i < COUNT(fields); i++)
        ask(admin, 400, text("{'errors':[{'field':'%s'}]}", fields[i]), "PUT %s {'%s':null}", path,
            fields[i]);
    ck_assert(json_equal(before->json, ask(admin, 200, NULL, "GET %s", path)->json));
}

TEST(an_admin_changes_only_the_named_fields_of_an_account)
{
    struct person *person = person_make(host, admin, "changed", NULL);
    const char *path = user_path(person);
    struct answer *answer =
        ask(admin, 200,
            text("{'id':%jd,'firstName':'Ada','lastName':'Family','role':'OrganizationAdmin',"
                 "'email':'changed.later@example.com','organizationId':%jd,'conversations':0}",
                 person->id, person->organization),
            "PUT %s {'firstName':'Ada','email':' Changed.Later@Example.com',"
            "'password':'a new password','id':1}",
            path);

    json_object_del(answer->json, "conversations");
    ck_assert(json_equal(answer->json, ask_on(other, admin, 200, NULL, "GET %s", path)->json));
    ask(NULL, 401, NULL, "POST /api/auth/login {'username':'%s','password':'%s'}", person->email,
        person->password);
    person->email = text("%s", "changed.later@example.com");
    person_login(host, person);
}

TEST(invalid_changes_of_an_account_are_refused)
{
    struct person *person = person_register(host, "unfit", NULL);
    static const char *const wrong[][2] = {
        {"status", "Gone"}, {"status", "active"}, {"role", "Root"}, {"role", "7"}, {"email", "a@"}};

    for (size_t i = 0; i < COUNT(wrong); i++)
        ck_error(person_change(host, admin, person, wrong[i][0], wrong[i][1]), 400, "");
    ck_error(person_change(host, admin, person, "email", ADMIN_EMAIL), 409, "");
    EACH_TEXT (id, "0", "-1", "x", "1e3", "0x1", "9223372036854775808")
        ask(admin, 400, NULL, "GET /api/admin/users/%s", id);
    ask(admin, 404, NULL, "GET /api/admin/users/9223372036854775807");
}

TEST(register_silent_does_not_reveal_existing_accounts)
{
    const char *database = database_make(the_postgres, "admin_silent");
    struct host *silent = host_start(&(struct host_spec){
        .name = "admin-silent",
        .database = database,
        .auth = "  argon2_memory: 64\n  argon2_rounds: 1\n  register_silent: true\n"});
    const char *form = form_of("quiet", "{}"), *path = "/api/user/register";
    struct answer *first = ask_on(silent, NULL, 202, NULL, "POST %s %s", path, form);
    struct answer *again = ask_on(silent, NULL, 202, NULL, "POST %s %s", path, form);
    PGconn *own = database_connect(the_postgres, database);

    ck_assert_str_eq(first->body, again->body);
    sql_is(own, 1, "SELECT count(*) FROM auth_account WHERE email = 'quiet@example.com'");
    ask_on(silent, NULL, 400, NULL, "POST %s {}", path);
    EACH_TEXT (name, "quiet", "quieter")
        for (int i = 0; i < 2; i++) {
            struct call call = call_by(NULL, "POST %s %s", path, form_of(name, "{}"));

            call.headers = (const char *[]){"Idempotency-Key: silent", NULL};
            ck_assert_pstr_eq(answer_header(http_send(silent, &call), "Idempotency-Replayed"),
                              i ? "true" : NULL);
        }
}

static bool are_swept(PGconn *own)
{
    return sql_number(own, "SELECT count(*) FROM auth_account WHERE email LIKE 'swept.old%'") == 0;
}

/* The job runs when a host has started; it keeps accounts that were approved once, and new ones. */
TEST(accounts_never_approved_are_deleted_by_the_sweep)
{
    const char *database = database_make(the_postgres, "admin_swept");
    struct host_spec spec = {.name = "admin-swept", .database = database};
    struct host *first = host_start(&spec);
    struct person *boss = admin_of(first), *old = person_register(first, "swept.old", NULL);
    struct person *back = person_make(first, boss, "swept.back", NULL);
    PGconn *own = database_connect(the_postgres, database);

    ck_status(person_change(first, boss, back, "status", "Pending"), 200);
    person_register(first, "swept.old.invited", NULL);
    sql_run(own, "UPDATE auth_account SET status = 'Active' WHERE email LIKE '%.invited@%'");
    sql_run(own, "UPDATE auth_account SET created = now() - interval '31 days'");
    struct person *fresh = person_register(first, "swept.fresh", NULL);

    host_stop(first);
    host_start(&(struct host_spec){.name = "admin-swept-2", .database = database});

    WAIT_UNTIL(are_swept(own), 20000);
    sql_is(own, 0, "SELECT count(*) FROM auth_organisation WHERE id = %jd", old->organization);
    sql_is(own, 2, "SELECT count(*) FROM auth_account WHERE id IN (%jd, %jd)", back->id, fresh->id);
}

TEST(an_account_approved_during_the_sweep_is_kept)
{
    const char *database = database_make(the_postgres, "admin_race");
    struct host_spec spec = {.name = "admin-race", .database = database};
    struct host *first = host_start(&spec);
    struct person *kept_one = person_register(first, "kept.one", NULL);
    PGconn *own = database_connect(the_postgres, database);
    PGconn *approving = database_connect(the_postgres, database);

    person_register(first, "swept.old", NULL);
    sql_run(own, "UPDATE auth_account SET created = now() - interval '31 days'");
    host_stop(first);
    sql_run(approving, "BEGIN");
    sql_run(approving, text("UPDATE auth_account SET status = 'Active', approved = now()"
                            " WHERE id = %jd",
                            kept_one->id));
    host_start(&(struct host_spec){.name = "admin-race-2", .database = database});

    /* the job has passed the account that is being approved, or waits for the row */
    WAIT_UNTIL(are_swept(own) || sql_number(own, "SELECT count(*) FROM pg_locks WHERE NOT granted"),
               20000);
    sql_run(approving, "COMMIT");
    WAIT_UNTIL(are_swept(own), 20000);
    sql_is(own, 1, "SELECT count(*) FROM auth_account WHERE id = %jd", kept_one->id);
}

/* ---- approval ---- */

/* Starts a conversation of `by`; `username` is the person that `by` speaks for. */
static struct answer *start_for(const struct person *by, const char *email)
{
    return http(host, "POST", "/api/chat/conversations/start", by->token,
                json_pack("{ss ss ss ss}", "participant1", email, "participant2",
                          "partner@shop.example", "username", email, "chatEntry", "hello"));
}

TEST(platforms_may_not_use_the_email_of_an_approved_account)
{
    struct person *platform = person_make(host, admin, "approval.platform", "ApiUser");
    struct person *user = person_register(host, "approval.user", NULL);

    ck_status(start_for(platform, user->email), 201);
    struct answer *approved = ck_status(person_change(host, admin, user, "status", "Active"), 200);

    ck_assert_int_eq(answer_int(approved, "conversations"), 1);
    answer_warns(approved, "email: ");
    ck_error(start_for(platform, user->email), 403, "");
    ck_status(person_change(host, admin, user, "status", "Suspended"), 200);
    ck_error(start_for(platform, user->email), 403, "");
    struct answer *again = ck_status(person_change(host, admin, user, "status", "Active"), 200);

    ck_assert_ptr_null(json_object_get(again->json, "conversations"));
    answer_warns(again, NULL);
}

TEST(a_changed_email_is_protected_from_the_change_on)
{
    struct person *platform = person_make(host, admin, "renamed.platform", "ApiUser");
    struct person *user = person_make(host, admin, "renamed.user", NULL);
    const char *of_user = "SELECT (extract(epoch FROM approved) * 1000000)::bigint FROM"
                          " auth_account WHERE first_name = 'Given' AND email IN "
                          "('renamed.user@example.com', 'renamed.later@example.com')";
    int64_t before = sql_number(db, of_user);

    ck_status(start_for(platform, "renamed.later@example.com"), 201);
    ck_status(person_change(host, admin, user, "lastName", "Other"), 200);
    ck_status(person_change(host, admin, user, "email", "Renamed.User@example.com"), 200);
    ck_assert_int_eq(sql_number(db, of_user), before);
    struct answer *renamed =
        ck_status(person_change(host, admin, user, "email", "renamed.later@example.com"), 200);

    ck_assert_int_eq(answer_int(renamed, "conversations"), 1);
    ck_assert_int_gt(sql_number(db, of_user), before);
}

TEST(the_last_admin_cannot_be_demoted_suspended_or_deleted)
{
    struct person first = {.id =
                               sql_number(db, "SELECT id FROM auth_account WHERE role = 'Admin'")};

    ck_error(person_change(host, admin, &first, "role", "User"), 409, "");
    ck_error(person_change(host, admin, &first, "status", "Suspended"), 409, "");
    ck_error(person_change(host, admin, &first, "status", "Deleted"), 409, "");
    struct person *second = person_with_role(host, admin, "second-admin", "Admin");

    ck_status(person_change(host, second, second, "role", "User"), 200);
    ask(second, 403, "Forbidden", "GET /api/admin/users");
    ask(admin, 200, NULL, "GET /api/admin/users");
}

TEST(accounts_are_listed_in_pages)
{
    for (int i = 0; i < 3; i++)
        person_register(host, text("listed-%d", i), NULL);
    int64_t seen = 0, last = 0;

    EACH_PAGE (page, admin, "/api/admin/users?limit=2&status=Pending") {
        size_t index;
        const json_t *entry;

        ck_assert_uint_le(json_array_size(page->json), 2);
        json_array_foreach (page->json, index, entry) {
            int64_t id = json_integer_value(json_object_get(entry, "id"));

            ck_assert_int_gt(id, last);
            last = id;
            seen++;
        }
    }
    ck_assert_int_ge(seen, 3);
    ck_assert_int_eq(seen,
                     sql_number(db, "SELECT count(*) FROM auth_account WHERE status = 'Pending'"));
    ask(admin, 400, NULL, "GET /api/admin/users?limit=0");
    ask(admin, 400, NULL, "GET /api/admin/users?limit=-1");
}

TEST(accounts_are_found_by_a_part_of_the_email_name_or_organization_and_by_role)
{
    person_register(host, "findme", NULL);
    const struct person *too = person_register(host, "findmetoo", "ApiUser");
    ask(admin, 200, "[{'email':'findme@example.com'}]", "GET /api/admin/users?search=FINDME@ex");
    ask(admin, 200, "[{'email':'findme@example.com'},{'email':'findmetoo@example.com'}]",
        "GET /api/admin/users?search=tion%%20of%%20findme&status=Pending");
    ask(admin, 200, "[{'email':'findmetoo@example.com'}]",
        "GET /api/admin/users?search=findme&role=ApiUser");
    ask(admin, 200, "[{'email':'findmetoo@example.com'}]",
        "GET /api/admin/users?search=findme&organizationId=%jd", too->organization);
    ask(admin, 200, "[]", "GET /api/admin/users?search=findme&status=Active");
    ask(admin, 200, "[]", "GET /api/admin/users?search=%%25");
}

/* ---- organizations ---- */

/* Returns whether /me on the other host shows that the account may act there. */
static bool acts_there(const struct person *person, int64_t organization)
{
    struct answer *me = ck_status(person_me(other, person), 200);
    size_t index;
    const json_t *id;
    bool found = false;

    json_array_foreach (json_object_get(me->json, "organizationIds"), index, id)
        found = found || json_integer_value(id) == organization;
    return found;
}

static void expect_acting(const struct person *person, int64_t organization, bool expected)
{
    WAIT_UNTIL_MSG(acts_there(person, organization) == expected, SOON_MS,
                   "%s: the other host is late", person->email);
}

TEST(an_api_user_acts_for_organizations_that_it_creates)
{
    struct person *user = person_make(host, admin, "maker", "ApiUser");

    expect_acting(user, user->organization, true);
    struct answer *made =
        ask(user, 201, text("{'name':'Solar Farm','address':'Street 1','apiUserId':%jd}", user->id),
            "POST /api/organization {'name':'Solar Farm','address':'Street 1'}");

    expect_acting(user, answer_int(made, "id"), true);
    expect_acting(user, user->organization, true);
    ask_on(other, user, 200, "{'organizations':[{},{'name':'Solar Farm'}]}", "GET /api/auth/me");
    ask(user, 409, NULL, "POST /api/organization {'name':'solar farm '}");
    ask(user, 400, NULL, "POST /api/organization {'name':' '}");
}

TEST(an_admin_links_and_unlinks_an_organization)
{
    struct person *first = person_make(host, admin, "linked-1", "ApiUser");
    struct person *second = person_make(host, admin, "linked-2", "ApiUser");
    struct person *owner = person_make(host, admin, "owner", NULL);
    const char *path = text("/api/admin/organizations/%jd", owner->organization);

    expect_acting(first, owner->organization, false);
    ask(admin, 200, NULL, "PUT %s {'apiUserId':%jd}", path, first->id);
    expect_acting(first, owner->organization, true);
    ask(admin, 200, NULL, "PUT %s {'apiUserId':%jd}", path, second->id);
    expect_acting(second, owner->organization, true);
    expect_acting(first, owner->organization, false);
    ask(admin, 200, NULL, "PUT %s {'apiUserId':0}", path);
    expect_acting(second, owner->organization, false);
    expect_acting(owner, owner->organization, true);
    ask(admin, 200, NULL, "PUT %s {'apiUserId':%jd}", path, second->id);
    ask(admin, 200, "{'apiUserId':null}", "PUT %s {'apiUserId':null}", path);
    expect_acting(second, owner->organization, false);
    ask(admin, 400, NULL, "PUT %s {'apiUserId':%jd}", path, owner->id);
    ask(admin, 400, NULL, "PUT %s {'apiUserId':999999999}", path);
    ask(admin, 400, NULL, "PUT %s", path);
    ask(admin, 404, NULL, "PUT /api/admin/organizations/999999999 {'apiUserId':%jd}", first->id);
}

/* An account that is not an ApiUser any more acts for nobody else. */
TEST(an_api_user_that_loses_its_role_loses_its_organizations)
{
    struct person *user = person_make(host, admin, "fallen", "ApiUser");
    struct answer *made = ask(user, 201, NULL, "POST /api/organization {'name':'Wind Farm'}");
    int64_t organization = answer_int(made, "id");

    expect_acting(user, organization, true);
    ck_status(person_change(host, admin, user, "role", "User"), 200);
    expect_acting(user, organization, false);
    expect_acting(user, user->organization, true);
}

SUITE(admin, .timeout_s = 60, .before_all = set_up, .before_each = stage_connect,
      .after_each = stage_disconnect)
