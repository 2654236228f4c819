/*
 * certificate: issuance for energy that was measured, and the log of it.
 *
 * A History reading makes one entry of the log. Delta readings are issued for groups of devices, by
 * cycles: the readings that end in a cycle, and what the group carries from before, in whole kWh;
 * the rest is carried on. The job (issue.c) takes what is fresh from the service "readings", notes
 * which cycles are due (mark_due.c), issues those that have ended (cycle.c) and History
 * (history.c), and moves entries on that wait for no issuer any more (finalize.c). Each step is a
 * transaction that takes its input away and leaves its result, so a kill at any moment costs
 * nothing, and running again changes nothing.
 */
#ifndef CERTIFICATE_H
#define CERTIFICATE_H

#include <busbar/busbar.h>
#include <stdatomic.h>

#define CERTIFICATE_GROUP_MOST 10000 /* devices in a group */
#define CERTIFICATE_KWH 1000         /* what is issued to a group is a multiple of this */

struct slots;

struct certificate_settings {
    int64_t threshold; /* Wh */
    const char *issuer;
    json_t *issuers; /* e-mails of external ones, in lower case */
    int64_t exports, exports_per_account;
};

/* State of one generation. */
struct certificate {
    const struct certificate_settings *settings;
    bool internal;         /* certificate.issuer: internal */
    struct slots *exports; /* under way (modules/common/slots.h) */
    const struct bb_devices *devices;
    void *devices_state;
    const struct bb_accounts *accounts;
    void *accounts_state;
    const struct bb_readings *readings;
    void *readings_state;
    /* Where the job goes on when a turn was over; 0: at the head. */
    _Atomic int64_t cycles_failed;  /* so many cycles at the head, which failed, are passed by */
    _Atomic int64_t history_failed; /* and the devices up to this one */
    _Atomic int64_t looked;         /* up to this device fresh Delta readings were looked through */
};

/* With which an entry begins: an internal issuer has nobody to wait for. */
static inline const char *certificate_first_status(const struct certificate *certificate)
{
    return certificate->internal ? "Succeeded" : "Requested";
}

/* Whose entries a caller sees. */
struct certificate_scope {
    bool all;
    const int64_t *organisations;
    size_t count;
};

/* The condition on a row `e`, and its two parameters, first in the statement. */
#define CERTIFICATE_SEES "($1::boolean OR e.organisation = ANY($2::bigint[]))"
#define CERTIFICATE_SCOPE_ARGS(scope)                                                              \
    bb_b((scope)->all), bb_ints((scope)->organisations, (scope)->count)

/* A time column in ms since 1970. */
#define CERTIFICATE_MS(column) "floor(extract(epoch FROM " column ") * 1000)::bigint"

/* What certificate_entries() reads, of an entry `e` and its certificate `c`. */
#define CERTIFICATE_COLUMNS                                                                        \
    "e.id, " CERTIFICATE_MS("e.start_at") ", " CERTIFICATE_MS(                                     \
        "e.end_at") ", e.wh, e.status,"                                                            \
                    " e.device, nullif(e.group_id, 0), c.uid, e.certificate, e.organisation, "     \
                    "c.issued_wh, " CERTIFICATE_MS("c.start_at") ", " CERTIFICATE_MS("c.end_at")
/* Their certificate. A join would let the planner, who does not know how few rows there are, read
 * all certificates. */
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
    CERTIFICATE_ORGANISATION,
    CERTIFICATE_ISSUED,
    CERTIFICATE_FROM,
    CERTIFICATE_UNTIL
};

/* state.c */
int certificate_open(struct bb_host *host, void **state);
void certificate_close(struct bb_host *host, void *state);

/* scope.c: 0, or the status of the answer given. `asked`: organizationId, 0 for none. */
int certificate_scope(struct bb_request *rq, int64_t asked, struct certificate_scope *scope);
/* The organisation in which something is made. */
int certificate_home(struct bb_request *rq, int64_t asked, int64_t *organisation);

/* entry.c: the devices of rows, in their order; NULL: failed (bb_failed()). */
const struct bb_device *certificate_devices(struct bb_request *rq, const struct bb_rows *rows,
                                            size_t count);
/* And the names of their sites. */
const char **certificate_sites(struct bb_request *rq, const struct bb_rows *rows, size_t count);
/* An entry with exactly the fields of the specification, given; NULL: no memory. */
json_t *certificate_entry(struct bb_request *rq, const struct bb_rows *rows, size_t row,
                          const struct bb_device *device);
int certificate_reply(struct bb_request *rq, int status, json_t *json);

/* group_devices.c: the devices of an organisation that a list names, or the status of the answer
 * given; what to answer when they could not be put into a group. */
int certificate_group_devices(struct bb_request *rq, int64_t organisation, const json_t *sent,
                              int64_t **devices, size_t *count);
int certificate_group_taken(struct bb_request *rq, const int64_t *devices, size_t count);
/* group_list.c: answers with the group of the path. */
int certificate_group_reply(struct bb_request *rq, const struct certificate_scope *scope);

/* share.c: with a group that is shared with one of the scope's organisations the scope becomes its
 * owner; who calls it asks for nothing but the group. 0, or the status of the answer given. */
int certificate_shared(struct bb_request *rq, int64_t group, struct certificate_scope *scope);

/* csv_entry.c: the names of the columns; an entry, with what its certificate and site are. */
struct csv;
void csv_head(struct csv *csv);
void csv_entry(struct bb_request *rq, struct csv *csv, const struct bb_rows *rows, size_t row,
               const struct bb_device *device, const char *site);

/* mark_due.c, history.c, cycle.c, finalize.c: a step of the job, for a turn. How much it did; -1:
 * it failed, and that is in the log. *more: its turn was over before the end. */
/* 0, or -1. */
int64_t certificate_mark_due(struct bb_request *rq, bool *more);
/* How many History readings were issued. */
int64_t certificate_history(struct bb_request *rq, bool *more);
int64_t certificate_cycles(struct bb_request *rq, bool *more);
int64_t certificate_finalize(struct bb_request *rq, bool *more);
/* When a step's turn that begins now is over, in bb_now_ms(). */
int64_t certificate_turn(struct bb_request *rq);
int64_t certificate_step_failed(struct bb_request *rq, const char *step);
/*
 * Runs a statement whose $1 is `size`, until it does less. How much it did; -1: it failed. `any`:
 * it did something, or its second column says that something was there already.
 */
int64_t certificate_batches(struct bb_request *rq, const struct bb_sql *sql, int64_t size,
                            const char *step, bool *any);

/* recheck.c: the hook on device.updated. */
int certificate_recheck(struct bb_request *rq, struct bb_tx *tx, const struct bb_event *event,
                        void *state);

/* event.c */
struct certificate_issued {
    const char *uid;
    int64_t organisation, group; /* group 0: none */
    const char *start, *end;     /* as the API writes times */
    int64_t wh, entries;
};
/* certificate.issued. 0, or -1. */
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
