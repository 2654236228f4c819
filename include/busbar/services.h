/*
 * Services that the shipped modules give each other and the host. A service is an interface, a
 * const struct of functions that take the provider's state.
 */
#ifndef BUSBAR_SERVICES_H
#define BUSBAR_SERVICES_H

#include <busbar/request.h>

/*
 * "authenticator" 1: who is behind a bearer token. The host calls it for every route that is not
 * public, before the body is read.
 */
struct bb_authenticator {
    size_t size;
    /*
     * Fills *who from the token (the text behind "Bearer "). Returns 0, or the status of the answer
     * it gave with bb_fail(). May park. Memory of *who lives until the request's end.
     */
    int (*authenticate)(void *state, struct bb_request *rq, const char *token,
                        struct bb_principal *who);
};

/* What an account may see, whatever it owns. Lives as long as the request. */
struct bb_account_scope {
    size_t size;
    const char *email;            /* in lower case */
    unsigned role;                /* one bit of enum bb_role */
    bool active;                  /* may act at all */
    const int64_t *organisations; /* as in struct bb_principal */
    size_t organisation_count;
    int64_t approved_ms; /* as in struct bb_principal; 0: never. Since version 4 */
};

/* "accounts" 4: what other modules may know of accounts. */
struct bb_accounts {
    size_t size;
    /*
     * The organisation of the account with this e-mail (lower case): 1 with *organisation (0: has
     * none), 0: no such account, or one that was never approved, -1: failed (bb_failed()). Parks.
     */
    int (*organisation_of)(void *state, struct bb_request *rq, const char *email,
                           int64_t *organisation);
    /*
     * The scope of an account by its id, as the database knows it now: 1 with *scope, 0: no such
     * account, -1: failed (bb_failed()). Parks. Since version 2. The channel busbar_auth tells of
     * changes: "account:<id>".
     */
    int (*scope_of)(void *state, struct bb_request *rq, int64_t account,
                    struct bb_account_scope *scope);
    /* Whether there is such an organisation: 1, 0, or -1: failed. Parks. Since version 3. */
    int (*organisation_known)(void *state, struct bb_request *rq, int64_t organisation);
};

/*
 * "conversations" 1: what other modules may know of conversations. Since minor 2.
 */
struct bb_conversations {
    size_t size;
    /* In how many an e-mail (lower case) takes part: 0 with *count, or -1: failed. Parks. */
    int (*count_of)(void *state, struct bb_request *rq, const char *email, int64_t *count);
};

/* A device as other modules need it. Texts and numbers live as long as the request. */
struct bb_device {
    size_t size;
    int64_t id;
    int64_t organisation; /* 0: none */
    const char *uuid;
    const char *external_id;   /* NULL: none, as the next three */
    const char *serial_number; /* as the developer gave it */
    const char *commissioned;  /* date, YYYY-MM-DD */
    const char *timezone;      /* IANA */
    double capacity_kw;        /* 0: not known yet */
    double yield;              /* kWh/kW per year: its own, else its country's, else the default */
};

/*
 * "devices" 7: the device directory. Functions park; -1 means failed (bb_failed()). For statements
 * there are
 *
 *   device_status(device bigint)
 *       'Active' or 'Inactive', null where there is none. Since version 4.
 *   device_active(devices bigint[])
 *       those of some devices that are Active. Since version 7.
 *   device_chosen(organisations bigint[], key text, country text, other text, fuel text, kind text)
 *       the ids of the devices of these organisations (null: of all) with this externalId or uuid,
 *       either of these two countryCodes, this fuelCode and this deviceTypeCode; what is null does
 *       not matter. Since version 6.
 */
struct bb_devices {
    size_t size;
    /*
     * The device that a key in a path means: externalId, then uuid, then serialNumber, among the
     * organisations that the caller may see, or in `organisation` if it is not 0. Returns 0, or the
     * status of the answer it gave: 404, 409 for an ambiguous serial number.
     */
    int (*find)(void *state, struct bb_request *rq, const char *key, int64_t organisation,
                struct bb_device *device);
    /* The devices of these ids, whoever asks; in *devices `count` of them in the order of the ids,
     * size 0 where there is none. 0, or -1. */
    int (*get)(void *state, struct bb_request *rq, const int64_t *ids, size_t count,
               struct bb_device **devices);
    /* Adds to the unit or transaction: the device gets this time zone unless it has one. 0 or -1.
     */
    int (*name_timezone)(void *state, struct bb_request *rq, struct bb_tx *tx, int64_t device,
                         const char *timezone);
    /* The organisation that has a device of this site's name or externalId, if there is but one: 1
     * with *organisation, 0, or -1: failed. Parks. Since version 2. */
    int (*organisation_named)(void *state, struct bb_request *rq, const char *name,
                              int64_t *organisation);
    /* The devices of an organisation that keys mean, a JSON array of texts: externalId, then uuid,
     * then id. In *ids their ids in the order of the keys, 0 where there is none. 0, or -1. Since
     * version 3. */
    int (*resolve)(void *state, struct bb_request *rq, const json_t *keys, int64_t organisation,
                   int64_t **ids);
    /* The same by all that find() knows a device by: externalId, then uuid, then serialNumber, then
     * id. In *problems, in the order of the keys, why there is none, as find() words it; NULL where
     * there is one. Since version 5. */
    int (*identify)(void *state, struct bb_request *rq, const json_t *keys, int64_t organisation,
                    int64_t **ids, const char ***problems);
    /* The siteNames of the devices of these ids, in their order; NULL where there is none. 0, or
     * -1. Since version 6. */
    int (*sites)(void *state, struct bb_request *rq, const int64_t *ids, size_t count,
                 const char ***names);
    /* Both countryCodes, of 2 and of 3 letters, of the country that `sent` names by either, in any
     * case; what names none is both. Does not park. Since version 6. */
    void (*country_codes)(void *state, struct bb_request *rq, const char *sent,
                          const char *codes[2]);
};

/*
 * "readings" 6: the stored meter readings, for statements of other modules. The service is
 * functions in SQL, so that a million readings are summed where they lie;
 * modules/reading/schema.sql has them. Types are 'H' (History) and 'D' (Delta); readings of a
 * device and type never overlap and are never changed; one goes when it is voided, and all with
 * their device.
 *
 *   reading_deltas(devices bigint[], after timestamptz, until timestamptz)
 *       (device, end_at, wh) of the Delta readings that end in the period, `after` exclusive.
 *   reading_delta_periods(devices bigint[], after timestamptz, until timestamptz)
 *       (device, start_at, end_at, wh) of the same readings. Since version 6.
 *   reading_delta_ends(device bigint, after timestamptz, until timestamptz, most integer)
 *       (end_at) of the first `most` of these of one device, in their order. Since version 2.
 *   reading_histories(device bigint, first timestamptz, last timestamptz)
 *       (start_at, end_at, wh) of the History readings that end in the period, both inclusive.
 *   reading_between(device bigint, first timestamptz, last timestamptz)
 *       (type, start_at, end_at, wh) of the readings of a device that overlap a period. Since
 *       version 6.
 *   reading_discarded(device bigint, first timestamptz, last timestamptz, most integer)
 *       (what, type, start_at, end_at, wh, at, reason) of the newest readings of a device that
 *       overlap a period and were refused or voided: `what` says which. Since version 6.
 *   reading_first_start(device bigint)
 *       the start of its first reading of either type, or null. Since version 3.
 *   reading_forget(device bigint)
 *       deletes its readings; its caller deletes the device in the same transaction. Since
 *       version 4.
 *   reading_hold(device bigint)
 *       keeps out those who store, void and take its readings until the commit. Before any other
 *       lock that has to do with the device: its row, its groups. Since version 5.
 *   reading_take_fresh(type "char", most integer)
 *       (device, first, last): where the ends of readings lie that were stored since the last call,
 *       or ever. Whoever commits the call has taken them: there is one taker, whoever issues.
 */
struct bb_readings {
    size_t size;
    /* The most Wh that a device can plausibly generate in a period, in ms since 1970; 0 while the
     * device lacks its capacity or commissioning date. Does not park. Since version 6. */
    int64_t (*ceiling_wh)(void *state, const struct bb_device *device, int64_t start, int64_t end);
};

/*
 * "certificates" 4: what was certified, for statements of other modules: functions in SQL.
 *
 *   certificate_forget(device bigint)
 *       whether nothing of the device was certified or accounted for; it is in no group then. Its
 *       caller deletes the device in the same transaction, or undoes that.
 *   certificate_leave(device bigint, null)
 *       the device leaves its group once the cycle that runs now has ended: whether it was in one.
 *       Since version 2.
 *   certificate_void(device bigint, type "char", start_at timestamptz, end_at timestamptz)
 *       whether a certificate has used the reading that was voided before in the same transaction;
 *       its energy is taken back, or the caller undoes that. Since version 3.
 *   certificate_members()
 *       the ids of the devices that are in a group which has not ended. Since version 4.
 */
struct bb_certificates {
    size_t size;
};

#endif
