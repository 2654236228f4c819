/*
 * A third-party row type: examples/modules/contacts, built from the installed package, loaded
 * together with bulk.
 */
#include "bulk.h"
#include "hello.h"

#define HEAD "name,email,telephone\n"

static struct person *other;

static void set_up(void)
{
    struct host_spec spec = {
        .name = "bulk_contacts",
        .modules = text("[auth, bulk, \"%s\"]", example_build("contacts", "contacts", NULL)),
        .more = text("bulk:\n  files: \"%s\"\n", harness_path("bulk-bulk_contacts")),
    };

    stage_open(&spec);
    PGconn *connection = database_connect(the_postgres, spec.name);

    WAIT_UNTIL(
        sql_text(connection, "SELECT to_regclass('contacts_person')::text", 0, NULL) != NULL &&
            sql_text(connection, "SELECT to_regclass('bulk_finding')::text", 0, NULL) != NULL,
        20000);
    PQfinish(connection);
    m = person_make(host, admin, "bulk_contacts.m", NULL);
    other = person_make(host, admin, "bulk_contacts.other", NULL);
}

static const char *upload_contacts(const struct person *who, const char *csv)
{
    return bulk_id(bulk_text(who, "type=Contacts", csv));
}

TEST(rows_of_an_example_module_are_checked_stored_and_corrected)
{
    const char *rows = "1 Ada@Solar.example %s\n"
                       "2 bo.solar.example failed email: must be an e-mail address\n"
                       "3 cy@solar.example failed name: is required\n"
                       "4 ada@solar.example failed email: is %s\n";
    const char *id =
        upload_contacts(m, HEAD "Ada,Ada@Solar.example,\nBo,bo.solar.example,\n"
                                ",cy@solar.example,+49 30 1\nAd,ada@solar.example,2\n");

    bulk_rows(bulk_log_of(m, id, ""), text(rows, "pending", "the same as in row 1"));
    bulk_rows(bulk_store(m, id), text(rows, "success", "there already"));
    ask(m, 200, "[{\"email\":\"ada@solar.example\",\"name\":\"Ada\",\"phone\":null}]",
        "GET /api/contacts");
    id = upload_contacts(m, HEAD "Bo,bo@solar.example,\nAd,ADA@solar.example,2\n");
    bulk_ended(bulk_rows_stored(m, id,
                                "1 bo@solar.example success\n"
                                "2 ADA@solar.example failed email: is there already\n"),
               1, 1);
    ask(m, 200, "[{},{}]", "GET /api/contacts");
    ask(m, 200, "[{}]", "GET /api/contacts?after=ada@solar.example");
}

TEST(rows_of_an_example_module_belong_to_one_organization)
{
    const char *csv = HEAD "Dee,dee@solar.example,\n";

    bulk_ended(bulk_store(other, upload_contacts(other, csv)), 1, 0);
    bulk_ended(bulk_store(m, upload_contacts(m, csv)), 1, 0);
    ask(other, 200, "[{}]", "GET /api/contacts");
}

TEST(template_and_roles_come_from_the_table_of_the_example_module)
{
    struct person *buyer = person_with_role(host, admin, "bulk_contacts.b", "Buyer");

    ask(m, 200, "email,name,phone\r\nbo@solar.example,Bo Berg,",
        "GET " BULK "/template.csv?type=Contacts");
    ck_error(bulk_text(buyer, "type=Contacts", HEAD "Eve,eve@solar.example,\n"), 403, "Forbidden");
}

STAGE_SUITE(bulk_contacts, set_up, 60)
