/*
 * Services that the shipped modules provide to each other and to the host. A service is an
 * interface: a const struct of functions that take the provider's state.
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
     * Fills *who from the token (the text after "Bearer "). Returns 0, or the status of the answer
     * that it gave with bb_fail(). May park. The memory of *who lives until the end of the request.
     */
    int (*authenticate)(void *state, struct bb_request *rq, const char *token,
                        struct bb_principal *who);
};

/*
 * The role, state and organizations of an account, on which its access rights depend. Lives as long
 * as the request.
 */
struct bb_account_scope {
    size_t size;
    const char *email;            /* in lower case */
    unsigned role;                /* one bit of enum bb_role */
    bool active;                  /* whether it may act */
    const int64_t *organizations; /* as in struct bb_principal */
    size_t organization_count;
    int64_t approved_ms; /* as in struct bb_principal; 0: never. */
};

/* "accounts" 1: account data for other modules. */
struct bb_accounts {
    size_t size;
    /*
     * Returns the organization of the account with this e-mail (lower case): 1 with *organization
     * (0: the account has none), 0 if there is no such account or it was never approved, or -1 on
     * failure (bb_failed()). Parks.
     */
    int (*organization_of)(void *state, struct bb_request *rq, const char *email,
                           int64_t *organization);
    /*
     * Returns the current scope of an account by its id: 1 with *scope, 0 if there is no such
     * account, or -1 on failure (bb_failed()). Parks. Changes are notified on the channel
     * busbar_auth as "account:<id>".
     */
    int (*scope_of)(void *state, struct bb_request *rq, int64_t account,
                    struct bb_account_scope *scope);
    /* Returns whether an organization exists: 1, 0, or -1 on failure. Parks. */
    int (*organization_known)(void *state, struct bb_request *rq, int64_t organization);
};

/* "conversations" 1: data about conversations for other modules. */
struct bb_conversations {
    size_t size;
    /* Counts the conversations in which an e-mail (lower case) participates: 0 with *count, or -1
     * on failure. Parks. */
    int (*count_of)(void *state, struct bb_request *rq, const char *email, int64_t *count);
};

/* A device as other modules need it. Texts live as long as the request. */
struct bb_device {
    size_t size;
    int64_t id;
    int64_t organization; /* 0: none */
    const char *uuid;
    const char *external_id;   /* NULL: none, also for the next three */
    const char *serial_number; /* as the developer specified it */
    const char *commissioned;  /* date, YYYY-MM-DD */
    const char *timezone;      /* IANA */
    double capacity_kw;        /* 0: not known yet */
    double yield;              /* kWh/kW per year: the device's own, else its country's, else the
                                * default */
};

/*
 * "devices" 1: the device directory. Functions park; -1 means failure (bb_failed()). SQL functions
 * for statements of other modules:
 *
 *   device_status(device bigint)
 *       'Active' or 'Inactive', null if there is no such device.
 *   device_active(devices bigint[])
 *       the Active ones among these devices.
 *   device_chosen(organizations bigint[], key text, country text, other text, fuel text, kind text)
 *       the ids of the devices of these organizations (null: of all) with this externalId or uuid,
 *       either of these two countryCodes, this fuelCode and this deviceTypeCode; null arguments do
 *       not restrict the result.
 */
struct bb_devices {
    size_t size;
    /*
     * Finds the device for a key in a path: externalId, then uuid, then serialNumber, among the
     * organizations that the caller may see, or in `organization` if it is not 0. Returns 0, or the
     * status of the answer: 404, or 409 for an ambiguous serial number.
     */
    int (*find)(void *state, struct bb_request *rq, const char *key, int64_t organization,
                struct bb_device *device);
    /* Gets devices by id, without checking the caller's rights. *devices has `count` entries in the
     * order of the ids; an entry of size 0 means that there is no such device. Returns 0 or -1. */
    int (*get)(void *state, struct bb_request *rq, const int64_t *ids, size_t count,
               struct bb_device **devices);
    /* Adds to the unit or transaction: sets the device's time zone unless it has one. Returns 0 or
     * -1. */
    int (*name_timezone)(void *state, struct bb_request *rq, struct bb_tx *tx, int64_t device,
                         const char *timezone);
    /* Finds the organization that has a device with this site name or externalId, if there is
     * exactly one: 1 with *organization, 0, or -1 on failure. Parks. */
    int (*organization_named)(void *state, struct bb_request *rq, const char *name,
                              int64_t *organization);
    /* Finds devices of an organization by keys, a JSON array of texts: externalId, then uuid, then
     * id. *ids has the ids in the order of the keys, 0 where none was found. Returns 0 or -1. */
    int (*resolve)(void *state, struct bb_request *rq, const json_t *keys, int64_t organization,
                   int64_t **ids);
    /* Like resolve() with the keys that find() accepts: externalId, then uuid, then serialNumber,
     * then id. *problems explains, in the order of the keys and in find()'s words, why there is no
     * device; NULL where one was found. */
    int (*identify)(void *state, struct bb_request *rq, const json_t *keys, int64_t organization,
                    int64_t **ids, const char ***problems);
    /* Gets the siteNames of devices by id, in the order of the ids; NULL where there is none.
     * Returns 0 or -1. */
    int (*sites)(void *state, struct bb_request *rq, const int64_t *ids, size_t count,
                 const char ***names);
    /* Gets both countryCodes, with 2 and with 3 letters, of the country that `sent` names by either
     * code in any case. If it names no country, both are `sent`. Does not park. */
    void (*country_codes)(void *state, struct bb_request *rq, const char *sent,
                          const char *codes[2]);
};

/*
 * "readings" 1: the stored meter readings, for statements of other modules. The service consists of
 * SQL functions, so that a million readings can be summed in the database;
 * modules/reading/schema.sql defines them. Types are 'H' (History) and 'D' (Delta). Readings of the
 * same device and type never overlap and never change; a reading is removed when it is voided, and
 * all readings of a device when the device is deleted.
 *
 *   reading_delta_periods(devices bigint[], after timestamptz, until timestamptz)
 *       (device, start_at, end_at, wh) of the Delta readings that end in the period, `after`
 *       exclusive.
 *   reading_delta_ends(device bigint, after timestamptz, until timestamptz, most integer)
 *       (end_at) of the first `most` of these readings of one device, in order.
 *   reading_histories(device bigint, first timestamptz, last timestamptz)
 *       (start_at, end_at, wh) of the History readings that end in the period, both inclusive.
 *   reading_between(device bigint, first timestamptz, last timestamptz)
 *       (type, start_at, end_at, wh) of the readings of a device that overlap a period.
 *   reading_discarded(device bigint, first timestamptz, last timestamptz, most integer)
 *       (what, type, start_at, end_at, wh, at, reason) of the newest readings of a device that
 *       overlap a period and were refused or voided; `what` is one of these two.
 *   reading_first_start(device bigint)
 *       the start of the device's first reading of either type, or null.
 *   reading_forget(device bigint)
 *       deletes the device's readings; the caller deletes the device in the same transaction.
 *   reading_hold(device bigint)
 *       blocks transactions that store, void or take readings of the device until the commit. Call
 *       it before taking any other lock related to the device (its row, its groups).
 *   reading_take_fresh(type "char", most integer)
 *       (device, first, last): the range of the ends of readings that were stored since the last
 *       call, for up to `most` devices. A committed call has taken them, so there must be only one
 *       consumer: the module that issues certificates.
 */
struct bb_readings {
    size_t size;
    /* The maximum Wh that a device can plausibly generate in a period, whose bounds are ms since
     * 1970; 0 if the device lacks its capacity or commissioning date. Does not park. */
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
 *       removes the device from its group at the end of the current cycle; returns whether it was
 *       in one.
 *   certificate_void(device bigint, type "char", start_at timestamptz, end_at timestamptz)
 *       returns whether a certificate has used the reading that was voided earlier in the same
 *       transaction; its energy is taken back unless the caller rolls back.
 *   certificate_members()
 *       the ids of the devices in groups that have not ended.
 */
struct bb_certificates {
    size_t size;
};

#endif
