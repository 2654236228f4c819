/* Readings in bulk: each row does the same as a single request. */
#include "bulk.h"
#include "devices.h"
#include "exposition.h"
#include "meter.h"

#define HEAD "externalId,type,startDate,endDate,value,unit,timezone\n"
#define READS "/api/meter-reads/new/"

static void plant(const struct person *who, const char *name)
{
    meter_make(host, who, name, 10, INT64_C(1704067200000)); /* 2024-01-01 */
}

static const char *upload_reads(const struct person *who, const char *csv)
{
    return bulk_id(bulk_text(who, "type=Reads", csv));
}

/* The device must have readings like these. */
static void expect_stored(const char *key, const char *expected)
{
    ask(m, 200, expected, "GET " READS "%s", key);
}

static double over_ceiling(void)
{
    return exposition_value(exposition_get(host, admin->token), "busbar_reading_over_ceiling_total",
                            "");
}

TEST(refused_readings_are_kept_and_counted_once_when_rows_are_stored)
{
    plant(m, "above");
    double before = over_ceiling();
    const char *id =
        upload_reads(m, HEAD "above,History,2025-06-01T00:00:00Z,2025-06-02T00:00:00Z,9,GWh,\n"
                             "above,History,2025-06-02T00:00:00Z,2025-06-03T00:00:00Z,9,kWh,\n");
    const char *refused = "GET /api/meter-reads/refused?externalId=above";

    ask(m, 200, "[]", "%s", refused);
    ck_assert_double_eq(over_ceiling(), before);
    bulk_ended(bulk_store(m, id), 1, 1);
    ask(m, 200, "[{'problem':'*ceiling*'}]", "%s", refused);
    ck_assert_double_eq(over_ceiling(), before + 1);
}

TEST(rows_create_the_same_readings_as_requests)
{
    plant(m, "r1");
    plant(m, "r2");
    const char *id = upload_reads(m, "externalId;Type;starttimestamp;endtimestamp;Value;unit;"
                                     "timezone\n"
                                     "r1;History;2025-06-01;2025-06-02;48,125;kWh;Europe/Berlin\n"
                                     "R2;delta;2025-06-01T00:00:00Z;2025-06-02T00:00:00Z;1000;wh;\n"
                                     "r2;delta;;2025-06-03T00:00:00Z;2;kWh;\n"
                                     "r1;history;2025-06-02;2025-06-03;0;kWh;Europe/Berlin\n");
    struct answer *log = bulk_store(m, id);

    ck_assert_int_eq(bulk_number(log, "check", "failed"), 0);
    bulk_ended(log, 4, 0);
    expect_stored("r1", "[{'startDate':'2025-05-31T22:00:00.000Z','value':48125},{}]");
    expect_stored("r2", "[{},{'startDate':'2025-06-02T00:00:00.000Z'}]");
    ask(m, 200, "{'timezone':'Europe/Berlin'}", "GET /api/device/r1");
}

/* Other rows lie between the two hours, so they are in different parts of the file. */
TEST(rows_in_a_repeated_hour_are_resolved_by_the_preceding_rows)
{
    enum { BETWEEN = 2100 };
    FILE *csv =
        csv_begin(HEAD "autumn,Delta,2025-10-26T00:00,2025-10-26T01:00,1,Wh,Europe/London\n"
                       "autumn,Delta,2025-10-26T01:00,2025-10-26 1:00,.5,Wh,Europe/London\n");

    plant(m, "autumn");
    plant(m, "between");
    for (int i = 0; i < BETWEEN; i++)
        fprintf(csv,
                "between,Delta,2025-06-%02dt%02d:%02d:00z,2025-06-%02d %02d:%02d:00 +0000,+5,Wh,\n",
                i / 1440 + 1, i / 60 % 24, i % 60, (i + 1) / 1440 + 1, (i + 1) / 60 % 24,
                (i + 1) % 60);
    fputs("autumn,Delta,2025-10-26T01:00,2025-10-26T02:00,3,Wh,Europe/London\n"
          "autumn,Delta,2025-03-30T01:00,2025-03-30T02:00,3,Wh,Europe/London\n",
          csv);
    const char *id = upload_reads(m, csv_end(csv));
    struct answer *log = bulk_store(m, id);

    ck_assert_int_eq(bulk_number(log, "check", "failed"), 1);
    bulk_ended(log, BETWEEN + 3, 1);
    bulk_rows(bulk_log_of(m, id, "status=failed"),
              "* autumn failed startDate: does not exist in Europe/London, because the clocks*\n");
    expect_stored("autumn", "[{'endDate':'2025-10-26T00:00:00.000Z'},"
                            "{'endDate':'2025-10-26T01:00:00.000Z'},"
                            "{'endDate':'2025-10-26T02:00:00.000Z'}]");
}

/* Every kind of bad row among good ones, also another account's device. */
TEST(invalid_reading_rows_have_the_errors_of_single_requests)
{
    plant(m, "s1");
    plant(k, "theirs");
    ck_status(device_post(m, device_named("bare")), 201);
    ask(m, 201, NULL,
        "POST " READS "s1 {'type':'History','unit':'kWh','startDate':'2025-01-01',"
        "'endDate':'2025-01-02','value':10}");
    const char *id =
        upload_reads(m, HEAD "s1,History,2025-01-02,2025-01-03,10,kWh,\n"
                             "s1,History,2025-01-03,2025-01-04,66,kWh,\n"
                             "s1,History,2025-01-02T12:00:00Z,2025-01-03T12:00:00Z,10,kWh,\n"
                             "s1,History,2025-01-01,2025-01-02,10,kWh,\n"
                             "theirs,History,2025-01-02,2025-01-03,10,kWh,\n"
                             "nobody,History,2025-01-02,2025-01-03,10,kWh,\n"
                             "bare,History,2025-01-02,2025-01-03,10,kWh,\n"
                             "s1,Gamma,2025-02-30,2025-01-05,-1,W,\n"
                             ",History,2025-01-02,2025-01-03,10,kWh,\n"
                             "s1,History,,2025-01-06,1,kWh,\n"
                             "s1,History,2025-01-04,2025-01-05,1,kWh,Mars/Base\n"
                             "s1,Delta,,2025-01-04,1,kWh,\n");

    bulk_rows_stored(
        m, id,
        "1 s1 success\n2 s1 failed value: 66000 Wh is more than the plausible ceiling of 65750 Wh: "
        "capacity 10 kW, 24 hours, yield 2000 kWh/kW a year\n3 s1 failed value: overlaps row 1\n4 "
        "s1 failed value: overlaps the stored History reading of 10000 Wh from "
        "2025-01-01T00:00:00.000Z to 2025-01-02T00:00:00.000Z, which is the same reading, sent "
        "again\n5 theirs failed externalId: Device not found\n6 nobody failed externalId: Device "
        "not found\n7 bare failed capacity: is missing in the device: set it first, by PATCH; "
        "commissioningDate: is missing in the device: set it first, by PATCH\n8 s1 failed type: "
        "must be one of: History, Delta; unit: must be one of: Wh, kWh, MWh, GWh; value: must be "
        "at least 0; "
        "startDate: must be an ISO 8601 date, or date and time, such as 2026-04-01 or "
        "2026-04-01T12:00:00Z\n9 - failed externalId: is required\n10 s1 failed startDate: is "
        "required for History\n11 s1 failed timezone: must be a time zone of the IANA list, such "
        "as Europe/Berlin\n12 s1 success\n");
    expect_stored("s1", "[{},{},{}]");
}

/* Each row begins where the last reading of its device ends, stored or in an earlier row. The row
 * of w2 that exceeds the ceiling does not count. */
TEST(delta_rows_without_a_start_begin_at_the_end_of_the_last_reading)
{
    FILE *csv = csv_begin(HEAD);

    for (int i = 0; i < 5; i++) {
        plant(m, text("w%d", i));
        ask(m, 201, NULL,
            "POST " READS "w%d {'type':'Delta','unit':'kWh','startDate':'2025-01-01',"
            "'endDate':'2025-02-0%d','value':1}",
            i, i + 1);
        fprintf(csv, "%sw%d,Delta,,2025-03-01,1,kWh,\nw%d,Delta,,2025-03-02,1,kWh,\n",
                i == 2 ? "w2,History,2025-02-20,2025-02-21,66,kWh,\n" : "", i, i);
    }
    bulk_ended(bulk_store(m, upload_reads(m, csv_end(csv))), 10, 1);
    for (int i = 0; i < 5; i++)
        expect_stored(text("w%d", i), text("[{},{'startDate':'2025-02-0%dT00:00:00.000Z'},"
                                           "{'startDate':'2025-03-01T00:00:00.000Z'}]",
                                           i + 1));
}

static int64_t with_serial(const struct person *who, const char *name, const char *serial)
{
    return answer_int(ask(who, 201, NULL,
                          "POST /api/device {'externalId':'%s','serialNumber':'%s',"
                          "'commissioningDate':'2024-01-01','capacity':10}",
                          name, serial),
                      "id");
}

/* A row finds a device by every key that a single request accepts, and reports the same. */
TEST(rows_find_devices_by_every_key_that_requests_accept)
{
    with_serial(m, "key-1", "SN-1");
    with_serial(m, "SN-2", "SN-3");
    with_serial(m, "key-3", "SN-2"); /* hidden by an externalId */
    with_serial(m, "twin-1", "SN-T");
    int64_t twin = with_serial(m, "twin-2", "SN-T");

    with_serial(k, "alien", "SN-K");
    const char *id = upload_reads(m, text(HEAD "SN-1,History,2025-01-02,2025-01-03,10,kWh,\n"
                                               "SN-2,History,2025-01-02,2025-01-03,10,kWh,\n"
                                               "SN-T,History,2025-01-02,2025-01-03,10,kWh,\n"
                                               "SN-K,History,2025-01-02,2025-01-03,10,kWh,\n"
                                               "sn-1,History,2025-01-02,2025-01-03,10,kWh,\n"
                                               "%jd,History,2025-01-02,2025-01-03,10,kWh,\n"
                                               "0%jd,History,2025-01-03,2025-01-04,10,kWh,\n",
                                          twin, twin));
    const char *twins = "Several devices have this identifier: twin-1, twin-2";

    bulk_rows_stored(m, id,
                     text("1 SN-1 success\n"
                          "2 SN-2 success\n"
                          "3 SN-T failed externalId: %s\n"
                          "4 SN-K failed externalId: Device not found\n"
                          "5 sn-1 failed externalId: Device not found\n"
                          "6 * success\n"
                          "7 * failed externalId: Device not found\n",
                          twins));
    expect_stored("key-1", "[{}]");
    expect_stored("SN-3", "[{}]");
    expect_stored("key-3", "[]");
    expect_stored("twin-2", "[{}]");
    ask(m, 409, twins, "GET " READS "SN-T");
}

/* The row that ends last begins before the stored reading ends, and is in the file first. */
TEST(a_row_that_overlaps_a_stored_reading_does_not_refuse_others)
{
    plant(m, "wide");
    bulk_ended(bulk_store(m, upload_reads(m, HEAD "wide,Delta,2025-03-01T07:00:00Z,"
                                                  "2025-03-01T08:00:00Z,1,kWh,\n")),
               1, 0);
    const char *id =
        upload_reads(m, HEAD "wide,Delta,2025-03-01T05:00:00Z,2025-03-01T12:00:00Z,1,kWh,\n"
                             "wide,Delta,2025-03-01T10:00:00Z,2025-03-01T11:00:00Z,1,kWh,\n");

    bulk_rows(bulk_log_of(m, id, "status=failed"), "1 wide failed value: overlaps the stored*\n");
    bulk_ended(bulk_store(m, id), 1, 1);
}

/* A row conflicts with one in another part of the file; the check compares the periods that rows
 * claim. */
TEST(overlapping_rows_far_apart_are_found_by_the_check)
{
    FILE *csv = csv_begin(HEAD);

    plant(m, "far");
    for (int i = 0; i < 1200; i++)
        fprintf(csv, "far,Delta,2025-%02d-%02dT%02d:00:00Z,2025-%02d-%02dT%02d:30:00Z,1,kWh,\n",
                1 + i / 600, 1 + i / 24 % 25, i % 24, 1 + i / 600, 1 + i / 24 % 25, i % 24);
    fputs("far,History,2025-01-01T00:10:00Z,2025-01-01T00:20:00Z,0.1,kWh,\n", csv);
    const char *id = upload_reads(m, csv_end(csv));

    bulk_rows(bulk_log_of(m, id, "status=failed"), "1201 far failed value: overlaps row 1\n");
    bulk_ended(bulk_store(m, id), 1200, 1);
    sql_is(db, 1200,
           "SELECT count(*) FROM reading r JOIN device d ON d.id ="
           " r.device WHERE d.external_id = 'far'");
}

/* The result is the same as if each row had been sent separately: a failed row blocks no other, and
 * the first valid one is stored. */
TEST(the_first_valid_one_of_overlapping_rows_is_stored)
{
    plant(m, "order");
    const char *id = upload_reads(m, HEAD "order,History,2025-01-02,2025-01-03,66,kWh,\n"
                                          "order,History,2025-01-02,2025-01-03,10,kWh,\n"
                                          "order,History,2025-02-02,2025-02-04,10,kWh,\n"
                                          "order,History,2025-02-01,2025-02-03,10,kWh,\n"
                                          "order,History,2025-01-31,2025-02-02,10,kWh,\n");

    bulk_rows_stored(m, id,
                     "1 order failed value: 66000 Wh is more*\n"
                     "2 order success\n"
                     "3 order success\n"
                     "4 order failed value: overlaps row 3\n"
                     "5 order success\n");
}

TEST(rows_of_an_inactive_device_fail_in_the_check)
{
    plant(m, "idle");
    ask(m, 200, NULL, "PATCH /api/device/idle {'status':'Inactive'}");
    bulk_rows_stored(m, upload_reads(m, HEAD "idle,History,2025-01-02,2025-01-03,10,kWh,\n"),
                     "1 idle failed externalId: the device is Inactive\n");
}

TEST(roles_that_may_not_send_readings_may_not_upload_them)
{
    static const char csv[] = HEAD "x,History,2025-01-01,2025-01-02,1,kWh,\n";
    struct person *owner = person_with_role(host, admin, "bulk_reads.o", "DeviceOwner");
    struct person *buyer = person_with_role(host, admin, "bulk_reads.b", "Buyer");

    ck_status(bulk_text(owner, "type=Reads", csv), 201);
    ck_error(bulk_text(buyer, "type=Reads", csv), 403, "Forbidden");
}

/* Returns daily Delta rows without a start, in ascending order or (`back`) in descending order. */
static const char *open_rows(const char *device, int rows, bool back)
{
    FILE *csv = csv_begin(HEAD);

    for (int i = 1; i <= rows; i++)
        fprintf(csv, "%s,Delta,,%s,1,kWh,\n", device,
                date_text(days_ago(back ? 1 + i : rows + 2 - i)));
    return csv_end(csv);
}

/* Each row begins where the previous one ends, which may be in an earlier part of the file. */
TEST(rows_without_a_start_continue_across_parts)
{
    plant(m, "open");
    const char *id = upload_reads(m, open_rows("open", 700, false));

    bulk_rows(bulk_log_of(m, id, "status=failed"), "");
    bulk_ended(bulk_store(m, id), 700, 0);
}

/* During the second run the host is busy: the test keeps requesting the status of the first. */
TEST(stored_rows_do_not_depend_on_concurrent_requests)
{
    static const char *const names[] = {"back1", "back2"};

    for (int i = 0; i < 2; i++) {
        plant(m, names[i]);
        bulk_ended(bulk_store(m, upload_reads(m, open_rows(names[i], 450, true))), 450, 0);
    }
}

TEST(repeated_readings_are_refused_and_kept_for_every_device)
{
    enum { PLANTS = 300 };
    FILE *rows = csv_begin(HEAD);

    for (int i = 0; i < PLANTS; i++) {
        plant(m, text("again%d", i));
        fprintf(rows, "again%d,History,2025-06-01,2025-06-02,1,kWh,\n", i);
    }
    const char *csv = csv_end(rows);

    bulk_ended(bulk_store(m, upload_reads(m, csv)), PLANTS, 0);
    bulk_ended(bulk_store(m, upload_reads(m, csv)), 0, PLANTS);
    for (int i = 0; i < PLANTS; i += 99)
        ask(m, 200, "[{}]", "GET /api/meter-reads/refused?externalId=again%d", i);
}

OPENED_SUITE(bulk_reads, bulk_open_devices, 120)
