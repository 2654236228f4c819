#include "modules/reading/rows/rows.h"

enum { AT_A_TIME = 2000 };

// clang-format off
const struct bb_field rows_columns[COLUMNS] = {
    [DEVICE] = {.name = "externalId", .type = BB_TEXT, .flags = BB_REQUIRED, .example = "PLANT-7",
                .help = "The device's externalId in any case, else its uuid, serialNumber or id."},
    [START] = {.name = "startDate", .type = BB_TEXT, .alias = "starttimestamp",
               .example = "2026-04-01T00:00:00Z", .help = "Required for History."},
    [END] = {.name = "endDate", .type = BB_TEXT, .flags = BB_REQUIRED, .alias = "endtimestamp",
             .example = "2026-04-02T00:00:00Z", .help = "End of the period, ISO 8601."},
    [VALUE] = {.name = "value", .type = BB_NUMBER, .flags = BB_REQUIRED, .example = "48.2",
               .help = "The energy in `unit`, 0 or more."},
    [UNIT] = {.name = "unit", .type = BB_TEXT, .flags = BB_REQUIRED, .example = "kWh",
              .help = "Wh, kWh, MWh or GWh, in upper or lower case."},
    [TYPE] = {.name = "type", .type = BB_TEXT, .flags = BB_REQUIRED, .example = "History",
              .help = "History or Delta, in upper or lower case."},
    [ZONE] = {.name = "timezone", .type = BB_TEXT, .example = "Europe/Berlin",
              .help = "IANA name: dates without an offset are local to it; else they are UTC."},
};
// clang-format on

static int check(struct bb_request *rq, const struct bb_bulk_job *job,
                 struct bb_bulk_row *const *rows, size_t count)
{
    struct call call = {.job = job};

    return rows_find_devices(rq, &call, rows, count) || rows_of_devices(rq, &call) ? -1 : 0;
}

static void count_over(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    const struct call *call = arg;

    (void)tx;
    bb_metric_add(rq->host, READING_OVER_CEILING, 0, call->over);
}

static int store(struct bb_request *rq, struct bb_tx *tx, const struct bb_bulk_job *job,
                 struct bb_bulk_row *const *rows, size_t count)
{
    struct call *call = bb_alloc(rq, sizeof(*call));

    *call = (struct call){.job = job, .tx = tx};
    call->refused = bb_json_hold(rq, json_array());
    if (!call->refused) {
        bb_no_memory(rq);
        return -1;
    }
    if (rows_find_devices(rq, call, rows, count) || rows_of_devices(rq, call) ||
        reading_refused_store(rq, tx, job->organization, call->refused))
        return -1;
    if (call->over)
        bb_after(rq, tx, count_over, call);
    return 0;
}

const struct bb_bulk_rows reading_rows = {
    .size = sizeof(reading_rows),
    .help = "Meter readings, by the rules of POST /api/meter-reads/new/:externalId.",
    .roles = BB_ROLE_ADMIN | BB_ROLE_ORGANIZATION_ADMIN | BB_ROLE_DEVICE_OWNER | BB_ROLE_API_USER,
    .rows_max = AT_A_TIME,
    .columns = BB_TABLE(rows_columns),
    .name_column = DEVICE,
    .check = check,
    .store = store,
    .together = true,
};
