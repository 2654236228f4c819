/* reading: its tables, and nothing else. A row is a line or three; clang-format makes it six. */
#include "reading.h"

#include "modules/reading/schema.h"

// clang-format off

static const struct bb_field settings[] = {
    {.name = "margin", .type = BB_NUMBER, .min = 1, .max = 100, .fallback = "1.2",
     .help = "Factor that the plausible ceiling leaves above the expected energy."},
    {.name = "degradation", .type = BB_NUMBER, .min = 0, .max = 1, .fallback = "0.005",
     .help = "Share of its power that a device loses in each year after the first."},
};

static const struct bb_field device_segment[] = {
    {.name = "externalId", .type = BB_TEXT, .min = 1, .max = 255,
     .help = "The device's externalId, uuid, serialNumber or id.", .example = "plant-7"},
};

#define ORGANISATION                                                                               \
    {.name = "organizationId", .type = BB_INT, .flags = BB_NULLABLE, .min = 1, .max = INT64_MAX,   \
     .help = "Organisation in which the device is looked for."}

/* The handler reads these itself, so that an answer names every reading that is not right. */
static const struct bb_field read_fields[] = {
    {.name = "startDate", .type = BB_TEXT, .alias = "starttimestamp",
     .help = "Begin of the period. Delta without one begins where the reading before it ends.",
     .example = "2026-04-01T00:00:00Z"},
    {.name = "endDate", .type = BB_TEXT, .flags = BB_REQUIRED, .alias = "endtimestamp",
     .help = "End of the period.", .example = "2026-04-02T00:00:00Z"},
    {.name = "value", .type = BB_NUMBER, .flags = BB_REQUIRED, .help = "Not negative.",
     .example = "48.2"},
    {.name = "type", .type = BB_TEXT, .help = "History or Delta, unless the whole says it."},
    {.name = "unit", .type = BB_TEXT, .help = "Wh, kWh, MWh or GWh, unless the whole says it."},
};
static const struct bb_field read_item[] = {
    {.name = "item", .type = BB_OBJECT, .fields = BB_TABLE(read_fields)},
};
static const struct bb_field submit_body[] = {
    {.name = "type", .type = BB_ANY, .help = "History or Delta, in any case.", .example = "Delta"},
    {.name = "unit", .type = BB_ANY, .help = "Wh, kWh, MWh or GWh, in any case.", .example = "kWh"},
    {.name = "timezone", .type = BB_TEXT, .flags = BB_NULLABLE, .min = 1, .max = ZONE_NAME_MAX,
     .help = "IANA name: dates without an offset are local to it; without it they are UTC.",
     .example = "Europe/Berlin"},
    ORGANISATION,
    {.name = "reads", .type = BB_LIST, .flags = BB_NULLABLE | BB_AS_SENT, .min = 1,
     .max = READING_MOST, .fields = BB_TABLE(read_item),
     .help = "The readings. Without it the body itself is one."},
    {.name = "startDate", .type = BB_ANY, .alias = "starttimestamp", .help = "Of one reading."},
    {.name = "endDate", .type = BB_ANY, .alias = "endtimestamp", .help = "Of one reading."},
    {.name = "value", .type = BB_ANY, .help = "Of one reading."},
};

static const struct bb_field list_query[] = {
    {.name = "start", .type = BB_TIME, .help = "Only readings that end later."},
    {.name = "end", .type = BB_TIME, .help = "Only readings that end at this time or earlier."},
    {.name = "type", .type = BB_TEXT, .max = 16, .help = "History or Delta."},
    {.name = "limit", .type = BB_INT, .min = 1, .max = 5000, .help = "Readings in a page (1000)."},
    {.name = "after", .type = BB_TEXT, .max = 64, .help = "Cursor of a Link header."},
    ORGANISATION,
};
static const char *const spans[] = {"day", "month", "year", NULL};
static const struct bb_field totals_query[] = {
    {.name = "by", .type = BB_CHOICE, .choices = spans, .help = "What is summed (day)."},
    {.name = "timezone", .type = BB_TEXT, .min = 1, .max = ZONE_NAME_MAX,
     .help = "IANA name of the zone whose days they are; without it the device's, or UTC."},
    {.name = "start", .type = BB_TIME, .help = "Only readings that end later."},
    {.name = "end", .type = BB_TIME, .help = "Only readings that end at this time or earlier."},
    {.name = "type", .type = BB_TEXT, .max = 16, .help = "History or Delta."},
    {.name = "limit", .type = BB_INT, .min = 1, .max = 1000, .help = "Sums in a page (1000)."},
    {.name = "after", .type = BB_INT, .min = READING_EARLIEST, .max = READING_LATEST,
     .help = "Cursor of a Link header."},
    ORGANISATION,
};
static const struct bb_field refused_query[] = {
    {.name = "externalId", .type = BB_TEXT, .min = 1, .max = 255,
     .help = "Only of this device: its externalId, uuid, serialNumber or id."},
    {.name = "start", .type = BB_TIME, .help = "Only what was refused later."},
    {.name = "end", .type = BB_TIME, .help = "Only what was refused at this time or earlier."},
    {.name = "limit", .type = BB_INT, .min = 1, .max = 1000, .help = "Readings in a page (1000)."},
    {.name = "after", .type = BB_INT, .min = 1, .max = INT64_MAX,
     .help = "Cursor of a Link header."},
    ORGANISATION,
};
static const struct bb_field organisation_query[] = {ORGANISATION};

static const char *const types[] = {"History", "Delta", NULL};
static const struct bb_field stored[] = {
    {.name = "startDate", .type = BB_TIME, .flags = BB_REQUIRED},
    {.name = "endDate", .type = BB_TIME, .flags = BB_REQUIRED},
    {.name = "value", .type = BB_INT, .flags = BB_REQUIRED, .help = "Wh."},
    {.name = "unit", .type = BB_TEXT, .flags = BB_REQUIRED, .help = "Always Wh."},
    {.name = "type", .type = BB_CHOICE, .flags = BB_REQUIRED, .choices = types},
    {.name = "createdAt", .type = BB_TIME, .flags = BB_REQUIRED},
};
static const struct bb_field stored_item[] = {
    {.name = "item", .type = BB_OBJECT, .fields = BB_TABLE(stored)},
};
static const struct bb_field submit_reply[] = {
    {.name = "deviceId", .type = BB_INT, .flags = BB_REQUIRED},
    {.name = "externalId", .type = BB_TEXT, .flags = BB_REQUIRED | BB_NULLABLE},
    {.name = "uuid", .type = BB_UUID, .flags = BB_REQUIRED},
    {.name = "reads", .type = BB_LIST, .flags = BB_REQUIRED, .fields = BB_TABLE(stored_item),
     .help = "What was stored, in the order in which it was sent."},
};
static const struct bb_field refused[] = {
    {.name = "id", .type = BB_INT, .flags = BB_REQUIRED},
    {.name = "deviceId", .type = BB_INT, .flags = BB_REQUIRED},
    {.name = "startDate", .type = BB_TIME, .flags = BB_REQUIRED | BB_NULLABLE,
     .help = "null, as the other three: not known, by a mistake."},
    {.name = "endDate", .type = BB_TIME, .flags = BB_REQUIRED | BB_NULLABLE},
    {.name = "value", .type = BB_INT, .flags = BB_REQUIRED | BB_NULLABLE, .help = "Wh."},
    {.name = "unit", .type = BB_TEXT, .flags = BB_REQUIRED, .help = "Always Wh."},
    {.name = "type", .type = BB_CHOICE, .flags = BB_REQUIRED | BB_NULLABLE, .choices = types},
    {.name = "problem", .type = BB_TEXT, .flags = BB_REQUIRED, .help = "All that was wrong."},
    {.name = "refusedAt", .type = BB_TIME, .flags = BB_REQUIRED},
};
static const struct bb_field refused_item[] = {
    {.name = "item", .type = BB_OBJECT, .fields = BB_TABLE(refused)},
};
static const struct bb_field refused_reply[] = {
    {.name = ".", .type = BB_LIST, .fields = BB_TABLE(refused_item)},
};
static const struct bb_field total[] = {
    {.name = "startDate", .type = BB_TIME, .flags = BB_REQUIRED, .help = "00:00 in the zone."},
    {.name = "endDate", .type = BB_TIME, .flags = BB_REQUIRED, .help = "00:00 in the zone."},
    {.name = "value", .type = BB_INT, .flags = BB_REQUIRED, .help = "Wh."},
    {.name = "unit", .type = BB_TEXT, .flags = BB_REQUIRED, .help = "Always Wh."},
    {.name = "reads", .type = BB_INT, .flags = BB_REQUIRED, .help = "How many readings."},
};
static const struct bb_field total_item[] = {
    {.name = "item", .type = BB_OBJECT, .fields = BB_TABLE(total)},
};
static const struct bb_field totals_reply[] = {
    {.name = ".", .type = BB_LIST, .fields = BB_TABLE(total_item)},
};
static const struct bb_field list_reply[] = {
    {.name = ".", .type = BB_LIST, .fields = BB_TABLE(stored_item)},
};

#define ROLES                                                                                      \
    (BB_ROLE_ADMIN | BB_ROLE_ORGANIZATION_ADMIN | BB_ROLE_DEVICE_OWNER | BB_ROLE_API_USER)
#define BASE "/api/meter-reads"

/* A path of older clients. */
#define OLDER_SUBMIT(older)                                                                        \
    {.method = "POST", .path = (older), .roles = ROLES, .handler = reading_submit,                   \
     .flags = BB_CREATES, .segments = BB_TABLE(device_segment),                                    \
     .query = BB_TABLE(organisation_query), .body = BB_TABLE(submit_body), .body_max = 4194304,    \
     .values_max = 8 * READING_MOST, .success = 201, .reply = BB_TABLE(submit_reply),              \
     .help = "An older path of POST /api/meter-reads/new/:externalId."}

static const struct bb_route routes[] = {
    {.method = "POST", .path = BASE "/new/:externalId", .roles = ROLES, .handler = reading_submit,
     .flags = BB_CREATES, .segments = BB_TABLE(device_segment),
     .query = BB_TABLE(organisation_query), .body = BB_TABLE(submit_body),
     .body_max = 4194304, .values_max = 8 * READING_MOST, .success = 201,
     .reply = BB_TABLE(submit_reply),
     .help = "Stores one reading or many, all or none; 409 above the plausible ceiling."},
    OLDER_SUBMIT(BASE "/addByAdmin/new/:externalId"),
    OLDER_SUBMIT(BASE "/:externalId"),
    {.method = "GET", .path = BASE "/new/:externalId", .roles = ROLES, .handler = reading_list,
     .segments = BB_TABLE(device_segment), .query = BB_TABLE(list_query),
     .reply = BB_TABLE(list_reply), .help = "A device's readings, by their end."},
    {.method = "GET", .path = BASE "/new/:externalId/totals", .roles = ROLES,
     .handler = reading_totals, .segments = BB_TABLE(device_segment),
     .query = BB_TABLE(totals_query), .reply = BB_TABLE(totals_reply),
     .help = "A device's readings summed by days, months or years of a time zone."},
    {.method = "GET", .path = BASE "/latestread/:externalId", .roles = ROLES,
     .handler = reading_latest, .segments = BB_TABLE(device_segment),
     .query = BB_TABLE(organisation_query), .reply = BB_TABLE(stored),
     .help = "A device's latest reading."},
    {.method = "GET", .path = BASE "/refused", .roles = ROLES, .handler = reading_refused,
     .query = BB_TABLE(refused_query), .reply = BB_TABLE(refused_reply),
     .help = "Readings that were refused in the last 90 days, with the reason; newest first."},
};

static const struct bb_field accepted_payload[] = {
    {.name = "deviceId", .type = BB_INT, .flags = BB_REQUIRED},
    {.name = "externalId", .type = BB_TEXT, .flags = BB_REQUIRED | BB_NULLABLE},
    {.name = "uuid", .type = BB_UUID, .flags = BB_REQUIRED},
    {.name = "organizationId", .type = BB_INT, .flags = BB_REQUIRED},
    {.name = "type", .type = BB_CHOICE, .flags = BB_REQUIRED, .choices = types},
    {.name = "count", .type = BB_INT, .flags = BB_REQUIRED, .help = "Readings of this type."},
    {.name = "startDate", .type = BB_TIME, .flags = BB_REQUIRED, .help = "Of the first."},
    {.name = "endDate", .type = BB_TIME, .flags = BB_REQUIRED, .help = "Of the last."},
    {.name = "value", .type = BB_INT, .flags = BB_REQUIRED, .help = "Their sum, Wh."},
    {.name = "unit", .type = BB_TEXT, .flags = BB_REQUIRED, .help = "Always Wh."},
};

static const struct bb_event_face events[] = {
    {.name = "reading.accepted", .version = 1, .payload = BB_TABLE(accepted_payload),
     .help = "Readings of a device were stored: one event for those of a type in a request."},
};

static const struct bb_readings readings = {.size = sizeof(readings)};
static const struct bb_service_face services[] = {
    {.name = "readings", .version = 4, .interface = &readings},
    {.name = BB_BULK_ROWS "Reads", .version = 1, .interface = &reading_rows},
};

/* In the order of enum reading_metric. */
static const struct bb_metric metrics[] = {
    {.name = "accepted_total", .kind = BB_COUNTER, .help = "Readings that were stored."},
    {.name = "over_ceiling_total", .kind = BB_COUNTER,
     .help = "Readings that were refused: above the plausible ceiling of their device."},
};

static const struct bb_need needs[] = {{"devices", 4}};

static const struct bb_job jobs[] = {
    {.name = "reading.partitions", .every_s = 86400, .flags = BB_ONCE, .run = reading_partitions},
    {.name = "reading.refused", .every_s = 3600, .flags = BB_ONCE, .run = reading_sweep_refused},
};

static const struct bb_pool pools[] = {{.name = READING_POOL, .threads = 1, .queue = 64}};

BB_EXPORT const struct bb_module busbar_module = {
    BB_MODULE_HEAD("reading", "1.0.0"),
    .schema = reading_schema,
    .settings = BB_TABLE(settings),
    .routes = BB_TABLE(routes),
    .events = BB_TABLE(events),
    .services = BB_TABLE(services),
    .needs = BB_TABLE(needs),
    .jobs = BB_TABLE(jobs),
    .pools = BB_TABLE(pools),
    .metrics = BB_TABLE(metrics),
    .open = reading_open,
    .close = reading_close,
};
