/*
 * certificate: issues certificates for measured energy, and keeps their log.
 *
 * A History reading makes one entry of the log. Delta readings are issued for groups of devices, in
 * cycles: the readings that end in a cycle, and the energy carried over from earlier cycles, are
 * issued in whole kWh. The rest is carried over. The job (issue.c) takes new readings from the
 * service "readings", marks the cycles that are due (due.c), issues the cycles that have ended
 * (cycle.c) and History readings (history.c), and updates entries that no longer have to wait for
 * an external issuer. Each step is a transaction that deletes its input and stores its result, so a
 * kill at any time loses nothing, and running the job again changes nothing.
 */
#ifndef CERTIFICATE_H
#define CERTIFICATE_H

#include <busbar/busbar.h>
#include <stdatomic.h>

#include "modules/common/scope.h"

#define CERTIFICATE_GROUP_MOST 10000 /* devices per group */

struct slots;

struct certificate_settings {
    int64_t threshold; /* Wh */
    const char *issuer;
    json_t *issuers; /* e-mails of external issuers, in lower case */
    int64_t exports, exports_per_account;
};

/* The state of the module. Each reload of the configuration creates another one. */
struct certificate {
    const struct certificate_settings *settings;
    bool internal;            /* certificate.issuer is `internal` */
    const char *first_status; /* of a new entry: Succeeded if `internal`, or else Requested */
    struct slots *exports;    /* slots of the exports in progress */
    const struct bb_devices *devices;
    void *devices_state;
    const struct bb_readings *readings;
    void *readings_state;
    /* Where the job continues after a run that reached its time limit; 0: at the beginning. */
    _Atomic int64_t cycles_failed;  /* number of due cycles to skip, because they failed */
    _Atomic int64_t history_failed; /* devices up to this id are skipped */
    _Atomic int64_t looked;         /* new Delta readings were processed up to this device id */
    _Atomic int64_t rechecked;      /* changed devices were processed up to this id */
};

/* module.c: fields of responses, in the order of the statements' columns. */
extern const struct bb_field certificate_group_fields[9], certificate_share_fields[2];
extern const struct bb_field certificate_shared_fields[7];
extern const struct bb_field certificate_cycle_fields[3], certificate_reading_fields[8];
extern const struct bb_field certificate_discarded_fields[8], certificate_sum_fields[4];
extern const struct bb_field certificate_gap_fields[2];

/* ---- entries ---- */

/* Whether the caller may see row `e`. $1 and $2 must be SCOPE_ARGS(). */
#define CERTIFICATE_SEES "($1::boolean OR e.organisation = ANY($2::bigint[]))"

/* clang-format off */

/*
 * The columns of enum certificate_column: certificate_entry_fields of an entry `e`, then
 * certificate_fields of its certificate `c`, then the site and the cursor.
 */
#define CERTIFICATE_COLUMNS                                                                        \
    "e.id, " BB_SQL_MS("e.start_at") ", " BB_SQL_MS("e.end_at") ", e.wh, e.status, d.uuid,"        \
    " d.external_id, d.serial_number, e.device, nullif(e.group_id, 0), c.uid, d.timezone,"         \
    " CASE WHEN e.group_id <> 0 THEN " BB_SQL_MS("e.start_at") " END,"                             \
    " CASE WHEN e.group_id <> 0 THEN " BB_SQL_MS("e.end_at") " END,"                               \
    " c.uid, nullif(e.group_id, 0), e.organisation, " BB_SQL_MS("c.start_at") ", "                 \
    BB_SQL_MS("c.end_at") ", c.issued_wh, d.site_name, "                                           \
    BB_SQL_MS("e.start_at") " || '-' || e.id"

/* clang-format on */

enum { CERTIFICATE_ENTRY_FIELDS = 14, CERTIFICATE_FIELDS = 6 /* without the entries */ };
enum certificate_column {
    CERTIFICATE_ID,
    CERTIFICATE_START,
    CERTIFICATE_UID = CERTIFICATE_ENTRY_FIELDS,
    CERTIFICATE_SITE = CERTIFICATE_UID + CERTIFICATE_FIELDS,
    CERTIFICATE_CURSOR /* of the list */
};
extern const struct bb_field certificate_entry_fields[CERTIFICATE_ENTRY_FIELDS];
extern const struct bb_field certificate_fields[CERTIFICATE_FIELDS + 1];

/*
 * Joins each entry `e` with its certificate `c` and its device `d` (null if it was deleted). With
 * LATERAL and LIMIT, PostgreSQL looks up one row per entry. For a plain join, PostgreSQL may
 * overestimate the number of entries, and read all certificates.
 */
#define CERTIFICATE_OF_ENTRY                                                                       \
    " CROSS JOIN LATERAL (SELECT * FROM certificate c WHERE c.id = e.certificate LIMIT 1) c"       \
    " LEFT JOIN LATERAL (SELECT * FROM device_about(e.device) LIMIT 1) d ON true"

/* log.c: returns a column of the first `count` rows as numbers, in the request's memory. */
int64_t *certificate_ids(struct bb_request *rq, const struct bb_rows *rows, size_t count,
                         size_t column);

/*
 * groups.c: if the group is shared with one of the scope's organizations, sets the scope to the
 * organization that owns the group. The caller must then query only this group.
 */
void certificate_shared(struct bb_request *rq, int64_t group, struct scope *scope);

/* ---- the job ---- */

/*
 * due.c, history.c, cycle.c: each function runs a step of the job for a limited time. It returns
 * the number of cycles or History readings that it issued, or 0. If it fails, it logs the failure
 * and returns -1. It sets *more if the job should run again at once.
 */
int64_t certificate_mark_due(struct bb_request *rq, bool *more);
/* Marks the cycles of changed devices as due. */
int64_t certificate_recheck(struct bb_request *rq, bool *more);
int64_t certificate_history(struct bb_request *rq, bool *more);
int64_t certificate_cycles(struct bb_request *rq, bool *more);

/* issue.c: returns when a step that begins now must end, in ms on the clock of bb_now_ms(). */
int64_t certificate_turn(struct bb_request *rq);
/* Logs that a step failed, and returns -1. */
int64_t certificate_step_failed(struct bb_request *rq, const char *step);
/*
 * Adds up to $1 devices with new readings of a type to a table. These readings then no longer count
 * as new. Returns the number of added devices, and whether the table has a device.
 */
#define CERTIFICATE_NOTE(table, type)                                                              \
    "WITH noted AS (INSERT INTO " table " AS n (device, first_at, last_at)"                        \
    " SELECT device, first, last FROM reading_take_fresh('" type "', $1::int) ORDER BY device"     \
    " ON CONFLICT (device) DO UPDATE SET first_at = least(n.first_at, excluded.first_at),"         \
    " last_at = greatest(n.last_at, excluded.last_at) RETURNING 1)"                                \
    " SELECT count(*), EXISTS (SELECT FROM " table ")::int FROM noted"
/*
 * issue.c: runs a CERTIFICATE_NOTE() for `size` devices at a time until none has new readings. Sets
 * *any to whether the table has a device. Returns 0. If a query fails, logs `step` and returns -1.
 */
int certificate_note(struct bb_request *rq, const struct bb_sql *sql, int64_t size,
                     const char *step, bool *any);

struct certificate_issued {
    const char *uid;
    int64_t organization, group; /* group 0: no group */
    const char *start, *end;     /* in the API's format */
    int64_t wh, entries;
};
/* Raises the event certificate.issued for the organization. Returns 0, or -1 on failure. */
int certificate_emit(struct bb_request *rq, struct bb_tx *tx,
                     const struct certificate_issued *issued);

/* due.c: the hook on the event device.updated. */
int certificate_device_changed(struct bb_request *rq, struct bb_tx *tx,
                               const struct bb_event *event, void *state);

/* The handlers, the job and the command. */
bb_handler certificate_group_create, certificate_group_list, certificate_group_shared,
    certificate_group_get, certificate_group_change, certificate_group_delete,
    certificate_group_join, certificate_group_leave, certificate_group_shares,
    certificate_group_share, certificate_group_unshare, certificate_log, certificate_one,
    certificate_of_entry, certificate_totals, certificate_pages, certificate_export,
    certificate_explain, certificate_coverage, certificate_change;
void certificate_issue(struct bb_request *rq);
int certificate_command_issue(struct bb_request *rq);

#endif
