/*
 * The tables of the reading module, the functions that open and close it, and the job
 * reading.partitions. The tables are hand-formatted, because clang-format would spread a row over
 * six lines. In the tables that reading.h declares, fields are in the order of the SQL columns.
 */
#include "modules/common/csv.h"
#include "modules/common/slots.h"
#include "modules/common/tables.h"
#include "modules/reading/reading.h"
#include "modules/reading/schema.h"

static int reading_open(struct bb_host *host, void **state)
{
    struct reading *reading = bb_host_alloc(host, sizeof(*reading));

    if (!reading)
        return bb_open_fail(host, "out of memory");
    const struct reading_settings *settings = bb_settings(host);
    struct bb_service devices = bb_service(host, "devices");

    reading->settings = settings;
    reading->devices = devices.interface;
    reading->devices_state = devices.state;
    reading->exports = slots_new(host, settings->exports, settings->exports_per_account, "exports");
    if (!reading->exports)
        return bb_open_fail(host, "out of memory");
    if (zones_read(ZONE_FILES, &reading->zones)) {
        slots_free(reading->exports);
        return bb_open_fail(host, ZONE_FILES " cannot be read");
    }
    *state = reading;
    return 0;
}

static void reading_close(struct bb_host *host, void *state)
{
    struct reading *reading = state;

    (void)host;
    slots_free(reading->exports);
    zones_free(reading->zones);
}

/* The daily job reading.partitions. It creates the partitions of the next twelve months. */
static void reading_partitions(struct bb_request *rq)
{
    static const struct bb_sql make = {"SELECT reading_partitions()", BB_SQL_WRITE | BB_SQL_LONG};

    if (!bb_query(rq, &make, BB_NO_ARGS))
        bb_log(rq, BB_WARN, "cannot create a partition of reading: %s", bb_sqlstate(rq));
}

// clang-format off

#define SETTINGS struct reading_settings
static const struct bb_field settings[] = {
    {.name = "margin", .type = BB_NUMBER, .min = 1, .max = 100, .fallback = "1.2",
     .bind = BB_BIND(struct reading_settings, rule.margin),
     .help = "A reading is refused if its energy exceeds the expected energy times this factor."},
    {.name = "degradation", .type = BB_NUMBER, .min = 0, .max = 1, .fallback = "0.005",
     .bind = BB_BIND(struct reading_settings, rule.degradation),
     .help = "Fraction of its power that a device loses in each year after the first."},
    SETTING_INT(exports, 0, 1, 1000, "32",
        "Maximum number of exports of readings in progress on each host. Further requests get "
        "503."),
    SETTING_INT(exports_per_account, 0, 1, 1000, "4",
        "Maximum number of exports of readings in progress for an account on each host. Further "
        "requests get 429."),
};

#define DEVICE                                                                                     \
    {.name = "externalId", .type = BB_TEXT, .min = 1, .max = 255,                                  \
     .help = "The device: its externalId, uuid, serialNumber or id.", .example = "PLANT-7"}
#define ORGANIZATION                                                                               \
    {.name = "organizationId", .type = BB_INT, .flags = BB_NULLABLE, .min = 1, .max = INT64_MAX,   \
     .help = "The organization of the device."}
#define PAGE(what, most) QUERY_LIMIT(most, what " per page (default 1000).")

static const struct bb_field device_segment[] = {DEVICE};

/* The handler checks these fields itself, so that a response names every invalid reading. */
static const struct bb_field read_fields[] = {
    {.name = "startDate", .type = BB_TEXT, .alias = "starttimestamp",
     .help = "Start of the period, ISO 8601. A Delta reading without a start begins at the end of "
             "the previous reading.",
     .example = "2026-04-01T00:00:00Z"},
    {.name = "endDate", .type = BB_TEXT, .flags = BB_REQUIRED, .alias = "endtimestamp",
     .help = "End of the period, ISO 8601.", .example = "2026-04-02T00:00:00Z"},
    {.name = "value", .type = BB_NUMBER, .flags = BB_REQUIRED,
     .help = "The energy in `unit`, 0 or more.", .example = "31.4"},
    {.name = "type", .type = BB_TEXT,
     .help = "History or Delta. Default: the type of the whole body."},
    {.name = "unit", .type = BB_TEXT,
     .help = "Wh, kWh, MWh or GWh. Default: the unit of the whole body."},
};
static const struct bb_field submit_body[] = {
    {.name = "type", .type = BB_ANY, .help = "History or Delta, in upper or lower case.",
     .example = "Delta"},
    {.name = "unit", .type = BB_ANY, .help = "Wh, kWh, MWh or GWh, in upper or lower case.",
     .example = "kWh"},
    {.name = "timezone", .type = BB_TEXT, .flags = BB_NULLABLE, .min = 1, .max = ZONE_NAME_MAX,
     .help = "IANA time zone of dates without an offset. Default: UTC.",
     .example = "Europe/Berlin"},
    ORGANIZATION,
    {.name = "reads", .type = BB_LIST, .flags = BB_NULLABLE | BB_AS_SENT, .min = 1,
     .max = READING_MOST, .fields = BB_ITEMS(read_fields),
     .help = "The readings. If there is only one reading, the body itself can be the reading "
             "instead.",
     .example = "[{\"startDate\":\"2026-04-01\",\"endDate\":\"2026-04-02\",\"value\":31.4}]"},
    {.name = "startDate", .type = BB_ANY, .alias = "starttimestamp",
     .help = "For a single reading without `reads`."},
    {.name = "endDate", .type = BB_ANY, .alias = "endtimestamp",
     .help = "For a single reading without `reads`."},
    {.name = "value", .type = BB_ANY, .help = "For a single reading without `reads`."},
};

#define RANGE                                                                                      \
    {.name = "start", .type = BB_TIME, .help = "Only readings that end after this time."},         \
    {.name = "end", .type = BB_TIME, .help = "Only readings that end at or before this time."},    \
    {.name = "type", .type = BB_TEXT, .max = 16,                                                   \
     .help = "Only readings of this type: History or Delta."}
static const char *const yes_or_no[] = {"true", "false", NULL};
static const struct bb_field list_query[] = {
    RANGE,
    PAGE("Readings", 5000),
    QUERY_AFTER(.type = BB_INT, .min = 0, .max = 2 * (READING_LATEST - READING_EARLIEST) + 1),
    {.name = "voided", .type = BB_CHOICE, .choices = yes_or_no,
     .help = "true: list voided readings instead, newest first, with the account that voided them "
             "and the reason."},
    ORGANIZATION,
};
static const struct bb_field export_query[] = {RANGE, ORGANIZATION};
static const struct bb_field void_segments[] = {
    DEVICE,
    {.name = "readingId", .type = BB_INT, .min = 0, .max = INT64_MAX, .help = "The reading."},
};
static const struct bb_field void_body[] = {
    {.name = "reason", .type = BB_TEXT, .flags = BB_REQUIRED | BB_NOT_BLANK | BB_NAME, .min = 1, .max = 1000,
     .help = "Why the reading is voided. The reason is stored with the "
             "reading.", .example = "The meter was swapped"},
    ORGANIZATION,
};
static const char *const spans[] = {"hour", "day", "month", "year", NULL};
static const struct bb_field totals_query[] = {
    {.name = "by", .type = BB_CHOICE, .choices = spans,
     .help = "Length of the period of each sum (default day)."},
    {.name = "timezone", .type = BB_TEXT, .min = 1, .max = ZONE_NAME_MAX,
     .help = "IANA time zone of the hours, days, months or years. Default: the time zone of the device, "
             "or else UTC."},
    RANGE,
    PAGE("Sums", 1000),
    QUERY_AFTER(.type = BB_INT, .min = READING_EARLIEST, .max = READING_LATEST),
    ORGANIZATION,
};
static const struct bb_field refused_query[] = {
    {.name = "externalId", .type = BB_TEXT, .min = 1, .max = 255,
     .help = "Only readings of this device: its externalId, uuid, serialNumber or id."},
    {.name = "start", .type = BB_TIME, .help = "Only readings refused after this time."},
    {.name = "end", .type = BB_TIME, .help = "Only readings refused at or before this time."},
    PAGE("Readings", 1000),
    QUERY_AFTER(.type = BB_INT, .min = 1, .max = INT64_MAX),
    ORGANIZATION,
};
static const struct bb_field organization_query[] = {ORGANIZATION};
static const struct bb_field latest_query[] = {
    {.name = "deviceIds", .type = BB_TEXT, .flags = BB_REQUIRED, .min = 1, .max = 4000,
     .help = "Ids of devices, separated by commas.", .example = "1,2"},
    ORGANIZATION,
};

static const char *const types[] = {"History", "Delta", NULL};
#define BEGIN "2026-03-31T22:00:00.000Z"
#define END "2026-04-01T22:00:00.000Z"
#define LATER "2026-04-02T06:15:00.000Z"
#define UNIT                                                                                       \
    {.name = "unit", .type = BB_TEXT, .flags = BB_REQUIRED, .help = "Always Wh.", .example = "Wh"}
#define STORED                                                                                     \
    {.name = "id", .type = BB_INT, .flags = BB_REQUIRED,                                           \
     .help = "Unique among the readings of the device.", .example = "41"},                         \
    {.name = "startDate", .type = BB_TIME, .flags = BB_REQUIRED, .example = BEGIN},                \
    {.name = "endDate", .type = BB_TIME, .flags = BB_REQUIRED, .example = END},                    \
    {.name = "value", .type = BB_INT, .flags = BB_REQUIRED, .help = "Wh.", .example = "31400"},    \
    UNIT,                                                                                          \
    {.name = "type", .type = BB_CHOICE, .flags = BB_REQUIRED, .choices = types,                    \
     .example = "Delta"},                                                                          \
    {.name = "createdAt", .type = BB_TIME, .flags = BB_REQUIRED, .example = LATER}
static const struct bb_field stored[] = {STORED};
const struct bb_field reading_latest_fields[] = {
    {.name = "deviceId", .type = BB_INT, .flags = BB_REQUIRED}, STORED};
static const struct bb_field submit_reply[] = {
    {.name = "deviceId", .type = BB_INT, .flags = BB_REQUIRED},
    {.name = "externalId", .type = BB_TEXT, .flags = NULLABLE, .example = "PLANT-7"},
    {.name = "uuid", .type = BB_UUID, .flags = BB_REQUIRED},
    {.name = "reads", .type = BB_LIST, .flags = BB_REQUIRED, .fields = BB_ITEMS(stored),
     .help = "The stored readings, in the order in which they were sent."},
};
const struct bb_field reading_refused_fields[] = {
    {.name = "id", .type = BB_INT, .flags = BB_REQUIRED},
    {.name = "deviceId", .type = BB_INT, .flags = BB_REQUIRED},
    {.name = "startDate", .type = BB_TIME, .flags = NULLABLE,
     .help = "Start of the period. startDate, endDate, value and type are null if they could not "
             "be parsed.", .example = BEGIN},
    {.name = "endDate", .type = BB_TIME, .flags = NULLABLE, .example = END},
    {.name = "value", .type = BB_INT, .flags = NULLABLE, .help = "Wh.", .example = "31400"},
    UNIT,
    {.name = "type", .type = BB_CHOICE, .flags = NULLABLE, .choices = types, .example = "Delta"},
    {.name = "problem", .type = BB_TEXT, .flags = BB_REQUIRED,
     .help = "All problems of the reading.", .example = "value: must be a number"},
    {.name = "errors", .type = BB_LIST, .flags = BB_REQUIRED, .fields = BB_ITEMS(problem_fields),
     .help = "The same problems, with their codes; empty for old readings."},
    {.name = "refusedAt", .type = BB_TIME, .flags = BB_REQUIRED, .example = LATER},
};
const struct bb_field reading_total_fields[] = {
    {.name = "startDate", .type = BB_TIME, .flags = BB_REQUIRED,
     .help = "00:00 in the time zone.", .example = BEGIN},
    {.name = "endDate", .type = BB_TIME, .flags = BB_REQUIRED, .help = "00:00 in the time zone.",
     .example = END},
    {.name = "value", .type = BB_INT, .flags = BB_REQUIRED, .help = "Wh.", .example = "31400"},
    UNIT,
    {.name = "reads", .type = BB_INT, .flags = BB_REQUIRED, .help = "The number of readings."},
    {.name = "ceiling", .type = BB_INT, .flags = NULLABLE,
     .help = "Plausible ceiling in Wh of a single reading of this period; null if the device has "
             "no capacity or no commissioningDate.", .example = "34004"},
};
const struct bb_field reading_fields[] = {
    STORED,
    {.name = "voidedAt", .type = BB_TIME,
     .help = "When the reading was voided. Only voided readings have voidedAt, voidedBy and "
             "reason."},
    {.name = "voidedBy", .type = BB_TEXT, .help = "E-mail of the account that voided the reading."},
    {.name = "reason", .type = BB_TEXT},
};

#define ROLES                                                                                      \
    (BB_ROLE_ADMIN | BB_ROLE_ORGANIZATION_ADMIN | BB_ROLE_DEVICE_OWNER | BB_ROLE_API_USER)
#define BASE "/api/meter-reads"

#define SUBMIT(place, text)                                                                        \
    {.method = "POST", .path = (place), .roles = ROLES, .handler = reading_submit,                 \
     .errors = conflict, .flags = BB_CREATES, .segments = BB_TABLE(device_segment),                \
     .query = BB_TABLE(organization_query), .body = BB_TABLE(submit_body), .body_max = 4194304,    \
     .values_max = 8 * READING_MOST, .success = 201, .reply = BB_TABLE(submit_reply),              \
     .help = (text)}
#define OLDER "Submit readings (older path of POST /api/meter-reads/new/{externalId})."

static const struct bb_route routes[] = {
    SUBMIT(BASE "/new/:externalId",
           "Submit one or more readings. Either all of them are stored, or none. 409 when a value "
           "exceeds the plausible ceiling of the device, or when a period overlaps a stored "
           "reading."),
    SUBMIT(BASE "/addByAdmin/new/:externalId", OLDER),
    SUBMIT(BASE "/:externalId", OLDER),
    {.method = "GET", .path = BASE "/new/:externalId", .roles = ROLES, .handler = reading_list, .errors = conflict,
     .segments = BB_TABLE(device_segment), .query = BB_TABLE(list_query),
     .reply = BB_ARRAY_OF(reading_fields),
     .help = "List the readings of a device, ordered by their end."},
    {.method = "GET", .path = BASE "/new/:externalId/export.csv", .roles = ROLES,
     .handler = reading_export, .reply = CSV_REPLY(
        "id,deviceId,externalId,startDate,endDate,value,unit,type,createdAt\r\n"
        "41,1,PLANT-7," BEGIN "," END ",31400,Wh,Delta," LATER "\r\n"),
     .reply_type = "text/csv", .errors = conflict, .segments = BB_TABLE(device_segment),
     .query = BB_TABLE(export_query), .help = "Download the readings of a device as CSV."},
    {.method = "DELETE", .path = BASE "/new/:externalId/:readingId", .flags = BB_AUDITED, .roles = ROLES,
     .handler = reading_void, .errors = conflict, .segments = BB_TABLE(void_segments),
     .query = BB_TABLE(organization_query), .body = BB_TABLE(void_body), .reply = BB_TABLE(stored),
     .help = "Void a reading. The reading is kept, but marked as voided. Only an Admin may void a "
             "reading for which a certificate was issued."},
    {.method = "GET", .path = BASE "/new/:externalId/totals", .roles = ROLES,
     .handler = reading_totals, .errors = conflict, .segments = BB_TABLE(device_segment),
     .query = BB_TABLE(totals_query), .reply = BB_ARRAY_OF(reading_total_fields),
     .help = "Sum the readings of a device by hour, day, month or year in a time zone."},
    {.method = "GET", .path = BASE "/latestread/:externalId", .roles = ROLES,
     .handler = reading_latest, .errors = conflict, .segments = BB_TABLE(device_segment),
     .query = BB_TABLE(organization_query), .reply = BB_TABLE(stored),
     .help = "Get the latest reading of a device."},
    {.method = "GET", .path = BASE "/latestread", .roles = ROLES, .handler = reading_latest_of,
     .query = BB_TABLE(latest_query), .reply = BB_ARRAY_OF(reading_latest_fields),
     .help = "List the latest reading of each of several devices."},
    {.method = "GET", .path = BASE "/refused", .roles = ROLES, .handler = reading_refused,
     .errors = conflict_or_absent,
     .query = BB_TABLE(refused_query), .reply = BB_ARRAY_OF(reading_refused_fields),
     .help = "List refused readings of the last 90 days with the reason, newest first."},
};

static const struct bb_field accepted_payload[] = {
    {.name = "deviceId", .type = BB_INT, .flags = BB_REQUIRED | BB_KEY},
    {.name = "externalId", .type = BB_TEXT, .flags = NULLABLE, .example = "PLANT-7"},
    {.name = "uuid", .type = BB_UUID, .flags = BB_REQUIRED},
    {.name = "organizationId", .type = BB_INT, .flags = BB_REQUIRED, .example = "2"},
    {.name = "type", .type = BB_CHOICE, .flags = BB_REQUIRED, .choices = types, .example = "Delta"},
    {.name = "count", .type = BB_INT, .flags = BB_REQUIRED, .help = "Number of readings."},
    {.name = "startDate", .type = BB_TIME, .flags = BB_REQUIRED, .example = BEGIN,
     .help = "Start of the first reading."},
    {.name = "endDate", .type = BB_TIME, .flags = BB_REQUIRED, .help = "End of the last reading.",
     .example = END},
    {.name = "value", .type = BB_INT, .flags = BB_REQUIRED, .help = "Sum of the readings in Wh.",
     .example = "31400"},
    UNIT,
};

static const struct bb_event_descriptor events[] = {
    {.name = "reading.accepted", .version = 1, .payload = BB_TABLE(accepted_payload),
     .help = "Readings of a device were stored. One event covers all readings of one type in a "
             "request."},
};

static const struct bb_readings readings = {.size = sizeof(readings),
                                            .ceiling_wh = reading_ceiling};
static const struct bb_service_descriptor services[] = {
    {.name = "readings", .version = 1, .interface = &readings},
    {.name = BB_BULK_ROWS "Reads", .version = 1, .interface = &reading_rows},
};

/* Has the order of enum reading_metric. */
static const struct bb_metric metrics[] = {
    {.name = "accepted_total", .kind = BB_COUNTER, .help = "Readings that were stored."},
    {.name = "over_ceiling_total", .kind = BB_COUNTER,
     .help = "Readings that were refused because they exceed the plausible ceiling of their "
             "device."},
};

static const struct bb_need needs[] = {{"devices", 1}};

static const struct bb_need wants[] = {{"certificates", 1}};

static const struct bb_job jobs[] = {
    {.name = "reading.partitions", .every_s = 86400, .flags = BB_ONCE, .run = reading_partitions},
    {.name = "reading.refused", .every_s = 3600, .flags = BB_ONCE, .run = reading_sweep_refused},
};

BB_EXPORT const struct bb_module busbar_module = {
    BB_MODULE_HEAD("reading", "1.0.0"),
    .help = "Meter readings, checked against the energy that a device can plausibly generate.",
    .schema = reading_schema,
    .settings = BB_TABLE(settings),
    .settings_size = sizeof(struct reading_settings),
    .routes = BB_TABLE(routes),
    .events = BB_TABLE(events),
    .services = BB_TABLE(services),
    .needs = BB_TABLE(needs),
    .wants = BB_TABLE(wants),
    .jobs = BB_TABLE(jobs),
    .metrics = BB_TABLE(metrics),
    .open = reading_open,
    .close = reading_close,
};
