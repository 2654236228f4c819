/*
 * Opening and closing, the types of rows, and the tables of the bulk module. The tables are
 * hand-formatted, because clang-format would spread a row over six lines.
 */
#include <stddef.h>
#include <string.h>

#include "modules/bulk/bulk.h"
#include "modules/bulk/schema.h"
#include "modules/common/csv.h"
#include "modules/common/slots.h"
#include "modules/common/tables.h"

static int bulk_open(struct bb_host *host, void **state)
{
    struct bulk *bulk = bb_host_alloc(host, sizeof(*bulk));
    struct slots *exports = slots_new(host, 32, 4, "exports"); /* 32 on the host, 4 per account */

    if (!bulk || !exports || pthread_mutex_init(&bulk->watching, NULL)) {
        slots_free(exports);
        return bb_open_fail(host, "out of memory");
    }
    bulk->exports = exports;
    bulk->settings = bb_settings(host);
    *state = bulk;
    return 0;
}

static void bulk_close(struct bb_host *host, void *state)
{
    struct bulk *bulk = state;

    (void)host;
    slots_free(bulk->exports);
    pthread_mutex_destroy(&bulk->watching);
}

void bulk_start(struct bb_host *host, void *state)
{
    struct bulk *bulk = state;
    struct bb_given given = {.size = sizeof(given)};

    while (bulk->type_count < BULK_TYPES_MAX &&
           bb_service_at(host, BB_BULK_ROWS, bulk->type_count, &given)) {
        const struct bb_bulk_rows *rows = given.interface;
        size_t most = rows->rows_max ? rows->rows_max : 500;

        bulk->types[bulk->type_count++] = (struct bulk_type){
            .name = given.name + strlen(BB_BULK_ROWS),
            .rows = rows,
            .host = given.host,
            .rows_max = most < BB_BULK_ROWS_MAX ? most : BB_BULK_ROWS_MAX,
            .together = rows->size > offsetof(struct bb_bulk_rows, together) && rows->together,
        };
    }
    if (!bulk->type_count)
        bb_host_log(host, BB_WARN, "no loaded module provides a row type for bulk uploads");
}

const struct bulk_type *bulk_type_named(const struct bulk *bulk, const char *name)
{
    for (size_t i = 0; i < bulk->type_count; i++)
        if (!strcmp(bulk->types[i].name, name))
            return &bulk->types[i];
    return NULL;
}

const char *bulk_type_names(struct bb_request *rq)
{
    const struct bulk *bulk = rq->state;
    const char *names = "";

    for (size_t i = 0; i < bulk->type_count; i++)
        names = bb_format(rq, "%s%s%s", names, i ? ", " : "", bulk->types[i].name);
    return names;
}

static double bulk_rows_waiting(void *state, size_t value)
{
    struct bulk *bulk = state;

    (void)value;
    return (double)atomic_load(&bulk->waiting);
}

// clang-format off

#define SETTINGS struct bulk_settings

static const struct bb_field settings[] = {
    SETTING_TEXT(files, BB_NOT_BLANK, 1024, "/var/lib/busbar/bulk",
        "Directory of each host for files while they are being uploaded. The files are deleted "
        "after the upload."),
    SETTING_INT(jobs_per_account, 0, 1, 10000, "20",
        "Maximum number of unfinished bulk uploads of an account. A further upload gets 409."),
    SETTING_INT(bytes_per_organization, 0, 1, INT64_MAX, "2147483648",
        "Maximum size of all bulk uploads of an organization in bytes (rows, problems and "
        "warnings). An upload that would exceed it gets 409."),
    SETTING_INT(retention_days, BB_DAYS, 1, 3650, "90",
        "Days after which a finished bulk upload is deleted."),
    SETTING_INT(unfinished_days, BB_DAYS, 1, 3650, "7",
        "Days after which a cancelled or unconfirmed bulk upload is deleted."),
};

static const char *const states[] = {"created", "confirmed", "finished", "cancelled", NULL};
static const char *const lapses[] = {"account_ended", "role_lost", "organization_lost", NULL};
static const char *const outcomes[] = {"pending", "success", "failed", "cancelled", NULL};

static const struct bb_field id_segment[] = {
    {.name = "bulkUploadId", .type = BB_UUID, .help = "The bulk upload."},
};

#define TYPE_ARG                                                                                   \
    {.name = "type", .type = BB_TEXT, .max = 64, .fallback = "Devices", .example = "Devices",      \
     .help = "Type of the rows: Devices (the default), Reads, or a type that another module adds."}

static const struct bb_field upload_query[] = {
    TYPE_ARG,
    QUERY_ORGANIZATION(
        "The organization of all rows. Admins must send it; 404 when it does not exist."),
};
static const struct bb_field template_query[] = {TYPE_ARG};
static const struct bb_field list_query[] = {
    {.name = "status", .type = BB_CHOICE, .choices = states, .help = "Only uploads in this state."},
    {.name = "type", .type = BB_TEXT, .max = 64, .help = "Only bulk uploads of this type."},
    QUERY_ORGANIZATION("Only bulk uploads for this organization."),
    QUERY_LIMIT(1000, "Items per page (default 100)."),
    QUERY_AFTER(.type = BB_TEXT, .max = 64),
};
static const struct bb_field log_query[] = {
    {.name = "status", .type = BB_CHOICE, .choices = outcomes,
     .help = "Only rows with this result."},
    QUERY_LIMIT(BULK_PAGE_MAX, "Rows per page (default 100)."),
    QUERY_AFTER(.type = BB_INT, .min = 0, .max = INT64_MAX),
};

static const struct bb_field check[] = {
    {.name = "passed", .type = BB_INT, .flags = BB_REQUIRED, .example = "29"},
    {.name = "failed", .type = BB_INT, .flags = BB_REQUIRED},
    {.name = "warned", .type = BB_INT, .flags = BB_REQUIRED, .example = "0",
     .help = "Rows with warnings. They will be stored, but their values are unlikely."},
};
static const struct bb_field progress[] = {
    {.name = "done", .type = BB_INT, .flags = BB_REQUIRED, .example = "30"},
    {.name = "total", .type = BB_INT, .flags = BB_REQUIRED, .example = "30"},
    {.name = "succeeded", .type = BB_INT, .flags = BB_REQUIRED, .example = "29"},
    {.name = "failed", .type = BB_INT, .flags = BB_REQUIRED},
};

#define IDENTITY                                                                                   \
    {.name = "bulkUploadId", .type = BB_UUID, .flags = BB_REQUIRED},                               \
    {.name = "status", .type = BB_CHOICE, .flags = BB_REQUIRED, .choices = states,                 \
     .example = "finished"}
#define PROGRESS                                                                                   \
    {.name = "progress", .type = BB_OBJECT, .flags = BB_REQUIRED, .fields = BB_TABLE(progress),    \
     .help = "Numbers of rows that are done."}
#define JOB                                                                                        \
    IDENTITY,                                                                                      \
    {.name = "reason", .type = BB_TEXT, .flags = NULLABLE, .example = "null",                      \
     .help = "Why the service cancelled the bulk upload: its sender has lost the right to store "  \
             "the rows. Otherwise null."},                                                         \
    {.name = "reasonCode", .type = BB_CHOICE, .flags = NULLABLE, .choices = lapses,                \
     .example = "null", .help = "The reason, for programs."},                                      \
    {.name = "type", .type = BB_TEXT, .flags = BB_REQUIRED, .example = "Devices"},                 \
    {.name = "fileName", .type = BB_TEXT, .flags = BB_REQUIRED, .example = "devices.csv"},         \
    {.name = "organizationId", .type = BB_INT, .flags = BB_REQUIRED, .example = "2"},              \
    {.name = "check", .type = BB_OBJECT, .flags = BB_REQUIRED, .fields = BB_TABLE(check),          \
     .help = "Result of the check during the upload: numbers of rows."},                           \
    PROGRESS,                                                                                      \
    {.name = "createdAt", .type = BB_TIME, .flags = BB_REQUIRED},                                  \
    {.name = "confirmedAt", .type = BB_TIME, .flags = NULLABLE},                                   \
    {.name = "endedAt", .type = BB_TIME, .flags = NULLABLE}

const struct bb_field bulk_job_fields[] = {
    JOB,
    {.name = "rows", .type = BB_INT, .flags = BB_REQUIRED, .help = "The number of rows.",
     .example = "30"},
};
static const struct bb_field confirm_reply[] = {IDENTITY, PROGRESS};
const struct bb_field bulk_row_fields[] = {
    {.name = "rowNumber", .type = BB_INT, .flags = BB_REQUIRED,
     .help = "1 is the first row below the header line."},
    {.name = "externalId", .type = BB_TEXT, .flags = NULLABLE,
     .help = "The externalId as you sent it.", .example = "PLANT-7"},
    {.name = "status", .type = BB_CHOICE, .flags = BB_REQUIRED, .choices = outcomes,
     .example = "failed"},
    {.name = "errors", .type = BB_LIST, .flags = BB_REQUIRED, .fields = BB_ITEMS(problem_fields)},
    {.name = "warnings", .type = BB_LIST, .flags = BB_REQUIRED, .fields = BB_ITEMS(problem_fields),
     .help = "Values that are valid, but unlikely.", .example = "[]"},
};
static const struct bb_field log_reply[] = {
    JOB,
    {.name = "rows", .type = BB_LIST, .flags = BB_REQUIRED, .fields = BB_ITEMS(bulk_row_fields),
     .help = "One page of rows."},
};

static const struct bb_part upload_parts[] = {
    {.name = "*", .kind = BB_PART_FILES, .count_max = 1, .bytes_max = BULK_FILE_MAX,
     .help = "The CSV file, in UTF-8, with a header line. Its name must end in .csv."},
};

#define BASE "/api/bulk-upload"
#define ID .segments = BB_TABLE(id_segment)

static const struct bb_route routes[] = {
    {.method = "POST", .path = BASE, .roles = BB_ANY_ROLE, .handler = bulk_upload,
     .errors = conflict_or_absent, .flags = BB_CREATES | BB_NO_BODY, .query = BB_TABLE(upload_query),
     .parts = BB_TABLE(upload_parts), .files_max = BULK_FILE_MAX, .files_in = "files",
     .files_pool = BULK_POOL, .deadline_ms = 120000, .success = 201, .reply = BB_TABLE(bulk_job_fields),
     .help = "Upload a CSV file and check its rows. The rows are not stored until you confirm the "
             "bulk upload. 403 when your role may not upload rows of this type."},
    {.method = "GET", .path = BASE, .roles = BB_ANY_ROLE, .handler = bulk_list,
     .query = BB_TABLE(list_query), .reply = BB_ARRAY_OF(bulk_job_fields),
     .help = "List your bulk uploads, newest first. An Admin sees the bulk uploads of all "
             "accounts."},
    {.method = "GET", .path = BASE "/template.csv", .roles = BB_ANY_ROLE, .handler = bulk_template,
     .reply = CSV_REPLY(
        "externalId,siteName,capacity\r\nPLANT-7,Rooftop 7,9.9\r\n"), .reply_type = "text/csv",
     .query = BB_TABLE(template_query),
     .help = "Download a CSV template. It has all columns of the type and one example row."},
    {.method = "POST", .path = BASE "/:bulkUploadId/confirm", .roles = BB_ANY_ROLE,
     .handler = bulk_confirm, .errors = conflict, .flags = BB_NO_BODY | BB_AUDITED, ID, .reply = BB_TABLE(confirm_reply),
     .help = "Confirm a bulk upload. Its rows are then stored in the background. A bad row does "
             "not prevent other rows from being stored. 409 when the bulk upload was already "
             "confirmed."},
    {.method = "POST", .path = BASE "/:bulkUploadId/cancel", .roles = BB_ANY_ROLE,
     .handler = bulk_cancel, .errors = conflict, .flags = BB_NO_BODY | BB_AUDITED, ID, .reply = BB_TABLE(bulk_job_fields),
     .help = "Cancel a bulk upload. Rows that were already stored stay. Rows that failed, also in "
             "the check, are failed, and all other rows are cancelled."},
    {.method = "DELETE", .path = BASE "/:bulkUploadId", .flags = BB_AUDITED, .roles = BB_ANY_ROLE,
     .handler = bulk_delete, .errors = conflict, ID, .reply = BB_TABLE(success_reply),
     .help = "Delete a bulk upload that was never confirmed or has ended. Devices or readings that "
             "were stored stay."},
    {.method = "GET", .path = BASE "/:bulkUploadId/stream", .roles = BB_ANY_ROLE,
     .handler = bulk_stream, .reply_type = "text/event-stream", ID,
     .help = "Follow the progress of a bulk upload (Server-Sent Events). The stream sends the "
             "event `progress` at most once a second, and the event `ended` at the end. The data "
             "of both is the bulk upload, as in GET /api/bulk-upload."},
    {.method = "GET", .path = BASE "/:bulkUploadId/failed.csv", .roles = BB_ANY_ROLE,
     .handler = bulk_failed_csv, .reply = CSV_REPLY(
        "externalId,siteName,capacity,errors\r\nPLANT-7,Rooftop 7,ten,"
        "capacity: must be a number\r\n"), .reply_type = "text/csv", ID,
     .help = "Download the failed and cancelled rows as CSV. The rows are as you sent them, and an "
             "additional last column has their errors."},
    {.method = "GET", .path = BASE "/bulk-upload-log/:bulkUploadId", .roles = BB_ANY_ROLE,
     .handler = bulk_log, ID, .query = BB_TABLE(log_query), .reply = BB_TABLE(log_reply),
     .help = "List the rows of a bulk upload with their results. Before the confirmation these are "
             "the results of the check."},
};

static const struct bb_field finished[] = {
    {.name = "bulkUploadId", .type = BB_UUID, .flags = BB_REQUIRED},
    {.name = "type", .type = BB_TEXT, .flags = BB_REQUIRED, .example = "Devices"},
    {.name = "fileName", .type = BB_TEXT, .flags = BB_REQUIRED, .example = "devices.csv"},
    {.name = "status", .type = BB_TEXT, .flags = BB_REQUIRED, .example = "finished",
     .help = "How the bulk upload ended: finished or cancelled."},
    {.name = "organizationId", .type = BB_INT, .flags = BB_REQUIRED, .example = "2"},
    {.name = "rows", .type = BB_INT, .flags = BB_REQUIRED, .example = "30"},
    {.name = "succeeded", .type = BB_INT, .flags = BB_REQUIRED, .example = "29"},
    {.name = "failed", .type = BB_INT, .flags = BB_REQUIRED, .example = "1"},
    {.name = "cancelled", .type = BB_INT, .flags = BB_REQUIRED, .example = "0"},
};
static const struct bb_event_descriptor events[] = {
    {.name = "bulk.finished", .version = 1, .payload = BB_TABLE(finished),
     .help = "All rows of a bulk upload are done, or it was cancelled."},
};

static const struct bb_need wants[] = {{BB_BULK_ROWS "*", 1}, {"accounts", 1}};
static const struct bb_pool pools[] = {{.name = BULK_POOL, .threads = 2, .queue = 256}};
static const struct bb_job jobs[] = {
    {.name = "bulk.run", .every_s = 1, .run = bulk_run},
    {.name = "bulk.tell", .every_s = 1, .run = bulk_watch},
    {.name = "bulk.sweep", .every_s = 3600, .flags = BB_ONCE, .run = bulk_sweep},
    {.name = "bulk.tidy", .every_s = 3600, .run = bulk_tidy},
};

static const char *const ends[] = {"finished", "cancelled", NULL};
static const char *const row_ends[] = {"success", "failed", NULL};
static const struct bb_metric metrics[] = {
    [BULK_METRIC_JOBS] = {.name = "jobs_total", .kind = BB_COUNTER, .label = "outcome",
                          .values = ends, .help = "Bulk uploads that have ended."},
    [BULK_METRIC_ROWS] = {.name = "rows_total", .kind = BB_COUNTER, .label = "outcome",
                          .values = row_ends, .help = "Rows of confirmed bulk uploads."},
    [BULK_METRIC_WAITING] = {.name = "rows_waiting", .kind = BB_GAUGE, .read = bulk_rows_waiting,
                             .help = "Rows of confirmed bulk uploads that are not done."},
};

static const struct bb_field import_options[] = {
    {.name = "file", .type = BB_TEXT, .flags = BB_REQUIRED | BB_NOT_BLANK, .max = 4095,
     .help = "The file, with a name that ends in .csv, or - for standard input."},
    {.name = "organization", .type = BB_INT, .flags = BB_REQUIRED, .min = 1, .max = INT64_MAX,
     .help = "Id of the organization of all rows."},
    {.name = "type", .type = BB_TEXT, .flags = BB_NOT_BLANK, .max = 64, .fallback = "Devices",
     .help = "Type of the rows: Devices, Reads, or a type that another module adds."},
    {.name = "dry-run", .type = BB_BOOL,
     .help = "Check the rows, print the rows that fail, and store nothing."},
    {.name = "yes", .type = BB_BOOL,
     .help = "If rows fail the check, store the other rows without asking."},
};
static const struct bb_command commands[] = {
    {.name = "bulk import", .options = BB_TABLE(import_options), .run = bulk_command_import,
     .flags = BB_COMMAND_LONG,
     .help = "Checks and stores the rows of a CSV file, and prints the rows that failed as CSV. "
             "Exit status: 0 all rows are stored, 1 not all rows are stored, 2 wrong usage, 130 "
             "interrupted."},
};

BB_EXPORT const struct bb_module busbar_module = {
    BB_MODULE_HEAD("bulk", "1.0.0"),
    .help = "Bulk uploads: upload a CSV file, check its rows, confirm, and read the results.",
    .schema = bulk_schema,
    .settings = BB_TABLE(settings),
    .settings_size = sizeof(struct bulk_settings),
    .routes = BB_TABLE(routes),
    .events = BB_TABLE(events),
    .wants = BB_TABLE(wants),
    .jobs = BB_TABLE(jobs),
    .pools = BB_TABLE(pools),
    .commands = BB_TABLE(commands),
    .metrics = BB_TABLE(metrics),
    .open = bulk_open,
    .start = bulk_start,
    .close = bulk_close,
};
