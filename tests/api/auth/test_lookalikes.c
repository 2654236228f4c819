/* Accounts and organizations whose names look alike to people are the same, or are refused. */
#include <utf8proc.h>

#include "pair.h"

#define NFC "Caf\xC3\xA9"
#define NFD "Cafe\xCC\x81"
#define ZERO_WIDTH "\xE2\x80\x8B"
#define RIGHT_TO_LEFT "\xE2\x80\xAE"
#define DOTTED_I "\xC4\xB0"
#define SHARP_S "\xC3\x9F"
#define SIGMA "\xCE\xA3"
#define FINAL_SIGMA "\xCF\x82"

/* Sends a registration, which must get this status, and from 400 on this error. */
static struct answer *enrol(const char *first, const char *last, const char *email,
                            const char *organization, long status, const char *expected)
{
    return ask(NULL, status, expected,
               "POST /api/user/register {'firstName':'%s','lastName':'%s','email':'%s','password':"
               "'long enough','orgName':'%s','organizationType':'ApiUser'}",
               first, last, email, organization);
}

/* Returns a name that no other test uses; each test is a process. */
static char *unique(const char *prefix)
{
    static int count;

    return text("%s%d-%d", prefix, (int)getpid(), count++);
}

/* Makes an account with that e-mail in a separate organization. */
static struct answer *enrol_as(const char *email, long status, const char *expected)
{
    return enrol("A", "B", email, unique("Organization "), status, expected);
}

static void found(const char *organization, long status, const char *expected)
{
    enrol("A", "B", text("%s@example.com", unique("founder")), organization, status, expected);
}

/* The only problem of a response is in this field. */
static const char *problem_in(const char *field, const char *problem)
{
    return text("{\"errors\":[{\"field\":\"%s\",\"problem\":\"%s\"}]}", field, problem);
}

#define KNOWN "An account with this e-mail already exists"
#define NOT_NFC "must be in Unicode's form NFC"

TEST(emails_are_unique_in_any_case_of_unicode)
{
    static const char *const same[][2] = {
        {"\xC3\x89lan@Example.com", "\xC3\xA9lan@example.COM"},
        {"stra" SHARP_S "e@example.com", "STRASSE@example.com"},
        {"odo" FINAL_SIGMA "@example.com", "ODO" SIGMA "@example.com"},
        {DOTTED_I "zmir@example.com", "i\xCC\x87zmir@example.com"},
    };

    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        enrol_as(same[i][0], 201, NULL);
        enrol_as(same[i][1], 409, KNOWN);
    }
    enrol_as("izmir@example.com", 201, NULL);
}

TEST(a_login_takes_the_email_in_any_case_of_unicode)
{
    const char *words = "{'username':' STRA" SHARP_S "ENBAU@example.com ',"
                        "'password':'long enough'}";
    struct answer *made = enrol_as("Strassenbau@example.com", 201, NULL);
    struct person person = {.id = answer_int(made, "id")};

    ck_status(person_change(host, admin, &person, "status", "Active"), 200);
    ask(NULL, 200, NULL, "POST /api/auth/login %s", words);
    ask_on(other, NULL, 200, NULL, "POST /api/auth/getAccess %s", words);
}

#define INVISIBLE "must not have invisible characters or marks of direction"

/* One of each kind; the unit test field has more. */
TEST(emails_with_invisible_or_unnormalized_characters_are_refused)
{
    static const char *const emails[][2] = {
        {"cafe\u0301@example.com", NOT_NFC},
        {"a" ZERO_WIDTH "b@example.com", INVISIBLE},
        {"a\xC2\x85@example.com", "must not have control characters"},
        {"a\xCD\xB8@example.com", "must not have characters that Unicode has not assigned"},
        {"a\uE000@x.example", "must not have characters for private use"},
        {"a..b@x.example", "must be an e-mail address"},
    };

    for (size_t i = 0; i < sizeof emails / sizeof *emails; i++)
        enrol_as(emails[i][0], 400, problem_in("email", emails[i][1]));
}

TEST(an_email_domain_is_the_same_in_unicode_and_punycode)
{
    struct answer *made = enrol_as("ida@b\u00FCcher.example", 201, NULL);
    struct person person = {.id = answer_int(made, "id")};

    ck_assert_str_eq(answer_text(made, "email"), "ida@xn--bcher-kva.example");
    ck_status(person_change(host, admin, &person, "status", "Active"), 200);
    EACH_TEXT (spelling, "ida@xn--bcher-kva.example", "IDA@B\u00DCCHER.Example",
               "ida@XN--BCHER-KVA.example") {
        enrol_as(spelling, 409, KNOWN);
        ask(NULL, 200, NULL, "POST /api/auth/login {'username':'%s','password':'long enough'}",
            spelling);
    }
    struct person *platform = person_make(host, admin, "idn", "ApiUser");

    ask(platform, 201, NULL,
        "POST /api/chat/conversations/start "
        "{'participant1':'eva@b\u00FCcher.example','participant2':'b@example.com','username':'b@"
        "example.com','chatEntry':'hello'}");
    ask(platform, 200, "{'count':1}", "GET /api/chat/unread-count/eva@xn--bcher-kva.example");
    ask(platform, 400,
        problem_in("participant2", "must be another e-mail address than participant1"),
        "POST /api/chat/conversations/start {'participant1':'eva@b\u00FCcher.example',"
        "'participant2':'eva@xn--bcher-kva.example','username':'eva@xn--bcher-kva.example',"
        "'chatEntry':'hello'}");
}

TEST(an_admin_gets_a_warning_for_letters_that_look_like_latin_ones)
{
    static const struct {
        const char *email, *warning;
    } rows[] = {
        {"p\u0430yments@x.example", "email: has Cyrillic letters"},
        {"adm\u0131n@x.example", "email: has letters that look like Latin ones"},
        {"\u03BFffice@x.example", "email: has Greek letters"},
        {"\u0438\u0432\u0430\u043D@x.example", NULL},
        {"j\u00FCrgen@x.example", NULL},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct person person = {.id = answer_int(enrol_as(rows[i].email, 201, NULL), "id")};

        answer_warns(ck_status(person_change(host, admin, &person, "status", "Active"), 200),
                     rows[i].warning);
    }
}

/* Unicode itself defines these as other forms of ordinary characters. */
TEST(compatibility_characters_are_refused_in_the_email_of_a_new_account)
{
    static const char *const alike[] = {
        "full\uFF416@x.example", "FULL\uFF216@x.example", "full@x\uFF0Eexample", "\uFB01@x.example",
        "a\u00B2@x.example",     "\U0001D41Aa@x.example", "\u00B5a@x.example",   "a@\u2460.example",
    };
    const char *problem = problem_in("email", "must be in Unicode's form NFKC");
    struct person *person = person_make(host, admin, "compatible", NULL);

    for (size_t i = 0; i < sizeof alike / sizeof *alike; i++)
        enrol_as(alike[i], 400, problem);
    expect_json(ck_status(person_change(host, admin, person, "email", alike[0]), 400)->json,
                problem);
    enrol("Ren\uFF41", "B\u00B2", "rene@x.example", "Caf\uFF41", 201, NULL);
}

/* Makes an account as a version did that accepted such e-mails. */
static struct person *made_before(const char *email)
{
    struct person *person = person_make(host, admin, "before", "ApiUser");

    sql_run(db, text("UPDATE auth_account SET email = '%s' WHERE id = %d", email, (int)person->id));
    return person;
}

TEST(an_old_account_with_compatibility_characters_in_its_email_works)
{
    struct person *person = made_before("before\uFF41@x.example");
    const char *words =
        text("{'username':'BEFORE\uFF21@x.example','password':'%s'}", person->password);

    ask(NULL, 200, NULL, "POST /api/auth/login %s", words);
    struct answer *access = ask_on(other, NULL, 200, NULL, "POST /api/auth/getAccess %s", words);
    const struct person *by = bearer(answer_text(access, "accessToken"));

    ask(by, 201, NULL,
        "POST /api/chat/conversations/start {'participant1':'before\uFF41@x.example',"
        "'participant2':'b@x.example','username':'before\uFF41@x.example','chatEntry':'hello',"
        "'deviceProjectName':'Plant'}");
    ask(by, 200, NULL, "GET /api/chat/unread-count/before%%EF%%BD%%81@x.example");
    ck_status(person_change(host, admin, person, "firstName", "Same"), 200);
}

TEST(names_with_invisible_or_unnormalized_characters_are_refused)
{
    static const char *const rows[][5] = {
        {"Ren" NFD, "B", "Name 1", "firstName", NOT_NFC},
        {"A", "B" RIGHT_TO_LEFT, "Name 2", "lastName", INVISIBLE},
        {"A", "B", "Name" ZERO_WIDTH " 3", "orgName", INVISIBLE},
        {"A", "B\\nC", "Name 4", "lastName", "must not have control characters"},
    };

    for (size_t i = 0; i < COUNT(rows); i++)
        enrol(rows[i][0], rows[i][1], "rene@example.com", rows[i][2], 400,
              problem_in(rows[i][3], rows[i][4]));
}

TEST(organization_names_are_unique_in_any_case_of_unicode)
{
    static const char *const same[][2] = {
        {NFC " " SHARP_S, "CAF\xC3\x89 SS"},
        {"Odo" FINAL_SIGMA, "ODO" SIGMA},
        {DOTTED_I "zmir", "i\xCC\x87ZMIR"},
        {"Wide\xE3\x80\x80 \xC2\xA0Space", "wide space"},
    };

    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        found(same[i][0], 201, NULL);
        found(same[i][1], 409, "An organization with this name already exists");
    }
}

TEST(names_set_by_api_users_and_admins_are_checked_for_lookalikes)
{
    struct person *platform = person_make(host, admin, "namer", "ApiUser");

    ask(platform, 201, NULL, "POST /api/organization {'name':'Gro" SHARP_S "'}");
    ask(platform, 409, "An organization with this name already exists",
        "POST /api/organization {'name':'GROSS'}");
    ask(platform, 400, problem_in("name", INVISIBLE),
        "POST /api/organization {'name':'Gro" ZERO_WIDTH "ss'}");
    ask(admin, 400, problem_in("firstName", NOT_NFC),
        "PUT /api/admin/users/%jd {'firstName':'" NFD "'}", platform->id);
    ask(platform, 400, problem_in("name", INVISIBLE),
        "POST /api/auth/clients {'name':'key" RIGHT_TO_LEFT "'}");
}

TEST(participants_of_conversations_are_checked_for_lookalikes)
{
    struct person *platform = person_make(host, admin, "talker", "ApiUser");
    static const char start[] =
        "POST /api/chat/conversations/start {'participant1':'\xC3\x84@example.com',"
        "'participant2':'%s@example.com','username':'\xC3\xA4@example.com','chatEntry':'hello',"
        "'deviceProjectName':'Plant'}";

    ask(platform, 201, NULL, start, "b");
    ask(platform, 200, "{'count':1}", "GET /api/chat/unread-count/B@example.com");
    ask(platform, 400, problem_in("participant2", INVISIBLE), start, "b" ZERO_WIDTH);
}

/* Adds "text" to a literal of an array of texts. */
static void put(FILE *list, const char *text)
{
    fprintf(list, "%s\"%s\"", ftell(list) ? "," : "{", text);
}

/* Returns the result of the host's library; the caller frees it. */
static char *mapped(const char *text, utf8proc_option_t options)
{
    utf8proc_uint8_t *made = NULL;

    ck_assert_int_ge(utf8proc_map((const utf8proc_uint8_t *)text, 0, &made,
                                  UTF8PROC_NULLTERM | UTF8PROC_STABLE | UTF8PROC_COMPOSE | options),
                     0);
    return (char *)made;
}

/* Writes all characters that have a case, and some others. */
static void put_characters(FILE *given, FILE *wanted)
{
    for (utf8proc_int32_t code = 0x80; code < 0x110000; code++) {
        utf8proc_uint8_t text[5] = "";

        if (utf8proc_category(code) == UTF8PROC_CATEGORY_CN || (code >= 0xD800 && code < 0xE000))
            continue;
        text[utf8proc_encode_char(code, text)] = '\0';
        char *folded = mapped((char *)text, UTF8PROC_CASEFOLD), *composed = mapped((char *)text, 0);

        if (code % 997 == 0 || strcmp(folded, composed) != 0) {
            put(given, (char *)text);
            put(wanted, folded);
        }
        free(folded);
        free(composed);
    }
}

TEST(busbar_fold_in_sql_folds_case_as_the_host)
{
    char *given = NULL, *wanted = NULL;
    size_t sizes[2];
    FILE *givens = open_memstream(&given, &sizes[0]), *all = open_memstream(&wanted, &sizes[1]);

    put_characters(givens, all);
    fputc('}', givens);
    fputc('}', all);
    ck_assert(!fclose(givens) && !fclose(all));
    ck_assert_str_eq(sql_text(db,
                              "SELECT count(*) || ' of ' || (SELECT count(*) > 1500 FROM"
                              " unnest($1::text[])) || coalesce(min(given), '')"
                              " FROM unnest($1::text[], $2::text[]) AS t (given, wanted)"
                              " WHERE busbar_fold(given) <> wanted",
                              2, (const char *const[]){given, wanted}),
                     "0 of true");
    ck_assert_str_eq(sql_text(db, "SELECT busbar_fold('Plain @ASCII[]^`{}')", 0, NULL),
                     "plain @ascii[]^`{}");
}

PAIR_SUITE(lookalikes, 60)
