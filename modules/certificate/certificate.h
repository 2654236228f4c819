/*
 * certificate: issues certificates for measured energy, and keeps their log.
 *
 * A History reading makes one entry of the log. Delta readings are issued for groups of devices, by
 * cycles: the energy of the readings that end in a cycle plus the energy carried over from before,
 * in whole kWh; the rest is carried over. The job (issue.c) takes new readings from the service
 * "readings", marks the cycles that are due (mark_due.c), issues the cycles that have ended
 * (cycle.c) and History readings (history.c), and updates entries that need not wait for an
 * external issuer any more (finalize.c). Each step is a transaction that deletes its input and
 * stores its result, so a kill at any moment loses nothing, and running the job again changes
 * nothing.
 */
#ifndef CERTIFICATE_H
#define CERTIFICATE_H

#include <busbar/busbar.h>
#include <stdatomic.h>

#define CERTIFICATE_GROUP_MOST 10000 /* devices per group */

struct slots;

struct certificate_settings {
    int64_t threshold; /* Wh */
    const char *issuer;
    json_t *issuers; /* e-mails of external issuers, in lower case */
    int64_t exports, exports_per_account;
};

/* State of one generation. */
struct certificate {
    const struct certificate_settings *settings;
    bool internal;         /* certificate.issuer is `internal` */
    struct slots *exports; /* in progress (modules/common/slots.h) */
    const struct bb_devices *devices;
    void *devices_state;
    const struct bb_accounts *accounts;
    void *accounts_state;
    const struct bb_readings *readings;
    void *readings_state;
    /* Where the job continues after a run reached its time limit; 0: from the start. */
    _Atomic int64_t cycles_failed;  /* this many failed cycles at the head are skipped */
    _Atomic int64_t history_failed; /* devices up to this id are skipped */
    _Atomic int64_t looked;         /* new Delta readings were processed up to this device id */
    _Atomic int64_t rechecked;      /* changed devices were processed up to this id */
};

/* Returns the first status of an entry: with the internal issuer it has nothing to wait for. */
static inline const char *certificate_first_status(const struct certificate *certificate)
{
    return certificate->internal ? "Succeeded" : "Requested";
}

/* The entries that a caller sees. */
struct certificate_scope {
    bool all;
    const int64_t *organizations;
    size_t count;
};

/* The condition on a row `e`, and its two parameters, which are the first two of the statement. */
#define CERTIFICATE_SEES "($1::boolean OR e.organisation = ANY($2::bigint[]))"
#define CERTIFICATE_SCOPE_ARGS(scope)                                                              \
    bb_b((scope)->all), bb_ints((scope)->organizations, (scope)->count)

/* A time column in ms since 1970. */
#define CERTIFICATE_MS(column) "floor(extract(epoch FROM " column ") * 1000)::bigint"

/* The columns that certificate_entries() reads, of an entry `e` and its certificate `c`. */
#define CERTIFICATE_COLUMNS                                                                        \
    "e.id, " CERTIFICATE_MS("e.start_at") ", " CERTIFICATE_MS(                                     \
        "e.end_at") ", e.wh, e.status,"                                                            \
                    " e.device, nullif(e.group_id, 0), c.uid, e.certificate, e.organisation, "     \
                    "c.issued_wh, " CERTIFICATE_MS("c.start_at") ", " CERTIFICATE_MS("c.end_at")
/*
 * Joins the certificates of entries. LATERAL, because with a plain join the planner, which does not
 * know how few rows there are, might read all certificates.
 */
#define CERTIFICATE_OF_ENTRY                                                                       \
    " CROSS JOIN LATERAL (SELECT * FROM certificate c WHERE c.id = e.certificate LIMIT 1) c"
enum certificate_column {
    CERTIFICATE_ID,
    CERTIFICATE_START,
    CERTIFICATE_END,
    CERTIFICATE_WH,
    CERTIFICATE_STATUS,
    CERTIFICATE_DEVICE,
    CERTIFICATE_GROUP,
    CERTIFICATE_UID,
    CERTIFICATE_OF,
    CERTIFICATE_ORGANIZATION,
    CERTIFICATE_ISSUED,
    CERTIFICATE_FROM,
    CERTIFICATE_UNTIL
};

/* state.c */
int certificate_open(struct bb_host *host, void **state);
void certificate_close(struct bb_host *host, void *state);

/*
 * A caller sees the entries of the organizations in which it acts, an Admin all. Return 0,
 * or the status of the response sent. `asked` is organizationId, or 0.
 */
int certificate_scope(struct bb_request *rq, int64_t asked, struct certificate_scope *scope);
/* Finds the organization in which an object is created. */
int certificate_home(struct bb_request *rq, int64_t asked, int64_t *organization);

/* entry.c: returns the devices of rows, in the rows' order; NULL: failed (bb_failed()). */
const struct bb_device *certificate_devices(struct bb_request *rq, const struct bb_rows *rows,
                                            size_t count);
/* Returns the names of their sites. */
const char **certificate_sites(struct bb_request *rq, const struct bb_rows *rows, size_t count);
/*
 * Returns an entry with exactly the fields of the specification, owned by the caller; NULL: out of
 * memory.
 */
json_t *certificate_entry(struct bb_request *rq, const struct bb_rows *rows, size_t row,
                          const struct bb_device *device);
int certificate_reply(struct bb_request *rq, int status, json_t *json);

/*
 * group_devices.c: finds the devices of an organization that a list names.
 * certificate_group_taken() sends the response if they could not be added to a group. Both return 0
 * or the status of the response sent.
 */
int certificate_group_devices(struct bb_request *rq, int64_t organization, const json_t *sent,
                              int64_t **devices, size_t *count);
int certificate_group_taken(struct bb_request *rq, const int64_t *devices, size_t count);
/* group_list.c: responds with the group in the path. */
int certificate_group_reply(struct bb_request *rq, const struct certificate_scope *scope);

/*
 * share.c: if the group is shared with one of the scope's organizations, the scope becomes the
 * owner's. The caller must then query only this group. Returns 0, or the status of the response
 * sent.
 */
int certificate_shared(struct bb_request *rq, int64_t group, struct certificate_scope *scope);

/* csv_entry.c: writes the header, and an entry with its certificate and site. */
struct csv;
void csv_head(struct csv *csv);
void csv_entry(struct bb_request *rq, struct csv *csv, const struct bb_rows *rows, size_t row,
               const struct bb_device *device, const char *site);

/*
 * mark_due.c, history.c, recheck.c, cycle.c, finalize.c: each runs a step of the job for a limited
 * time. They return the amount of work done, or -1 if the step failed, which they log. They set
 * *more if the time was up before the end.
 */
/* Returns 0, or -1. */
int64_t certificate_mark_due(struct bb_request *rq, bool *more);
/* Makes cycles of changed devices due. Returns 0, or -1. */
int64_t certificate_recheck(struct bb_request *rq, bool *more);
/* Returns the number of History readings issued. */
int64_t certificate_history(struct bb_request *rq, bool *more);
int64_t certificate_cycles(struct bb_request *rq, bool *more);
int64_t certificate_finalize(struct bb_request *rq, bool *more);
/* Returns the end of a step that begins now, in the time of bb_now_ms(). */
int64_t certificate_turn(struct bb_request *rq);
int64_t certificate_step_failed(struct bb_request *rq, const char *step);
/*
 * Runs a statement with $1 = `size` again and again, until it processes fewer rows. Returns the
 * number of rows processed; -1: failed. Sets *any if it processed a row, or if its second column
 * says that there already was one.
 */
int64_t certificate_batches(struct bb_request *rq, const struct bb_sql *sql, int64_t size,
                            const char *step, bool *any);

/* recheck.c: the hook on device.updated. */
int certificate_device_changed(struct bb_request *rq, struct bb_tx *tx,
                               const struct bb_event *event, void *state);

/* Raises certificate.issued, which the organization receives. */
struct certificate_issued {
    const char *uid;
    int64_t organization, group; /* group 0: none */
    const char *start, *end;     /* in the API's format */
    int64_t wh, entries;
};
/* Raises certificate.issued. Returns 0, or -1. */
int certificate_emit(struct bb_request *rq, struct bb_tx *tx,
                     const struct certificate_issued *issued);

/* The handlers, the job and the command. */
int certificate_group_create(struct bb_request *rq);
int certificate_group_list(struct bb_request *rq);
int certificate_group_get(struct bb_request *rq);
int certificate_group_change(struct bb_request *rq);
int certificate_group_delete(struct bb_request *rq);
int certificate_group_join(struct bb_request *rq);
int certificate_group_leave(struct bb_request *rq);
int certificate_group_shares(struct bb_request *rq);
int certificate_group_share(struct bb_request *rq);
int certificate_group_unshare(struct bb_request *rq);
int certificate_log(struct bb_request *rq);
int certificate_one(struct bb_request *rq);
int certificate_totals(struct bb_request *rq);
int certificate_pages(struct bb_request *rq);
int certificate_export(struct bb_request *rq);
int certificate_explain(struct bb_request *rq);
int certificate_coverage(struct bb_request *rq);
int certificate_change(struct bb_request *rq);
void certificate_issue(struct bb_request *rq);
int certificate_command_issue(struct bb_request *rq);

#endif
