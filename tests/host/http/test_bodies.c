/*
 * Invalid bodies on the routes of auth and chat. The unit tests json and query have all malformed
 * texts; see access_order for types of bodies, and devices for values of fields.
 */
#include "exchange.h"
#include "stage.h"

#define FIND "POST /api/chat/conversations/find"
#define START "POST /api/chat/conversations/start"
#define FORM "POST /api/auth/getAccess"
#define FORM_TYPE "application/x-www-form-urlencoded"
#define BAD_JSON "Malformed JSON in line "
#define BAD_FORM "Malformed body: not properly encoded"

enum { MIB = 1024 * 1024 };

static void set_up(void)
{
    stage_open(&(struct host_spec){.name = "bodies"});
}

TEST(no_body_is_needed_if_no_field_is_required)
{
    const struct exchange rows[] = {
        {FIND " ", admin, 200, .type = "text/plain"},
        {FIND, admin, 200},
        {START " ", admin, 400},
    };

    exchange_rows(host, rows);
}

TEST(nesting_and_number_of_values_are_limited)
{
    char *keys = kept(calloc(10000, 24)), *at = keys;

    for (int i = 0; i < 9000; i++)
        at += sprintf(at, "\"k%08x\":%d,", (unsigned)i * 65536U, i);
    ask(admin, 400, NULL, FIND " %s", text_repeated("[", 100000));
    ask(admin, 400, NULL, FIND " %s", text_repeated("{\"a\":", 100000));
    ask(admin, 400, NULL, FIND " {'x':%s1%s}", text_repeated("[", 100), text_repeated("]", 100));
    ask(admin, 400, NULL, FIND " [%s1]", text_repeated("1,", MIB / 2));
    ask(admin, 400, NULL, FIND " {%s'z':1}", text_repeated("\"a\":1,", 300000));
    ask(admin, 413, NULL, FIND " {'x':'%s'}", text_repeated("x", 16 * MIB));
    ask(admin, 200, NULL, FIND " {'%s':1}", text_repeated("k", MIB)); /* an unknown key */
    ask(admin, 200, NULL, FIND " {%s'z':1}", keys);
}

TEST(malformed_bodies_are_refused_with_the_position)
{
    const struct exchange rows[] = {
        {FIND " {'a':1,'a':2}", admin, 400, BAD_JSON},
        {FIND " {\n\"x\":'1'}", admin, 400, BAD_JSON "2"},
        {FORM " a=%zz", NULL, 400, BAD_FORM, .type = FORM_TYPE},
        {text(FORM " %sa=%%zz", text_repeated("&&&", 10000)), NULL, 400, BAD_FORM,
         .type = FORM_TYPE},
    };

    exchange_rows(host, rows);
}

static const char *const no_objects[] = {"1",    "\"x\"", "true", "null", "[]",
                                         "[{}]", "-0",    "1.5",  "\"\"", "[[]]"};

TEST_EACH(bodies_that_are_not_objects_are_refused, COUNT(no_objects))
{
    ask(admin, 400, NULL, FIND " %s", no_objects[_i]);
}

static const struct {
    const char *request;
    const char *fields[6];
} routes[] = {
    {"POST /api/auth/login", {"username", "password"}},
    {"POST /api/user/register", {"firstName", "lastName", "email", "password", "orgName"}},
    {START, {"participant1", "participant2", "username", "chatEntry"}},
    {"POST /api/chat/conversations/1/messages", {"username", "chatEntry"}},
};

static const char *const wrong_values[] = {"true",           "[]",  "{}",  "[\"a@b.example\"]",
                                           "{\"$gt\":\"\"}", "1.5", "null"};

TEST_EACH(a_field_of_a_wrong_type_is_refused_by_name, COUNT(routes))
{
    for (const char *const *field = routes[_i].fields; *field; field++) {
        for (size_t i = 0; i < COUNT(wrong_values); i++) {
            struct answer *answer = ask(admin, 400, NULL, "%s {\"%s\":%s}", routes[_i].request,
                                        *field, wrong_values[i]);

            ck_assert_msg(strstr(answer->body, text("{\"field\":\"%s\",\"problem\":", *field)),
                          "%s: %s", *field, answer->body);
        }
    }
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

STAGE_SUITE(bodies, set_up, 60)
