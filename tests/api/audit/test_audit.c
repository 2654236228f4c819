/*
 * The audit log on two hosts: which requests it records, what it never contains, that nobody can
 * change it, and how it shows requests whose outcome is unknown.
 */
#include "files.h"
#include "hook.h"
#include "stage.h"

#define LOG "/api/admin/audit-log"
#define NO_ID "999999999"
#define NO_UUID "0195f3a0-1111-7222-8333-444455556666"

enum { SOON_MS = 10000, PAGES = 3, FAILURES = 20 };

static struct host *other;
#define MODULES "[audit, auth, bulk, certificate, chat, device, health, reading, webhook]"

static struct host_spec spec_of(const char *name)
{
    return (struct host_spec){
        .name = name,
        .database = "audit",
        .modules = MODULES,
        .http = "  trusted_proxies: [\"127.0.0.0/8\"]\n",
        .auth = "  argon2_memory: 64\n  argon2_rounds: 1\n  login_failures_per_account: 3\n"
                "  login_failures_per_address: 20\n",
        .more = text(WEBHOOK_LOCAL "bulk:\n  files: \"%s\"\ndevice:\n  documents: \"%s\"\n",
                     harness_path("audit-bulk"), harness_path("audit-documents"))};
}

static void set_up(void)
{
    struct host_spec spec = spec_of("audit"), second = spec_of("audit-2");

    database_make(the_postgres, "audit");
    stage_open(&spec);
    other = host_start(&second);
}

/* Returns the newest record that the query finds, after its outcome was written. */
static const json_t *record_of(const char *query)
{
    const struct answer *found = NULL;
    const json_t *record = NULL;

    WAIT_UNTIL_MSG((found = ask(admin, 200, NULL, "GET " LOG "?%s&limit=1", query),
                    record = json_array_get(found->json, 0),
                    record && !json_is_null(json_object_get(record, "status"))),
                   SOON_MS, "no record for %s: %s", query, found->body);
    return record;
}

static size_t records(const char *query)
{
    return json_array_size(ask(admin, 200, NULL, "GET " LOG "?%s&limit=200", query)->json);
}

/* Returns an account whose name nothing else contains, so that it can be a target. */
static struct person *target(const char *name)
{
    return person_make(host, admin, name, NULL);
}

/* ---- what is recorded ---- */

TEST(a_change_is_recorded_with_its_actor_origin_fields_and_outcome)
{
    const struct person *person = target("changed");
    const char *path = text("/api/admin/users/%jd", person->id);
    static const char *const headers[] = {"X-Request-Id: audit-1", "X-Forwarded-For: 203.0.113.9",
                                          NULL};
    struct call call = call_by(admin, "PUT %s {'status':'Suspended','nonsense':1}", path);

    call.headers = headers;
    ck_status(http_send(host, &call), 200);
    const json_t *record = record_of(text("target=%s", path));

    expect_json(record,
                text("{'account':'*','email':'" ADMIN_EMAIL "','address':'203.0.113.9',"
                     "'action':'PUT /api/admin/users/:id','path':'%s','requestId':'audit-1',"
                     "'status':200,'at':'*Z','fields':{'status':'Suspended',"
                     "'nonsense':'(absent)','_omitted':'(absent)'}}",
                     path));
}

static void is_recorded(const struct exchange *row)
{
    char *method = text("%s", row->request), *path = strchr(method, ' ');

    *path++ = '\0';
    path[strcspn(path, " ")] = '\0';
    ask_with(row);
    expect_json(record_of(text("action=%s%%20&target=%s", method, path)),
                text("{'path':'%s','status':%ld,'email':'%s'}", path, row->status,
                     row->who ? row->who->email : "new@example.com"));
}

/* Each kind of request, most of them with ids that do not exist. */
TEST(every_kind_of_change_is_recorded)
{
    const struct person *maker = person_make(host, admin, "maker", NULL);
    const struct person *api = person_make(host, admin, "api", "ApiUser");
    const struct exchange rows[] = {
        {"PUT /api/user/password {'current':'wrong one','new':'long enough'}", maker, 401},
        {"DELETE /api/auth/sessions/" NO_UUID, maker, 404},
        {"PATCH /api/auth/me {'firstName':'Ada'}", maker, 200},
        {"POST /api/auth/clients {'name':'c'}", api, 201},
        {"PATCH /api/auth/clients/" NO_ID " {'name':'d'}", api, 404},
        {"POST /api/auth/clients/" NO_ID "/rotate-secret", api, 404},
        {"DELETE /api/auth/clients/" NO_ID, api, 404},
        {"POST /api/organization {'name':'Audited'}", api, 201},
        {"PUT /api/admin/organizations/" NO_ID " {'apiUserId':null}", admin, 404},
        {"POST /api/admin/users {'email':'i@example.com','role':'User','firstName':'I',"
         "'lastName':'J','orgName':'K'}",
         admin, 409},
        {"POST /api/organization/invitations {'email':'j@example.com','role':'User'}", maker, 409},
        {"PUT /api/admin/users/" NO_ID " {}", admin, 404},
        {"POST /api/chat/conversations/" NO_ID "/share", maker, 404},
        {"POST /api/chat/conversations/" NO_ID "/close", maker, 404},
        {"POST /api/chat/conversations/" NO_ID "/reopen", maker, 404},
        {"POST /api/device {'externalId':'audited'}", maker, 201},
        {"PATCH /api/device/none {'siteName':'s'}", maker, 404},
        {"PATCH /api/device/by-site/none {'siteName':'s'}", maker, 404},
        {"DELETE /api/device/none", maker, 404},
        {"PATCH /api/device/none/documents/" NO_UUID " {'name':'d'}", maker, 404},
        {"DELETE /api/device/none/documents/" NO_UUID, maker, 404},
        {"DELETE /api/meter-reads/new/none/" NO_ID " {'reason':'wrong'}", maker, 404},
        {"POST /api/bulk-upload/" NO_UUID "/confirm", maker, 404},
        {"POST /api/bulk-upload/" NO_UUID "/cancel", maker, 404},
        {"DELETE /api/bulk-upload/" NO_UUID, maker, 404},
        {"POST /api/device-group {'name':'g','deviceIds':['none'],'frequency':'daily',"
         "'start':'2026-01-01'}",
         maker, 400},
        {"PATCH /api/device-group/" NO_ID " {'name':'h'}", maker, 404},
        {"DELETE /api/device-group/" NO_ID, maker, 404},
        {"POST /api/device-group/" NO_ID "/devices {'deviceIds':['none']}", maker, 404},
        {"DELETE /api/device-group/" NO_ID "/devices/1", maker, 404},
        {"POST /api/device-group/" NO_ID "/share {'organizationId':1}", maker, 404},
        {"DELETE /api/device-group/" NO_ID "/share/1", maker, 404},
        {"PATCH /api/certificate-log/" NO_ID " {'status':'Failed'}", admin, 404},
        {"POST " WEBHOOKS " {'url':'" PUBLIC_URL "','events':[]}", maker, 201},
        {"PATCH " WEBHOOKS "/" NO_ID " {'active':false}", maker, 404},
        {"DELETE " WEBHOOKS "/" NO_ID, maker, 404},
        {"POST " WEBHOOKS "/" NO_ID "/rotate-secret", maker, 404},
        {"DELETE " WEBHOOKS "/" NO_ID "/consumers/c", maker, 404},
        {"POST " WEBHOOKS "/" NO_ID "/deliveries/1/resend", maker, 404},
        {"POST " WEBHOOKS "/" NO_ID "/recover {'since':'2026-01-01'}", maker, 404},
        {"POST " WEBHOOKS "/" NO_ID "/replay {'since':'2026-01-01','until':'2026-01-02'}", maker,
         404},
        {"DELETE " WEBHOOKS "/" NO_ID "/replay", maker, 404},
        {"POST /api/admin/rotate-secret", maker, 403},
        {"POST /api/user/register {'firstName':'A','lastName':'B','email':'new@example.com',"
         "'password':'long enough','orgName':'New'}",
         NULL, 201},
        {"POST /api/auth/logout", maker, 200},
    };

    for (size_t i = 0; i < COUNT(rows); i++)
        is_recorded(&rows[i]);
}

TEST(reads_messages_and_invalid_requests_are_not_recorded)
{
    const struct person *quiet = target("quiet");
    const struct talk talk = talk_start(host, quiet, quiet->email, "them@example.net", NULL);

    talk_post(host, quiet, &talk, quiet->email, "a message");
    ask(quiet, 200, NULL, "GET /api/auth/me");
    ask(quiet, 400, NULL, "POST " WEBHOOKS " {}");
    ask(NULL, 401, NULL, "PUT /api/admin/users/1 {}");
    ck_assert_uint_eq(records(text("account=%s&action=chat", quiet->email)), 0);
    ck_assert_uint_eq(records("action=conversations/start"), 0);
}

TEST(failed_attempts_are_recorded_but_no_flood_of_them)
{
    struct person *person = target("attacked");
    const char *wrong =
        text("POST /api/auth/login {'username':'%s','password':'wrong'}", person->email);
    const char *query = text("action=login&account=%s", person->email);
    size_t before;

    ask(person, 403, "Forbidden", "PUT /api/admin/users/%jd {'role':'Admin'}", person->id);
    expect_json(record_of(text("account=%jd&status=refused", person->id)),
                "{'action':'PUT /api/admin/users/:id','status':403,'fields':{'role':'(absent)'}}");
    ask(NULL, 401, NULL, "%s", wrong);
    expect_json(record_of(query),
                text("{'account':null,'email':'%s','status':401,'organization':null,"
                     "'fields':{'username':'%s','_omitted':['password']}}",
                     person->email, person->email));
    for (int i = 0; i < 2; i++)
        ask(NULL, 401, NULL, "%s", wrong);
    before = records(query);
    ask(NULL, 429, NULL, "%s", wrong);
    ask(NULL, 401, NULL, "POST /api/auth/getAccess {'client_id':'00','client_secret':'x'}");
    ask(NULL, 400, NULL, "POST /api/user/password/reset {'token':'none','password':'long enough'}");
    ck_assert_uint_eq(records(query), before);
    ck_assert_uint_eq(records("target=client_id"), 0);
    ck_assert_uint_eq(records("action=password/reset"), 0);
}

TEST(wrong_client_secrets_are_limited_before_they_are_recorded)
{
    const struct person *api = person_make(host, admin, "guessed", "ApiUser");
    const struct answer *client = ask(api, 201, NULL, "POST /api/auth/clients {}");
    const char *id = answer_text(client, "client_id");
    const char *wrong =
        text("POST /api/auth/getAccess {'client_id':'%s','client_secret':'wrong'}", id);
    const char *right = text("POST /api/auth/getAccess {'client_id':'%s','client_secret':'%s'}", id,
                             answer_text(client, "client_secret"));
    const char *from = "X-Forwarded-For: 203.0.113.20";
    const char *query = text("action=getAccess&account=%s", api->email);

    for (int i = 0; i < FAILURES; i++)
        ask_with((&(struct exchange){wrong, NULL, 401, .header = from}));
    ask_with((&(struct exchange){wrong, NULL, 429, "Too many failed logins", .header = from}));
    ck_assert_uint_eq(records(query), FAILURES);
    ask_with((&(struct exchange){right, NULL, 200, .header = from}));
    ck_assert_uint_eq(records(query), FAILURES + 1);
}

TEST(a_reused_refresh_token_is_recorded)
{
    const struct person *person = target("stolen");
    struct answer *login = ask(NULL, 200, NULL,
                               "POST /api/auth/login {'username':'%s','password':'%s',"
                               "'remember':true}",
                               person->email, person->password);
    const char *set = answer_header(login, "Set-Cookie");
    struct exchange refresh = {"POST /api/auth/refresh", NULL, 200,
                               .header = text("Cookie: %.*s", (int)strcspn(set, ";"), set)};

    ask_with(&refresh);
    ck_assert_uint_eq(records("action=auth/refresh"), 0);
    sql_run(db, "UPDATE auth_refresh SET rotated = rotated - interval '61 seconds'");
    refresh.status = 401;
    ask_with(&refresh);
    expect_json(record_of("action=auth/refresh"),
                text("{'account':null,'email':'%s','status':401}", person->email));
}

TEST(paths_are_recorded_decoded_and_up_to_a_limit)
{
    const struct person *person = target("hidden");
    const char *path = text("/api/admin/users/%s", text_repeated("%C3%A9", 2000));

    ask(person, 404, NULL, "PATCH /api/device/%%62arn%%2d2 {'siteName':'s'}");
    expect_json(record_of("target=/api/device/barn-2"), "{'path':'/api/device/barn-2'}");
    ask(person, 403, NULL, "PUT %s {}", path);
    expect_json(record_of(text("account=%s&action=admin/users", person->email)), "{'status':403}");
    sql_is(db, 2047, "SELECT max(octet_length(path)) FROM audit_request");
}

TEST(the_organization_is_the_one_in_which_the_caller_acts)
{
    struct person *api = person_make(host, admin, "developer", "ApiUser");
    int64_t own =
        answer_int(ask(api, 201, NULL, "POST /api/organization {'name':'Developer'}"), "id");
    const char *query = "action=PATCH%20/api/device-group";

    ask(admin, 404, NULL, "PATCH /api/device-group/" NO_ID "?organizationId=7 {'name':'n'}");
    expect_json(record_of("organizationId=7"), "{'organization':7}");
    ask(admin, 404, NULL, "POST /api/device-group/" NO_ID "/share {'organizationId':7}");
    expect_json(record_of(text("account=%s&action=share", admin->email)), "{'organization':null}");
    sql_run(db, text("UPDATE auth_account SET organisation = NULL WHERE id = %jd", api->id));
    person_login(host, api);
    ask(api, 404, NULL, "PATCH /api/device-group/" NO_ID " {'name':'n'}");
    expect_json(record_of(query), text("{'organization':%jd}", own));
    ck_assert_uint_eq(records(text("%s&organizationId=7", query)), 1);
    int64_t second =
        answer_int(ask(api, 201, NULL, "POST /api/organization {'name':'Developer 2'}"), "id");

    person_login(host, api);
    for (int64_t id = own; id; id = id == own ? second : 0) {
        ask(api, 404, NULL, "PATCH /api/device-group/" NO_ID "?organizationId=%jd {'name':'n'}",
            id);
        WAIT_UNTIL(records(text("%s&organizationId=%jd", query, id)) == 1 + (id == own), SOON_MS);
    }
}

TEST(undeclared_members_and_files_are_named)
{
    const struct person *person = target("careless");
    struct upload_body body = files_named("careless-1");

    ask(person, 404, NULL, "PATCH /api/device/careless {'siteName':'s','odd':'its value'}");
    expect_json(record_of("target=/api/device/careless"),
                "{'fields':{'siteName':'s','odd':'(absent)','_omitted':['odd']}}");
    for (int more = 0; more < 2; more++) { /* up to 4 KiB in all, with the value "s" */
        const char *name = text_repeated("n", 4093 + (size_t)more);

        ask(person, 404, NULL, "PATCH /api/device/full-%d {'siteName':'s','%s':1}", more, name);
        expect_json(record_of(text("target=/api/device/full-%d", more)),
                    text("{'fields':{'_omitted':%s%s%s}}", more ? "'(absent)" : "['",
                         more ? "" : name, more ? "'" : "']"));
    }
    upload_file(&body, files_fields[0], "deed.pdf", "%PDF-1.4", 8);
    ck_status(files_post(host, person, &body), 201);
    expect_json(record_of("target=careless-1"),
                text("{'fields':{'_omitted':['%s']}}", files_fields[0]));
}

/* The database writes all digits of such a number, which do not fit into a JSON integer. */
TEST(numbers_above_64_bits_are_recorded)
{
    const struct person *person = target("huge");

    ask(person, 404, NULL, "PATCH /api/device/huge-1 {'externalId':1e21}");
    ck_assert_double_eq(json_real_value(json_object_get(
                            json_object_get(record_of("target=huge-1"), "fields"), "externalId")),
                        1e21);
}

/* ---- what is never recorded ---- */

TEST(neither_mistyped_passwords_nor_queries_of_urls_are_recorded)
{
    const struct person *person = target("mistyping");

    EACH_TEXT (name, "my secret", text("%s@example.com", text_repeated("long", 100))) {
        ask(NULL, 401, NULL, "POST /api/auth/login {'username':'%s','password':'x'}", name);
        expect_json(record_of("action=auth/login"),
                    "{'email':null,'fields':{'_omitted':['username','password']}}");
    }
    ask(NULL, 401, NULL, "POST /api/auth/login {'username':'%jd','password':'x'}", person->id);
    ck_assert_uint_eq(records(text("account=%jd&action=login", person->id)), 0);
    ask(person, 201, NULL, "POST " WEBHOOKS " {'url':'" PUBLIC_URL "?key=query-key','events':[]}");
    expect_json(record_of(text("account=%s&action=webhooks", person->email)),
                "{'fields':{'url':'" PUBLIC_URL "'}}");
    ask(person, 400, NULL,
        "POST " WEBHOOKS " {'url':'" PUBLIC_URL "','events':['" PUBLIC_URL "?key=query-key']}");
    expect_json(record_of(text("account=%s&action=webhooks", person->email)),
                "{'fields':{'events':['" PUBLIC_URL "']}}");
}

TEST(no_secret_gets_into_the_log)
{
    struct person *api = person_make(host, admin, "secretive", "ApiUser");
    const struct answer *client = ask(api, 201, NULL, "POST /api/auth/clients {}");
    const char *secret = answer_text(client, "client_secret");
    const char *second = answer_text(
        ask(api, 200, NULL, "POST /api/auth/clients/%jd/rotate-secret", answer_int(client, "id")),
        "client_secret");

    ask(NULL, 401, NULL, "POST /api/auth/getAccess {'client_id':'%s','client_secret':'%s'}",
        answer_text(client, "client_id"), secret);
    ask(NULL, 200, NULL, "POST /api/auth/getAccess {'client_id':'%s','client_secret':'%s'}",
        answer_text(client, "client_id"), second);
    expect_json(
        record_of("target=client_id"),
        text("{'email':'%s','status':200,'fields':{'_omitted':['client_secret']}}", api->email));
    ask(api, 201, NULL,
        "POST " WEBHOOKS " {'url':'" PUBLIC_URL "','events':['message.new'],'secret':'" TEST_SECRET
        "','headers':{'X-Key':'h-value-1'},'authentication':{'type':'bearer','token':"
        "'bearer-token1'},'rateLimit':{'limit':5,'per':'second'}}");
    expect_json(record_of(text("account=%s&action=webhooks", api->email)),
                "{'fields':{'url':'" PUBLIC_URL "','events':['message.new'],"
                "'rateLimit':{'limit':5,'per':'second'},"
                "'authentication':{'type':'bearer','_omitted':['token']},"
                "'_omitted':['secret','headers']}}");
    talk_start(host, api, api->email, "them@example.net", "text-of-a-message");
    ask(api, 200, NULL, "PUT /api/user/password {'current':'%s','new':'new-password'}",
        api->password);
    record_of(text("account=%s&action=user/password", api->email));
    EACH_TEXT (hidden, api->password, api->token, secret, second, TEST_SECRET, "h-value-1",
               "bearer-token1", "new-password", "text-of-a-message")
        sql_is(db, 0, "SELECT count(*) FROM audit_request r WHERE position('%s' IN r::text) > 0",
               hidden);
}

TEST(fields_beyond_the_limit_are_only_named)
{
    const struct person *person = target("wordy");

    ask(person, 400, NULL,
        "POST " WEBHOOKS " {'url':'" PUBLIC_URL "','name':'long','events':[%s'x']}",
        text_repeated("\"an.event.with.a.name.of.forty.characters\",", 100));
    expect_json(record_of(text("account=%s&action=webhooks", person->email)),
                "{'fields':{'url':'" PUBLIC_URL "','name':'long','events':'(absent)',"
                "'_omitted':['events']}}");
}

/* ---- it is append-only ---- */

static void refused(const char *statement)
{
    PGresult *result = PQexec(db, statement);

    ck_assert_msg(strstr(PQresultErrorMessage(result), "append-only") != NULL, "%s: %s", statement,
                  PQresultErrorMessage(result));
    PQclear(result);
}

TEST(nothing_changes_the_log)
{
    const char *month = sql_text(db, "SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYYMM')", 0, NULL);

    record_of("action=login");
    EACH_TEXT (table, "audit_request", "audit_outcome") {
        EACH_TEXT (part, "", text("_%s", month)) {
            refused(text("UPDATE %s%s SET at = now()", table, part));
            refused(text("DELETE FROM %s%s", table, part));
            refused(text("TRUNCATE %s%s", table, part));
        }
    }
    sql_run(db, "SELECT audit_partition_make('2024-01-31')");
    sql_is(db, 2, "SELECT count(*) FROM pg_class WHERE relname ~ '^audit_.*_202401$'");
    sql_run(db, "SELECT audit_partitions(400)");
    sql_is(db, 0, "SELECT count(*) FROM pg_class WHERE relname ~ '^audit_.*_202401$'");
    sql_is(db, 2, "SELECT count(*) FROM pg_class WHERE relname ~ '^audit_.*_%s$'", month);
}

/* ---- failures ---- */

TEST(a_change_that_cannot_be_recorded_is_refused)
{
    const struct person *person = target("unrecorded");

    sql_run(db, "ALTER FUNCTION audit_write RENAME TO audit_gone");
    ask(admin, 503, "The audit log cannot be written",
        "PUT /api/admin/users/%jd {'status':'Suspended'}", person->id);
    ask(person, 200, NULL, "GET /api/auth/me");
    sql_run(db, "ALTER FUNCTION audit_gone RENAME TO audit_write");
    ask(admin, 200, NULL, "PUT /api/admin/users/%jd {'status':'Suspended'}", person->id);
}

TEST(after_a_crash_the_outcome_is_unknown)
{
    const struct person *person = target("crashed");
    struct host_spec spec = spec_of("audit-crash");
    struct host *crash = host_start(&spec);
    const char *body = "{\"status\":\"Suspended\"}";
    const char *path = text("/api/admin/users/%jd", person->id);
    const char *request = text("PUT %s HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\n"
                               "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                               path, admin->token, strlen(body), body);
    int fd = raw_open(crash);

    sql_run(db, "BEGIN");
    sql_run(db, "LOCK TABLE auth_account IN EXCLUSIVE MODE");
    ck_assert_int_eq(write(fd, request, strlen(request)), (ssize_t)strlen(request));
    database_soon(the_postgres, "audit",
                  text("SELECT count(*) FROM audit_request WHERE path = '%s' AND fields->>'status' "
                       "= 'Suspended'",
                       path));
    host_kill(crash);
    close(fd);
    sql_run(db, "ROLLBACK");
    ask(admin, 200, text("[{'path':'%s','status':null}]", path),
        "GET " LOG "?target=%s&status=unknown", path);
    ask(person, 200, NULL, "GET /api/auth/me");
}

/* ---- reading it ---- */

TEST(pages_are_the_same_on_both_hosts)
{
    const struct person *person = target("paged");
    const char *query = text("account=%s&action=auth/me&until=2099-01-01", person->email);
    const char *next = text(LOG "?%s&limit=2", query);
    int64_t last = INT64_MAX;
    int pages = 0;

    for (int i = 0; i < 2 * PAGES - 1; i++)
        ask_on(i % 2 ? host : other, person, 200, NULL, "PATCH /api/auth/me {'firstName':'N%d'}",
               i);
    WAIT_UNTIL(records(text("%s&status=succeeded", query)) == 2 * PAGES - 1, SOON_MS);
    while (next) {
        const struct answer *here = ask(admin, 200, NULL, "GET %s", next);
        const struct answer *there = ask_on(other, admin, 200, NULL, "GET %s", next);
        const json_t *record;
        size_t i;

        ck_assert_str_eq(here->body, there->body);
        json_array_foreach (here->json, i, record) {
            int64_t id = json_integer_value(json_object_get(record, "id"));

            ck_assert_int_lt(id, last);
            last = id;
        }
        pages++;
        next = next_page(here);
    }
    ck_assert_int_eq(pages, PAGES);
    ck_assert_uint_eq(records(text("%s&since=2099-01-01", query)), 0);
    ck_assert_uint_eq(records(text("account=%s&until=2020-01-01", person->email)), 0);
    ck_assert_uint_eq(records(text("%s&target=n3", query)), 1);
    ask(person, 403, "Forbidden", "GET " LOG);
    ask(person, 403, "Forbidden", "GET " LOG "/export.csv");
}

TEST(an_export_has_the_same_records_and_no_formulas)
{
    struct answer *file;

    ask(NULL, 401, NULL, "POST /api/auth/login {'username':'=1+2@example.com','password':'wrong'}");
    record_of("account==1%2B2@example.com");
    file = ask(admin, 200, NULL, "GET " LOG "/export.csv?account==1%%2B2@example.com");
    ck_assert_ptr_eq(strstr(file->body, "id,at,account,email,organization,address,action,path,"
                                        "requestId,status,fields\r\n"),
                     file->body);
    ck_assert_uint_eq(text_lines(file->body), 2);
    ck_assert_ptr_nonnull(
        strstr(file->body, "\"'=1+2@example.com\",,127.0.0.1,POST /api/auth/login,"));
    ck_assert_ptr_nonnull(strstr(file->body, ",401,"));
}

SUITE(audit, .timeout_s = 60, .before_all = set_up, .before_each = stage_connect,
      .after_each = stage_disconnect)
