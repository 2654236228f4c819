/* Real readings of solar homes: in bulk, each row has the same result as a separate POST, and the
 * stored readings add up. */
#include <time.h>

#include "bulk.h"
#include "devices.h"
#include "meter.h"

enum { ROWS = 411, FIELD = 64 };

/* A row of daily.csv: its period is the day before the timestamp. */
struct daily {
    char id[FIELD], start[FIELD], end[FIELD], value[FIELD], unit[FIELD];
};

static struct daily rows[ROWS];

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
    FILE *csv = csv_begin("externalId,commissioningDate,capacity\n");

    for (size_t i = 0; i < ROWS; i++) {
        if (!is_first(i))
            continue;
        fprintf(csv, "%s,2021-01-01,0.05\n", rows[i].id);
        meter_make(host, k, rows[i].id, 0.05, INT64_C(1609459200000)); /* 2021-01-01 */
    }
    bulk_ended(bulk_store(m, bulk_id(bulk_text(m, "", csv_end(csv)))), 137, 0);
}

static struct answer *store_all(void)
{
    FILE *csv = csv_begin("externalId,type,startDate,endDate,value,unit\n");

    for (size_t i = 0; i < ROWS; i++)
        fprintf(csv, "%s,History,%s,%s,%s,%s\n", rows[i].id, rows[i].start, rows[i].end,
                rows[i].value, rows[i].unit);
    return bulk_store(m, bulk_id(bulk_text(m, "type=Reads", csv_end(csv))));
}

/* Posts the row for K and compares the result with M's. Returns whether it was stored. */
static bool post_and_compare(const struct daily *row, const json_t *bulk)
{
    struct answer *single =
        http(host, "POST", text("/api/meter-reads/new/%s", row->id), k->token,
             json_pack("{ss ss ss ss ss}", "type", "History", "startDate", row->start, "endDate",
                       row->end, "value", row->value, "unit", row->unit));
    const json_t *errors = json_object_get(single->json, "errors");
    bool stored = single->status == 201;

    ck_assert_msg(stored || single->status == 400 || single->status == 409, "%s", single->body);
    expect_json(bulk,
                text("{'externalId':'%s','status':'%s'}", row->id, stored ? "success" : "failed"));
    ck_assert(stored ? !json_array_size(json_object_get(bulk, "errors"))
                     : json_equal(json_object_get(bulk, "errors"), errors));
    return stored;
}

/* In the second round all rows are sent again, so stored ones conflict with themselves. Each stored
 * value is rounded to whole Wh. */
TEST(rows_of_real_files_have_the_results_of_single_posts)
{
    const char *path = shared_cases("readings/daily.csv");

    if (!path)
        return;
    int64_t wh = 0;

    read_file(path);
    register_devices();
    for (int round = 0; round < 2; round++) {
        struct answer *log = store_all();
        const json_t *list = json_object_get(log->json, "rows");
        int64_t stored = 0;

        ck_assert_uint_eq(json_array_size(list), ROWS);
        for (size_t i = 0; i < ROWS; i++) {
            if (!post_and_compare(&rows[i], json_array_get(list, i)))
                continue;
            stored++;
            wh += (int64_t)(strtod(rows[i].value, NULL) + 0.5);
        }
        ck_assert_int_eq(bulk_number(log, "progress", "succeeded"), stored);
        ck_assert(round ? stored == 0 : stored > 0 && stored < ROWS - 20);
    }
    sql_is(db, 1,
           "SELECT count(DISTINCT total) FROM (SELECT (count(*), sum(wh))"
           "::text AS total FROM reading r JOIN device d ON d.id ="
           " r.device GROUP BY d.organisation) t");
    sql_is(db, 2 * wh, "SELECT sum(wh) FROM reading");
}

OPENED_SUITE(bulk_daily, bulk_open_devices, 180)
