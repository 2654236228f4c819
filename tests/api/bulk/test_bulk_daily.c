/* Real readings of solar homes: in bulk, each row has the same result as a separate POST. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "bulk.h"
#include "devices.h"
#include "shared.h"
#include "suite.h"
#include "suites.h"

enum { ROWS = 411, FIELD = 64 };

/* A row of daily.csv: its period is the day before the timestamp. */
struct daily {
    char id[FIELD], start[FIELD], end[FIELD], value[FIELD], unit[FIELD];
};

static struct daily rows[ROWS];

static void set_up(void)
{
    struct host_spec spec = bulk_spec("bulk_daily", false);

    stage_open(&spec);
    bulk_settle("bulk_daily");
    m = person_make(host, admin, "bulk_daily.m", NULL);
    k = person_make(host, admin, "bulk_daily.k", NULL);
}

static void take(char *to, char **line)
{
    const char *cell = strsep(line, ",\r\n");

    ck_assert(cell && strlen(cell) < FIELD);
    memcpy(to, cell, strlen(cell) + 1);
}

static void read_row(struct daily *row, char *line)
{
    struct tm day = {0};
    time_t before;

    take(row->id, &line);
    take(row->end, &line);
    take(row->value, &line);
    take(row->unit, &line);
    ck_assert_ptr_nonnull(strptime(row->end, "%Y-%m-%dT%H:%M:%SZ", &day));
    before = timegm(&day) - 24 * 60 * 60;
    ck_assert_uint_gt(strftime(row->start, FIELD, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&before, &day)),
                      0);
}

static void read_file(const char *path)
{
    FILE *file = fopen(path, "r");
    char line[4 * FIELD];

    ck_assert_ptr_nonnull(file);
    ck_assert_ptr_nonnull(fgets(line, sizeof line, file));
    for (size_t i = 0; i < ROWS; i++) {
        ck_assert_ptr_nonnull(fgets(line, sizeof line, file));
        read_row(&rows[i], line);
    }
    ck_assert_ptr_null(fgets(line, sizeof line, file));
    fclose(file);
}

static bool is_first(size_t row)
{
    for (size_t i = 0; i < row; i++)
        if (!strcmp(rows[i].id, rows[row].id))
            return false;
    return true;
}

/* M sends in bulk, K one by one. With 0.05 kW the ceiling is in the middle of the values. */
static void register_devices(void)
{
    char *csv = text("externalId,commissioningDate,capacity\n");

    for (size_t i = 0; i < ROWS; i++) {
        if (!is_first(i))
            continue;
        csv = text("%s%s,2021-01-01,0.05\n", csv, rows[i].id);
        ck_status(device_post(k, json_pack("{ss ss sf}", "externalId", rows[i].id,
                                           "commissioningDate", "2021-01-01", "capacity", 0.05)),
                  201);
    }
    struct answer *log =
        bulk_store(m, bulk_id(bulk_send(host, m, "type=Devices", "plants.csv", csv, strlen(csv))));

    ck_assert_int_eq(bulk_number(log, "progress", "succeeded"), 137);
    ck_assert_int_eq(bulk_number(log, "progress", "failed"), 0);
}

static struct answer *store_all(void)
{
    char *csv = text("externalId,type,startDate,endDate,value,unit\n");

    for (size_t i = 0; i < ROWS; i++)
        csv = text("%s%s,History,%s,%s,%s,%s\n", csv, rows[i].id, rows[i].start, rows[i].end,
                   rows[i].value, rows[i].unit);
    return bulk_store(m, bulk_id(bulk_send(host, m, "type=Reads", "daily.csv", csv, strlen(csv))));
}

static const char *told(const json_t *errors)
{
    const json_t *error;
    char *line = text("%s", "");
    size_t i;

    json_array_foreach(errors, i, error)
    {
        line = text("%s%s: %s; ", line, json_string_value(json_object_get(error, "field")),
                    json_string_value(json_object_get(error, "problem")));
    }
    return line;
}

/* Posts the row for K and compares the result with M's. Returns whether it was stored. */
static bool post_and_compare(const struct daily *row, const json_t *bulk)
{
    struct answer *single =
        http(host, "POST", text("/api/meter-reads/new/%s", row->id), k->token,
             json_pack("{ss ss ss ss ss}", "type", "History", "startDate", row->start, "endDate",
                       row->end, "value", row->value, "unit", row->unit));
    bool stored = single->status == 201;

    ck_assert_msg(stored || single->status == 400 || single->status == 409, "%s", single->body);
    ck_assert_str_eq(json_string_value(json_object_get(bulk, "externalId")), row->id);
    ck_assert_str_eq(json_string_value(json_object_get(bulk, "status")),
                     stored ? "success" : "failed");
    ck_assert_str_eq(told(json_object_get(bulk, "errors")),
                     told(json_object_get(single->json, "errors")));
    return stored;
}

/* In the second round all rows are sent again, so stored ones conflict with themselves. */
TEST(real_rows_have_the_outcomes_of_single_posts)
{
    const char *path = shared_cases("readings/daily.csv");

    if (!path)
        return;
    read_file(path);
    register_devices();
    for (int round = 0; round < 2; round++) {
        struct answer *log = store_all();
        const json_t *list = json_object_get(log->json, "rows");
        int64_t stored = 0;

        ck_assert_uint_eq(json_array_size(list), ROWS);
        for (size_t i = 0; i < ROWS; i++)
            stored += post_and_compare(&rows[i], json_array_get(list, i));
        ck_assert_int_eq(bulk_number(log, "progress", "succeeded"), stored);
        ck_assert(round ? stored == 0 : stored > 0 && stored < ROWS - 20);
    }
    ck_assert_int_eq(sql_number(db, "SELECT count(DISTINCT total) FROM (SELECT (count(*), sum(wh))"
                                    "::text AS total FROM reading r JOIN device d ON d.id ="
                                    " r.device GROUP BY d.organisation) t"),
                     1);
}

STAGE_SUITE(bulk_daily, set_up, 180)
