/*
 * The tables of the device module, and its state. The tables are hand-formatted, because
 * clang-format would spread a row over six lines.
 */
#include <stdio.h>
#include <string.h>

#include "modules/common/tables.h"
#include "modules/common/zones.h"
#include "modules/device/device.h"
#include "modules/device/schema.h"

// clang-format off

#define DEVICE_ROLES                                                                               \
    (BB_ROLE_ADMIN | BB_ROLE_ORGANIZATION_ADMIN | BB_ROLE_DEVICE_OWNER | BB_ROLE_API_USER)

static const struct bb_field type_item[] = {
    {.name = "item", .type = BB_TEXT, .flags = BB_NOT_BLANK, .max = 100},
};
static const char *const stores[] = {"directory", "s3", NULL};

#define SETTINGS struct device_settings
static const struct bb_field settings[] = {
    {.type = BB_NUMBER, .min = YIELD_MIN, .max = YIELD_MAX, .fallback = "2000",
     SETTING(default_yield, "Yield in kWh per kW and year of a device that has no yield and "
        "whose country is not in `yields`.")},
    {.type = BB_OBJECT, .fallback = "{}", SETTING(yields,
        "Yields of countries in kWh per kW and year, for example {DE: 950, ES: 1600}.")},
    SETTING_CHOICE(store, stores, "directory",
        "Where documents are stored: in the directory `documents`, or in an S3 bucket."),
    SETTING_TEXT(documents, BB_NOT_BLANK, 1024, "/var/lib/busbar/documents",
        "Directory of the documents. If `store` is directory, all hosts must share it. If `store` "
        "is s3, it holds temporary files of each host."),
    {.type = BB_TEXT, .max = 1024, .fallback = "",
     SETTING(s3_endpoint, "URL of the S3 server. The name of the bucket is appended to its path."),
     .example = "https://s3.eu-central-1.amazonaws.com"},
    SETTING_TEXT(s3_region, 0, 63, "us-east-1", "Region for which requests are signed."),
    SETTING_TEXT(s3_bucket, 0, 255, "",
        "Name of the bucket, which must exist. All hosts must use the same bucket."),
    {.type = BB_TEXT, .max = 255, .fallback = "",
     SETTING(s3_prefix, "Prefix of object names."), .example = "documents/"},
    {.type = BB_TEXT, .flags = BB_SECRET, .max = 255, .fallback = "",
     SETTING(s3_access_key, "Id of the access key."), .example = "${BUSBAR_S3_ACCESS_KEY}"},
    {.type = BB_TEXT, .flags = BB_SECRET, .max = 255, .fallback = "",
     SETTING(s3_secret_key, "Secret access key."), .example = "${BUSBAR_S3_SECRET_KEY}"},
    SETTING_INT(s3_timeout, BB_MILLISECONDS, 100, 45000, "20000",
        "Timeout in milliseconds for storing all files of a request, or for fetching a file."),
    SETTING_TEXT(s3_ca, 0, 1024, "",
        "File with the certificates (PEM) of the authorities that the host trusts. Empty: the "
        "authorities that the system trusts."),
    {.type = BB_LIST, .max = 100, .fields = BB_TABLE(type_item), .fallback = "[]",
     SETTING(document_types,
        "Allowed types of documents, for example application/pdf or image/*. Empty: all types.")},
    SETTING_INT(documents_per_organization, 0, 1, INT64_MAX, "10737418240",
        "Maximum size of all documents of an organization in bytes. A request that would exceed it "
        "gets 409. The files of messages have the same maximum and are counted separately."),
    SETTING_INT(document_grace, BB_SECONDS, 1, 604800, "3600",
        "Seconds after which a file without a document is deleted. An upload that takes longer is "
        "refused."),
};

static const struct bb_field key_segment[] = {
    {.name = "externalId", .type = BB_TEXT, .flags = BB_NOT_BLANK, .max = 255,
     .help = "The device: its externalId (ignoring case), uuid, serialNumber or id, looked up in "
             "this order.", .example = "PLANT-7"},
};
static const struct bb_field site_segment[] = {
    {.name = "siteName", .type = BB_TEXT, .flags = BB_NOT_BLANK | BB_NAME, .max = 255,
     .help = "The exact siteName of the device.", .example = "Rooftop 7"},
};

static const struct bb_field document_segments[] = {
    {.name = "externalId", .type = BB_TEXT, .flags = BB_NOT_BLANK, .max = 255,
     .help = "The device: its externalId, uuid, serialNumber or id.", .example = "PLANT-7"},
    {.name = "documentId", .type = BB_UUID, .help = "The document."},
};

#define ORGANIZATION_ARG QUERY_ORGANIZATION("Act in this organization, or list only its devices.")

static const struct bb_field organization_query[] = {ORGANIZATION_ARG};
static const char *const shown[] = {"Active", "Inactive", "All", NULL};
static const char *const states[] = {"Active", "Inactive", NULL};
/* The names must be the same as in list_orders (list.c). */
static const char *const sorts[] = {"id",       "externalId",        "siteName",
                                    "capacity", "commissioningDate", "updatedAt", NULL};
static const char *const directions[] = {"asc", "desc", NULL};
static const struct bb_field list_query[] = {
    ORGANIZATION_ARG,
    {.name = "siteName", .type = BB_TEXT, .flags = BB_NAME, .max = 255, .help = "Exact match."},
    {.name = "serialNumber", .type = BB_TEXT, .max = 255, .help = "Exact match."},
    {.name = "externalId", .type = BB_TEXT, .max = 255, .help = "Exact match, ignoring case."},
    {.name = "search", .type = BB_TEXT, .max = 255,
     .help = "Finds this text in externalId, siteName, serialNumber and address, ignoring case."},
    {.name = "countryCode", .type = BB_TEXT, .max = 3,
     .help = "Code of two or three letters; DE and DEU find the same devices."},
    {.name = "fuelCode", .type = BB_TEXT, .max = 64, .help = "Exact match."},
    {.name = "deviceTypeCode", .type = BB_TEXT, .max = 64, .help = "Exact match."},
    {.name = "capacityFrom", .type = BB_NUMBER, .min = 0, .max = 10000000,
     .help = "Minimum capacity in kW."},
    {.name = "capacityTo", .type = BB_NUMBER, .min = 0, .max = 10000000,
     .help = "Maximum capacity in kW."},
    {.name = "commissionedFrom", .type = BB_TIME,
     .help = "Commissioned on this day or later (YYYY-MM-DD)."},
    {.name = "commissionedTo", .type = BB_TIME,
     .help = "Commissioned on this day or earlier (YYYY-MM-DD)."},
    {.name = "status", .type = BB_CHOICE, .choices = shown,
     .help = "Which devices: Active (the default), Inactive or All."},
    {.name = "inGroup", .type = BB_BOOL,
     .help = "true: only devices that are in a device group; false: only devices that are not in a "
             "group."},
    {.name = "sort", .type = BB_CHOICE, .choices = sorts, .help = "Field to sort by (default id)."},
    {.name = "order", .type = BB_CHOICE, .choices = directions,
     .help = "Sort order: asc (the default) or desc."},
    {.name = "count", .type = BB_BOOL,
     .help = "true: the header `X-Total-Count` has the number of items on all pages."},
    QUERY_LIMIT(1000, "Devices per page."),
    QUERY_AFTER(.type = BB_TEXT, .max = 2048),
};

static const struct bb_field document[] = {
    {.name = "id", .type = BB_UUID, .flags = BB_REQUIRED},
    {.name = "field", .type = BB_TEXT, .flags = BB_REQUIRED, .example = "COD_PROOF",
     .help = "The kind of document: the name of the file field."},
    {.name = "name", .type = BB_TEXT, .flags = BB_REQUIRED,
     .help = "The file name as it was sent.", .example = "commissioning.pdf"},
    {.name = "type", .type = BB_TEXT, .flags = BB_REQUIRED,
     .help = "Media type, detected from the content.", .example = "application/pdf"},
    {.name = "size", .type = BB_INT, .flags = BB_REQUIRED, .help = "Bytes.", .example = "48213"},
    {.name = "createdAt", .type = BB_TIME, .flags = BB_REQUIRED},
};

#define NULL_TEXT(field, shown)                                                                    \
    {.name = (field), .type = BB_TEXT, .flags = NULLABLE, .example = (shown)}

#define FACTS                                                                                      \
    {.name = "id", .type = BB_INT, .flags = BB_REQUIRED},                                          \
    {.name = "uuid", .type = BB_UUID, .flags = BB_REQUIRED},                                       \
    NULL_TEXT("externalId", "PLANT-7"), NULL_TEXT("siteName", "Rooftop 7"),                        \
    NULL_TEXT("countryCode", "DE"),                                                                \
    {.name = "commissioningDate", .type = BB_TEXT, .flags = NULLABLE, .help = "YYYY-MM-DD.",       \
     .example = "2024-05-01"},                                                                     \
    {.name = "capacity", .type = BB_NUMBER, .flags = NULLABLE, .help = "kW.", .example = "9.9"},   \
    NULL_TEXT("address", "Seestr. 7, 13353 Berlin"),                                               \
    NULL_TEXT("latitude", "52.5481"), NULL_TEXT("longitude", "13.3609"),                           \
    NULL_TEXT("fuelCode", "ES100"), NULL_TEXT("deviceTypeCode", "TC120"),                          \
    NULL_TEXT("serialNumber", "SN-4711"), NULL_TEXT("timezone", "Europe/Berlin"),                  \
    {.name = "yieldValue", .type = BB_NUMBER, .flags = NULLABLE, .example = "1050"},               \
    {.name = "organizationId", .type = BB_INT, .flags = BB_REQUIRED, .example = "2"},              \
    {.name = "status", .type = BB_CHOICE, .flags = BB_REQUIRED, .choices = states}

static const struct bb_field device[] = {
    FACTS,
    {.name = "attributes", .type = BB_OBJECT, .flags = BB_REQUIRED,
     .help = "Values of fields that the service does not know."},
    {.name = "documents", .type = BB_LIST, .flags = BB_REQUIRED, .fields = BB_ITEMS(document)},
    {.name = "createdAt", .type = BB_TIME, .flags = BB_REQUIRED},
    {.name = "updatedAt", .type = BB_TIME, .flags = BB_REQUIRED},
};

static const struct bb_field facts[] = {FACTS};
const struct bb_field device_pair_fields[] = {
    {.name = "id", .type = BB_INT, .flags = BB_REQUIRED},
    {.name = "sameSerialNumber", .type = BB_BOOL, .flags = BB_REQUIRED},
    {.name = "samePlace", .type = BB_BOOL, .flags = BB_REQUIRED,
     .help = "Whether the devices have the same capacity and are less than 50 m apart."},
    {.name = "metres", .type = BB_INT, .flags = NULLABLE,
     .help = "Distance between the devices; null if it is unknown.", .example = "12"},
    {.name = "foundAt", .type = BB_TIME, .flags = BB_REQUIRED},
    {.name = "devices", .type = BB_LIST, .flags = BB_REQUIRED, .fields = BB_ITEMS(facts),
     .help = "The two devices."},
};
static const struct bb_field duplicates_query[] = {
    QUERY_LIMIT(1000, "Pairs per page (default 100)."),
    QUERY_AFTER(.type = BB_INT, .min = 1, .max = INT64_MAX),
};

static const struct bb_field country[] = {
    {.name = "alpha2", .type = BB_TEXT, .flags = BB_REQUIRED,
     .help = "ISO 3166-1 code of two letters.", .example = "DE"},
    {.name = "alpha3", .type = BB_TEXT, .flags = BB_REQUIRED,
     .help = "ISO 3166-1 code of three letters.", .example = "DEU"},
    {.name = "name", .type = BB_TEXT, .flags = BB_REQUIRED, .help = "English name.",
     .example = "Germany"},
};
static const struct bb_field code[] = {
    {.name = "code", .type = BB_TEXT, .flags = BB_REQUIRED, .example = "ES100"},
    {.name = "name", .type = BB_TEXT, .flags = BB_REQUIRED, .help = "English name.",
     .example = "Solar"},
};
static const struct bb_field zone[] = {
    {.name = "name", .type = BB_TEXT, .flags = BB_REQUIRED, .help = "IANA time zone.",
     .example = "Europe/Berlin"},
};

#define FILE_MAX 10485760
#define DOCUMENT(part, text)                                                                       \
    {.name = (part), .kind = BB_PART_FILES, .count_max = 10, .bytes_max = FILE_MAX, .help = (text)}
#define DOCUMENTS                                                                                  \
    DOCUMENT("FORM_SF_02", "SF-02 application form."),                                             \
        DOCUMENT("SF_02C", "SF-02C compliance form."),                                             \
        DOCUMENT("METERING_EVIDENCE", "Metering or measurement evidence."),                        \
        DOCUMENT("SINGLE_LINE_DIAGRAM", "Single line diagram."),                                   \
        DOCUMENT("PROJECT_PHOTOS", "Site or project photographs."),                                \
        DOCUMENT("COD_PROOF", "Proof of commercial operation date.")

static const struct bb_part register_parts[] = {
    {.name = "deviceToRegister", .kind = BB_PART_FIELDS, .flags = BB_REQUIRED,
     .help = "The fields, as a JSON object."},
    DOCUMENTS,
};
static const struct bb_part update_parts[] = {
    {.name = "deviceToUpdate", .kind = BB_PART_FIELDS, .help = "The fields, as a JSON object."},
    DOCUMENTS,
};

#define TAKES(rows)                                                                                \
    .parts = BB_TABLE(rows), .files_max = 10 * FILE_MAX, .files_in = "documents",                  \
    .files_pool = DEVICE_POOL, .files_failed = device_files_failed, .deadline_ms = 60000

#define BODY {device_fields, DEVICE_BODY_FIELDS, sizeof(struct bb_field)}

#define REFERENCE "/api/reference"

/* GET may also fail with 409, because several devices can have the same serial number. */
#define FOUND_BY(segment_rows)                                                                     \
    .roles = DEVICE_ROLES, .errors = conflict, .segments = BB_TABLE(segment_rows),                 \
    .query = BB_TABLE(organization_query)
#define ONE_DEVICE FOUND_BY(key_segment)

static const struct bb_field rename_body[] = {
    {.name = "name", .type = BB_TEXT, .flags = BB_REQUIRED | BB_NOT_BLANK | BB_NAME, .min = 1, .max = 255,
     .help = "The new name, with its extension.", .example = "Application form.pdf"},
};

static const struct bb_route routes[] = {
    {.method = "POST", .path = "/api/device",
     .roles = BB_ROLE_ORGANIZATION_ADMIN | BB_ROLE_API_USER, .handler = device_register,
     .errors = conflict,
     .flags = BB_CREATES | BB_KEEP_OTHERS | BB_AUDITED, .query = BB_TABLE(organization_query), .body = BODY,
     TAKES(register_parts), .success = 201,
     .reply = BB_TABLE(device),
     .help = "Register a device. Send JSON, or multipart/form-data to add documents."},
    {.method = "GET", .path = "/api/device", .roles = DEVICE_ROLES, .handler = device_list,
     .query = BB_TABLE(list_query), .reply = BB_ARRAY_OF(device),
     .help = "List the devices of your organizations, by default in about the order of "
             "registration."},
    {.method = "GET", .path = "/api/device/my", .roles = DEVICE_ROLES, .handler = device_list,
     .query = BB_TABLE(list_query), .reply = BB_ARRAY_OF(device),
     .help = "List devices (older path of GET /api/device)."},
    {.method = "GET", .path = "/api/device/externalId/:externalId", ONE_DEVICE,
     .handler = device_get, .flags = BB_VERSIONED, .reply = BB_TABLE(device),
     .help = "Get a device (older path of GET /api/device/{externalId})."},
    {.method = "GET", .path = "/api/device/:externalId", ONE_DEVICE,
     .handler = device_get, .flags = BB_VERSIONED, .reply = BB_TABLE(device),
     .help = "Get a device."},
    {.method = "PATCH", .path = "/api/device/:externalId", ONE_DEVICE,
     .handler = device_update, .flags = BB_KEEP_OTHERS | BB_AUDITED | BB_VERSIONED,
     .body = BODY, TAKES(update_parts), .reply = BB_TABLE(device),
     .help = "Update a device. Fields that you do not send stay unchanged. Documents are added to "
             "the existing documents."},
    {.method = "DELETE", .path = "/api/device/:externalId", .flags = BB_AUDITED, ONE_DEVICE,
     .handler = device_delete, .reply = BB_TABLE(success_reply),
     .help = "Delete a device with its readings and documents. 409 when energy of the device has "
             "been certified: set `status` to Inactive instead."},
    {.method = "PATCH", .path = "/api/device/by-site/:siteName", FOUND_BY(site_segment),
     .handler = device_update_site, .flags = BB_KEEP_OTHERS | BB_AUDITED | BB_VERSIONED,
     .body = BODY, TAKES(update_parts), .reply = BB_TABLE(device),
     .help = "Update the device at a site. 409 when several devices have this siteName."},
    {.method = "GET", .path = "/api/device/:externalId/documents", ONE_DEVICE,
     .handler = device_documents_list, .reply = BB_ARRAY_OF(document),
     .help = "List the documents of a device."},
    {.method = "GET", .path = "/api/device/:externalId/documents/:documentId",
     FOUND_BY(document_segments), .handler = device_download, .reply_type = "*/*",
     .deadline_ms = 60000, .help = "Download a document."},
    {.method = "PATCH", .path = "/api/device/:externalId/documents/:documentId", .flags = BB_AUDITED,
     FOUND_BY(document_segments), .handler = device_document_rename, .body = BB_TABLE(rename_body),
     .reply = BB_TABLE(success_reply), .help = "Rename a document."},
    {.method = "DELETE", .path = "/api/device/:externalId/documents/:documentId", .flags = BB_AUDITED,
     FOUND_BY(document_segments), .handler = device_document_delete,
     .reply = BB_TABLE(success_reply), .help = "Delete a document."},
    {.method = "GET", .path = "/api/admin/device-duplicates", .roles = BB_ROLE_ADMIN,
     .handler = device_duplicates, .query = BB_TABLE(duplicates_query),
     .reply = BB_ARRAY_OF(device_pair_fields),
     .help = "List possible duplicates: pairs of devices of different organizations that look "
             "like the same plant. Newest first."},
    {.method = "GET", .path = REFERENCE "/countries", .roles = BB_ANY_ROLE,
     .handler = device_countries, .reply = BB_ARRAY_OF(country),
     .help = "List the countries for `countryCode`, by name."},
    {.method = "GET", .path = REFERENCE "/fuel-codes", .roles = BB_ANY_ROLE,
     .handler = device_fuel_codes, .reply = BB_ARRAY_OF(code),
     .help = "List known codes for `fuelCode`. Other codes are accepted, too."},
    {.method = "GET", .path = REFERENCE "/device-types", .roles = BB_ANY_ROLE,
     .handler = device_types, .reply = BB_ARRAY_OF(code),
     .help = "List known codes for `deviceTypeCode`. Other codes are accepted, too."},
    {.method = "GET", .path = REFERENCE "/time-zones", .roles = BB_ANY_ROLE,
     .handler = device_time_zones, .reply = BB_ARRAY_OF(zone),
     .help = "List the time zones for `timezone`."},
};

static const struct bb_field event_device[] = {
    {.name = "id", .type = BB_INT, .flags = BB_REQUIRED | BB_KEY},
    {.name = "uuid", .type = BB_UUID, .flags = BB_REQUIRED},
    NULL_TEXT("externalId", "PLANT-7"), NULL_TEXT("siteName", "Rooftop 7"),
    NULL_TEXT("serialNumber", "SN-4711"),
    {.name = "organizationId", .type = BB_INT, .flags = BB_REQUIRED, .example = "2"},
};
static const struct bb_field name_item[] = {
    {.name = "item", .type = BB_TEXT, .example = "capacity"},
};
static const struct bb_field registered[] = {
    {.name = "device", .type = BB_OBJECT, .flags = BB_REQUIRED, .fields = BB_TABLE(event_device)},
};
static const struct bb_field updated[] = {
    {.name = "device", .type = BB_OBJECT, .flags = BB_REQUIRED, .fields = BB_TABLE(event_device)},
    {.name = "changed", .type = BB_LIST, .flags = BB_REQUIRED, .fields = BB_TABLE(name_item),
     .help = "Names of the fields that were sent."},
};
static const struct bb_event_descriptor events[] = {
    {.name = "device.registered", .version = 1, .payload = BB_TABLE(registered),
     .help = "A device was registered."},
    {.name = "device.updated", .version = 1, .payload = BB_TABLE(updated),
     .help = "Fields of a device were changed, or documents were added."},
    {.name = "device.deleted", .version = 1, .payload = BB_TABLE(registered),
     .help = "A device was deleted, with its readings and documents."},
};

static const struct bb_service_descriptor services[] = {
    {.name = "devices", .version = 1, .interface = &device_directory},
    {.name = BB_BULK_ROWS "Devices", .version = 1, .interface = &device_rows},
    {.name = BB_DOCUMENTS "devices", .version = 1, .interface = &device_store},
};
static const struct bb_pool pools[] = {
    {.name = DEVICE_POOL, .threads = 2, .queue = 256},
    {.name = DEVICE_S3_POOL, .threads = STORE_S3_THREADS, .queue = 256},
};
static const struct bb_job jobs[] = {
    {.name = "device.sweep", .every_s = 600, .flags = BB_ONCE, .run = device_sweep},
    {.name = "device.duplicates", .every_s = 600, .flags = BB_ONCE, .run = device_sweep_duplicates},
    {.name = "device.tidy", .every_s = 600, .run = device_tidy},
};
/* label values, in the order of enum store_call */
static const char *const calls[] = {"keep", "open", "list", "remove", NULL};
static const struct bb_metric metrics[] = {
    [METRIC_CALLS] = {.name = "store_calls_total", .kind = BB_COUNTER, .label = "call",
                      .values = calls, .help = "Calls of the document store."},
    [METRIC_FAILURES] = {.name = "store_failures_total", .kind = BB_COUNTER, .label = "call",
                         .values = calls, .help = "Failed calls of the document store."},
};
static const struct bb_command commands[] = {
    {.name = "device sweep", .run = device_command_sweep,
     .help = "Deletes files in the store to which no document refers."},
    {.name = "device doctor", .run = device_command_doctor, .options = BB_TABLE(doctor_options),
     .flags = BB_COMMAND_LONG,
     .help = "Lists documents whose file is missing in the store or has another size; part of "
             "`busbar doctor`."},
};
static const struct bb_need needs[] = {{"accounts", 1}};
static const struct bb_need wants[] = {{"certificates", 1}};

// clang-format on

/* ---- opening and closing ---- */

static void device_close(struct bb_host *host, void *state)
{
    struct device *own = state;

    (void)host;
    if (own->store)
        own->store->free(own->store);
    type_finder_free(own->finder);
    zones_free(own->zones);
}

static int device_open(struct bb_host *host, void **state)
{
    char why[256] = "out of memory";
    struct device *own = bb_host_alloc(host, sizeof(*own));
    struct bb_service accounts = bb_service(host, "accounts");
    const char *name;
    json_t *yield;

    if (!own)
        return bb_open_fail(host, "out of memory");
    own->accounts = accounts.interface;
    own->accounts_state = accounts.state;
    own->settings = bb_settings(host);
    json_object_foreach (own->settings->yields, name, yield) {
        int index = country_find(name);

        if (index < 0)
            return bb_open_fail(host, "yields: there is no country with the code %s", name);
        if (!json_is_number(yield) || json_number_value(yield) < (double)YIELD_MIN ||
            json_number_value(yield) > (double)YIELD_MAX)
            return bb_open_fail(host, "yields: %s must be a number from %d to %d", name, YIELD_MIN,
                                YIELD_MAX);
        own->yields[index] = json_number_value(yield);
    }
    own->finder = type_finder_new(why, sizeof(why));
    if (!own->finder)
        return bb_open_fail(host, "libmagic: %s", why);
    if (zones_read(ZONE_FILES, &own->zones))
        snprintf(why, sizeof(why), ZONE_FILES " cannot be read");
    else if (!strcmp(own->settings->store, "s3"))
        own->store = store_s3_new(own->settings, why);
    else
        own->store = store_directory_new(own->settings->documents);
    if (!own->store) {
        device_close(host, own);
        return bb_open_fail(host, "%s", why);
    }
    *state = own;
    return 0;
}

BB_EXPORT const struct bb_module busbar_module = {
    BB_MODULE_HEAD("device", "1.0.0"),
    .help = "Registration of devices that generate renewable energy, and their documents.",
    .schema = device_schema,
    .settings = BB_TABLE(settings),
    .settings_size = sizeof(struct device_settings),
    .routes = BB_TABLE(routes),
    .events = BB_TABLE(events),
    .services = BB_TABLE(services),
    .needs = BB_TABLE(needs),
    .wants = BB_TABLE(wants),
    .jobs = BB_TABLE(jobs),
    .pools = BB_TABLE(pools),
    .commands = BB_TABLE(commands),
    .open = device_open,
    .close = device_close,
    .metrics = BB_TABLE(metrics),
};
