/*
 * A third-party row type: examples/modules/contacts, built from the installed package, loaded
 * together with bulk.
 */
#include <string.h>

#include "bulk.h"
#include "hello.h"
#include "suite.h"
#include "suites.h"

#define HEAD "name,email,telephone\n"

static struct person *other;

static bool has_table(void *database)
{
    return sql_text(database, "SELECT to_regclass('contacts_person')::text", 0, NULL) != NULL &&
           sql_text(database, "SELECT to_regclass('bulk_finding')::text", 0, NULL) != NULL;
}

static void set_up(void)
{
    struct host_spec spec = {
        .name = "bulk_contacts",
        .modules = text("[auth, bulk, \"%s\"]", example_build("contacts", "contacts", NULL)),
        .more = text("bulk:\n  files: \"%s\"\n", harness_path("bulk-bulk_contacts")),
    };

    stage_open(&spec);
    PGconn *connection = database_connect(the_postgres, spec.name);

    ck_assert(wait_until(has_table, connection, 20000));
    PQfinish(connection);
    m = person_make(host, admin, "bulk_contacts.m", NULL);
    other = person_make(host, admin, "bulk_contacts.other", NULL);
}

static const char *upload_contacts(const struct person *who, const char *csv)
{
    return bulk_id(bulk_send(host, who, "type=Contacts", "people.csv", csv, strlen(csv)));
}

static struct answer *contacts(const struct person *who, const char *query)
{
    return ask(who, 200, NULL, "GET /api/contacts?%s", query);
}

TEST(a_third_partys_rows_are_checked_stored_and_corrected)
{
    const char *id =
        upload_contacts(m, HEAD "Ada,Ada@Solar.example,\nBo,bo.solar.example,\n"
                                ",cy@solar.example,+49 30 1\nAd,ada@solar.example,2\n");

    for (int round = 0; round < 2; round++) {
        struct answer *log = round ? bulk_store(m, id) : bulk_log_of(m, id, "");

        ck_assert_str_eq(bulk_row(log, 0),
                         round ? "1 Ada@Solar.example success" : "1 Ada@Solar.example pending");
        ck_assert_str_eq(bulk_row(log, 1),
                         "2 bo.solar.example failed email: must be an e-mail address");
        ck_assert_str_eq(bulk_row(log, 2), "3 cy@solar.example failed name: is required");
        ck_assert_str_eq(bulk_row(log, 3),
                         round ? "4 ada@solar.example failed email: is there already"
                               : "4 ada@solar.example failed email: is the same as in row 1");
    }
    ck_assert_str_eq(contacts(m, "")->body,
                     "[{\"email\":\"ada@solar.example\",\"name\":\"Ada\",\"phone\":null}]");
    id = upload_contacts(m, HEAD "Bo,bo@solar.example,\nAd,ADA@solar.example,2\n");
    struct answer *log = bulk_log_of(m, id, "");

    ck_assert_str_eq(bulk_row(log, 0), "1 bo@solar.example pending");
    ck_assert_str_eq(bulk_row(log, 1), "2 ADA@solar.example failed email: is there already");
    ck_assert_int_eq(bulk_number(bulk_store(m, id), "progress", "succeeded"), 1);
    ck_assert_uint_eq(json_array_size(contacts(m, "")->json), 2);
    ck_assert_uint_eq(json_array_size(contacts(m, "after=ada@solar.example")->json), 1);
}

TEST(what_organizations_have_is_their_own)
{
    const char *id = upload_contacts(other, HEAD "Dee,dee@solar.example,\n");

    ck_assert_int_eq(bulk_number(bulk_store(other, id), "progress", "succeeded"), 1);
    id = upload_contacts(m, HEAD "Dee,dee@solar.example,\n");
    ck_assert_int_eq(bulk_number(bulk_store(m, id), "progress", "succeeded"), 1);
    ck_assert_uint_eq(json_array_size(contacts(other, "")->json), 1);
}

TEST(the_template_and_the_roles_are_those_of_its_table)
{
    static const char csv[] = HEAD "Eve,eve@solar.example,\n";
    struct answer *answer = http(host, "GET", BULK "/template.csv?type=Contacts", m->token, NULL);

    ck_assert_ptr_nonnull(strstr(ck_status(answer, 200)->body, "email,name,phone\r\n"
                                                               "bo@solar.example,Bo Berg,"));
    ck_error(bulk_send(host, person_with_role(host, admin, "bulk_contacts.b", "Buyer"),
                       "type=Contacts", "people.csv", csv, sizeof csv - 1),
             403, "Forbidden");
}

STAGE_SUITE(bulk_contacts, set_up, 60)
