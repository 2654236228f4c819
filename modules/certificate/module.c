/* certificate: its tables, and nothing else. A row is a line or three; clang-format makes it six.
 */
#include "certificate.h"

#include "modules/certificate/schema.h"

// clang-format off

static const char *const issuer[] = {"internal", "external", NULL};
static const struct bb_field email_item[] = {{.name = "item", .type = BB_EMAIL}};

static const struct bb_field settings[] = {
    {.name = "threshold", .type = BB_INT, .min = 1, .max = 1000000000, .fallback = "1000",
     .help = "Wh from which on a History reading, or a group's cycle, is issued."},
    {.name = "issuer", .type = BB_CHOICE, .choices = issuer, .fallback = "internal",
     .help = "internal: what is requested succeeds; external: somebody says what became of it."},
    {.name = "issuers", .type = BB_LIST, .max = 256, .fallback = "[]",
     .fields = BB_TABLE(email_item),
     .help = "Accounts that may say so, beside the Admins.", .example = "[registry@example.org]"},
    {.name = "exports_per_account", .type = BB_INT, .min = 1, .max = 1000, .fallback = "4",
     .help = "Exports of the log that an account may have under way on a host; more: 429."},
    {.name = "exports", .type = BB_INT, .min = 1, .max = 1000, .fallback = "32",
     .help = "Exports under way on a host, of all accounts; more: 503."},
};

static const struct bb_field id_segment[] = {
    {.name = "id", .type = BB_INT, .min = 1, .max = INT64_MAX, .help = "The log entry."},
};

static const struct bb_field group_segment[] = {
    {.name = "id", .type = BB_INT, .min = 1, .max = INT64_MAX, .help = "The group."},
};

static const char *const statuses[] = {"Requested", "Succeeded", "Failed",
                                       "Retry",     "Cancelled", NULL};
static const char *const outcomes[] = {"Succeeded", "Failed", "Retry", "Cancelled", NULL};
static const char *const frequencies[] = {"hourly",  "daily",     "weekly",
                                          "monthly", "quarterly", "yearly", NULL};

#define ORGANISATION                                                                               \
    {.name = "organizationId", .type = BB_INT, .flags = BB_NULLABLE, .min = 1, .max = INT64_MAX,   \
     .help = "Only this organisation; without it all of the caller's."}

#define FILTER                                                                                     \
    {.name = "deviceId", .type = BB_INT, .min = 1, .max = INT64_MAX, .help = "Of this device."},   \
    {.name = "groupId", .type = BB_INT, .min = 1, .max = INT64_MAX, .help = "Of this group."},     \
    {.name = "start", .type = BB_TIME, .help = "Periods that begin then or later."},               \
    {.name = "end", .type = BB_TIME, .help = "Periods that begin earlier."},                       \
    {.name = "status", .type = BB_CHOICE, .choices = statuses, .help = "In this state."},          \
    {.name = "minWatthour", .type = BB_INT, .min = 0, .max = INT64_MAX,                            \
     .help = "Of at least so many Wh."},                                                           \
    {.name = "maxWatthour", .type = BB_INT, .min = 0, .max = INT64_MAX,                            \
     .help = "Of at most so many Wh."},                                                            \
    ORGANISATION

static const struct bb_field log_query[] = {
    FILTER,
    {.name = "limit", .type = BB_INT, .min = 1, .max = 1000, .help = "Entries in a page (100)."},
    {.name = "after", .type = BB_TEXT, .max = 64, .help = "Cursor of a Link header."},
};
static const struct bb_field export_query[] = {FILTER};
static const struct bb_field pages_query[] = {
    {.name = "pageNumber", .type = BB_INT, .min = 1, .max = 1000000000, .help = "From 1 on."},
    {.name = "start_date", .type = BB_TIME, .help = "First day (UTC) on which a period begins."},
    {.name = "end_date", .type = BB_TIME, .help = "Last day (UTC) on which a period begins."},
    ORGANISATION,
};
static const struct bb_field one_query[] = {ORGANISATION};
static const struct bb_field group_query[] = {ORGANISATION};
static const struct bb_field groups_query[] = {
    {.name = "limit", .type = BB_INT, .min = 1, .max = 1000, .help = "Groups in a page (100)."},
    {.name = "after", .type = BB_INT, .min = 0, .max = INT64_MAX, .help = "Cursor of a Link header."},
    ORGANISATION,
};

static const struct bb_field change_body[] = {
    {.name = "status", .type = BB_CHOICE, .flags = BB_REQUIRED, .choices = outcomes,
     .help = "Succeeded and Cancelled are final."},
};

static const struct bb_field device_item[] = {
    {.name = "item", .type = BB_INT, .min = 1, .max = INT64_MAX},
};
static const struct bb_field device_key[] = {
    {.name = "item", .type = BB_ANY, .help = "A number: the id. A text: externalId, uuid or id."},
};
static const struct bb_field group_body[] = {
    {.name = "name", .type = BB_TEXT, .flags = BB_REQUIRED | BB_NOT_BLANK, .min = 1, .max = 255,
     .example = "Rooftops"},
    {.name = "deviceIds", .type = BB_LIST, .flags = BB_REQUIRED, .min = 1,
     .max = CERTIFICATE_GROUP_MOST, .fields = BB_TABLE(device_key),
     .help = "Devices of the organisation by id, uuid or externalId, each in no group yet."},
    {.name = "frequency", .type = BB_CHOICE, .flags = BB_REQUIRED, .choices = frequencies,
     .help = "Length of a cycle."},
    {.name = "start", .type = BB_TIME, .flags = BB_REQUIRED,
     .help = "When the first cycle begins.", .example = "2026-01-01T00:00:00Z"},
    {.name = "end", .type = BB_TIME, .flags = BB_NULLABLE, .help = "When the last one ends."},
    {.name = "organizationId", .type = BB_INT, .flags = BB_NULLABLE, .min = 1, .max = INT64_MAX,
     .help = "Organisation that it is for; without it the caller's own."},
};

static const struct bb_field rename_body[] = {
    {.name = "name", .type = BB_TEXT, .flags = BB_REQUIRED | BB_NOT_BLANK, .min = 1, .max = 255,
     .example = "Rooftops, south"},
};

static const struct bb_field group[] = {
    {.name = "id", .type = BB_INT, .flags = BB_REQUIRED},
    {.name = "name", .type = BB_TEXT, .flags = BB_REQUIRED},
    {.name = "frequency", .type = BB_CHOICE, .flags = BB_REQUIRED, .choices = frequencies},
    {.name = "start", .type = BB_TIME, .flags = BB_REQUIRED},
    {.name = "end", .type = BB_TIME, .flags = BB_REQUIRED | BB_NULLABLE},
    {.name = "deviceIds", .type = BB_LIST, .flags = BB_REQUIRED, .fields = BB_TABLE(device_item)},
    {.name = "organizationId", .type = BB_INT, .flags = BB_REQUIRED},
    {.name = "carriedWatthour", .type = BB_INT, .flags = BB_REQUIRED,
     .help = "Measured, and left for the next certificate."},
    {.name = "createdAt", .type = BB_TIME, .flags = BB_REQUIRED},
};

#define NULLABLE (BB_REQUIRED | BB_NULLABLE)
static const struct bb_field entry[] = {
    {.name = "id", .type = BB_INT, .flags = BB_REQUIRED},
    {.name = "certificate_issuance_start", .type = BB_TIME, .flags = BB_REQUIRED},
    {.name = "certificate_issuance_end", .type = BB_TIME, .flags = BB_REQUIRED},
    {.name = "readvalue_watthour", .type = BB_INT, .flags = BB_REQUIRED},
    {.name = "status", .type = BB_CHOICE, .flags = BB_REQUIRED, .choices = statuses},
    {.name = "externalId", .type = BB_UUID, .flags = NULLABLE, .help = "The device's uuid."},
    {.name = "developerId", .type = BB_TEXT, .flags = NULLABLE, .help = "Its externalId."},
    {.name = "serialNumber", .type = BB_TEXT, .flags = NULLABLE},
    {.name = "deviceId", .type = BB_INT, .flags = BB_REQUIRED},
    {.name = "groupId", .type = BB_INT, .flags = NULLABLE, .help = "null for History."},
    {.name = "certificateTransactionUID", .type = BB_UUID, .flags = BB_REQUIRED},
    {.name = "timezone", .type = BB_TEXT, .flags = NULLABLE},
    {.name = "ongoing_start_date", .type = BB_TIME, .flags = NULLABLE, .help = "The cycle's."},
    {.name = "ongoing_end_date", .type = BB_TIME, .flags = NULLABLE, .help = "The cycle's."},
};
static const struct bb_field entry_item[] = {
    {.name = "item", .type = BB_OBJECT, .fields = BB_TABLE(entry)},
};
static const struct bb_field log_reply[] = {
    {.name = ".", .type = BB_LIST, .fields = BB_TABLE(entry_item)},
};
static const struct bb_field issued[] = {
    {.name = "certificateTransactionUID", .type = BB_UUID, .flags = BB_REQUIRED},
    {.name = "groupId", .type = BB_INT, .flags = NULLABLE},
    {.name = "organizationId", .type = BB_INT, .flags = BB_REQUIRED},
    {.name = "certificate_issuance_start", .type = BB_TIME, .flags = BB_REQUIRED},
    {.name = "certificate_issuance_end", .type = BB_TIME, .flags = BB_REQUIRED},
    {.name = "issued_watthour", .type = BB_INT, .flags = BB_REQUIRED,
     .help = "What the certificate is for: whole kWh for a group."},
    {.name = "perDeviceCertificateLog", .type = BB_LIST, .flags = BB_REQUIRED,
     .fields = BB_TABLE(entry_item), .help = "Its entries on this page."},
};
static const struct bb_field issued_item[] = {
    {.name = "item", .type = BB_OBJECT, .fields = BB_TABLE(issued)},
};
static const struct bb_field pages_reply[] = {
    {.name = "certificatelog", .type = BB_LIST, .flags = BB_REQUIRED,
     .fields = BB_TABLE(issued_item)},
    {.name = "currentPage", .type = BB_INT, .flags = BB_REQUIRED},
    {.name = "totalPages", .type = BB_INT, .flags = BB_REQUIRED},
    {.name = "totalCount", .type = BB_INT, .flags = BB_REQUIRED, .help = "Entries on all pages."},
};
static const struct bb_field group_item[] = {
    {.name = "item", .type = BB_OBJECT, .fields = BB_TABLE(group)},
};
static const struct bb_field groups_reply[] = {
    {.name = ".", .type = BB_LIST, .fields = BB_TABLE(group_item)},
};

#define MANAGERS                                                                                   \
    (BB_ROLE_ADMIN | BB_ROLE_ORGANIZATION_ADMIN | BB_ROLE_DEVICE_OWNER | BB_ROLE_API_USER)
#define READERS (MANAGERS | BB_ROLE_BUYER)
#define LOG "/api/certificate-log"
#define GROUPS "/api/device-group"

static const struct bb_route routes[] = {
    {.method = "POST", .path = GROUPS, .roles = MANAGERS, .handler = certificate_group_create,
     .flags = BB_CREATES, .query = BB_TABLE(group_query), .body = BB_TABLE(group_body),
     .success = 201, .reply = BB_TABLE(group),
     .help = "Makes a group of devices whose Delta readings are issued together."},
    {.method = "GET", .path = GROUPS, .roles = MANAGERS, .handler = certificate_group_list,
     .query = BB_TABLE(groups_query), .reply = BB_TABLE(groups_reply),
     .help = "Groups, oldest first."},
    {.method = "GET", .path = GROUPS "/:id", .roles = MANAGERS, .handler = certificate_group_get,
     .segments = BB_TABLE(group_segment), .query = BB_TABLE(one_query), .reply = BB_TABLE(group),
     .help = "A group."},
    {.method = "PATCH", .path = GROUPS "/:id", .roles = MANAGERS,
     .handler = certificate_group_rename, .segments = BB_TABLE(group_segment),
     .query = BB_TABLE(one_query), .body = BB_TABLE(rename_body), .reply = BB_TABLE(group),
     .help = "Gives a group another name."},
    {.method = "GET", .path = LOG, .roles = READERS, .handler = certificate_log,
     .query = BB_TABLE(log_query), .reply = BB_TABLE(log_reply),
     .help = "Entries of the certificate log, newest period first."},
    {.method = "GET", .path = LOG "/issuer/certifiedlogOfdevices", .roles = READERS,
     .handler = certificate_pages, .query = BB_TABLE(pages_query), .reply = BB_TABLE(pages_reply),
     .help = "The log in numbered pages of 20 entries, under their certificates."},
    {.method = "GET", .path = LOG "/export.csv", .roles = READERS, .handler = certificate_export,
     .query = BB_TABLE(export_query), .help = "The log as CSV, streamed."},
    {.method = "GET", .path = LOG "/:id", .roles = READERS, .handler = certificate_one,
     .segments = BB_TABLE(id_segment), .query = BB_TABLE(one_query), .reply = BB_TABLE(entry),
     .help = "An entry of the certificate log."},
    {.method = "PATCH", .path = LOG "/:id", .roles = BB_ANY_ROLE, .handler = certificate_change,
     .segments = BB_TABLE(id_segment), .body = BB_TABLE(change_body), .reply = BB_TABLE(entry),
     .help = "Says what became of an entry at an external issuer."},
};

static const struct bb_field issued_payload[] = {
    {.name = "certificateTransactionUID", .type = BB_UUID, .flags = BB_REQUIRED},
    {.name = "organizationId", .type = BB_INT, .flags = BB_REQUIRED},
    {.name = "groupId", .type = BB_INT, .flags = NULLABLE, .help = "null for History."},
    {.name = "certificate_issuance_start", .type = BB_TIME, .flags = BB_REQUIRED},
    {.name = "certificate_issuance_end", .type = BB_TIME, .flags = BB_REQUIRED},
    {.name = "issued_watthour", .type = BB_INT, .flags = BB_REQUIRED},
    {.name = "entries", .type = BB_INT, .flags = BB_REQUIRED, .help = "In the log: one a device."},
};

static const struct bb_event_face events[] = {
    {.name = "certificate.issued", .version = 1, .payload = BB_TABLE(issued_payload),
     .help = "A certificate was issued, for a History reading or a group's cycle."},
};

static const struct bb_certificates certificates = {.size = sizeof(certificates)};
static const struct bb_service_face services[] = {
    {.name = "certificates", .version = 1, .interface = &certificates},
};

static const struct bb_need needs[] = {{"accounts", 3}, {"devices", 3}, {"readings", 2}};

static const struct bb_job jobs[] = {
    {.name = "certificate.issue", .every_s = 10, .flags = BB_ONCE, .run = certificate_issue},
};

static const struct bb_command commands[] = {
    {.name = "certificate issue", .run = certificate_command_issue,
     .help = "Issues what is due now, as the job does every ten seconds."},
};

BB_EXPORT const struct bb_module busbar_module = {
    BB_MODULE_HEAD("certificate", "1.0.0"),
    .schema = certificate_schema,
    .settings = BB_TABLE(settings),
    .routes = BB_TABLE(routes),
    .events = BB_TABLE(events),
    .services = BB_TABLE(services),
    .needs = BB_TABLE(needs),
    .jobs = BB_TABLE(jobs),
    .commands = BB_TABLE(commands),
    .open = certificate_open,
    .close = certificate_close,
};
