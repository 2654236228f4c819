/*
 * Devices as JSON: who may see and change them, and parallel changes keep each
 * other's fields.
 */
#include "devices.h"
#include "talk.h"

TEST(a_device_is_registered_in_an_organization_of_the_caller)
{
    intmax_t of_m = m->organization, of_k = k->organization;

    ask(m, 201, text("{'organizationId':%jd,'warnings':'(absent)'}", of_m),
        "POST /api/device {'externalId':'Foreign','organizationId':%jd}", of_m);
    ask(k, 201,
        text("{'organizationId':%jd,'warnings':['organizationId: %jd is ignored*']}", of_k, of_m),
        "POST /api/device {'externalId':'Foreign','organizationId':%jd}", of_m);
}

/* Returns the second organization of an ApiUser. */
static intmax_t second_of(const struct person *who)
{
    return answer_int(ask(who, 201, NULL, "POST /api/organization {'name':'Of %s'}", who->email),
                      "id");
}

TEST(an_api_user_of_several_organizations_must_name_one)
{
    struct person *many = person_make(host, admin, "devices.many", "ApiUser");
    intmax_t second = second_of(many), first = many->organization;
    static const char make[] = "POST /api/device {'externalId':'%s','organizationId':%jd}";

    ask(many, 400, "{'errors':[{'field':'organizationId'}]}",
        "POST /api/device {'externalId':'Both'}");
    ask(many, 201, NULL, make, "Both", second);
    ask(many, 201, NULL, make, "both", first);
    ask(many, 403, "You may not act in this organization", make, "Third", m->organization);
    ck_error(
        device_get(many, "Both"), 409,
        text("Several devices have this identifier: Both (organization %jd), both (organization"
             " %jd)",
             second, first));
    ask(many, 200, "{'externalId':'Both'}", "GET /api/device/Both?organizationId=%jd", second);
}

/* A PATCH that only has files has no JSON body for the organization. */
TEST(organization_id_in_the_query_of_a_write_counts)
{
    struct person *two = person_make(host, admin, "devices.two", "ApiUser");
    const intmax_t organizations[] = {two->organization, second_of(two)};
    static const char device[] = "{\"externalId\":\"Of two\",\"siteName\":\"Site of two\"}";

    for (int i = 0; i < 2; i++)
        ask(two, 201, text("{'organizationId':%jd}", organizations[i]),
            "POST /api/device?organizationId=%jd %s", organizations[i], device);
    for (int i = 0; i < 2; i++) {
        ask(two, 200, NULL, "PATCH /api/device/Of%%20two?organizationId=%jd {'capacity':%d}",
            organizations[i], 7 + i);
        ask(two, 200, text("{'organizationId':%jd}", organizations[i]),
            "PATCH /api/device/by-site/Site%%20of%%20two?organizationId=%jd {'capacity':%d}",
            organizations[i], 7 + i);
    }
    ask(two, 403, NULL, "POST /api/device?organizationId=%jd %s", m->organization, device);
    ask(two, 403, NULL, "PATCH /api/device/Of%%20two?organizationId=%jd {}", m->organization);
    ask(two, 201, text("{'organizationId':%jd}", organizations[1]),
        "POST /api/device?organizationId=%jd {'externalId':'By body','organizationId':%jd}",
        organizations[0], organizations[1]);
}

TEST(devices_of_another_organization_are_404)
{
    ask(m, 201, NULL, "POST /api/device {'externalId':'Of M','siteName':'Shared site'}");
    ask(k, 201, NULL, "POST /api/device {'externalId':'Of K','siteName':'Shared site'}");
    ck_error(device_get(k, "Of M"), 404, "Device not found");
    ask(k, 404, "Device not found", "PATCH /api/device/Of%%20M {'capacity':7}");
    ask(k, 200, "{'externalId':'Of K','warnings':['organizationId: *']}",
        "PATCH /api/device/by-site/Shared%%20site {'organizationId':%jd,'capacity':7}",
        m->organization);
    ask(k, 404, "Device not found", "DELETE /api/device/Of%%20M");
    ask(m, 200, "{'capacity':null}", "GET /api/device/Of%%20M");
    ask(admin, 200, NULL, "GET /api/device/Of%%20M");
    ask(admin, 200, NULL, "DELETE /api/device/Of%%20M");
}

TEST(a_site_name_or_serial_number_of_several_devices_is_ambiguous)
{
    for (int i = 0; i < 2; i++)
        ask(m, 201, NULL,
            "POST /api/device {'externalId':'Twin %d','siteName':'Twin "
            "site','serialNumber':'SN-2'}",
            i);
    exchanges(host, {"PATCH /api/device/by-site/No%20site {'externalId':'x'}", m, 404},
              {"PATCH /api/device/by-site/Twin%20site {'externalId':'x'}", m, 409,
               "{'message':'*Twin 0, Twin 1*'}"},
              {"GET /api/device/SN-2", m, 409}, {"POST /api/device {'externalId':'SN-2'}", m, 201},
              {"GET /api/device/SN-2", m, 200, "{'externalId':'SN-2'}"});
}

enum { NAMED = 21 }; /* devices that a 409 response reads */

static int64_t read_of(const char *index)
{
    return sql_number(db, text("SELECT idx_tup_read FROM pg_stat_user_indexes"
                               " WHERE indexrelname = '%s'",
                               index));
}

/* Counts reads by that index and all other reads of devices. */
static void expect_few_rows(const char *method, const char *path, const char *index)
{
    static const char rows[] = "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables"
                               " WHERE relname = 'device'";
    int64_t before = sql_number(db, rows), walked = read_of(index);

    ck_error(http(host, method, path, admin->token, strcmp(method, "GET") ? json_object() : NULL),
             409, "");
    /* PostgreSQL's sessions report their statistics some seconds late */
    WAIT_UNTIL_MSG(read_of(index) >= walked + NAMED, 30000, "%s was not read", index);
    int64_t count = sql_number(db, rows) - before;

    ck_assert_msg(count < 10 * NAMED, "%jd devices were read", count);
}

/* The devices are old and no pairs are recorded, so the job device.duplicates reads none. */
TEST(looking_up_a_very_common_name_reads_few_devices)
{
    sql_run(db, "SET session_replication_role = replica"); /* no triggers: they read devices */
    sql_run(db, "INSERT INTO device (id, uuid, organisation, serial_number, site_name, attributes,"
                " created_at, updated_at) SELECT 1000000 + n, gen_random_uuid(), 1000000 + n,"
                " 'Shared by all', 'Shared by all', '{}', '2020-01-01Z', '2020-01-01Z'"
                " FROM generate_series(1, 20000) n");
    sql_run(db, "DELETE FROM device_duplicate");
    sql_run(db, "ANALYZE device");
    sql_run(db, "SET session_replication_role = origin");
    expect_few_rows("GET", DEVICE "/Shared%20by%20all", "device_serial");
    expect_few_rows("PATCH", DEVICE "/by-site/Shared%20by%20all", "device_site");
    sql_run(db, "DELETE FROM device WHERE id > 1000000");
}

TEST(read_only_fields_of_a_device_are_not_written)
{
    struct answer *made = ck_status(device_post(m, device_named("Assigned")), 201);

    ask(m, 200,
        text("{'id':%jd,'uuid':'%s','createdAt':'%s','attributes':{'groupId':9}}",
             answer_int(made, "id"), answer_text(made, "uuid"), answer_text(made, "createdAt")),
        "PATCH /api/device/Assigned {'id':1,'uuid':'" UNKNOWN_UUID
        "','createdAt':'2000-01-01T00:00:00.000Z','documents':[],'groupId':9}");
}

TEST(parallel_patches_of_different_fields_are_all_kept)
{
    static const char *const fields[] = {"capacity", "yieldValue", "latitude", "note"};
    struct call calls[4];
    struct answer *answers[4];

    ck_status(device_post(m, device_named("Parallel")), 201);
    for (int value = 1; value <= 50; value++) {
        for (int i = 0; i < 4; i++)
            calls[i] = call_by(m, "PATCH /api/device/Parallel {'%s':%d}", fields[i], value);
        parallel(host, calls, answers, 4);
        for (int i = 0; i < 4; i++)
            ck_status(answers[i], 200);
    }
    ask(m, 200, "{'capacity':50,'yieldValue':50,'latitude':'50','attributes':{'note':50}}",
        "GET /api/device/Parallel");
}

static void make_filtered(const struct person *who, const char *name, const char *country,
                          int capacity, const char *commissioned)
{
    ask(who, 201, NULL,
        "POST /api/device {'externalId':'%s','countryCode':'%s','capacity':%d,"
        "'commissioningDate':'%s','serialNumber':'SN%s','address':'Long Road 100%% %s'}",
        name, country, capacity, commissioned, name, name);
}

static const struct {
    const char *query, *names;
} filters[] = {
    {"countryCode=de", "Fa Fb"},
    {"countryCode=DEU", "Fa Fb"},
    {"countryCode=QQ", ""},
    {"externalId=fB", "Fb"},
    {"externalId=F", ""},
    {"search=ROAD%20100%25%20f", "Fa Fb Fc"},
    {"search=snfa", "Fa"},
    {"search=%25", "Fa Fb Fc"},
    {"search=_", ""},
    {"capacityFrom=2", "Fb Fc"},
    {"capacityTo=2", "Fa Fb"},
    {"capacityFrom=1.5&capacityTo=2.5", "Fb"},
    {"commissionedFrom=2022-01-01", "Fb Fc"},
    {"commissionedTo=2022-01-01", "Fa Fb"},
    {"commissionedFrom=2022-01-02&countryCode=FRA", "Fc"},
};

TEST(device_lists_are_filtered)
{
    struct person *lister = person_make(host, admin, "devices.filters", NULL);

    make_filtered(lister, "Fa", "DE", 1, "2021-06-01");
    make_filtered(lister, "Fb", "DEU", 2, "2022-01-01");
    make_filtered(lister, "Fc", "FR", 3, "2023-01-01");
    for (size_t i = 0; i < sizeof(filters) / sizeof(*filters); i++)
        ck_assert_str_eq(
            device_names(ask(lister, 200, NULL, "GET " DEVICE "/my?%s", filters[i].query)),
            filters[i].names);
    struct answer *counted =
        ask(lister, 200, "[{}]", "GET /api/device?count=true&limit=1&countryCode=DE");

    ck_assert_str_eq(answer_header(counted, "X-Total-Count"), "2");
    ask(lister, 400, NULL, "GET /api/device?commissionedFrom=yesterday");
    ask(lister, 400, NULL, "GET /api/device?capacityFrom=-1");
}

TEST(a_device_is_found_by_its_numeric_id_and_on_the_older_path)
{
    struct answer *made = ck_status(device_post(m, device_named("By id")), 201);
    intmax_t id = answer_int(made, "id");

    ask(m, 200, "{'externalId':'By id'}", "GET /api/device/%jd", id);
    ask(m, 200, text("{'uuid':'%s'}", answer_text(made, "uuid")),
        "GET /api/device/externalId/By%%20id");
    ask(k, 404, NULL, "GET /api/device/%jd", id);
    ask(m, 404, NULL, "GET /api/device/0%jd", id);
    ask(m, 404, NULL, "GET /api/device/9223372036854775808");
    /* another device that has this number as its externalId takes precedence */
    ask(m, 201, NULL, "POST /api/device {'externalId':'%jd'}", id);
    ask(m, 200, text("{'externalId':'%jd'}", id), "GET /api/device/%jd", id);
}

OPENED_SUITE(device_owners, devices_open, 60)
