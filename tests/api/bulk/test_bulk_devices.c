/* Devices in bulk: each row does the same as a single request. */
#include <string.h>

#include "bulk.h"
#include "devices.h"
#include "suite.h"
#include "suites.h"

static void set_up(void)
{
    struct host_spec spec = bulk_spec("bulk_devices", false);

    stage_open(&spec);
    bulk_settle("bulk_devices");
    m = person_make(host, admin, "bulk_devices.m", NULL);
    k = person_make(host, admin, "bulk_devices.k", NULL);
}

static const char *upload_devices(const struct person *who, const char *csv)
{
    return bulk_id(bulk_send(host, who, "", "plants.csv", csv, strlen(csv)));
}

TEST(a_row_becomes_the_device_that_a_request_makes)
{
    struct answer *single = ck_status(
        device_post(m, json_pack("{ss ss ss ss sf ss ss ss ss ss}", "externalId", "single",
                                 "siteName", "Hill; north", "countryCode", "deu",
                                 "commissioningDate", "2024-02-29", "capacity", 9.9, "latitude",
                                 "+52.5200", "longitude", "-13.4", "fuelCode", "ES100",
                                 "serialNumber", "007", "timezone", "Europe/Berlin")),
        201);
    const char *id = upload_devices(
        m, "externalId;projectName;CountryCode;commissioningDate;capacity;latitude;longitude;"
           "fuelCode;serialNumber;timezone;yieldValue\r\n"
           " row ;\"Hill; north\";deu;2024-02-29;9,9;+52,5200;-13,4;ES100;007;Europe/Berlin;\r\n");
    static const char *const same[] = {
        "siteName",   "countryCode", "commissioningDate", "capacity", "latitude",
        "longitude",  "fuelCode",    "serialNumber",      "timezone", "yieldValue",
        "attributes", "documents",   "organizationId"};

    ck_assert_str_eq(bulk_row(bulk_store(m, id), 0), "1  row  success");
    struct answer *row = ck_status(device_get(m, "row"), 200);

    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
        ck_assert_str_eq(device_field(row, same[i]), device_field(single, same[i]));
}

/* If commas separate cells they are not decimal signs; in texts they are kept. */
TEST(commas_are_decimal_signs_of_numbers_alone)
{
    struct answer *log = bulk_log_of(
        m, upload_devices(m, "externalId,capacity,latitude\nq1,\"9,9\",\"48,2\"\n"), "");

    ck_assert_str_eq(bulk_row(log, 0), "1 q1 failed capacity: must be a number; latitude: must be "
                                       "decimal degrees, as in \"52.52\"");
    bulk_store(m, upload_devices(m, "externalId;siteName;latitude\n7,5;8,5;48,2\n"));
    ck_assert_str_eq(device_field(ck_status(device_get(m, "7,5"), 200), "siteName"), "\"8,5\"");
}

/* Every kind of bad row, with the messages of a single request. This is C07 with another
 * organization. */
TEST(bad_rows_have_the_problems_of_single_requests)
{
    ck_status(device_post(m, device_named("There")), 201);
    ck_status(device_post(k, device_named("Elsewhere")), 201);
    const char *id = upload_devices(
        m, text("externalId,siteName,countryCode,commissioningDate,capacity,latitude,timezone,"
                "organizationId\n"
                "d1,,XX,2024-02-30,-1,91,Mars/Base,\n"
                ",,,,,,,\n"
                ",,DE,,,,,\n"
                "tHERE,,,,,,,\n"
                "Elsewhere,,,,,,,\n"
                "d2,,,,abc,,,\n"
                "d3,,,,,,,%lld\n"
                "d4,,,,,,,%lld\n"
                "D3,,,,,,,\n",
                (long long)m->organization, (long long)k->organization));
    struct answer *single =
        ck_status(device_post(m, json_pack("{ss ss ss si ss ss}", "externalId", "d1", "countryCode",
                                           "XX", "commissioningDate", "2024-02-30", "capacity", -1,
                                           "latitude", "91", "timezone", "Mars/Base")),
                  400);
    struct answer *log = bulk_log_of(m, id, "");
    const json_t *rows = json_object_get(log->json, "rows");

    ck_assert(json_equal(json_object_get(json_array_get(rows, 0), "errors"),
                         json_object_get(single->json, "errors")));
    ck_assert_str_eq(bulk_row(log, 1), "3 - failed externalId: is required, or siteName or"
                                       " serialNumber in its place");
    ck_assert_str_eq(bulk_row(log, 2),
                     "4 tHERE failed externalId: A device with this externalId already exists");
    ck_assert_str_eq(bulk_row(log, 3), "5 Elsewhere pending");
    ck_assert_str_eq(bulk_row(log, 4), "6 d2 failed capacity: must be a number");
    ck_assert_str_eq(bulk_row(log, 5), "7 d3 pending");
    ck_assert_str_eq(bulk_row(log, 6), "8 d4 pending");
    ck_assert_str_eq(bulk_row(log, 7), "9 D3 failed externalId: is the same as in row 7");
    log = bulk_store(m, id);
    ck_assert_int_eq(bulk_number(log, "progress", "succeeded"), 3);
    ck_assert_str_eq(bulk_row(log, 7),
                     "9 D3 failed externalId: A device with this externalId already exists");
    ck_status(device_get(m, "d3"), 200);
    ck_status(device_get(m, "Elsewhere"), 200);
    ck_status(device_get(m, "d4"), 200);
    ck_error(device_get(k, "d4"), 404, "");
}

/* The rules are those for requests: an account with one organization acts there whatever a row
 * names, and gets a warning; other accounts may only name the upload's organization. */
TEST(a_row_names_another_organization_as_a_request_may)
{
    struct person *both = person_with_role(host, admin, "bulk_devices.both", "ApiUser");
    const char *csv = text("externalId,organizationId\nf1,%lld\n", (long long)k->organization);

    ck_status(device_post(m, json_pack("{ss sI}", "externalId", "f0", "organizationId",
                                       (json_int_t)k->organization)),
              201);
    ck_assert_str_eq(bulk_row(bulk_store(m, upload_devices(m, csv)), 0), "1 f1 success");
    ck_status(device_get(m, "f1"), 200);
    ask(both, 201, NULL, "POST /api/organization {'name':'Second'}");
    const char *id =
        bulk_id(bulk_send(host, both, text("organizationId=%lld", (long long)both->organization),
                          "x.csv", csv, strlen(csv)));

    ck_assert_str_eq(bulk_row(bulk_log_of(both, id, ""), 0),
                     text("1 f1 failed organizationId: must be %lld, as for the bulk upload, or be"
                          " left out",
                          (long long)both->organization));
}

TEST(the_template_goes_in)
{
    struct answer *template = ask(m, 200, NULL, "GET " BULK "/template.csv");
    struct answer *log = bulk_store(m, upload_devices(m, template->body));

    ck_assert_str_eq(bulk_row(log, 0), "1 PLANT-7 success");
    bulk_shown(template);
    bulk_shown(ask(m, 200, NULL, "GET " BULK "/template.csv?type=Reads"));
}

TEST(roles_are_those_of_a_registration)
{
    static const char csv[] = "externalId\nrole\n";
    struct person *owner = person_with_role(host, admin, "bulk_devices.o", "DeviceOwner");

    ck_error(bulk_send(host, owner, "type=Devices", "x.csv", csv, sizeof csv - 1), 403,
             "Forbidden");
    ck_error(bulk_send(host, admin, "type=Devices", "x.csv", csv, sizeof csv - 1), 403,
             "Forbidden");
}

STAGE_SUITE(bulk_devices, set_up, 120)
