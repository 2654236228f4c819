/*
 * reading: meter readings of devices, in Wh, each checked against what the device could have
 * generated in its period.
 *
 * A request is read into a submission (read.c), its times become instants (period.c), it is checked
 * (check.c) and stored by one unit (store.c). All of it or nothing is stored. Everything runs on
 * the fiber of its request; only the cache of time zones is shared, behind its own mutex.
 */
#ifndef READING_H
#define READING_H

#include <busbar/busbar.h>

#include "modules/reading/rules/ceiling.h"
#include "modules/reading/rules/moment.h"
#include "modules/reading/rules/zone.h"

#define READING_MOST 10000        /* readings in a request */
#define READING_PERIOD_DAYS 366   /* of one reading */
#define READING_POOL "zone files" /* where zone data is read */

/* Of module.c, by their index. */
enum reading_metric { READING_ACCEPTED, READING_OVER_CEILING };

struct zones;
struct slots;

struct reading_settings {
    struct ceiling_rule rule;
    int64_t exports, exports_per_account;
};

/* State of one generation. */
struct reading {
    const struct reading_settings *settings;
    const struct bb_devices *devices;
    void *devices_state;
    struct zones *zones;
    struct slots *exports; /* under way (modules/common/slots.h) */
};

/* One reading of a request. What is not known is so by a mistake, which is noted. */
struct reading_item {
    size_t index; /* in the request */
    char type;    /* 'H' or 'D'; 0: not known */
    bool open;    /* a Delta without a start */
    bool has_start, has_end;
    struct moment sent_start, sent_end;
    bool begins, ends;  /* the instants are known */
    int64_t start, end; /* ms since 1970 */
    bool unsure;        /* of a check: rows that are not known here decide which hour is meant */
    bool measured;      /* the energy is known */
    double wh;          /* rounded to a whole number; may be beyond int64_t */
};

/* What is wrong with a reading, or with the whole. */
enum reading_mistake { READING_INVALID, READING_OVER, READING_OVERLAP, READING_MISTAKES };

struct reading_note {
    struct reading_note *next;
    enum reading_mistake kind;
    const char *field, *problem;
};

/* The mistakes of a reading, in the order in which they were found. */
struct reading_notes {
    struct reading_note *first, *last;
};

#define READING_WHOLE SIZE_MAX /* in the place of an index */

/* A request on its way in; what it points to lives as long as the request. */
struct reading_submission {
    bool flat;               /* one reading, not in a list */
    bool open;               /* some Delta has no start */
    const char *named;       /* timezone of the request, or NULL */
    bool misnamed;           /* there is no such zone */
    bool provisional;        /* a check of rows, of which earlier ones are not stored yet */
    const struct zone *zone; /* that, or else the device's; NULL: none */
    struct bb_device device;
    bool dated;                 /* the device has a commissioning date */
    int64_t commissioned;       /* 00:00 UTC of that day */
    int64_t commissioned_local; /* 00:00 of the zone */
    struct reading_item *items; /* by end, once they are instants */
    size_t count;
    struct reading_notes *notes;       /* by index; behind them those of the whole */
    size_t mistakes[READING_MISTAKES]; /* how many of each kind */
    const int64_t *numbers;            /* by index: of rows of a bulk upload; NULL: a request */
};

/* state.c */
int reading_open(struct bb_host *host, void **state);
void reading_close(struct bb_host *host, void *state);

/* most.c: the largest whole number of Wh that a device can plausibly generate in a period; 0 while
 * it lacks its capacity or commissioning date. The interface of struct bb_readings. */
int64_t reading_ceiling(void *state, const struct bb_device *device, int64_t start, int64_t end);

/* zones.c: any thread. A zone lives as long as the generation. */
struct zones *zones_new(void);
void zones_free(struct zones *zones);
/* 0 with *zone (NULL: there is no zone of that name), or -1: `return bb_failed(rq)`. Parks. */
int zones_get(struct bb_request *rq, const char *name, const struct zone **zone);

/* problem.c: notes that a member of a reading is not valid; `member` NULL: that the reading is. */
BB_PRINTF(5, 6)
void reading_problem(struct bb_request *rq, struct reading_submission *submission, size_t index,
                     const char *member, const char *format, ...);
/* Notes that a reading is valid and cannot be stored yet. */
BB_PRINTF(5, 6)
void reading_clash(struct bb_request *rq, struct reading_submission *submission,
                   enum reading_mistake kind, size_t index, const char *format, ...);
/* Whether any was noted. */
bool reading_wrong(const struct reading_submission *submission);
/* keep_refused.c: keeps the readings that have mistakes, for reading_refused(). A failure is
 * logged. */
void reading_keep_refused(struct bb_request *rq, const struct reading_submission *submission);
/* The same for several submissions of an organisation: each adds its own to an array, 0 or -1 (no
 * memory), and the array is stored in the transaction `tx`: 0, or -1 for `bb_failed(rq)`. */
int reading_refused_add(struct bb_request *rq, const struct reading_submission *submission,
                        json_t *list);
int reading_refused_store(struct bb_request *rq, struct bb_tx *tx, int64_t organisation,
                          const json_t *list);
/* The answer that names all mistakes: 400, or 409 where all of them are conflicts. */
int reading_refuse(struct bb_request *rq, struct reading_submission *submission);

/* Functions that return int give 0, or the status of the answer that they gave. */

/* read.c: the body; what is wrong is noted. */
void reading_read(struct bb_request *rq, struct reading_submission *submission);
/* One reading of it. */
void reading_read_item(struct bb_request *rq, struct reading_submission *submission,
                       const json_t *object, struct reading_item *item);
/* local.c: instants of the dates; Delta readings without a start have none yet. 0, or -1:
 * `bb_failed(rq)`. */
int reading_place_moments(struct bb_request *rq, struct reading_submission *submission);
/* period.c: instants, and the order by end; what is wrong is noted. */
int reading_place(struct bb_request *rq, struct reading_submission *submission);
/* The same in two steps, of which the second takes so many devices' submissions at once. */
int reading_date(struct bb_request *rq, struct reading_submission *submission);
int reading_place_dated(struct bb_request *rq, struct reading_submission *const *list,
                        size_t count);
/* check.c: the ceiling, and overlaps inside a request; what is wrong is noted. */
void reading_check(struct bb_request *rq, struct reading_submission *submission);
/* overlap_rows.c: overlaps among rows of a bulk upload, once all else that is wrong with them is
 * noted: a row that has a mistake stands in no other's way, and of two that overlap the earlier
 * one goes in, as if each had been sent by itself. */
void reading_check_rows(struct bb_request *rq, struct reading_submission *submission);
/* Whether the period of a reading is known, and is one. */
bool reading_placed(const struct reading_item *item);
/* overlap.c: notes the readings that overlap stored ones. */
int reading_find_overlaps(struct bb_request *rq, struct reading_submission *submission);
/* The same of so many devices' readings. */
int reading_find_all_overlaps(struct bb_request *rq, struct reading_submission *const *list,
                              size_t count);
/* store.c: whether the device generates no more, or is gone; asked once readings are refused. */
int reading_find_idle(struct bb_request *rq, const struct bb_device *device);
/* Stores and answers; the answer's status. */
int reading_store(struct bb_request *rq, struct reading_submission *submission);
/* Adds all of it to a unit or transaction, with the events. -1: `bb_failed(rq)`. */
int reading_add(struct bb_request *rq, struct bb_tx *tx, struct reading_submission *submission,
                int64_t now);
/* Puts them into the order that the two below want: by type, Delta first, and end. */
void reading_sort(struct reading_submission *submission);
/* What follows the readings of one device: the events, and the time zone that they name. */
int reading_tell(struct bb_request *rq, struct bb_tx *tx,
                 const struct reading_submission *submission);
/* How many of them, from the first, are of Delta. */
size_t reading_deltas(const struct reading_submission *submission);
/* store_many.c: adds those of several devices, each of which is there once, in the order of their
 * ids. -1: `bb_failed(rq)`. */
int reading_add_many(struct bb_request *rq, struct bb_tx *tx,
                     struct reading_submission *const *list, size_t count, int64_t now);

/* event.c: reading.accepted for items of one type. 0, or -1: `return bb_failed(rq)`. */
int reading_emit(struct bb_request *rq, struct bb_tx *tx, const struct bb_device *device,
                 const struct reading_item *items, size_t count);

/* shape.c: a reading as the API shows it, given; NULL: no memory. */
json_t *reading_json(struct bb_request *rq, char type, int64_t start, int64_t end, int64_t wh,
                     int64_t created);
int reading_reply(struct bb_request *rq, int status, json_t *json);
/* The id of a reading, which is made of its type and its end. */
int64_t reading_id(char type, int64_t end);

/* What the database and the API have room for, ms since 1970: 0001-01-01 to 9999-12-31. */
#define READING_EARLIEST INT64_C(-62135596800000)
#define READING_LATEST INT64_C(253402300799999)

/* Of which readings a list or sums are: those that end behind `start` and not behind `end`. */
struct reading_range {
    const char *type;   /* "H" or "D"; NULL: both */
    int64_t start, end; /* ms since 1970 */
};

/* Behind which reading a page begins. */
struct reading_cursor {
    int64_t end;      /* of the last reading seen */
    const char *type; /* "H" or "D"; "": none was seen */
};

/* A stored reading; times in ms since 1970. */
struct reading_row {
    char type;
    int64_t start, end, wh, created;
};

/* list.c: of the query. */
int reading_range(struct bb_request *rq, struct reading_range *range);
/* The next readings of a device behind the cursor, by their end, for whoever takes page after page;
 * NULL: failed. */
const struct bb_rows *reading_fetch_long(struct bb_request *rq, int64_t device,
                                         const struct reading_range *range,
                                         const struct reading_cursor *cursor, int64_t limit);
struct reading_row reading_row_of(struct bb_request *rq, const struct bb_rows *rows, size_t row);

/* submit.c: the device of the path, with the query's or the given organisation. */
int reading_device(struct bb_request *rq, int64_t organisation, struct bb_device *device);

/* A time column in ms since 1970. */
#define READING_MS(column) "floor(extract(epoch FROM " column ") * 1000)::bigint"

/* void.c: the voided readings of a device. */
int reading_list_voided(struct bb_request *rq, const struct bb_device *device,
                        const struct reading_range *range, int64_t limit);

/* rows.c: the service "bulk rows:Reads". */
extern const struct bb_bulk_rows reading_rows;

/* The handlers and the jobs. */
int reading_submit(struct bb_request *rq);
int reading_list(struct bb_request *rq);
int reading_export(struct bb_request *rq);
int reading_void(struct bb_request *rq);
int reading_totals(struct bb_request *rq);
int reading_latest(struct bb_request *rq);
int reading_refused(struct bb_request *rq);
void reading_sweep_refused(struct bb_request *rq);
void reading_partitions(struct bb_request *rq);

#endif
