/* Readings in bulk: each row does the same as a single request. */
#include <stdlib.h>
#include <string.h>

#include "bulk.h"
#include "devices.h"
#include "meter.h"
#include "suite.h"
#include "suites.h"

#define HEAD "externalId,type,startDate,endDate,value,unit,timezone\n"
#define READS "/api/meter-reads/new/"

static void set_up(void)
{
    struct host_spec spec = bulk_spec("bulk_reads", false);

    stage_open(&spec);
    bulk_settle("bulk_reads");
    m = person_make(host, admin, "bulk_reads.m", NULL);
    k = person_make(host, admin, "bulk_reads.k", NULL);
}

static void plant(const struct person *who, const char *name)
{
    ck_status(device_post(who, json_pack("{ss ss sf}", "externalId", name, "commissioningDate",
                                         "2024-01-01", "capacity", 10.0)),
              201);
}

static const char *upload_reads(const struct person *who, const char *csv)
{
    return bulk_id(bulk_send(host, who, "type=Reads", "reads.csv", csv, strlen(csv)));
}

static struct answer *stored(const char *name)
{
    return ask(m, 200, NULL, "GET " READS "%s", name);
}

static int64_t over_ceiling(void)
{
    const char *text = ask(admin, 200, NULL, "GET /metrics")->body;
    const char *at = strstr(text, "\nbusbar_reading_over_ceiling_total ");

    ck_assert_ptr_nonnull(at);
    return strtoll(strrchr(strtok(kept(strdup(at + 1)), "\n"), ' ') + 1, NULL, 10);
}

TEST(what_is_refused_is_kept_and_counted_once_when_it_is_to_be_stored)
{
    plant(m, "above");
    int64_t before = over_ceiling();
    const char *id =
        upload_reads(m, HEAD "above,History,2025-06-01T00:00:00Z,2025-06-02T00:00:00Z,9,GWh,\n"
                             "above,History,2025-06-02T00:00:00Z,2025-06-03T00:00:00Z,9,kWh,\n");
    const char *path = "/api/meter-reads/refused?externalId=above";

    ck_assert_uint_eq(json_array_size(ask(m, 200, NULL, "GET %s", path)->json), 0);
    ck_assert_int_eq(over_ceiling(), before);
    ck_assert_int_eq(bulk_number(bulk_store(m, id), "progress", "failed"), 1);
    const json_t *kept_ones = ask(m, 200, NULL, "GET %s", path)->json;
    const json_t *one = json_array_get(kept_ones, 0);

    ck_assert_uint_eq(json_array_size(kept_ones), 1);
    ck_assert_ptr_nonnull(strstr(json_string_value(json_object_get(one, "problem")), "ceiling"));
    ck_assert_int_eq(over_ceiling(), before + 1);
}

TEST(rows_become_the_readings_that_requests_make)
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
    ck_assert_int_eq(bulk_number(log, "progress", "succeeded"), 4);
    ck_assert_uint_eq(json_array_size(stored("r1")->json), 2);
    const json_t *first = json_array_get(stored("r1")->json, 0);

    ck_assert_str_eq(json_string_value(json_object_get(first, "startDate")),
                     "2025-05-31T22:00:00.000Z");
    ck_assert_int_eq(json_integer_value(json_object_get(first, "value")), 48125);
    const json_t *second = json_array_get(stored("r2")->json, 1);

    ck_assert_str_eq(json_string_value(json_object_get(second, "startDate")),
                     "2025-06-02T00:00:00.000Z");
    ck_assert_str_eq(device_field(ck_status(device_get(m, "r1"), 200), "timezone"),
                     "\"Europe/Berlin\"");
}

/* Other rows lie between the two hours, so they are in different parts of the file. */
TEST(rows_resolve_a_repeated_hour_by_what_came_before_them)
{
    enum { BETWEEN = 2100 };
    char *csv = NULL;
    size_t length;
    FILE *out = open_memstream(&csv, &length);

    plant(m, "autumn");
    plant(m, "between");
    fputs(HEAD "autumn,Delta,2025-10-26T00:00,2025-10-26T01:00,1,Wh,Europe/London\n"
               "autumn,Delta,2025-10-26T01:00,2025-10-26 1:00,.5,Wh,Europe/London\n",
          out);
    for (int i = 0; i < BETWEEN; i++)
        fprintf(out,
                "between,Delta,2025-06-%02dt%02d:%02d:00z,2025-06-%02d %02d:%02d:00 +0000,+5,Wh,\n",
                i / 1440 + 1, i / 60 % 24, i % 60, (i + 1) / 1440 + 1, (i + 1) / 60 % 24,
                (i + 1) % 60);
    fputs("autumn,Delta,2025-10-26T01:00,2025-10-26T02:00,3,Wh,Europe/London\n"
          "autumn,Delta,2025-03-30T01:00,2025-03-30T02:00,3,Wh,Europe/London\n",
          out);
    ck_assert_int_eq(fclose(out), 0);
    const char *id = upload_reads(m, csv);
    struct answer *log = bulk_store(m, id);

    ck_assert_int_eq(bulk_number(log, "check", "failed"), 1);
    ck_assert_int_eq(bulk_number(log, "progress", "succeeded"), BETWEEN + 3);
    log = bulk_log_of(m, id, "status=failed");
    ck_assert_msg(
        strstr(bulk_row(log, 0), "startDate: is skipped when the clocks of Europe/London"), "%s",
        bulk_row(log, 0));
    ck_assert_uint_eq(json_array_size(stored("autumn")->json), 3);
    for (int i = 0; i < 3; i++)
        ck_assert_str_eq(json_string_value(json_object_get(
                             json_array_get(stored("autumn")->json, (size_t)i), "endDate")),
                         text("2025-10-26T%02d:00:00.000Z", i));
    free(csv);
}

/* Every kind of bad row among good ones; C07: another account's device. */
TEST(bad_rows_have_the_problems_of_single_requests)
{
    plant(m, "s1");
    plant(k, "theirs");
    ck_status(device_post(m, device_named("bare")), 201);
    ask(m, 201, NULL,
        "POST " READS "s1 "
        "{'type':'History','unit':'kWh','startDate':'2025-01-01','endDate':'2025-01-"
        "02','value':10}");
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

    for (int round = 0; round < 2; round++) {
        struct answer *log = round ? bulk_store(m, id) : bulk_log_of(m, id, "");

        ck_assert_str_eq(bulk_row(log, 0), round ? "1 s1 success" : "1 s1 pending");
        ck_assert_str_eq(bulk_row(log, 1),
                         "2 s1 failed value: 66000 Wh is more than the plausible ceiling of 65750"
                         " Wh: capacity 10 kW, 24 hours, yield 2000 kWh/kW a year");
        ck_assert_str_eq(bulk_row(log, 2), "3 s1 failed value: overlaps row 1");
        ck_assert_str_eq(bulk_row(log, 3),
                         "4 s1 failed value: overlaps the stored History reading of 10000 Wh from"
                         " 2025-01-01T00:00:00.000Z to 2025-01-02T00:00:00.000Z, which is the same "
                         "reading, sent again");
        ck_assert_str_eq(bulk_row(log, 4), "5 theirs failed externalId: Device not found");
        ck_assert_str_eq(bulk_row(log, 5), "6 nobody failed externalId: Device not found");
        ck_assert_str_eq(bulk_row(log, 6),
                         "7 bare failed capacity: the device has none yet: set it first, by PATCH;"
                         " commissioningDate: the device has none yet: set it first, by PATCH");
        ck_assert_str_eq(bulk_row(log, 7),
                         "8 s1 failed type: must be History or Delta; unit: must be Wh, kWh, MWh or"
                         " GWh; value: must not be negative; startDate: must be an ISO 8601 date,"
                         " or date and time, such as 2026-04-01 or 2026-04-01T12:00:00Z");
        ck_assert_str_eq(bulk_row(log, 8), "9 - failed externalId: is required");
        ck_assert_str_eq(bulk_row(log, 9), "10 s1 failed startDate: is required for History");
        ck_assert_str_eq(bulk_row(log, 10),
                         "11 s1 failed timezone: must be a time zone of the IANA list, as"
                         " Europe/Berlin");
        ck_assert_str_eq(bulk_row(log, 11), round ? "12 s1 success" : "12 s1 pending");
    }
    ck_assert_uint_eq(json_array_size(stored("s1")->json), 3);
}

static json_t *with_serial(const char *name, const char *serial)
{
    return json_pack("{ss ss ss sf}", "externalId", name, "serialNumber", serial,
                     "commissioningDate", "2024-01-01", "capacity", 10.0);
}

static const char *start_of(const char *name, size_t index)
{
    return json_string_value(
        json_object_get(json_array_get(stored(name)->json, index), "startDate"));
}

/* Each row begins where the last reading of its device ends, stored or in an earlier row. The row
 * of w2 that exceeds the ceiling does not count. */
TEST(delta_rows_of_many_devices_begin_where_the_ones_before_them_end)
{
    const char *csv = HEAD;

    for (int i = 0; i < 5; i++) {
        plant(m, text("w%d", i));
        ask(m, 201, NULL,
            "POST " READS
            "w%d {'type':'Delta','unit':'kWh','startDate':'2025-01-01','endDate':'%s','value':1}",
            i, text("2025-02-0%d", i + 1));
        csv = text("%s%sw%d,Delta,,2025-03-01,1,kWh,\nw%d,Delta,,2025-03-02,1,kWh,\n", csv,
                   i == 2 ? "w2,History,2025-02-20,2025-02-21,66,kWh,\n" : "", i, i);
    }
    struct answer *log = bulk_store(m, upload_reads(m, csv));

    ck_assert_int_eq(bulk_number(log, "progress", "succeeded"), 10);
    ck_assert_int_eq(bulk_number(log, "progress", "failed"), 1);
    for (int i = 0; i < 5; i++) {
        ck_assert_str_eq(start_of(text("w%d", i), 1), text("2025-02-0%dT00:00:00.000Z", i + 1));
        ck_assert_str_eq(start_of(text("w%d", i), 2), "2025-03-01T00:00:00.000Z");
    }
}

/* A row finds a device by every key that a single request accepts, and reports the same. */
TEST(rows_find_devices_by_every_key_that_requests_know)
{
    ck_status(device_post(m, with_serial("key-1", "SN-1")), 201);
    ck_status(device_post(m, with_serial("SN-2", "SN-3")), 201);
    ck_status(device_post(m, with_serial("key-3", "SN-2")), 201); /* hidden by an externalId */
    ck_status(device_post(m, with_serial("twin-1", "SN-T")), 201);
    struct answer *twin = ck_status(device_post(m, with_serial("twin-2", "SN-T")), 201);

    ck_status(device_post(k, with_serial("alien", "SN-K")), 201);
    static const char *const keys[] = {"SN-1", "SN-2", "SN-T", "SN-K", "sn-1"};
    char *csv = text("%s", HEAD);

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        csv = text("%s%s,History,2025-01-02,2025-01-03,10,kWh,\n", csv, keys[i]);
    csv = text("%s%lld,History,2025-01-02,2025-01-03,10,kWh,\n"
               "0%lld,History,2025-01-03,2025-01-04,10,kWh,\n",
               csv, (long long)answer_int(twin, "id"), (long long)answer_int(twin, "id"));
    const char *id = upload_reads(m, csv);

    for (int round = 0; round < 2; round++) {
        struct answer *log = round ? bulk_store(m, id) : bulk_log_of(m, id, "");

        ck_assert_str_eq(bulk_row(log, 0), round ? "1 SN-1 success" : "1 SN-1 pending");
        ck_assert_str_eq(bulk_row(log, 1), round ? "2 SN-2 success" : "2 SN-2 pending");
        ck_assert_str_eq(
            bulk_row(log, 2),
            "3 SN-T failed externalId: Several devices have this identifier: twin-1, twin-2");
        ck_assert_str_eq(bulk_row(log, 3), "4 SN-K failed externalId: Device not found");
        ck_assert_str_eq(bulk_row(log, 4), "5 sn-1 failed externalId: Device not found");
        ck_assert_ptr_nonnull(strstr(bulk_row(log, 5), round ? "success" : "pending"));
        ck_assert_ptr_nonnull(strstr(bulk_row(log, 6), "externalId: Device not found"));
    }
    ck_assert_uint_eq(json_array_size(stored("key-1")->json), 1);
    ck_assert_uint_eq(json_array_size(stored("SN-3")->json), 1);
    ck_assert_uint_eq(json_array_size(stored("key-3")->json), 0);
    ck_assert_uint_eq(json_array_size(stored("twin-2")->json), 1);
    ask(m, 409, "Several devices have this identifier: twin-1, twin-2", "GET " READS "SN-T");
}

/* A row conflicts with one in another part of the file; the check compares the periods that rows
 * claim. */
TEST(rows_far_apart_that_overlap_are_found_by_the_check)
{
    char *csv = text("%s", HEAD);

    plant(m, "far");
    for (int i = 0; i < 1200; i++)
        csv = text("%sfar,Delta,2025-%02d-%02dT%02d:00:00Z,2025-%02d-%02dT%02d:30:00Z,1,kWh,\n",
                   csv, 1 + i / 600, 1 + i / 24 % 25, i % 24, 1 + i / 600, 1 + i / 24 % 25, i % 24);
    csv = text("%sfar,History,2025-01-01T00:10:00Z,2025-01-01T00:20:00Z,0.1,kWh,\n", csv);
    const char *id = upload_reads(m, csv);
    struct answer *log = bulk_log_of(m, id, "status=failed");

    ck_assert_str_eq(bulk_row(log, 0), "1201 far failed value: overlaps row 1");
    log = bulk_store(m, id);
    ck_assert_int_eq(bulk_number(log, "progress", "succeeded"), 1200);
    ck_assert_int_eq(sql_number(db, "SELECT count(*) FROM reading r JOIN device d ON d.id ="
                                    " r.device WHERE d.external_id = 'far'"),
                     1200);
}

/* The result is the same as if each row had been sent separately: a failed row blocks no other, and
 * the first valid one is stored. */
TEST(of_rows_that_overlap_the_first_valid_one_goes_in)
{
    plant(m, "order");
    const char *id = upload_reads(m, HEAD "order,History,2025-01-02,2025-01-03,66,kWh,\n"
                                          "order,History,2025-01-02,2025-01-03,10,kWh,\n"
                                          "order,History,2025-02-02,2025-02-04,10,kWh,\n"
                                          "order,History,2025-02-01,2025-02-03,10,kWh,\n"
                                          "order,History,2025-01-31,2025-02-02,10,kWh,\n");

    for (int round = 0; round < 2; round++) {
        struct answer *log = round ? bulk_store(m, id) : bulk_log_of(m, id, "");
        const char *good = round ? "success" : "pending";

        ck_assert_ptr_nonnull(strstr(bulk_row(log, 0), "1 order failed value: 66000 Wh is more"));
        ck_assert_str_eq(bulk_row(log, 1), text("2 order %s", good));
        ck_assert_str_eq(bulk_row(log, 2), text("3 order %s", good));
        ck_assert_str_eq(bulk_row(log, 3), "4 order failed value: overlaps row 3");
        ck_assert_str_eq(bulk_row(log, 4), text("5 order %s", good));
    }
}

TEST(rows_of_a_device_that_is_inactive_say_so_before_they_are_stored)
{
    plant(m, "idle");
    ask(m, 200, NULL, "PATCH /api/device/idle {'status':'Inactive'}");
    const char *id = upload_reads(m, HEAD "idle,History,2025-01-02,2025-01-03,10,kWh,\n");

    for (int round = 0; round < 2; round++)
        ck_assert_str_eq(bulk_row(round ? bulk_store(m, id) : bulk_log_of(m, id, ""), 0),
                         "1 idle failed externalId: the device is Inactive");
}

TEST(roles_are_those_of_a_request)
{
    static const char csv[] = HEAD "x,History,2025-01-01,2025-01-02,1,kWh,\n";
    struct person *owner = person_with_role(host, admin, "bulk_reads.o", "DeviceOwner");
    struct person *buyer = person_with_role(host, admin, "bulk_reads.b", "Buyer");

    ck_status(bulk_send(host, owner, "type=Reads", "x.csv", csv, sizeof csv - 1), 201);
    ck_error(bulk_send(host, buyer, "type=Reads", "x.csv", csv, sizeof csv - 1), 403, "Forbidden");
}

/* Returns daily Delta rows without a start, in ascending order or (`back`) in descending order. */
static const char *open_rows(const char *device, int rows, bool back)
{
    char *csv = kept(malloc(sizeof HEAD + (size_t)rows * 100));
    size_t length = (size_t)sprintf(csv, HEAD);

    for (int i = 1; i <= rows; i++) {
        int day = back ? rows + 1 - i : i;

        length += (size_t)sprintf(csv + length, "%s,Delta,,%s,1,kWh,\n", device,
                                  date_text(days_ago(rows + 2 - day)));
    }
    return csv;
}

/* Each row begins where the previous one ends, which may be in an earlier part of the file. */
TEST(rows_without_a_start_go_over_parts_without_a_fault)
{
    plant(m, "open");
    const char *id = upload_reads(m, open_rows("open", 700, false));
    struct answer *log = bulk_log_of(m, id, "status=failed");

    ck_assert_uint_eq(json_array_size(json_object_get(log->json, "rows")), 0);
    ck_assert_int_eq(bulk_number(bulk_store(m, id), "progress", "succeeded"), 700);
}

/* During the second run the host is busy, because the test keeps requesting the status of the
 * first. */
TEST(what_is_stored_does_not_depend_on_who_else_asks)
{
    static const char *const names[] = {"back1", "back2"};

    for (int i = 0; i < 2; i++) {
        plant(m, names[i]);
        const char *id = upload_reads(m, open_rows(names[i], 450, true));

        ck_assert_int_eq(bulk_number(bulk_store(m, id), "progress", "succeeded"), 450);
    }
}

TEST(what_came_before_is_refused_and_kept_for_every_device)
{
    enum { PLANTS = 300 };
    char *csv = kept(malloc(sizeof HEAD + PLANTS * 100));
    size_t length = (size_t)sprintf(csv, HEAD);

    for (int i = 0; i < PLANTS; i++) {
        plant(m, text("again%d", i));
        length +=
            (size_t)sprintf(csv + length, "again%d,History,2025-06-01,2025-06-02,1,kWh,\n", i);
    }
    ck_assert_int_eq(bulk_number(bulk_store(m, upload_reads(m, csv)), "progress", "succeeded"),
                     PLANTS);
    ck_assert_int_eq(bulk_number(bulk_store(m, upload_reads(m, csv)), "progress", "failed"),
                     PLANTS);
    const char *path = "/api/meter-reads/refused?externalId=again%d";

    for (int i = 0; i < PLANTS; i += 99)
        ck_assert_uint_eq(
            json_array_size(ck_status(http(host, "GET", text(path, i), m->token, NULL), 200)->json),
            1);
}

STAGE_SUITE(bulk_reads, set_up, 120)
