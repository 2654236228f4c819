/*
 * Tolerance: requests that are unusual but safe are accepted, and ignored parts are listed in the
 * response's `warnings`, or in X-Ignored-Parameters. The errors of other requests name the field or
 * the position. The unit tests field, query and json have all rules.
 */
#include "stage.h"

#define FIND "POST /api/chat/conversations/find"
#define START "POST /api/chat/conversations/start"
#define MAKE "POST /api/device"
#define LIST "GET /api/device"
#define LOGIN "POST /api/auth/login"
#define IGNORED "X-Ignored-Parameters"
#define ORIGIN "https://app.example"
#define EXACT "{'warnings':'(absent)'}"
#define ABSENT "is empty, and counts as absent"

static struct person *user;

static void set_up(void)
{
    stage_open(&(struct host_spec){.name = "tolerance",
                                   .modules = "[auth, chat, device, health, webhook]",
                                   .http = "  cors_origins: [\"" ORIGIN "\"]\n",
                                   .more = "webhook:\n  allow_networks: [\"127.0.0.0/8\"]\n"});
    user = person_make(host, admin, "tolerance", NULL);
}

/* Returns a start, whose e-mails have blanks around them. */
static const char *start_with(const char *change)
{
    const char *base = text("{'participant1':' %s ','participant2':'o@shop.example',"
                            "'username':'%s\\n','chatEntry':'x'}",
                            user->email, user->email);

    return text(START " %s", json_with(base, change));
}

TEST(numbers_are_accepted_as_texts_and_empty_fields_as_absent)
{
    exchanges(
        host,
        {MAKE " {'externalId':' 4711 ','capacity':'10.5','serialNumber':123456789012345678,"
              "'yieldValue':' 900','latitude':' 52.5200 ','siteName':' Roof 7 '}",
         user, 201,
         "{'externalId':'4711','capacity':10.5,'serialNumber':'123456789012345678',"
         "'yieldValue':900,'latitude':'52.5200','siteName':'Roof 7','warnings':'(absent)'}"},
        {MAKE " {'externalId':'Word','capacity':'-1'}", user, 400},
        {MAKE " {'externalId':'Empty','capacity':'','timezone':'  ','latitude':'','note':''}", user,
         201,
         "{'capacity':null,'timezone':null,'latitude':null,'attributes':{'note':''},"
         "'warnings':['capacity: " ABSENT "','latitude: " ABSENT "','timezone: " ABSENT "'],"
         "'warningDetails':[{'field':'capacity','problem':'" ABSENT "','code':'empty_ignored'},{},"
         "{}]}"},
        {start_with("{'chatEntry':42,'organizationId':'1'}"), user, 201,
         "{'message':{'chatEntry':'42'}}"},
        {start_with("{'chatEntry':1.5}"), user, 400}, {start_with("{'chatEntry':''}"), user, 400},
        {start_with("{'deviceProjectName':''}"), user, 201,
         "{'conversation':{'deviceProjectName':null},'warnings':['deviceProjectName: " ABSENT
         "']}"},
        {start_with("{'unknown':1}"), user, 201, EXACT}, {FIND " {}", user, 200, EXACT},
        {start_with("{'chatEntry':' \\n hi \\t','deviceProjectName':' Roof '}"), user, 201,
         "{'message':{'chatEntry':' \\n hi \\t'},'conversation':{'deviceProjectName':' Roof '}}"});
}

TEST(a_password_keeps_its_blanks_and_cannot_be_a_number)
{
    exchanges(
        host,
        {"POST /api/user/register {'firstName':' A ','lastName':'B','orgName':'Blank password',"
         "'email':'blank-password@example.com','password':' long password '}",
         NULL, 201},
        {LOGIN " {'username':'blank-password@example.com','password':'long password'}", NULL, 401},
        /* a known account, still pending */
        {LOGIN " {'username':'blank-password@example.com','password':' long password '}", NULL,
         403});
}

TEST(the_last_of_repeated_parameters_counts_and_a_limit_is_clamped)
{
    struct person *lister = person_make(host, admin, "tolerance.lister", NULL);

    exchanges(host, {MAKE " {'externalId':'First'}", lister, 201},
              {MAKE " {'externalId':'Second'}", lister, 201},
              {LIST "?limit=2&limit=1", lister, 200, "[{}]"},
              {LIST "?limit=100000", lister, 200, "[{},{}]"},
              {LIST "?limit=&limit=", lister, 200, "[{},{}]"}, {LIST "?limit=0", lister, 400});
    ask(user, 201, "\"organizationId: is given twice",
        START "?organizationId=5&organizationId=6 %s", strchr(start_with("{}"), '{'));
}

TEST(unknown_query_parameters_are_reported)
{
    const struct exchange rows[] = {
        {LIST "?colour=blue&limit=1&na%2Cme=%01&colour=x", user, 200},
        {LIST "?limit=1", user, 200},
        {FIND "?verbose {}", user, 200},
        {LIST "?limit=0&x=1", user, 400},
    };
    static const char *const named[] = {"colour, na%2Cme", NULL, "verbose", "x"};
    const struct exchange cors = {LIST "?x=1", user, 200, .header = "Origin: " ORIGIN};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ck_assert_pstr_eq(answer_header(ask_with(&rows[i]), IGNORED), named[i]);
    /* a page of another origin may read the names */
    ck_assert_ptr_nonnull(
        strstr(answer_header(ask_with(&cors), "Access-Control-Expose-Headers"), IGNORED));
}

TEST(warnings_are_stored_with_idempotent_responses)
{
    const struct exchange row = {MAKE " {'externalId':'Stored','capacity':'6000'}", user, 201,
                                 "{'warnings':['capacity: is in kW*']}",
                                 .header = "Idempotency-Key: tolerance-1"};
    struct answer *first = ask_with(&row);

    ck_assert_str_eq(first->body, ask_with(&row)->body);
}

/* A time without an offset is in UTC; an unencoded + arrives as a space. */
TEST(a_time_without_an_offset_is_utc)
{
    static const struct {
        const char *since;
        int status;
    } times[] = {{"2026-05-01T00:00:00", 200},
                 {"2026-05-01 00:00", 200},
                 {"2026-05-01T00:00:00 02:00", 200},
                 {"2026-05-01", 200},
                 {"2026-05-01T00:00:00 UTC", 400}};
    const struct answer *made = ask(
        user, 201, NULL, "POST /api/chat/webhooks {'url':'http://127.0.0.1:8099/','events':[]}");

    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        ask(user, times[i].status, NULL, "POST /api/chat/webhooks/%jd/recover {'since':'%s'}",
            answer_int(made, "id"), times[i].since);
}

/* ---- errors ---- */

TEST(a_body_is_an_object_or_absent_if_no_field_is_required)
{
    static const char form[] = "application/x-www-form-urlencoded";

    exchanges(host, {FIND " ", admin, 200, .type = "text/plain"}, {FIND, admin, 200},
              {START " ", admin, 400}, {FIND " []", admin, 400}, {FIND " \"x\"", admin, 400},
              {FIND " {\n\"x\":'1'}", admin, 400, "Malformed JSON in line 2"},
              {"POST /api/auth/getAccess a=%zz", NULL, 400, "Malformed body: not properly encoded",
               .type = form});
}

TEST(errors_have_a_code_and_its_parameters)
{
    ask(admin, 400,
        "{'errors':[{'field':'participant1','problem':'must be an e-mail address',"
        "'code':'not_an_email','params':'(absent)'},{'field':'chatEntry','code':'blank'}]}",
        START " {'participant1':'x','participant2':'b@b.de','username':'b@b.de','chatEntry':' '}");
    ask(admin, 400,
        "{'errors':[{'code':'required'},{'code':'required'},{'code':'required'},"
        "{'code':'required'}]}",
        START " {}");
    ask(NULL, 400,
        "{'errors':[{'field':'password','code':'too_short','params':{'limit':8}},"
        "{'field':'organizationType','problem':'must be one of: Developer, Buyer, ApiUser',"
        "'code':'not_one_of','params':{'allowed':['Developer','Buyer','ApiUser']}}]}",
        "POST /api/user/register "
        "{'firstName':'A','lastName':'B','email':'c@d.de','password':'short',"
        "'orgName':'O','organizationType':'Farmer'}");
    ask(admin, 400, "{'errors':[{'code':'not_a_whole_number'}]}", "GET /api/admin/users/seven");
    ask(admin, 400, "{'errors':[{'field':'limit','code':'too_small','params':{'limit':1}}]}",
        "GET /api/admin/users?limit=0");
    ask(admin, 400, "{'errors':[{'field':'after','code':'not_a_cursor'}]}",
        "GET /api/chat/conversations/user/admin@busbar.test?after=x");
    ask(admin, 400, "{'errors':[{'field':'participant2','code':'same_participant'}]}",
        START " {'participant1':'a@b.de','participant2':'a@b.de','username':'a@b.de',"
              "'chatEntry':'x'}");
}

STAGE_SUITE(tolerance, set_up, 60)
