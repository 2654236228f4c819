/*
 * reading: meter readings of devices, in Wh, each checked against the energy that the device could
 * have generated in its period.
 *
 * A request is parsed into a submission (submission.c). Its times become instants (period.c,
 * local.c), and it is checked (check.c) and stored in one unit (store.c), either completely or not
 * at all. Rows of a bulk upload are submissions, too (rows.c). Everything runs on the fiber of its
 * request.
 *
 * Functions that return int return 0 or the status of the response sent, unless stated otherwise.
 */
#ifndef READING_H
#define READING_H

#include <busbar/busbar.h>
#include <busbar/moment.h>

#include "modules/common/zones.h"
#include "modules/reading/rules/ceiling.h"
#include "modules/reading/rules/unit.h"

#define READING_MOST 10000      /* per request */
#define READING_PERIOD_DAYS 366 /* maximum period of a reading */

/* Limits of the database and the API, in ms since 1970: 0001-01-01 to 9999-12-31. */
#define READING_EARLIEST INT64_C(-62135596800000)
#define READING_LATEST INT64_C(253402300799999)

/* Indexes of the metrics in module.c. */
enum reading_metric { READING_ACCEPTED, READING_OVER_CEILING };

/* module.c: fields of responses, in the order of the statements' columns. */
extern const struct bb_field reading_fields[10], reading_refused_fields[10];
extern const struct bb_field reading_total_fields[6], reading_latest_fields[8];

struct slots;
struct reading_settings {
    struct ceiling_rule rule;
    int64_t exports, exports_per_account;
};

/* The state of the module. Each reload of the configuration creates another one. */
struct reading {
    const struct reading_settings *settings;
    const struct bb_devices *devices;
    void *devices_state;
    void *zones;           /* all time zones, see zones_read() */
    struct slots *exports; /* slots of the exports in progress */
};

/* One reading of a request. If a value is unknown, a mistake has been noted. */
struct reading_item {
    size_t index; /* in the request */
    char type;    /* 'H' (History) or 'D' (Delta); 0: unknown */
    bool open;    /* a Delta reading without a start */
    bool has_start, has_end;
    struct bb_moment sent_start, sent_end;
    bool begins, ends;  /* `start` and `end` are known */
    int64_t start, end; /* ms since 1970 */
    bool unsure;        /* a time occurs twice, and rows not stored yet decide which one it is */
    bool measured;      /* `wh` is known */
    double wh;          /* a whole number; may exceed int64_t */
};

/* Returns whether the period of a reading is known and valid. */
static inline bool reading_placed(const struct reading_item *item)
{
    return item->begins && item->ends && item->start < item->end;
}

/* Returns whether the energy of a reading is known and is this number of Wh. */
static inline bool reading_has_energy(const struct reading_item *item, int64_t wh)
{
    return item->measured && item->wh >= (double)wh && item->wh <= (double)wh;
}

/* A mistake of a reading or of the whole request. */
enum reading_mistake { READING_INVALID, READING_OVER, READING_OVERLAP, READING_MISTAKES };

struct reading_note {
    struct reading_note *next; /* in the order in which the mistakes were found */
    enum reading_mistake kind;
    const char *field, *problem;
};

#define READING_WHOLE SIZE_MAX /* index for mistakes of the whole request */

/* A request being processed; its pointers are valid as long as the request. */
struct reading_submission {
    bool flat;               /* a single reading, not a list */
    bool open;               /* a Delta reading has no start */
    const char *named;       /* the time zone that the request names, or NULL */
    bool provisional;        /* rows are only checked, so earlier rows are not stored yet */
    const struct zone *zone; /* of the request, or else of the device; NULL: none */
    struct bb_device device;
    bool dated;                 /* the device has a commissioning date */
    int64_t commissioned;       /* 00:00 UTC of the commissioning date */
    int64_t commissioned_local; /* 00:00 of the commissioning date in `zone` */
    struct reading_item *items; /* sorted by end as soon as the ends are known */
    size_t count;
    struct reading_note **notes; /* by the index of a reading; the last is for the whole request */
    size_t wrong, mistakes[READING_MISTAKES]; /* number of mistakes, and number of each kind */
    const int64_t *numbers; /* row numbers in a bulk upload, by index; NULL: not a bulk upload */
};

/* submission.c: notes a mistake of a member of a reading, or of the reading if `member` is NULL. */
BB_PRINTF(6, 7)
void reading_note(struct bb_request *rq, struct reading_submission *submission,
                  enum reading_mistake kind, size_t index, const char *member, const char *format,
                  ...);
/* Notes that a member is invalid. */
#define reading_problem(rq, submission, index, member, ...)                                        \
    reading_note(rq, submission, READING_INVALID, index, member, __VA_ARGS__)
/* Parses a reading into `item`, and notes its mistakes. */
void reading_read_item(struct bb_request *rq, struct reading_submission *submission,
                       const json_t *object, struct reading_item *item);
/* Appends notes to a list of problems, with their codes. */
void reading_list_notes(struct bb_request *rq, const struct reading_note *note, json_t *list);
/* Sends a response that names all mistakes: 400, or 409 if all of them are conflicts. */
int reading_refuse(struct bb_request *rq, struct reading_submission *submission);
/* Returns the device named in the path. Ends the request if there is none. */
struct bb_device reading_device(struct bb_request *rq);

/*
 * refused.c: keeps refused readings of an organization. reading_refused_add() adds the refused
 * readings of a submission to an array. reading_refused_store() stores the array, in transaction
 * `tx` if it is not NULL, and returns 0, or -1 if the query failed.
 */
void reading_refused_add(struct bb_request *rq, const struct reading_submission *submission,
                         json_t *list);
int reading_refused_store(struct bb_request *rq, struct bb_tx *tx, int64_t organization,
                          const json_t *list);

/*
 * local.c: computes the instants of the dates that were sent. Returns 0, or -1 if a query failed.
 * reading_place() computes the missing starts.
 */
int reading_place_moments(struct bb_request *rq, struct reading_submission *submission);
/*
 * period.c: reading_date() computes instants and sorts the readings by end. reading_place()
 * computes the missing starts of Delta readings, and checks the periods. Both note mistakes.
 */
int reading_date(struct bb_request *rq, struct reading_submission *submission);
int reading_place(struct bb_request *rq, struct reading_submission *const *list, size_t count);

/* check.c: notes the readings that exceed the ceiling or overlap a reading of the same request. */
void reading_check(struct bb_request *rq, struct reading_submission *submission);
/* Notes the readings of several devices that overlap stored readings. */
int reading_find_overlaps(struct bb_request *rq, struct reading_submission *const *list,
                          size_t count);
/*
 * Notes overlaps among the rows of a bulk upload. Call it after all other mistakes were noted,
 * because a row with a mistake is not stored and so cannot overlap other rows. If two rows overlap,
 * the mistake is noted for the later row.
 */
void reading_check_rows(struct bb_request *rq, struct reading_submission *submission);

/* store.c: stores the readings and sends the response. Returns the response's status. */
int reading_store(struct bb_request *rq, struct reading_submission *submission);
/*
 * Adds the readings and their events to `tx`, which must be a transaction, or a unit if there is
 * one submission. The submissions are of different devices, sorted by device id. `now` is in ms
 * since 1970. After the commit the metrics count the readings. Returns 0, or -1 on failure.
 */
int reading_add(struct bb_request *rq, struct bb_tx *tx, struct reading_submission *const *list,
                size_t count, int64_t now);

/* The readings of a list or sum: they end after `start` and at or before `end`. */
struct reading_range {
    const char *type;   /* "H" or "D"; NULL: both */
    int64_t start, end; /* ms since 1970 */
};

/* list.c: reads the range from the query. Ends the request if the parameter `type` is invalid. */
struct reading_range reading_range(struct bb_request *rq);
/* Returns the JSON of a reading, owned by the caller; NULL: out of memory. */
json_t *reading_json(struct bb_request *rq, char type, int64_t start, int64_t end, int64_t wh,
                     int64_t created);

/*
 * list.c: a function of struct bb_readings. Returns the highest whole number of Wh that a device
 * can plausibly generate in a period, or 0 if it has no capacity or commissioning date.
 */
int64_t reading_ceiling(void *state, const struct bb_device *device, int64_t start, int64_t end);

/* rows.c: the service "bulk rows:Reads". */
extern const struct bb_bulk_rows reading_rows;

/* The handlers, and the job reading.refused. */
bb_handler reading_submit, reading_list, reading_export, reading_void, reading_totals,
    reading_latest, reading_latest_of, reading_refused;
void reading_sweep_refused(struct bb_request *rq);

#endif
