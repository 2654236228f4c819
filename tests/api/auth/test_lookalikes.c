/* Accounts and organizations whose names look alike to people are the same, or are refused. */
#include <utf8proc.h>

#include "exchange.h"
#include "pair.h"

#define NFC "Caf\xC3\xA9"
#define NFD "Cafe\xCC\x81"
#define ZERO_WIDTH "\xE2\x80\x8B"
#define RIGHT_TO_LEFT "\xE2\x80\xAE"
#define DOTTED_I "\xC4\xB0"
#define SHARP_S "\xC3\x9F"
#define SIGMA "\xCE\xA3"
#define FINAL_SIGMA "\xCF\x82"

static struct answer *enrol(const char *first, const char *last, const char *email,
                            const char *organization)
{
    return http(one, "POST", "/api/user/register", NULL,
                json_pack("{ss ss ss ss ss ss}", "firstName", first, "lastName", last, "email",
                          email, "password", "long enough", "orgName", organization,
                          "organizationType", "ApiUser"));
}

/* Returns a name that no other test uses; each test is a process. */
static char *unique(const char *prefix)
{
    static int count;

    return text("%s%d-%d", prefix, (int)getpid(), count++);
}

/* Makes an account with that e-mail in a separate organization. */
static struct answer *enrol_as(const char *email)
{
    return enrol("A", "B", email, unique("Organization "));
}

static struct answer *found(const char *organization)
{
    return enrol("A", "B", text("%s@example.com", unique("founder")), organization);
}

/* Fails the test unless the response's only problem is in this field. */
static void refused(const struct answer *answer, const char *field, const char *problem)
{
    ck_assert_int_eq(answer->status, 400);
    expect_json(answer->json,
                text("{\"errors\":[{\"field\":\"%s\",\"problem\":\"%s\"}]}", field, problem));
}

TEST(emails_are_unique_in_any_case_of_unicode)
{
    static const char *const same[][2] = {
        {"\xC3\x89lan@Example.com", "\xC3\xA9lan@example.COM"},
        {"stra" SHARP_S "e@example.com", "STRASSE@example.com"},
        {"odo" FINAL_SIGMA "@example.com", "ODO" SIGMA "@example.com"},
        {DOTTED_I "zmir@example.com", "i\xCC\x87zmir@example.com"},
    };

    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        ck_status(enrol_as(same[i][0]), 201);
        ck_error(enrol_as(same[i][1]), 409, "An account with this e-mail already exists");
    }
    ck_status(enrol_as("izmir@example.com"), 201);
}

TEST(a_login_takes_the_email_in_any_case_of_unicode)
{
    const char *words = "{'username':' STRA" SHARP_S "ENBAU@example.com ',"
                        "'password':'long enough'}";
    struct answer *answer = ck_status(enrol_as("Strassenbau@example.com"), 201);
    struct person person = {.id = answer_int(answer, "id")};

    ck_status(person_change(one, admin_of(one), &person, "status", "Active"), 200);
    ask_on(one, NULL, 200, NULL, "POST /api/auth/login %s", words);
    ask_on(two, NULL, 200, NULL, "POST /api/auth/getAccess %s", words);
}

#define INVISIBLE "must not have invisible characters or marks of direction"

/* One of each kind; the unit test field has more. */
TEST(emails_with_invisible_or_unnormalized_characters_are_refused)
{
    static const char *const emails[][2] = {
        {"cafe\u0301@example.com", "must be in Unicode's form NFC"},
        {"a" ZERO_WIDTH "b@example.com", INVISIBLE},
        {"a\xC2\x85@example.com", "must not have control characters"},
        {"a\xCD\xB8@example.com", "must not have characters that Unicode has not assigned"},
        {"a\uE000@x.example", "must not have characters for private use"},
        {"a..b@x.example", "must be an e-mail address"},
    };

    for (size_t i = 0; i < sizeof emails / sizeof *emails; i++)
        refused(enrol_as(emails[i][0]), "email", emails[i][1]);
}

TEST(an_email_domain_is_the_same_in_unicode_and_punycode)
{
    struct answer *made = ck_status(enrol_as("ida@b\u00FCcher.example"), 201);
    struct person person = {.id = answer_int(made, "id")};

    ck_assert_str_eq(answer_text(made, "email"), "ida@xn--bcher-kva.example");
    ck_status(person_change(one, admin_of(one), &person, "status", "Active"), 200);
    EACH_TEXT (spelling, "ida@xn--bcher-kva.example", "IDA@B\u00DCCHER.Example",
               "ida@XN--BCHER-KVA.example") {
        ck_error(enrol_as(spelling), 409, "An account with this e-mail already exists");
        ask_on(one, NULL, 200, NULL,
               "POST /api/auth/login {'username':'%s','password':'long enough'}", spelling);
    }
    struct person *platform = person_make(one, admin_of(one), "idn", "ApiUser");

    ask_on(one, platform, 201, NULL,
           "POST /api/chat/conversations/start "
           "{'participant1':'eva@b\u00FCcher.example','participant2':'b@example.com','username':'b@"
           "example.com','chatEntry':'hello'}");
    ck_assert_int_eq(answer_int(ask_on(one, platform, 200, NULL,
                                       "GET /api/chat/unread-count/eva@xn--bcher-kva.example"),
                                "count"),
                     1);
    refused(http(one, "POST", "/api/chat/conversations/start", platform->token,
                 json_pack("{ss ss ss ss}", "participant1", "eva@b\u00FCcher.example",
                           "participant2", "eva@xn--bcher-kva.example", "username",
                           "eva@xn--bcher-kva.example", "chatEntry", "hello")),
            "participant2", "must be another e-mail address than participant1");
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
    struct person *admin = admin_of(one);

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct person person = {.id = answer_int(ck_status(enrol_as(rows[i].email), 201), "id")};

        answer_warns(ck_status(person_change(one, admin, &person, "status", "Active"), 200),
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
    struct person *admin = admin_of(one);
    struct person *person = person_make(one, admin, "compatible", NULL);

    for (size_t i = 0; i < sizeof alike / sizeof *alike; i++)
        refused(enrol_as(alike[i]), "email", "must be in Unicode's form NFKC");
    refused(person_change(one, admin, person, "email", alike[0]), "email",
            "must be in Unicode's form NFKC");
    ck_status(enrol("Ren\uFF41", "B\u00B2", "rene@x.example", "Caf\uFF41"), 201);
}

/* Makes an account as a version did that accepted such e-mails. */
static struct person *made_before(const char *email)
{
    struct person *person = person_make(one, admin_of(one), "before", "ApiUser");

    sql_run(pair_db,
            text("UPDATE auth_account SET email = '%s' WHERE id = %d", email, (int)person->id));
    return person;
}

TEST(an_old_account_with_compatibility_characters_in_its_email_works)
{
    struct person *person = made_before("before\uFF41@x.example");
    json_t *words =
        json_pack("{ss ss}", "username", "BEFORE\uFF21@x.example", "password", person->password);
    json_t *start = json_pack("{ss ss ss ss ss}", "participant1", "before\uFF41@x.example",
                              "participant2", "b@x.example", "username", "before\uFF41@x.example",
                              "chatEntry", "hello", "deviceProjectName", "Plant");

    ck_status(http(one, "POST", "/api/auth/login", NULL, json_incref(words)), 200);
    const char *token = answer_text(
        ck_status(http(two, "POST", "/api/auth/getAccess", NULL, words), 200), "accessToken");

    ck_status(http(one, "POST", "/api/chat/conversations/start", token, start), 201);
    ask_on(one, bearer(token), 200, NULL,
           "GET /api/chat/unread-count/before%%EF%%BD%%81@x.example");
    ck_status(person_change(one, admin_of(one), person, "firstName", "Same"), 200);
}

TEST(names_with_invisible_or_unnormalized_characters_are_refused)
{
    refused(enrol("Ren" NFD, "B", "rene@example.com", "Name 1"), "firstName",
            "must be in Unicode's form NFC");
    refused(enrol("A", "B" RIGHT_TO_LEFT, "rene@example.com", "Name 2"), "lastName", INVISIBLE);
    refused(enrol("A", "B", "rene@example.com", "Name" ZERO_WIDTH " 3"), "orgName", INVISIBLE);
    refused(enrol("A", "B\nC", "rene@example.com", "Name 4"), "lastName",
            "must not have control characters");
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
        ck_status(found(same[i][0]), 201);
        ck_error(found(same[i][1]), 409, "An organization with this name already exists");
    }
}

TEST(names_set_by_api_users_and_admins_are_checked_for_lookalikes)
{
    struct person *admin = admin_of(one);
    struct person *platform = person_make(one, admin, "namer", "ApiUser");

    ask_on(one, platform, 201, NULL, "POST /api/organization {'name':'Gro" SHARP_S "'}");
    ask_on(one, platform, 409, "An organization with this name already exists",
           "POST /api/organization {'name':'GROSS'}");
    refused(http(one, "POST", "/api/organization", platform->token,
                 json_pack("{ss}", "name", "Gro" ZERO_WIDTH "ss")),
            "name", INVISIBLE);
    refused(person_change(one, admin, platform, "firstName", NFD), "firstName",
            "must be in Unicode's form NFC");
    refused(http(one, "POST", "/api/auth/clients", platform->token,
                 json_pack("{ss}", "name", "key" RIGHT_TO_LEFT)),
            "name", INVISIBLE);
}

TEST(participants_of_conversations_are_checked_for_lookalikes)
{
    struct person *platform = person_make(one, admin_of(one), "talker", "ApiUser");
    json_t *start = json_pack("{ss ss ss ss ss}", "participant1", "\xC3\x84@example.com",
                              "participant2", "b@example.com", "username", "\xC3\xA4@example.com",
                              "chatEntry", "hello", "deviceProjectName", "Plant");

    ck_status(
        http(one, "POST", "/api/chat/conversations/start", platform->token, json_incref(start)),
        201);
    ck_assert_int_eq(
        answer_int(ask_on(one, platform, 200, NULL, "GET /api/chat/unread-count/B@example.com"),
                   "count"),
        1);
    json_object_set_new(start, "participant2", json_string("b" ZERO_WIDTH "@example.com"));
    refused(http(one, "POST", "/api/chat/conversations/start", platform->token, start),
            "participant2", INVISIBLE);
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
    ck_assert_str_eq(sql_text(pair_db,
                              "SELECT count(*) || ' of ' || (SELECT count(*) > 1500 FROM"
                              " unnest($1::text[])) || coalesce(min(given), '')"
                              " FROM unnest($1::text[], $2::text[]) AS t (given, wanted)"
                              " WHERE busbar_fold(given) <> wanted",
                              2, (const char *const[]){given, wanted}),
                     "0 of true");
    ck_assert_str_eq(sql_text(pair_db, "SELECT busbar_fold('Plain @ASCII[]^`{}')", 0, NULL),
                     "plain @ascii[]^`{}");
}

PAIR_SUITE(lookalikes, 60)
