/*
 * The CSV of a device's readings is complete and correct, needs a constant amount of memory, is
 * safe for spreadsheets, and can be sent to a bulk upload.
 */
#include "bulk.h"
#include "readings.h"
#include "talk.h"
#include "wire.h"

enum { READINGS = 80000, GROWTH_KB = 4096 };

#define HEAD "id,deviceId,externalId,startDate,endDate,value,unit,type,createdAt\r\n"

static void set_up(void)
{
    stage_open(&(struct host_spec){.name = "reading_export",
                                   .modules = "[auth, device, reading, bulk]",
                                   .environment = process_lean,
                                   .more = text("reading:\n  exports_per_account: 2\nbulk:\n"
                                                "  files: \"%s\"\n",
                                                harness_path("bulk-reading_export"))});
    m = person_make(host, admin, "exports.m", NULL);
    b = person_make(host, admin, "exports.b", NULL);
}

static struct answer *export_of(const struct person *who, const char *key, const char *query)
{
    return http(host, "GET", text("/api/meter-reads/new/%s/export.csv%s", encoded(key), query),
                who->token, NULL);
}

/* Stores hourly History readings of 1, 2, 3, … Wh for the device. */
static void store_many(int64_t device)
{
    sql_run(db, text("INSERT INTO reading (device, type, start_at, end_at, wh, created_at)"
                     " SELECT %jd, 'H', '2003-01-01Z'::timestamptz + n * interval '1 hour',"
                     " '2003-01-01Z'::timestamptz + (n + 1) * interval '1 hour', n, now()"
                     " FROM generate_series(1, %d) n",
                     device, READINGS));
}

TEST(an_export_has_the_same_readings_as_the_list)
{
    int64_t start = days_ago(40);

    meter_make(host, m, "small", 10, days_ago(100));
    ck_status(meter_series(host, m, "small", "Delta", start, DAY_MS, 3, 7), 201);
    ck_status(meter_series(host, m, "small", "History", start + 3 * DAY_MS, DAY_MS, 2, 5), 201);
    struct answer *csv = ck_status(export_of(m, "small", ""), 200);
    struct answer *list = meter_list(host, m, "small", "");
    const char *at = csv->body;

    ck_assert_str_eq(answer_header(csv, "Content-Type"), "text/csv; charset=utf-8");
    ck_assert_str_eq(answer_header(csv, "Content-Disposition"),
                     "attachment; filename=\"readings.csv\"");
    ck_assert_msg(!strncmp(at, HEAD, strlen(HEAD)), "%s", at);
    at += strlen(HEAD);
    for (size_t i = 0; i < 5; i++) {
        const json_t *reading = item_of(list, NULL, i);
        const char *line =
            text("%jd,%s,small,%s,%s,%jd,Wh,%s,%s\r\n", int_in(reading, "id"),
                 sql_text(db, "SELECT id FROM device WHERE external_id = 'small'", 0, NULL),
                 text_in(reading, "startDate"), text_in(reading, "endDate"),
                 int_in(reading, "value"), text_in(reading, "type"), text_in(reading, "createdAt"));

        ck_assert_msg(!strncmp(at, line, strlen(line)), "%s is not %s", at, line);
        at += strlen(line);
    }
    ck_assert_str_eq(at, "");
    ck_assert_uint_eq(text_lines(export_of(m, "small", "?type=history")->body), 3);
    ck_assert_uint_eq(text_lines(export_of(m, "small",
                                           text("?start=%s&end=%s", time_text(start + DAY_MS),
                                                time_text(start + 3 * DAY_MS)))
                                     ->body),
                      3);
    ck_error(export_of(m, "small", "?type=x"), 400, "");
    ck_error(export_of(b, "small", ""), 404, "Device");
}

/* All requests for readings accept the device's id. */
TEST(every_reading_route_accepts_the_numeric_device_id)
{
    const char *id = text("%jd", meter_make(host, m, "numbered", 10, days_ago(100)));

    ck_status(meter_series(host, m, id, "Delta", days_ago(4), DAY_MS, 2, 7), 201);
    ck_assert_int_eq(meter_total(host, m, id), 14);
    ck_assert_uint_eq(text_lines(ck_status(export_of(m, id, ""), 200)->body), 3);
    ck_error(meter_series(host, m, id, "Delta", days_ago(4), DAY_MS, 1, 7), 409, "Conflict");

    EACH_TEXT (path, text("new/%s/totals", id), text("latestread/%s", id),
               text("refused?externalId=%s", id)) {
        struct answer *answer = ask(m, 200, NULL, "GET /api/meter-reads/%s", path);

        ck_assert_msg(json_array_size(answer->json) || json_object_size(answer->json), "%s: %s",
                      path, answer->body);
    }
}

TEST(a_device_name_that_is_a_formula_is_escaped_in_the_export)
{
    meter_make(host, m, "=1+1,\"x\"", 10, days_ago(100));
    ck_status(meter_series(host, m, "=1+1,\"x\"", "Delta", days_ago(4), DAY_MS, 1, 7), 201);
    struct answer *csv = ck_status(export_of(m, "=1+1,\"x\"", ""), 200);

    ck_assert_msg(strstr(csv->body, ",\"'=1+1,\"\"x\"\"\",") != NULL, "%s", csv->body);
}

/* The readings are stored for another plant of the same name. */
TEST(an_export_can_be_uploaded_in_bulk)
{
    meter_make(host, m, "moved", 10, days_ago(100));
    meter_make(host, b, "moved", 10, days_ago(100));
    ck_status(meter_series(host, m, "moved", "Delta", days_ago(40), DAY_MS, 5, 7), 201);
    struct answer *csv = ck_status(export_of(m, "moved", ""), 200);
    struct answer *sent =
        bulk_send(host, b, "type=Reads", "readings.csv", csv->body, strlen(csv->body));

    bulk_store(b, bulk_id(sent));
    ck_assert_int_eq(meter_total(host, b, "moved"), 35);
}

TEST(an_export_of_many_readings_is_complete_and_needs_constant_memory)
{
    int64_t device = meter_make(host, m, "large", 10, days_ago(100));

    ck_status(meter_series(host, m, "large", "Delta", days_ago(4), DAY_MS, 1, 7), 201);
    ck_status(export_of(m, "large", ""), 200); /* warms up */
    store_many(device);
    process_forget_peak(host->pid);
    int64_t before = process_status(host->pid, "VmRSS:");
    struct answer *csv = ck_status(export_of(m, "large", ""), 200);
    int64_t growth = process_status(host->pid, "VmHWM:") - before, wh = 0;

    ck_assert_uint_eq(text_lines(csv->body), READINGS + 2);
    for (const char *at = strchr(csv->body, '\n'); at[1]; at = strchr(at + 1, '\n')) {
        const char *cell = at + 1;

        for (int commas = 0; commas < 5; cell++)
            commas += *cell == ',';
        wh += strtoll(cell, NULL, 10);
    }
    ck_assert_int_eq(wh, (int64_t)READINGS * (READINGS + 1) / 2 + 7);
    ck_assert_msg(process_shadowed() || growth < GROWTH_KB, "memory grew by %jd KiB for %zu bytes",
                  growth, csv->length);
}

/* ---- clients that do not read ---- */

#define STALLED "/api/meter-reads/new/stalled/export.csv"

TEST(parallel_exports_are_limited_per_account)
{
    int64_t device = meter_make(host, m, "stalled", 10, days_ago(100));

    store_many(device);
    int one = wire_stall(host, STALLED, m->token), two = wire_stall(host, STALLED, m->token);
    struct answer *more =
        ck_error(export_of(m, "stalled", ""), 429, "Too many exports in progress");

    ck_assert_ptr_nonnull(answer_header(more, "Retry-After"));
    ck_status(export_of(admin, "stalled", "?type=Delta"), 200);
    ck_status(meter_list(host, m, "stalled", "?limit=1"), 200);
    close(one);
    close(two);
    WAIT_UNTIL(export_of(m, "stalled", "?type=Delta")->status == 200, 20000);
}

STAGE_SUITE(reading_export, set_up, 120)
