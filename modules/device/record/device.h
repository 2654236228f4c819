/*
 * device: plants with their documents, found by the names that their developers gave them.
 *
 * What a valid device is stands in one place: device_fields (a table as the host checks bodies) and
 * device_read() behind it. JSON bodies, multipart bodies and rows of bulk uploads all pass there. A
 * device is then an array of texts, in the order of enum device_field: these are the parameters of
 * statements, and what statements give back is read into the same array.
 *
 * Everything runs on the fiber of its request; what touches files runs in the pool `documents`
 * (store.h).
 */
#ifndef DEVICE_H
#define DEVICE_H

#include <busbar/busbar.h>

#include "modules/device/value/country.h"

enum device_field {
    DEVICE_EXTERNAL_ID,
    DEVICE_SITE_NAME,
    DEVICE_COUNTRY_CODE,
    DEVICE_COMMISSIONING_DATE,
    DEVICE_CAPACITY,
    DEVICE_ADDRESS,
    DEVICE_LATITUDE,
    DEVICE_LONGITUDE,
    DEVICE_FUEL_CODE,
    DEVICE_TYPE_CODE,
    DEVICE_SERIAL_NUMBER,
    DEVICE_TIMEZONE,
    DEVICE_YIELD_VALUE,
    DEVICE_FIELDS
};

enum {
    DEVICE_BODY_FIELDS = DEVICE_FIELDS + 3, /* organizationId, attributes and status, too */
    YIELD_MIN = 1,                          /* kWh/kW per year */
    YIELD_MAX = 4000
};

#define DEVICE_ATTRIBUTES_MAX 32768 /* bytes of JSON */
#define DEVICE_ATTRIBUTES_LONG "must be at most 32768 bytes of JSON together"

#define DEVICE_UNNAMED "is required, or siteName or serialNumber in its place"
#define DEVICE_TAKEN "A device with this externalId exists already"

#define DEVICE_POOL "documents"
#define DEVICE_S3_POOL "s3"

/* What is counted of the store, in the order of the metrics' labels. */
enum device_call { CALL_KEEP, CALL_OPEN, CALL_LIST, CALL_REMOVE };
enum device_metric { METRIC_CALLS, METRIC_FAILURES };

struct type_finder;
struct store;

/* The settings, in the units of the table in module.c. */
struct device_settings {
    double default_yield;  /* kWh/kW per year */
    json_t *yields;        /* of countries */
    const char *store;     /* "directory" or "s3" */
    const char *documents; /* directory of `incoming/`, whatever the store */
    const char *s3_endpoint, *s3_region, *s3_bucket, *s3_prefix, *s3_access_key, *s3_secret_key;
    const char *s3_ca;                  /* file of certificates; "": the system's */
    int64_t s3_timeout;                 /* milliseconds */
    json_t *document_types;             /* that documents may have; empty: any */
    int64_t documents_per_organization; /* bytes */
    int64_t document_grace;             /* seconds before a file without a row is swept */
};

/* State of one generation. */
struct device {
    const struct device_settings *settings;
    const struct bb_accounts *accounts;
    void *accounts_state;
    double yields[COUNTRIES]; /* 0: the default */
    struct store *store;
    struct type_finder *finder;
    struct timezones *zones;
};

/* What was sent, checked and normalised. Texts live as long as the request. */
struct device_values {
    const char *text[DEVICE_FIELDS]; /* NULL: not sent, or sent as null */
    bool cleared[DEVICE_FIELDS];     /* sent as null */
    const char *attributes;          /* JSON object of what is no field; NULL: nothing */
    const char *null_attributes;     /* JSON array: names of those sent as null; NULL: none */
    bool clear_attributes;           /* `attributes` itself was sent as null */
    int64_t organisation;            /* organizationId; 0: not sent */
    const char *status;              /* NULL: not sent */
};

/* A device as it is stored. */
struct device_record {
    int64_t id;
    int64_t organisation;
    const char *uuid;
    const char *text[DEVICE_FIELDS]; /* NULL: not known */
    const char *attributes;          /* JSON object */
    const char *documents;           /* JSON array */
    const char *created_at, *updated_at;
    const char *status; /* Active or Inactive */
};

/* Documents that came with a request and lie in the store now. */
struct device_documents {
    const char *rows;           /* JSON array for device_documents_add(); NULL: none came */
    const char *shown;          /* JSON array as the API shows it */
    size_t begun;               /* how many uploads of this request device_upload has rows for */
    const char *const *uploads; /* their names */
    int64_t until_ms;           /* for the store, see struct store_keep */
};

/* Where a request looks for devices. */
struct device_scope {
    bool all;
    const int64_t *organisations;
    size_t count;
};

/* The condition on a device `d`, and its two parameters, first in the statement. */
#define DEVICE_SEES "($1::boolean OR d.organisation = ANY($2::bigint[]))"
#define DEVICE_SCOPE_ARGS(scope) bb_b((scope)->all), bb_ints((scope)->organisations, (scope)->count)

/* The form in which externalIds are compared: NFKC, folded; indexed for devices that are not twins.
 */
#define DEVICE_KEY(text) "busbar_fold(normalize(" text ", NFKC))"
#define DEVICE_HAS_KEY(text)                                                                       \
    "(" DEVICE_KEY("d.external_id") " = " DEVICE_KEY(text) " AND NOT d.external_twin)"

/* A time column as the API writes times. */
#define DEVICE_TIME(column)                                                                        \
    "to_char(" column " AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')"

/* A document `f` as the API shows it. */
#define DEVICE_DOCUMENT                                                                            \
    "json_build_object('id', f.id, 'field', f.field, 'name', f.name, 'type', f.type,"              \
    " 'size', f.size, 'createdAt', " DEVICE_TIME("f.created_at") ")"

/* What device_facts_of() reads, of a device `d`, and what device_record_of() does. */
#define DEVICE_FACTS                                                                               \
    "d.id, d.uuid, d.organisation, d.external_id, d.site_name, d.country_code,"                    \
    " d.commissioning_date, d.capacity, d.address, d.latitude, d.longitude, d.fuel_code,"          \
    " d.device_type_code, d.serial_number, d.timezone, d.yield_value, d.status"
#define DEVICE_COLUMNS                                                                             \
    DEVICE_FACTS ", d.attributes,"                                                                 \
                 " (SELECT coalesce(json_agg(" DEVICE_DOCUMENT " ORDER BY f.created_at, f.place)," \
                 " '[]') FROM device_document f WHERE f.device = d.id), " DEVICE_TIME(             \
                     "d.created_at") ", " DEVICE_TIME("d.updated_at")

enum { DEVICE_FACT_COUNT = 4 + DEVICE_FIELDS, DEVICE_COLUMN_COUNT = DEVICE_FACT_COUNT + 4 };

/* fields.c: the fields of a body, for routes too; in the order of enum device_field. */
extern const struct bb_field device_fields[DEVICE_BODY_FIELDS];

/* The name of a field, as the API and the column have it, and whether it is a number. */
const char *device_field_name(enum device_field field);
bool device_field_number(enum device_field field);

/*
 * Reads a device from an object as it was sent; what is no field is an attribute. The problems of
 * all fields, of all kinds, are appended to `errors`. `whole`: a registration, which must name the
 * device and in which null is the same as absent; in a PATCH null clears the field or attribute.
 * 0; or -1: no memory, `return bb_no_memory(rq)`.
 */
int device_read(struct bb_request *rq, json_t *object, bool whole, struct device_values *values,
                json_t *errors);

/* The same of the request's body, and of its query, where that alone names the organisation: 0, or
 * the status of the answer given. */
int device_read_body(struct bb_request *rq, bool whole, struct device_values *values);

/* value.c: one value, normalised; NULL with *problem (text) when it is not valid. */
const char *device_value(struct bb_request *rq, enum device_field field, const json_t *value,
                         const char **problem);
/* A copy without the white space around it, as names are stored. */
char *device_trimmed(struct bb_request *rq, const char *text);

/* warning.c: what is valid and yet unlikely. */
void device_warn(struct bb_request *rq, const struct device_values *values);
/* Calls `warn` for each, with a constant text. */
void device_find_unlikely(const char *const text[DEVICE_FIELDS],
                          void (*warn)(void *arg, enum device_field field, const char *warning),
                          void *arg);

/*
 * duplicates.c: warns of a device of another organisation that looks like this one; in the
 * transaction, or without one by itself. 0, or -1: `return bb_failed(rq)`.
 */
int device_warn_duplicates(struct bb_request *rq, struct bb_tx *tx,
                           const struct device_record *record);

/* record.c: rows to records to JSON. JSON is given; NULL: no memory. */
struct device_record device_record_of(struct bb_request *rq, const struct bb_rows *rows,
                                      size_t row);
/* Without attributes, documents and times, which cost more than all the rest. */
struct device_record device_facts_of(struct bb_request *rq, const struct bb_rows *rows, size_t row);
json_t *device_json(struct bb_request *rq, const struct device_record *record);
/* All but what the database has as JSON, and the times. */
json_t *device_facts_json(const struct device_record *record);
/* bb_failed() for a write of a device: says which rule was broken. */
int device_failed(struct bb_request *rq);

/* text.c */
/*
 * What device_json() gives, as text, which lives as long as the request; NULL: no memory. What the
 * database has as JSON stands in it as it is, blanks and all: to read and write it again takes a
 * loop 10 ms for a page of large attributes.
 */
const char *device_text(struct bb_request *rq, const struct device_record *record);
/* The answer 200 with an array of such texts. */
int device_reply_texts(struct bb_request *rq, const char *const *texts, size_t count);

/* attributes.c: JSON as the database writes it, the caller's; NULL: no memory. */
json_t *device_parsed(struct bb_request *rq, const char *text);
/* The text itself, or one in which no whole number is beyond 64 bits, for readers that would refuse
 * it; lives as long as the request. NULL: no memory. */
const char *device_attributes_text(struct bb_request *rq, const char *text);
/* Whether attributes that have grown are within their bound: 0, or the status of the answer given.
 */
int device_attributes_check(struct bb_request *rq, const char *attributes);

/* scope.c: 0, or the status of the answer given. `asked`: organizationId, 0 for none. */
int device_scope(struct bb_request *rq, int64_t asked, struct device_scope *scope);
int device_home(struct bb_request *rq, int64_t asked, int64_t *organisation);

/* What is wrong with a key that is no device's, or that of several. */
#define DEVICE_NONE "Device not found"
#define DEVICE_SEVERAL "Several devices have this %s: %s"

/* find.c: the device of a key, or of a site's name: 0, or the status of the answer given. */
int device_find(struct bb_request *rq, const char *key, int64_t asked,
                struct device_record *record);
/* The same without attributes, documents and times. */
int device_find_facts(struct bb_request *rq, const char *key, int64_t asked,
                      struct device_record *record);
int device_find_site(struct bb_request *rq, const char *site, int64_t asked,
                     struct device_record *record);

/* event.c: 0, or -1: `return bb_failed(rq)`. */
int device_emit_registered(struct bb_request *rq, struct bb_tx *tx,
                           const struct device_record *record);
int device_emit_updated(struct bb_request *rq, struct bb_tx *tx, const struct device_record *record,
                        const struct device_values *values, bool documents);

int device_emit_deleted(struct bb_request *rq, struct bb_tx *tx,
                        const struct device_record *record);

/* document_store.c: puts them into the store, for a device of this organisation. 0, or the status
 * of the answer given. */
int device_documents_take(struct bb_request *rq, int64_t organisation,
                          struct device_documents *documents);
/* After an answer: takes out of the store again what is surely no document. */
void device_documents_drop(struct bb_request *rq, const struct device_documents *documents);
/* A call of store.h in its pool, counted. -1: `return bb_failed(rq)`. */
int device_store_call(struct bb_request *rq, enum device_call call, void (*run)(void *), void *arg,
                      const char *why);
/* Files could not even be written as they arrived: counted as a call that failed. */
void device_files_failed(struct bb_host *host);
/* documents.c: adds the rows; 0, or -1: `return bb_failed(rq)`. 409 with more than 10 in a field,
 * or where the organisation has its quota. `documents` must live until the commit. */
int device_documents_add(struct bb_request *rq, struct bb_tx *tx,
                         const struct device_record *device, struct device_documents *documents);
/* Whether so many bytes more are within the quota: 0, or the status of the answer given. */
int device_documents_fit(struct bb_request *rq, int64_t organisation, int64_t bytes);

/* directory.c: the service "devices". */
extern const struct bb_devices device_directory;

/* state.c */
int device_open(struct bb_host *host, void **state);
void device_close(struct bb_host *host, void *state);

/* sweep.c */
void device_sweep(struct bb_request *rq);
void device_tidy(struct bb_request *rq);
int device_command_sweep(struct bb_request *rq);

/* The handlers of the routes, a file each. */
int device_register(struct bb_request *rq);
int device_update(struct bb_request *rq);
int device_update_site(struct bb_request *rq);
int device_list(struct bb_request *rq);
int device_get(struct bb_request *rq);
int device_duplicates(struct bb_request *rq);
void device_sweep_duplicates(struct bb_request *rq);
int device_countries(struct bb_request *rq);
int device_fuel_codes(struct bb_request *rq);
int device_types(struct bb_request *rq);
int device_time_zones(struct bb_request *rq);
int device_documents_list(struct bb_request *rq);
int device_download(struct bb_request *rq);
int device_document_delete(struct bb_request *rq);
int device_delete(struct bb_request *rq);

#endif
