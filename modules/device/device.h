/*
 * device: plants with their documents, found by the names that their developers gave them.
 *
 * A valid device is defined in only two places: device_fields, a table with which the host checks
 * bodies, and device_read(), which checks the rest. Both check JSON bodies, multipart bodies and
 * rows of bulk uploads. The result is an array of texts in the order of enum device_field.
 * Statements take this array as parameters, and their result columns are read into such an array.
 *
 * Everything runs on the fiber of its request, except for code that touches files, which runs in
 * the pools `documents` and `s3` (store.h).
 */
#ifndef DEVICE_H
#define DEVICE_H

#include <busbar/busbar.h>

#include "modules/common/scope.h"
#include "modules/device/store.h"

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
    DEVICE_BODY_FIELDS = DEVICE_FIELDS + 3, /* plus organizationId, attributes and status */
    YIELD_MIN = 1,                          /* kWh/kW per year */
    YIELD_MAX = 4000,
    COUNTRIES = 249 /* of ISO 3166-1 */
};

#define DEVICE_ATTRIBUTES_MAX 32768 /* bytes of JSON */
#define DEVICE_ATTRIBUTES_LONG "must be at most 32768 bytes"

#define DEVICE_UNNAMED "is required, unless siteName or serialNumber is sent"
#define DEVICE_TAKEN "A device with this externalId already exists"

#define DEVICE_POOL "documents"
#define DEVICE_S3_POOL "s3"

enum device_metric { METRIC_CALLS, METRIC_FAILURES };

struct type_finder;

/* The settings, in the units of the table in module.c. */
struct device_settings {
    double default_yield;  /* kWh/kW per year */
    json_t *yields;        /* kWh/kW per year, by country code */
    const char *store;     /* "directory" or "s3" */
    const char *documents; /* directory with `incoming/`, which every store uses */
    const char *s3_endpoint, *s3_region, *s3_bucket, *s3_prefix, *s3_access_key, *s3_secret_key;
    const char *s3_ca;                  /* file of CA certificates; "": the system's */
    int64_t s3_timeout;                 /* milliseconds */
    json_t *document_types;             /* types that documents may have; empty: any */
    int64_t documents_per_organization; /* bytes */
    int64_t document_grace;             /* seconds before the sweep deletes a file without a row */
};

/* The module's state. Each reload of the configuration creates another one. */
struct device {
    const struct device_settings *settings;
    const struct bb_accounts *accounts;
    void *accounts_state;
    double yields[COUNTRIES]; /* by index of the country; 0: use default_yield */
    struct store *store;
    struct type_finder *finder;
    void *zones; /* see zones_read() */
};

/* A request's values, checked and normalized. Texts live as long as the request. */
struct device_values {
    const char *text[DEVICE_FIELDS]; /* NULL: not sent, or sent as null */
    bool cleared[DEVICE_FIELDS];     /* sent as null */
    const char *attributes;          /* JSON object of all names that are not fields; or NULL */
    const char *null_attributes;     /* JSON array of the attributes sent as null; or NULL */
    bool clear_attributes;           /* `attributes` itself was sent as null */
    int64_t organization;            /* organizationId; 0: not sent */
    const char *status;              /* NULL: not sent */
};

/* A stored device. */
struct device_record {
    int64_t id;
    int64_t organization;
    const char *uuid;
    const char *text[DEVICE_FIELDS]; /* NULL: unknown */
    const char *attributes;          /* JSON object */
    const char *documents;           /* JSON array */
    const char *created_at, *updated_at;
    const char *status; /* Active or Inactive */
};

/* The documents of a request whose files are in the store already. */
struct device_documents {
    const char *rows;           /* JSON array for device_documents_add(); NULL: no documents */
    const char *shown;          /* JSON array as the API shows it */
    size_t begun;               /* number of new objects, each with a row in device_upload */
    const char *const *uploads; /* names of the new objects */
    int64_t until_ms;           /* deadline for removing them, see struct store_keep */
};

/* The form in which externalIds are compared and indexed: NFKC, case folded. */
#define DEVICE_KEY(text) "busbar_fold(normalize(" text ", NFKC))"
/* DEVICE_KEY() of a parameter. If it is ASCII, no PL/pgSQL function is called. */
#define DEVICE_KEY_OF(text)                                                                        \
    "CASE WHEN octet_length(" text ") = char_length(" text ") THEN lower(" text " COLLATE \"C\")"  \
    " ELSE " DEVICE_KEY(text) " END COLLATE \"default\""
#define DEVICE_HAS_KEY(text) "(" DEVICE_KEY("d.external_id") " = " DEVICE_KEY_OF(text) ")"

/* A document `f` as the API shows it. */
#define DEVICE_DOCUMENT                                                                            \
    "json_build_object('id', f.id, 'field', f.field, 'name', f.name, 'type', f.type,"              \
    " 'size', f.size, 'createdAt', " BB_SQL_TIME("f.created_at") ")"

/* The columns of the fields of enum device_field, in this order. */
#define DEVICE_STORED                                                                              \
    "external_id, site_name, country_code, commissioning_date, capacity, address, latitude,"       \
    " longitude, fuel_code, device_type_code, serial_number, timezone, yield_value"

/*
 * DEVICE_FACTS are the columns of a device `d` that device_facts_of() reads. DEVICE_COLUMNS are the
 * columns that device_record_of() reads.
 */
#define DEVICE_FACTS                                                                               \
    "d.id, d.uuid, d.organisation, d.external_id, d.site_name, d.country_code,"                    \
    " d.commissioning_date, d.capacity, d.address, d.latitude, d.longitude, d.fuel_code,"          \
    " d.device_type_code, d.serial_number, d.timezone, d.yield_value, d.status"
#define DEVICE_COLUMNS                                                                             \
    DEVICE_FACTS ", d.attributes,"                                                                 \
                 " (SELECT coalesce(json_agg(" DEVICE_DOCUMENT " ORDER BY f.created_at, f.place)," \
                 " '[]') FROM device_document f WHERE f.device = d.id), " BB_SQL_TIME(             \
                     "d.created_at") ", " BB_SQL_TIME("d.updated_at")

enum { DEVICE_FACT_COUNT = 4 + DEVICE_FIELDS, DEVICE_COLUMN_COUNT = DEVICE_FACT_COUNT + 4 };

/* fields.c: the fields of a body, in the order of enum device_field. */
extern const struct bb_field device_fields[DEVICE_BODY_FIELDS];

/*
 * Reads a device from a client's object. Members that are not fields become attributes. Appends the
 * problems of all fields to `errors`. With `whole` (a registration), externalId, siteName or
 * serialNumber is required, and null means absent. Otherwise (a PATCH), null clears the member.
 */
void device_read(struct bb_request *rq, json_t *object, bool whole, struct device_values *values,
                 json_t *errors);

/*
 * Returns the device that the request's body describes. organizationId may also be in the query.
 * Ends the request if the body has errors.
 */
struct device_values device_read_body(struct bb_request *rq, bool whole);

/* Returns a copy without leading and trailing white space, the form in which names are stored. */
char *device_trimmed(struct bb_request *rq, const char *text);

/* Returns `text` as a number, or NAN if it is invalid or has characters not in `characters`. */
double device_number(const char *text, const char *characters);

/* Returns a warning (a constant) if a valid text is unlikely, else NULL. `text` may be NULL. */
const char *device_unlikely(enum device_field field, const char *text);

/*
 * reference.c: countries, sorted by their English names. Any thread.
 *
 * country_find() returns the index of the country with a code of two or three letters, or -1 if
 * there is none. It ignores case. Names are in English, of ISO 3166-1 or in common use.
 */
int country_find(const char *code);
/*
 * Sets the codes of two and three letters of the country with this code or name, and returns true.
 * If there is no such country, sets both to the trimmed text and returns false.
 */
bool device_country_codes(struct bb_request *rq, const char *sent, const char *codes[2]);

/* module.c: the fields of a pair of possible duplicates. */
extern const struct bb_field device_pair_fields[6];

/*
 * list.c: warns if another organization has a device that looks like this one. tx NULL: queries
 * outside of a transaction. Returns 0, or -1 on failure.
 */
int device_warn_duplicates(struct bb_request *rq, struct bb_tx *tx,
                           const struct device_record *record);

/* record.c: converts rows to records, and records to JSON (the caller owns it; NULL: no memory). */
struct device_record device_record_of(struct bb_request *rq, const struct bb_rows *rows,
                                      size_t row);
/*
 * Reads DEVICE_FACTS, which begin at `column`. Does not read attributes, documents and times, which
 * cost more than everything else.
 */
struct device_record device_facts_of(struct bb_request *rq, const struct bb_rows *rows, size_t row,
                                     size_t column);
json_t *device_json(struct bb_request *rq, const struct device_record *record);
/* Returns the JSON of a device without attributes, documents and times. */
json_t *device_facts_json(const struct device_record *record);

/*
 * Returns an object for jsonb_populate_record(), which the request owns. It has the columns of all
 * fields with a text, and null for fields that are `cleared` (NULL: no field is).
 */
json_t *device_stored_json(struct bb_request *rq, const char *const *text, const bool *cleared);

/*
 * Returns the text of device_json(), which lives as long as the request. Removes blanks from values
 * that the database returns as JSON, and parses them only if they have long numbers. To parse all
 * values would block the loop for 10 ms on a page of large attributes.
 */
const char *device_text(struct bb_request *rq, const struct device_record *record);

/* Ends the request if the stored JSON `attributes` exceeds DEVICE_ATTRIBUTES_MAX. */
void device_attributes_check(struct bb_request *rq, const char *attributes);

/* Error messages for a key that matches no device, or several devices. */
#define DEVICE_NONE "Device not found"
#define DEVICE_SEVERAL "Several devices have this %s: %s"

/* Returns the text percent-encoded for a URL or a header; NULL if out of memory. */
const char *device_url_encoded(struct bb_request *rq, const char *text);

/* How to find a device, and how much to read. Keys are externalId, uuid, serialNumber and id. */
enum device_look_up {
    DEVICE_WHOLE,      /* by its key */
    DEVICE_ONLY_FACTS, /* by its key; without attributes, documents and times */
    DEVICE_AT_SITE     /* by its siteName */
};

/* Finds a device in the scope that scope_set() makes of `asked`. Returns 0, or the status sent. */
int device_find(struct bb_request *rq, enum device_look_up how, const char *name, int64_t asked,
                struct device_record *record);
/*
 * Returns the device with the key in the request's path and the organizationId in its query. Ends
 * the request if there is none, or several.
 */
struct device_record device_in_path(struct bb_request *rq, enum device_look_up how);

/*
 * Raises an event of a device. `changed` is the array for device.updated, otherwise NULL; this
 * function takes ownership. Returns 0, or -1 on failure.
 */
int device_emit(struct bb_request *rq, struct bb_tx *tx, const char *name,
                const struct device_record *record, json_t *changed);

/* documents.c: stores the files if the quota of `organization` allows it, or ends the request. */
struct device_documents device_documents_take(struct bb_request *rq, int64_t organization);
/* Call after the response: removes files that certainly did not become documents. */
void device_documents_drop(struct bb_request *rq, const struct device_documents *documents);
/* Call if the host cannot write an incoming file. Counts it as a failed call of the store. */
void device_files_failed(struct bb_host *host);
/*
 * Adds the rows of the documents. Returns 0, or -1 on failure. The transaction fails with 409 if a
 * field would have more than 10 documents, or the organization would exceed its quota. `documents`
 * must live until the commit.
 */
int device_documents_add(struct bb_request *rq, struct bb_tx *tx,
                         const struct device_record *device, struct device_documents *documents);

/*
 * Creates a finder, which finds the type of a file by its content. Returns NULL with the reason in
 * `why`: out of memory, or libmagic's database is missing.
 */
struct type_finder *type_finder_new(char *why, size_t size);
void type_finder_free(struct type_finder *finder);

/* directory.c: the service "devices". */
extern const struct bb_devices device_directory;
/* rows.c: the service "bulk rows:Devices". */
extern const struct bb_bulk_rows device_rows;
extern const struct bb_documents device_store; /* the service "documents:devices" */

/* Jobs and commands. */
void device_sweep(struct bb_request *rq);
void device_tidy(struct bb_request *rq);
void device_sweep_duplicates(struct bb_request *rq);
bb_handler device_command_sweep, device_command_doctor;

/* The handlers of the routes. */
bb_handler device_register, device_update, device_update_site, device_list, device_get,
    device_duplicates, device_countries, device_fuel_codes, device_types, device_time_zones,
    device_documents_list, device_download, device_document_rename, device_document_delete,
    device_delete;

#endif
