/*
 * Services that the shipped modules provide to each other and to the host. A service is an
 * interface: a const struct of functions that take the provider's state. "accounts" 1 is version 1
 * of the service with the name "accounts".
 */
#ifndef BUSBAR_SERVICES_H
#define BUSBAR_SERVICES_H

#include <busbar/request.h>

/*
 * "authenticator" 1: identifies the account of a bearer token. The host calls it for every route
 * that is not public, before it reads the body.
 */
struct bb_authenticator {
    size_t size;
    /*
     * Fills *who from the token (the text after "Bearer "). Returns 0, or answers with bb_fail()
     * and returns the status. May park. The memory of *who lives until the end of the request.
     */
    int (*authenticate)(void *state, struct bb_request *rq, const char *token,
                        struct bb_principal *who);
};

/* A request that the audit log records, see bb_audit(). Its members live as long as the request. */
struct bb_audited {
    size_t size;
    const struct bb_route *route;
    const char *path;       /* of the route, with the decoded segments of the request */
    const char *request_id; /* X-Request-Id */
    const char *email;      /* of the caller, or, without a token, the argument of bb_audit() */
};

/* "auditor" 1: keeps the audit log. */
struct bb_auditor {
    size_t size;
    /*
     * Records the request before it is handled. Returns 0 and sets *record. To refuse the
     * request, sends a response and returns its status. May park.
     */
    int (*before)(void *state, struct bb_request *rq, const struct bb_audited *audited,
                  void **record);
    /* Records the status of the response, and frees the record. Called once for each record, on the
     * loop's thread. It must not block; use bb_run() for work that waits. */
    void (*after)(void *state, void *record, int status);
};

/* The properties of an account on which its access rights depend. Lives as long as the request. */
struct bb_account_scope {
    size_t size;
    const char *email;            /* in lower case */
    unsigned role;                /* one bit of enum bb_role */
    bool active;                  /* false: requests of the account are refused */
    const int64_t *organizations; /* as in struct bb_principal */
    size_t organization_count;
    int64_t approved_ms; /* as in struct bb_principal; 0: never. */
};

/*
 * "accounts" 1: account data for other modules. SQL functions: account_name(email text) returns the
 * `name` of the approved account with an e-mail (lower case), and the time when it was `approved`;
 * account_named(part text) returns the e-mails of up to 1,000 approved accounts whose names contain
 * a text.
 */
struct bb_accounts {
    size_t size;
    /*
     * Gets the organization of the account with this e-mail (lower case). Returns 1 with
     * *organization (0: the account has none), 0 if there is no such account or it was never
     * approved, or -1 on failure (bb_failed()). Parks.
     */
    int (*organization_of)(void *state, struct bb_request *rq, const char *email,
                           int64_t *organization);
    /*
     * Gets the current scope of an account by its id. Returns 1 with *scope, 0 if there is no such
     * account, or -1 on failure (bb_failed()). Parks. The channel busbar_auth is notified of
     * changes with the payload "account:<id>".
     */
    int (*scope_of)(void *state, struct bb_request *rq, int64_t account,
                    struct bb_account_scope *scope);
    /* Returns whether an organization exists: 1, 0, or -1 on failure. Parks. */
    int (*organization_known)(void *state, struct bb_request *rq, int64_t organization);
};

/* "conversations" 1: data about conversations for other modules. */
struct bb_conversations {
    size_t size;
    /* Counts the conversations in which an e-mail (lower case) participates. Returns 0 with *count,
     * or -1 on failure. Parks. */
    int (*count_of)(void *state, struct bb_request *rq, const char *email, int64_t *count);
    /* Hides these conversations from the account with the e-mail, which may soon be another one,
     * until they are shared. Runs in `tx`, or, if it is NULL, in several short transactions, some
     * of which may be committed on failure. Returns 0, or -1 on failure. Parks. */
    int (*withhold)(void *state, struct bb_request *rq, struct bb_tx *tx, const char *email);
};

/* A device as other modules need it. Texts live as long as the request. */
struct bb_device {
    size_t size;
    int64_t id;
    int64_t organization; /* 0: none */
    const char *uuid;
    const char *external_id;   /* NULL: none; the next three members may also be NULL */
    const char *serial_number; /* as the developer of the device entered it */
    const char *commissioned;  /* date, YYYY-MM-DD */
    const char *timezone;      /* IANA name */
    double capacity_kw;        /* 0: not known yet */
    /* kWh/kW per year: the device's own, else its country's, else the default */
    double yield;
};

/*
 * "devices" 1: the device directory. Functions park, and return -1 on failure (bb_failed()). SQL
 * functions for statements of other modules:
 *
 *   device_status(device bigint)
 *       returns 'Active' or 'Inactive', null if there is no such device.
 *   device_active(devices bigint[])
 *       returns the Active ones among these devices.
 *   device_chosen(organizations bigint[], key text, country text, other text, fuel text, kind text)
 *       returns the ids of the devices that match all arguments that are not null: organizations,
 *       key (externalId or uuid), fuel (fuelCode), kind (deviceTypeCode) and countryCode, of which
 *       `country` and `other` are the two spellings.
 *   device_about(device bigint)
 *       returns organisation, uuid, external_id, serial_number, timezone and site_name of a device.
 */
struct bb_devices {
    size_t size;
    /*
     * Finds the device for a key in a path, which is an externalId, else a uuid, else a
     * serialNumber. Searches in `organization`, or, if it is 0, in all organizations that the
     * caller may see. Returns 0, or the status of the response: 404, or 409 for an ambiguous serial
     * number.
     */
    int (*find)(void *state, struct bb_request *rq, const char *key, int64_t organization,
                struct bb_device *device);
    /* Gets devices by id, without checking the caller's rights. *devices has `count` entries in the
     * order of the ids; an entry of size 0 means that there is no such device. Returns 0 or -1. */
    int (*get)(void *state, struct bb_request *rq, const int64_t *ids, size_t count,
               struct bb_device **devices);
    /* Adds a statement to `tx` that sets the device's time zone unless it has one. Returns 0 or
     * -1. */
    int (*name_timezone)(void *state, struct bb_request *rq, struct bb_tx *tx, int64_t device,
                         const char *timezone);
    /* Finds the organization that has a device with this site name or externalId. Returns 1 with
     * *organization, 0 if there is none or more than one, or -1 on failure. Parks. */
    int (*organization_named)(void *state, struct bb_request *rq, const char *name,
                              int64_t *organization);
    /* Finds devices of an organization. `keys` is a JSON array of texts, each of which is tried as
     * externalId, then uuid, then id. *ids gets the ids in the order of the keys, 0 for a key
     * without a device. Returns 0 or -1. */
    int (*resolve)(void *state, struct bb_request *rq, const json_t *keys, int64_t organization,
                   int64_t **ids);
    /* Like resolve(), but tries each key as externalId, uuid, serialNumber, then id. For each key,
     * *problems has the message of find() if no device was found, otherwise NULL. */
    int (*identify)(void *state, struct bb_request *rq, const json_t *keys, int64_t organization,
                    int64_t **ids, const char ***problems);
    /* Gets the siteNames of devices, in the order of the ids; NULL for a device without one.
     * Returns 0 or -1. */
    int (*sites)(void *state, struct bb_request *rq, const int64_t *ids, size_t count,
                 const char ***names);
    /* Sets codes[0] and codes[1] to the 2-letter and the 3-letter code of the country whose code is
     * `sent`, in any case. If there is no such country, sets both to `sent`. Does not park. */
    void (*country_codes)(void *state, struct bb_request *rq, const char *sent,
                          const char *codes[2]);
};

/*
 * "documents:NAME" 1: a store for contents that are too large or too rarely read for the database.
 * Find it with bb_service_at(). Its functions park. Call them with bb_call_as(), whose `arg` is the
 * struct that the comment of the function names. Contents are never deleted.
 */
#define BB_DOCUMENTS "documents:"

struct bb_content {
    /* The SHA-256 of the content in lower-case hexadecimal digits, '.', and up to 32 lower-case
     * letters for its kind: "<sha256>.chat". */
    const char *name;
    char *bytes; /* put() reads this buffer; get() fills it */
    size_t length;
};

/* Files in the body of a request, which become files of an object, such as a conversation. */
struct bb_files {
    size_t size;
    int64_t organization; /* the files count toward the quota of this organization; 0: none */
    const char *holder;   /* name of the object, which people may also read: "conversation 7" */
    struct bb_tx *tx;     /* the transaction in which add() adds the files */
    const char *shown;    /* take() sets it to a JSON array of {id, name, type, size, …} */
    void *taken;          /* take() sets it; add() and drop() use it */
};

/* Names a file of an object: the object as in struct bb_files, and the id of the file. */
struct bb_held_file {
    const char *holder, *id;
};

struct bb_documents {
    size_t size;
    /* Stores a struct bb_content, or replaces the one with this name. Returns 0 once it is on disk
     * or in the bucket. On failure logs the reason and returns -1. */
    int (*put)(struct bb_request *rq, void *content);
    /* Reads a struct bb_content and checks its SHA-256. Returns 0, or -1 after logging why. */
    int (*get)(struct bb_request *rq, void *content);
    /*
     * For the command `MODULE doctor`: prints the contents that have no file, or a file of another
     * size. Checks 50,000 files of the store, or all if the command has the option `all`. Returns
     * the exit status. `missing` is a statement (struct bb_sql) that finds these contents. Its
     * parameter $1 (jsonb) is an object with the size of each file whose name, in byte order, is
     * after $2 (text) and up to $3 (text; null: no end). The statement omits contents added after
     * $4 (bigint, ms since 1970), and returns up to $5 (bigint) rows: a text for people, the file's
     * size or null, and the number of all findings.
     */
    int (*doctor)(struct bb_request *rq, void *missing);
    /*
     * `files` is a struct bb_files. take() stores the files of a multipart body, or ends the
     * request; the route's `files_in` must name the store's setting. add() adds them to the object
     * in a transaction. Call drop() after the response to remove files that were not added.
     */
    int (*take)(struct bb_request *rq, void *files);
    int (*add)(struct bb_request *rq, void *files);
    int (*drop)(struct bb_request *rq, void *files);
    /* `file` is a struct bb_held_file. Answers with the file as an attachment, or with 404. */
    int (*reply)(struct bb_request *rq, void *file);
    /* Counts a failure of the store. Call it in `files_failed` of a route that calls take(). */
    void (*failed)(struct bb_host *store);
};

/*
 * "readings" 1: the stored meter readings, for statements of other modules. The service consists of
 * SQL functions, so that a million readings can be summed in the database;
 * modules/reading/schema.sql defines them. Types are 'H' (History) and 'D' (Delta). Readings of the
 * same device and type never overlap and never change. A reading is removed when it is voided or
 * its device is deleted.
 *
 *   reading_delta_periods(devices bigint[], after timestamptz, until timestamptz)
 *       returns (device, start_at, end_at, wh) of the Delta readings that end in the period,
 *       `after` exclusive.
 *   reading_delta_ends(device bigint, after timestamptz, until timestamptz, most integer)
 *       returns (end_at) of the first `most` Delta readings of a device that end in the period.
 *   reading_histories(device bigint, first timestamptz, last timestamptz)
 *       returns (start_at, end_at, wh) of the History readings that end in the period, inclusive.
 *   reading_between(device bigint, first timestamptz, last timestamptz)
 *       returns (type, start_at, end_at, wh) of the readings of a device that overlap a period.
 *   reading_discarded(device bigint, first timestamptz, last timestamptz, most integer)
 *       returns (what, type, start_at, end_at, wh, at, reason) of the newest readings of a device
 *       that overlap a period and were refused or voided, as `what` says.
 *   reading_first_start(device bigint)
 *       returns the start of the device's first reading of either type, or null.
 *   reading_forget(device bigint)
 *       deletes the device's readings; the caller deletes the device in the same transaction.
 *   reading_hold(device bigint)
 *       blocks transactions that store, void or take readings of the device until the commit. Call
 *       it before taking any other lock related to the device (its row, its groups).
 *   reading_take_fresh(type "char", most integer)
 *       returns (device, first, last): for up to `most` devices, the first and the last end of the
 *       readings that were stored since the last call. A committed call consumes them, so only the
 *       module that issues certificates may call it.
 */
struct bb_readings {
    size_t size;
    /* Returns the maximum Wh that a device can plausibly generate in a period (in ms since 1970); 0
     * if the device lacks its capacity or commissioning date. Does not park. */
    int64_t (*ceiling_wh)(void *state, const struct bb_device *device, int64_t start, int64_t end);
};

/*
 * "certificates" 1: certified energy, for statements of other modules. The service consists of SQL
 * functions.
 *
 *   certificate_forget(device bigint)
 *       removes the device from its groups and returns true, or returns false if energy of the
 *       device was certified or accounted for. The caller deletes the device in the same
 *       transaction, or rolls back.
 *   certificate_leave(device bigint, null)
 *       removes the device from its group at the end of the current cycle; returns whether the
 *       device was in a group.
 *   certificate_void(device bigint, type "char", start_at timestamptz, end_at timestamptz)
 *       returns whether a certificate has used the reading that was voided earlier in the same
 *       transaction, and deducts its energy. A caller that does not want this rolls back.
 *   certificate_members()
 *       returns the ids of the devices in groups that have not ended.
 */
struct bb_certificates {
    size_t size;
};

/*
 * A mail's text in one language. In subject and body "{name}" stands for the value with that name,
 * and "{service}" for the setting mail.from_name.
 */
struct bb_mail_text {
    const char *language; /* such as "en" */
    const char *subject;
    const char *body; /* plain text with lines that end with \n */
};

/* Control characters of a value become spaces. NULL is an empty value. */
struct bb_mail_value {
    const char *name, *value;
};

/* A mail for queue(), which copies its data. */
struct bb_mail_message {
    size_t size;
    const char *kind; /* such as "password-reset"; appears in the log, unlike texts and values */
    const char *to;   /* e-mail */
    /* Languages by preference, as in Accept-Language; NULL: the setting mail.language. */
    const char *language;
    struct bb_table texts;  /* struct bb_mail_text, at least one */
    struct bb_table values; /* struct bb_mail_value */
    int64_t life_s;         /* seconds after which an unsent mail is abandoned; 0: mail.max_age */
    /* If not NULL: the mail is dropped if one with the same key was queued in the last `every_s`
     * seconds. */
    const char *key;
    int64_t every_s;
};

/* "mail" 1: sends mails. */
struct bb_mail {
    size_t size;
    /*
     * Adds a mail to the outbox as part of the transaction or unit `tx`. After the commit the
     * module sends it, and retries until the server accepts it or the mail is abandoned. Also works
     * in a hook of the kind within. If the outbox is full or the address is invalid, drops the mail
     * with a log line. Does not park in a unit. Returns 0, or -1 on failure (bb_failed()).
     */
    int (*queue)(void *state, struct bb_request *rq, struct bb_tx *tx,
                 const struct bb_mail_message *message);
};

/* An event of the log, as struct bb_destination gets it. */
struct bb_logged_event {
    size_t size;
    const char *id;      /* UUID; the same if the event is published again */
    const char *name;    /* "message.new" */
    const char *payload; /* JSON */
    int64_t created_ms;  /* Unix time in ms */
};

/*
 * "destination:NAME" 1: publishes the events of the webhooks whose `destination` is NAME to another
 * system. The provider needs the service "event log" and has a job with BB_ONCE and `every_s` 1,
 * which calls bb_forward().
 */
#define BB_DESTINATION "destination:" /* the prefix of the names of these services */

struct bb_destination {
    size_t size;
    /*
     * Publishes events in this order, as the providing module (bb_call_as()). Returns the number of
     * events, from the first one on, that the other system has stored. An unconfirmed event is
     * published again later, with the same id, before the events that follow it.
     */
    size_t (*publish)(struct bb_request *rq, const struct bb_logged_event *events, size_t count);
};

/* "event log" 1: see bb_forward(). */
struct bb_event_log {
    size_t size;
    int (*forward)(void *state, struct bb_request *rq, const char *destination);
};

/*
 * Passes up to 100 events of a webhook with this destination, in the order of their commits, to
 * publish() of the service "destination:NAME". Stores the webhook's new position. Parks. Returns
 * 1 if further events wait (then call bb_again(rq)), 0 if none wait or publish() did not confirm
 * all events, or -1 on failure, which is logged.
 */
static inline int bb_forward(struct bb_service log, struct bb_request *rq, const char *destination)
{
    const struct bb_event_log *interface = (const struct bb_event_log *)log.interface;

    return interface->forward(log.state, rq, destination);
}

#endif
