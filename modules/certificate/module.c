/*
 * The tables of the certificate module, and the functions that open and close it. The tables are
 * hand-formatted, because clang-format would spread a row over six lines. The fields in the tables
 * that certificate.h declares have the order of the statements' columns.
 */
#include <string.h>

#include "modules/certificate/certificate.h"
#include "modules/certificate/schema.h"
#include "modules/common/csv.h"
#include "modules/common/slots.h"
#include "modules/common/tables.h"

static int certificate_open(struct bb_host *host, void **state)
{
    struct certificate *certificate = bb_host_alloc(host, sizeof(*certificate));
    const struct certificate_settings *settings = bb_settings(host);
    struct bb_service devices = bb_service(host, "devices");
    struct bb_service readings = bb_service(host, "readings");
    struct slots *exports =
        slots_new(host, settings->exports, settings->exports_per_account, "exports");

    if (!certificate || !exports)
        return bb_open_fail(host, "out of memory");
    certificate->settings = settings;
    certificate->internal = strcmp(settings->issuer, "internal") == 0;
    certificate->first_status = certificate->internal ? "Succeeded" : "Requested";
    certificate->exports = exports;
    certificate->devices = devices.interface;
    certificate->devices_state = devices.state;
    certificate->readings = readings.interface;
    certificate->readings_state = readings.state;
    *state = certificate;
    return 0;
}

static void certificate_close(struct bb_host *host, void *state)
{
    const struct certificate *certificate = state;

    (void)host;
    slots_free(certificate->exports);
}

// clang-format off

static const char *const issuer[] = {"internal", "external", NULL};
static const struct bb_field email_item[] = {{.name = "item", .type = BB_EMAIL}};

#define SETTINGS struct certificate_settings
static const struct bb_field settings[] = {
    SETTING_INT(threshold, 0, 1, 1000000000, "1000",
        "Minimum energy in Wh for a certificate. For a reading of the type History, its energy "
        "counts; for a group of devices, the energy of a cycle."),
    SETTING_CHOICE(issuer, issuer, "internal",
        "internal: certificates are Succeeded at once. external: an external issuer sets their status."),
    {.name = "issuers", .type = BB_LIST, .max = 256, .fallback = "[]",
     .fields = BB_TABLE(email_item),
     .bind = BB_BIND(struct certificate_settings, issuers),
     .help = "Accounts that may set the status of certificates, in addition to "
             "Admins.", .example = "[registry@example.org]"},
    SETTING_INT(exports_per_account, 0, 1, 1000, "4",
        "Maximum number of exports of the log in progress for an account on each host. Further "
        "requests get 429."),
    SETTING_INT(exports, 0, 1, 1000, "32",
        "Maximum number of exports of the log in progress on each host. Further requests get 503."),
};

#define ID(field, text) {.name = (field), .type = BB_INT, .min = 1, .max = INT64_MAX, .help = (text)}
static const struct bb_field id_segment[] = {ID("id", "The log entry.")};
static const struct bb_field group_segment[] = {ID("id", "The group.")};

static const char *const statuses[] = {"Requested", "Succeeded", "Failed", "Retry",
                                       "Cancelled", "Carried",   NULL};
static const char *const outcomes[] = {"Succeeded", "Failed", "Retry", "Cancelled", NULL};
static const char *const frequencies[] = {"hourly",  "daily",     "weekly",
                                          "monthly", "quarterly", "yearly", NULL};

#define ORGANIZATION                                                                               \
    {.name = "organizationId", .type = BB_INT, .flags = BB_NULLABLE, .min = 1, .max = INT64_MAX,   \
     .help = "Only this organization. Default: all your organizations."}

#define FILTER                                                                                     \
    ID("deviceId", "Only entries of this device."),                                                \
    ID("groupId", "Only entries of this group."),                                                  \
    {.name = "start", .type = BB_TIME, .help = "Only periods that start at or after this time."},  \
    {.name = "end", .type = BB_TIME, .help = "Only periods that start before this time."},         \
    {.name = "status", .type = BB_CHOICE, .choices = statuses,                                     \
     .help = "Only entries in this state."},                                                       \
    {.name = "minWatthour", .type = BB_INT, .min = INT64_MIN, .max = INT64_MAX,                    \
     .help = "Only entries with at least this energy, in Wh."},                                    \
    {.name = "maxWatthour", .type = BB_INT, .min = INT64_MIN, .max = INT64_MAX,                    \
     .help = "Only entries with at most this energy, in Wh."},                                     \
    {.name = "externalId", .type = BB_TEXT, .min = 1, .max = 255,                                  \
     .help = "Only devices with this externalId (ignoring case) or uuid."},                        \
    {.name = "countryCode", .type = BB_TEXT, .min = 1, .max = 64,                                  \
     .help = "Only devices in this country; DE and DEU are the same."},                            \
    {.name = "fuelCode", .type = BB_TEXT, .min = 1, .max = 64,                                     \
     .help = "Only devices with this fuelCode."},                                                  \
    {.name = "deviceTypeCode", .type = BB_TEXT, .min = 1, .max = 64,                               \
     .help = "Only devices with this deviceTypeCode."},                                            \
    ORGANIZATION

#define LIMIT(what) QUERY_LIMIT(1000, what " per page (default 100).")

static const struct bb_field log_query[] = {
    FILTER,
    LIMIT("Entries"),
    QUERY_AFTER(.type = BB_TEXT, .max = 64),
};
static const struct bb_field export_query[] = {FILTER};
static const char *const sums[] = {"device", "group", "month", NULL};
static const struct bb_field totals_query[] = {
    {.name = "by", .type = BB_CHOICE, .choices = sums,
     .help = "Sum by month (in UTC, the default), device or group."},
    FILTER,
    LIMIT("Sums"),
    QUERY_AFTER(.type = BB_INT, .min = INT64_MIN, .max = INT64_MAX),
};
static const struct bb_field pages_query[] = {
    {.name = "pageNumber", .type = BB_INT, .min = 1, .max = 1000000000,
     .help = "Number of the page, from 1."},
    ID("groupId", "Only entries of this group."),
    {.name = "start_date", .type = BB_TIME,
     .help = "Only periods that start on this day (UTC) or later."},
    {.name = "end_date", .type = BB_TIME,
     .help = "Only periods that start on this day (UTC) or earlier."},
    ORGANIZATION,
};
static const struct bb_field one_query[] = {ORGANIZATION};
static const struct bb_field groups_query[] = {
    LIMIT("Groups"),
    QUERY_AFTER(.type = BB_INT, .min = 0, .max = INT64_MAX),
    ORGANIZATION,
};

static const struct bb_field change_body[] = {
    {.name = "status", .type = BB_CHOICE, .flags = BB_REQUIRED, .choices = outcomes,
     .help = "The new status. Succeeded and Cancelled are final."},
};

static const struct bb_field device_item[] = {
    {.name = "item", .type = BB_INT, .min = 1, .max = INT64_MAX},
};
static const struct bb_field device_key[] = {
    {.name = "item", .type = BB_ANY, .help = "A number: the id. A text: externalId, uuid or id."},
};
#define DEVICES                                                                                    \
    {.name = "deviceIds", .type = BB_LIST, .flags = BB_REQUIRED, .min = 1,                         \
     .max = CERTIFICATE_GROUP_MOST, .fields = BB_TABLE(device_key),                                \
     .help = "Devices of the organization, by id, uuid or externalId. They must not be in "        \
             "another group.",                                                                     \
     .example = "[\"PLANT-7\"]"}
static const struct bb_field group_body[] = {
    {.name = "name", .type = BB_TEXT, .flags = BB_REQUIRED | BB_NOT_BLANK | BB_NAME, .min = 1,
     .max = 255, .help = "Name of the group.", .example = "Rooftops"},
    DEVICES,
    {.name = "frequency", .type = BB_CHOICE, .flags = BB_REQUIRED, .choices = frequencies,
     .help = "Length of an issuance cycle.", .example = "daily"},
    {.name = "start", .type = BB_TIME, .flags = BB_REQUIRED,
     .help = "When the first cycle begins.", .example = "2026-01-01T00:00:00Z"},
    {.name = "end", .type = BB_TIME, .flags = BB_NULLABLE,
     .help = "When the last cycle ends. Default: never."},
    {.name = "organizationId", .type = BB_INT, .flags = BB_NULLABLE, .min = 1, .max = INT64_MAX,
     .help = "The organization of the group. Default: your organization."},
};

static const struct bb_field group_change_body[] = {
    {.name = "name", .type = BB_TEXT, .flags = BB_NOT_BLANK | BB_NAME, .min = 1, .max = 255,
     .help = "The new name.", .example = "Rooftops, south"},
    {.name = "end", .type = BB_TIME, .flags = BB_CLEARS,
     .help = "When the group ends. Must be after the start of the current cycle. null: never."},
};
static const struct bb_field join_body[] = {DEVICES};
static const struct bb_field member_segments[] = {
    ID("id", "The group."),
    {.name = "deviceId", .type = BB_TEXT, .min = 1, .max = 255,
     .help = "The device: its id (digits), externalId or uuid.", .example = "PLANT-7"},
};
static const struct bb_field share_body[] = {
    {.name = "organizationId", .type = BB_INT, .flags = BB_REQUIRED, .min = 1, .max = INT64_MAX,
     .help = "The organization that may read the group's certificates.", .example = "5"},
};
static const struct bb_field share_segments[] = {
    ID("id", "The group."),
    ID("organizationId", "The organization."),
};
const struct bb_field certificate_share_fields[] = {
    {.name = "organizationId", .type = BB_INT, .flags = BB_REQUIRED, .example = "5"},
    {.name = "sharedAt", .type = BB_TIME, .flags = BB_REQUIRED},
};

#define GROUP                                                                                      \
    {.name = "id", .type = BB_INT, .flags = BB_REQUIRED},                                          \
    {.name = "name", .type = BB_TEXT, .flags = BB_REQUIRED, .example = "Rooftops"},                \
    {.name = "frequency", .type = BB_CHOICE, .flags = BB_REQUIRED, .choices = frequencies,         \
     .example = "daily"},                                                                          \
    {.name = "start", .type = BB_TIME, .flags = BB_REQUIRED, .example = "2026-01-01T00:00:00Z"},   \
    {.name = "end", .type = BB_TIME, .flags = NULLABLE, .example = "null"}
const struct bb_field certificate_group_fields[] = {
    GROUP,
    {.name = "deviceIds", .type = BB_LIST, .flags = BB_REQUIRED, .fields = BB_TABLE(device_item)},
    {.name = "organizationId", .type = BB_INT, .flags = BB_REQUIRED, .example = "2"},
    {.name = "carriedWatthour", .type = BB_INT, .flags = BB_REQUIRED, .example = "400",
     .help = "Measured energy in Wh that is carried over to the next certificate."},
    {.name = "createdAt", .type = BB_TIME, .flags = BB_REQUIRED},
};

const struct bb_field certificate_shared_fields[] = {
    GROUP,
    {.name = "organizationId", .type = BB_INT, .flags = BB_REQUIRED,
     .help = "The organization of the group.", .example = "2"},
    {.name = "sharedAt", .type = BB_TIME, .flags = BB_REQUIRED},
};

#define NEXT_DAY "2026-04-02T00:00:00Z"
#define PERIOD                                                                                     \
    {.name = "certificate_issuance_start", .type = BB_TIME, .flags = BB_REQUIRED},                 \
    {.name = "certificate_issuance_end", .type = BB_TIME, .flags = BB_REQUIRED, .example = NEXT_DAY}
#define ENTRY_STATUS                                                                               \
    {.name = "status", .type = BB_CHOICE, .flags = BB_REQUIRED, .choices = statuses,               \
     .example = "Succeeded"}
#define ENERGY                                                                                     \
    {.name = "readvalue_watthour", .type = BB_INT, .flags = BB_REQUIRED, .example = "31000"}
const struct bb_field certificate_entry_fields[] = {
    {.name = "id", .type = BB_INT, .flags = BB_REQUIRED},
    PERIOD,
    ENERGY,
    ENTRY_STATUS,
    {.name = "externalId", .type = BB_UUID, .flags = NULLABLE, .help = "The uuid of the device."},
    {.name = "developerId", .type = BB_TEXT, .flags = NULLABLE,
     .help = "The externalId of the device.", .example = "PLANT-7"},
    {.name = "serialNumber", .type = BB_TEXT, .flags = NULLABLE, .example = "SN-4711"},
    {.name = "deviceId", .type = BB_INT, .flags = BB_REQUIRED},
    {.name = "groupId", .type = BB_INT, .flags = NULLABLE,
     .help = "null for certificates of History readings."},
    {.name = "certificateTransactionUID", .type = BB_UUID, .flags = BB_REQUIRED},
    {.name = "timezone", .type = BB_TEXT, .flags = NULLABLE, .example = "Europe/Berlin"},
    {.name = "ongoing_start_date", .type = BB_TIME, .flags = NULLABLE,
     .help = "Start of the issuance cycle; null for History."},
    {.name = "ongoing_end_date", .type = BB_TIME, .flags = NULLABLE, .example = NEXT_DAY,
     .help = "End of the issuance cycle; null for History."},
};
static const struct bb_field total[] = {
    {.name = "month", .type = BB_TIME, .help = "Only when summed by month: its start.",
     .example = "2026-04-01T00:00:00.000Z"},
    {.name = "groupId", .type = BB_INT, .flags = BB_NULLABLE,
     .help = "Only when summed by group; null for History."},
    {.name = "deviceId", .type = BB_INT,
     .help = "Only when summed by device, like the next three."},
    {.name = "externalId", .type = BB_UUID, .flags = BB_NULLABLE,
     .help = "The uuid of the device."},
    {.name = "developerId", .type = BB_TEXT, .flags = BB_NULLABLE,
     .help = "The externalId of the device."},
    {.name = "serialNumber", .type = BB_TEXT, .flags = BB_NULLABLE},
    {.name = "entries", .type = BB_INT, .flags = BB_REQUIRED, .example = "30"},
    {.name = "readvalue_watthour", .type = BB_INT, .flags = BB_REQUIRED, .example = "942000",
     .help = "Wh of all these entries."},
    {.name = "succeeded_watthour", .type = BB_INT, .flags = BB_REQUIRED, .example = "942000",
     .help = "Wh of the entries that are Succeeded."},
    {.name = "carried_watthour", .type = BB_INT, .flags = BB_REQUIRED, .example = "0",
     .help = "Wh of the entries that are Carried."},
};
#define CERTIFICATE(which)                                                                         \
    {.name = "certificateTransactionUID", .type = BB_UUID, .flags = BB_REQUIRED},                  \
    {.name = "groupId", .type = BB_INT, .flags = NULLABLE},                                        \
    {.name = "organizationId", .type = BB_INT, .flags = BB_REQUIRED, .example = "2"},              \
    PERIOD,                                                                                        \
    {.name = "issued_watthour", .type = BB_INT, .flags = BB_REQUIRED, .example = "31000",          \
     .help = "Energy of the certificate in Wh; whole kWh for a group."},                           \
    {.name = "perDeviceCertificateLog", .type = BB_LIST, .flags = BB_REQUIRED,                     \
     .fields = BB_ITEMS(certificate_entry_fields), .help = "The " which " of the certificate."}
const struct bb_field certificate_fields[] = {CERTIFICATE("entries on this page")};
static const struct bb_field whole_certificate[] = {
    CERTIFICATE("first 10 entries"),
    {.name = "createdAt", .type = BB_TIME, .flags = BB_REQUIRED},
    {.name = "entries", .type = BB_INT, .flags = BB_REQUIRED, .help = "The number of all entries."},
};
static const struct bb_field pages_reply[] = {
    {.name = "certificatelog", .type = BB_LIST, .flags = BB_REQUIRED,
     .fields = BB_ITEMS(certificate_fields)},
    {.name = "currentPage", .type = BB_INT, .flags = BB_REQUIRED},
    {.name = "totalPages", .type = BB_INT, .flags = BB_REQUIRED},
    {.name = "totalCount", .type = BB_INT, .flags = BB_REQUIRED,
     .help = "Number of entries on all pages."},
};

static const char *const reasons[] = {
    "certified", "carried", "belowThreshold", "cycleNotEnded", "notIssuedYet", "noReading", "inNoGroup",
    "beforeGroup", "longerThanCycle", "aboveCeiling", "refused", "voided", NULL};
static const char *const reading_types[] = {"History", "Delta", NULL};
static const char *const discards[] = {"refused", "voided", NULL};
static const struct bb_field explain_query[] = {
    {.name = "deviceId", .type = BB_TEXT, .flags = BB_REQUIRED, .min = 1, .max = 255,
     .help = "The device: its id (digits), externalId, uuid or serialNumber.",
     .example = "PLANT-7"},
    {.name = "at", .type = BB_TIME, .flags = BB_REQUIRED, .help = "The point in time to explain.",
     .example = "2026-04-01T12:00:00Z"},
    ORGANIZATION,
};
static const struct bb_field coverage_segment[] = {
    {.name = "externalId", .type = BB_TEXT, .min = 1, .max = 255,
     .help = "The device: its externalId, uuid or serialNumber.", .example = "PLANT-7"},
};
static const struct bb_field coverage_query[] = {
    {.name = "from", .type = BB_TIME,
     .help = "Start of the period. Default: 366 days before its end, or the commissioning if it is "
             "later."},
    {.name = "to", .type = BB_TIME, .help = "End of the period. Default: now."},
    ORGANIZATION,
};
static const struct bb_field account_entry[] = {
    {.name = "certificateTransactionUID", .type = BB_UUID, .flags = BB_REQUIRED},
    ENTRY_STATUS,
    ENERGY,
};
#define UNIT                                                                                       \
    {.name = "unit", .type = BB_TEXT, .flags = BB_REQUIRED, .help = "Wh", .example = "Wh"}
#define READING(required)                                                                          \
    {.name = "type", .type = BB_CHOICE, .flags = (required), .choices = reading_types,             \
     .example = "Delta"},                                                                          \
    {.name = "startDate", .type = BB_TIME, .flags = (required)},                                   \
    {.name = "endDate", .type = BB_TIME, .flags = (required), .example = NEXT_DAY},                \
    {.name = "value", .type = BB_INT, .flags = (required), .example = "31400"},                    \
    UNIT
#define JUDGED                                                                                     \
    READING(BB_REQUIRED),                                                                          \
    {.name = "reason", .type = BB_CHOICE, .flags = BB_REQUIRED, .choices = reasons,                \
     .help = "Why the reading is certified, or not."},                                                       \
    {.name = "entries", .type = BB_LIST, .flags = BB_REQUIRED, .fields = BB_ITEMS(account_entry),   \
     .help = "Log entries of the device for the reading's cycle, or for the History reading."}
const struct bb_field certificate_reading_fields[] = {
    JUDGED,
    {.name = "covers", .type = BB_BOOL, .flags = BB_REQUIRED,
     .help = "Whether the period of the reading contains the time `at`."},
};
static const struct bb_field judged_reading[] = {JUDGED};
const struct bb_field certificate_discarded_fields[] = {
    {.name = "what", .type = BB_CHOICE, .flags = BB_REQUIRED, .choices = discards},
    READING(NULLABLE),
    {.name = "at", .type = BB_TIME, .flags = BB_REQUIRED, .help = "When the reading was refused or "
                                                                  "voided."},
    {.name = "problem", .type = BB_TEXT, .flags = BB_REQUIRED,
     .help = "Why the reading was refused or voided.", .example = "The meter was swapped"},
};
static const struct bb_field explained_group[] = {GROUP};
const struct bb_field certificate_cycle_fields[] = {
    {.name = "start", .type = BB_TIME, .flags = BB_REQUIRED},
    {.name = "end", .type = BB_TIME, .flags = BB_REQUIRED, .example = NEXT_DAY},
    {.name = "ended", .type = BB_BOOL, .flags = BB_REQUIRED},
};
static const struct bb_field explain_reply[] = {
    {.name = "deviceId", .type = BB_INT, .flags = BB_REQUIRED},
    {.name = "externalId", .type = BB_TEXT, .flags = NULLABLE, .example = "PLANT-7"},
    {.name = "reason", .type = BB_CHOICE, .flags = BB_REQUIRED, .choices = reasons},
    {.name = "explanation", .type = BB_TEXT, .flags = BB_REQUIRED, .help = "The reason in a sentence.",
     .example = "A certificate was issued for the cycle with this reading."},
    {.name = "group", .type = BB_OBJECT, .flags = NULLABLE, .fields = BB_TABLE(explained_group)},
    {.name = "cycle", .type = BB_OBJECT, .flags = NULLABLE, .fields = BB_TABLE(certificate_cycle_fields),
     .help = "The cycle of the Delta reading that covers the time `at`, or else the cycle at this "
             "time."},
    {.name = "readings", .type = BB_LIST, .flags = BB_REQUIRED, .fields = BB_ITEMS(certificate_reading_fields),
     .help = "The reading that covers the time `at`, and the Delta readings that end in the cycle; up to 1,000."},
    {.name = "discarded", .type = BB_LIST, .flags = BB_REQUIRED, .fields = BB_ITEMS(certificate_discarded_fields),
     .help = "The newest 20 refused and voided readings that cover the time `at`."},
};
const struct bb_field certificate_sum_fields[] = {
    {.name = "reason", .type = BB_CHOICE, .flags = BB_REQUIRED, .choices = reasons},
    {.name = "reads", .type = BB_INT, .flags = BB_REQUIRED, .example = "30"},
    {.name = "value", .type = BB_INT, .flags = BB_REQUIRED, .example = "942000"},
    UNIT,
};
const struct bb_field certificate_gap_fields[] = {
    {.name = "startDate", .type = BB_TIME, .flags = BB_REQUIRED},
    {.name = "endDate", .type = BB_TIME, .flags = BB_REQUIRED, .example = NEXT_DAY},
};
static const struct bb_field coverage_reply[] = {
    {.name = "deviceId", .type = BB_INT, .flags = BB_REQUIRED},
    {.name = "externalId", .type = BB_TEXT, .flags = NULLABLE, .example = "PLANT-7"},
    {.name = "from", .type = BB_TIME, .flags = BB_REQUIRED},
    {.name = "to", .type = BB_TIME, .flags = BB_REQUIRED, .example = "2026-05-01T00:00:00Z"},
    {.name = "sums", .type = BB_LIST, .flags = BB_REQUIRED, .fields = BB_ITEMS(certificate_sum_fields),
     .help = "Sums of the readings of the period, by reason."},
    {.name = "gaps", .type = BB_LIST, .flags = BB_REQUIRED, .fields = BB_ITEMS(certificate_gap_fields),
     .help = "Periods without a reading; up to 1,000."},
    {.name = "notCertified", .type = BB_LIST, .flags = BB_REQUIRED, .fields = BB_ITEMS(judged_reading),
     .help = "Delta readings that no group certifies, or only in part; up to 1,000."},
};

#define MANAGERS                                                                                   \
    (BB_ROLE_ADMIN | BB_ROLE_ORGANIZATION_ADMIN | BB_ROLE_DEVICE_OWNER | BB_ROLE_API_USER)
#define READERS (MANAGERS | BB_ROLE_BUYER)
#define LOG "/api/certificate-log"
#define GROUPS "/api/device-group"

static const struct bb_route routes[] = {
    {.method = "POST", .path = GROUPS, .roles = MANAGERS, .handler = certificate_group_create,
     .errors = conflict_or_absent, .flags = BB_CREATES | BB_AUDITED, .query = BB_TABLE(one_query),
     .body = BB_TABLE(group_body),
     .success = 201, .reply = BB_TABLE(certificate_group_fields),
     .help = "Create a device group. For each cycle, one certificate is issued for the Delta "
             "readings of all its devices."},
    {.method = "GET", .path = GROUPS, .roles = MANAGERS, .handler = certificate_group_list,
     .query = BB_TABLE(groups_query), .reply = BB_ARRAY_OF(certificate_group_fields),
     .help = "List device groups, oldest first."},
    {.method = "GET", .path = GROUPS "/shared", .roles = READERS,
     .handler = certificate_group_shared, .query = BB_TABLE(groups_query),
     .reply = BB_ARRAY_OF(certificate_shared_fields),
     .help = "List device groups that other organizations share with yours, oldest first. Read their "
             "certificates with the filter `groupId` of the log."},
    {.method = "GET", .path = GROUPS "/:id", .roles = MANAGERS, .handler = certificate_group_get,
     .segments = BB_TABLE(group_segment), .query = BB_TABLE(one_query), .reply = BB_TABLE(certificate_group_fields),
     .help = "Get a device group."},
    {.method = "PATCH", .path = GROUPS "/:id", .flags = BB_AUDITED, .roles = MANAGERS,
     .handler = certificate_group_change, .errors = conflict, .segments = BB_TABLE(group_segment),
     .query = BB_TABLE(one_query), .body = BB_TABLE(group_change_body), .reply = BB_TABLE(certificate_group_fields),
     .help = "Rename a device group, or set its end."},
    {.method = "DELETE", .path = GROUPS "/:id", .flags = BB_AUDITED, .roles = MANAGERS,
     .handler = certificate_group_delete, .errors = conflict, .segments = BB_TABLE(group_segment),
     .query = BB_TABLE(one_query), .reply = BB_TABLE(success_reply),
     .help = "Delete a device group. 409 when energy of the group has been certified: set its "
             "`end` instead."},
    {.method = "POST", .path = GROUPS "/:id/devices", .flags = BB_AUDITED, .roles = MANAGERS,
     .handler = certificate_group_join, .errors = conflict, .segments = BB_TABLE(group_segment),
     .query = BB_TABLE(one_query), .body = BB_TABLE(join_body), .reply = BB_TABLE(certificate_group_fields),
     .help = "Add devices to a group, from its next cycle on."},
    {.method = "DELETE", .path = GROUPS "/:id/devices/:deviceId", .flags = BB_AUDITED, .roles = MANAGERS,
     .handler = certificate_group_leave, .segments = BB_TABLE(member_segments),
     .query = BB_TABLE(one_query), .reply = BB_TABLE(certificate_group_fields),
     .help = "Remove a device from a group at the end of the current cycle."},
    {.method = "GET", .path = GROUPS "/:id/share", .roles = MANAGERS,
     .handler = certificate_group_shares, .segments = BB_TABLE(group_segment),
     .query = BB_TABLE(one_query), .reply = BB_ARRAY_OF(certificate_share_fields),
     .help = "List the organizations that a group is shared with."},
    {.method = "POST", .path = GROUPS "/:id/share", .flags = BB_AUDITED, .roles = MANAGERS,
     .handler = certificate_group_share, .segments = BB_TABLE(group_segment),
     .query = BB_TABLE(one_query), .body = BB_TABLE(share_body), .reply = BB_ARRAY_OF(certificate_share_fields),
     .help = "Share a group with an organization. The organization can then only read the group "
             "and its certificates."},
    {.method = "DELETE", .path = GROUPS "/:id/share/:organizationId", .flags = BB_AUDITED, .roles = MANAGERS,
     .handler = certificate_group_unshare, .segments = BB_TABLE(share_segments),
     .query = BB_TABLE(one_query), .reply = BB_ARRAY_OF(certificate_share_fields),
     .help = "Stop sharing a group with an organization."},
    {.method = "GET", .path = LOG, .roles = READERS, .handler = certificate_log,
     .query = BB_TABLE(log_query), .reply = BB_ARRAY_OF(certificate_entry_fields),
     .help = "List entries of the certificate log, newest period first."},
    {.method = "GET", .path = LOG "/issuer/certifiedlogOfdevices", .roles = READERS,
     .handler = certificate_pages, .query = BB_TABLE(pages_query), .reply = BB_TABLE(pages_reply),
     .help = "List certificates with their log entries, in numbered pages of 20 entries."},
    {.method = "GET", .path = LOG "/export.csv", .roles = READERS, .handler = certificate_export,
     .reply = CSV_REPLY(
        "id,certificate_issuance_start,certificate_issuance_end,readvalue_watthour,status,"
        "externalId,developerId,serialNumber,deviceId,groupId,certificateTransactionUID,"
        "timezone,ongoing_start_date,ongoing_end_date,siteName,organizationId,"
        "certificate_start,certificate_end,issued_watthour\r\n"), .reply_type = "text/csv",
     .query = BB_TABLE(export_query), .help = "Download the certificate log as CSV."},
    {.method = "GET", .path = LOG "/totals", .roles = READERS, .handler = certificate_totals,
     .query = BB_TABLE(totals_query), .reply = BB_ARRAY_OF(total),
     .help = "Sum the certificate log by month, device or group."},
    {.method = "GET", .path = LOG "/explain", .roles = MANAGERS, .handler = certificate_explain,
     .errors = conflict_or_absent, .query = BB_TABLE(explain_query), .reply = BB_TABLE(explain_reply),
     .help = "Explain whether the energy of a device at a point in time is certified, and why."},
    {.method = "GET", .path = "/api/device/:externalId/coverage", .roles = MANAGERS,
     .handler = certificate_coverage, .errors = conflict_or_absent,
     .segments = BB_TABLE(coverage_segment), .query = BB_TABLE(coverage_query),
     .reply = BB_TABLE(coverage_reply),
     .help = "List the gaps between the readings of a device, and which readings are certified."},
    {.method = "GET", .path = LOG "/:id", .roles = READERS, .handler = certificate_one,
     .segments = BB_TABLE(id_segment), .query = BB_TABLE(one_query), .reply = BB_TABLE(certificate_entry_fields),
     .help = "Get an entry of the certificate log."},
    {.method = "GET", .path = LOG "/:id/certificate", .roles = READERS,
     .handler = certificate_of_entry, .segments = BB_TABLE(id_segment), .query = BB_TABLE(one_query),
     .reply = BB_TABLE(whole_certificate),
     .help = "Get the certificate of an entry. 404 also if the entry is Carried: it is in no certificate yet."},
    {.method = "PATCH", .path = LOG "/:id", .roles = BB_ANY_ROLE, .handler = certificate_change, .flags = BB_AUDITED,
     .errors = conflict,
     .segments = BB_TABLE(id_segment), .body = BB_TABLE(change_body), .reply = BB_TABLE(certificate_entry_fields),
     .help = "Set the status of an entry. For an external issuer."},
};

static const struct bb_field issued_payload[] = {
    {.name = "certificateTransactionUID", .type = BB_UUID, .flags = BB_REQUIRED},
    {.name = "organizationId", .type = BB_INT, .flags = BB_REQUIRED},
    {.name = "groupId", .type = BB_INT, .flags = NULLABLE,
     .help = "null for certificates of History readings."},
    PERIOD,
    {.name = "issued_watthour", .type = BB_INT, .flags = BB_REQUIRED},
    {.name = "entries", .type = BB_INT, .flags = BB_REQUIRED, .help = "Number of log entries of "
                                                                      "the certificate."},
};

static const struct bb_event_descriptor events[] = {
    {.name = "certificate.issued", .version = 1, .payload = BB_TABLE(issued_payload),
     .help = "A certificate for a History reading or for a cycle of a group was issued."},
};

static const struct bb_certificates certificates = {.size = sizeof(certificates)};
static const struct bb_service_descriptor services[] = {
    {.name = "certificates", .version = 1, .interface = &certificates},
};

static const struct bb_hook hooks[] = {
    {.event = "device.updated", .kind = BB_WITHIN, .within = certificate_device_changed},
};

static const struct bb_need needs[] = {{"accounts", 1}, {"devices", 1}, {"readings", 1}};

static const struct bb_job jobs[] = {
    {.name = "certificate.issue", .every_s = 10, .flags = BB_ONCE, .run = certificate_issue},
};

static const struct bb_command commands[] = {
    {.name = "certificate issue", .run = certificate_command_issue, .flags = BB_COMMAND_LONG,
     .help = "Issues the certificates that are due now; the job does this every ten seconds. Exit "
             "status: 0 no work is left, 1 a step failed, 130 interrupted."},
};

BB_EXPORT const struct bb_module busbar_module = {
    BB_MODULE_HEAD("certificate", "1.0.0"),
    .help = "Device groups, and the log of issued certificates.",
    .schema = certificate_schema,
    .settings = BB_TABLE(settings),
    .settings_size = sizeof(struct certificate_settings),
    .routes = BB_TABLE(routes),
    .events = BB_TABLE(events),
    .hooks = BB_TABLE(hooks),
    .services = BB_TABLE(services),
    .needs = BB_TABLE(needs),
    .jobs = BB_TABLE(jobs),
    .commands = BB_TABLE(commands),
    .open = certificate_open,
    .close = certificate_close,
};
