/*
 * The service "bulk rows:Reads": readings of many devices. The rows of a device that name the same
 * time zone are one submission, as a request would bring it, but that what is wrong with one row is
 * no matter of the others: it is taken out before the next step looks at them.
 */
#include <stdlib.h>
#include <string.h>

#include "modules/reading/base/reading.h"

enum { AT_A_TIME = 2000 };
enum column { DEVICE, START, END, VALUE, UNIT, TYPE, ZONE, COLUMNS };

// clang-format off
static const struct bb_field columns[COLUMNS] = {
    [DEVICE] = {.name = "externalId", .type = BB_TEXT, .flags = BB_REQUIRED, .example = "PLANT-7",
                .help = "The device's externalId in any case, else its uuid, serialNumber or id."},
    [START] = {.name = "startDate", .type = BB_TEXT, .alias = "starttimestamp",
               .example = "2026-04-01T00:00:00Z", .help = "Required for History."},
    [END] = {.name = "endDate", .type = BB_TEXT, .flags = BB_REQUIRED, .alias = "endtimestamp",
             .example = "2026-04-02T00:00:00Z", .help = "End of the period, ISO 8601."},
    [VALUE] = {.name = "value", .type = BB_NUMBER, .flags = BB_REQUIRED, .example = "48.2",
               .help = "The energy in `unit`, 0 or more."},
    [UNIT] = {.name = "unit", .type = BB_TEXT, .flags = BB_REQUIRED, .example = "kWh",
              .help = "Wh, kWh, MWh or GWh, in upper or lower case."},
    [TYPE] = {.name = "type", .type = BB_TEXT, .flags = BB_REQUIRED, .example = "History",
              .help = "History or Delta, in upper or lower case."},
    [ZONE] = {.name = "timezone", .type = BB_TEXT, .example = "Europe/Berlin",
              .help = "IANA name: dates without an offset are local to it; else they are UTC."},
};
// clang-format on

/* A row on its way. */
struct one {
    struct bb_bulk_row *row;
    const struct bb_device *device;
    const char *zone; /* NULL: none */
    size_t key;       /* which of the keys that are looked up */
};

struct call {
    const struct bb_bulk_job *job;
    struct bb_tx *tx; /* NULL: a check */
    struct one *list;
    size_t count;
    size_t over; /* rows that were above the ceiling */
};

static char *trimmed(struct bb_request *rq, const char *cell)
{
    static const char blanks[] = " \t\r\n";
    size_t length;

    cell += strspn(cell, blanks);
    length = strlen(cell);
    while (length && strchr(blanks, cell[length - 1]))
        length--;
    return bb_format(rq, "%.*s", (int)length, cell);
}

static void drop(void *json)
{
    json_decref(json);
}

/* ---- devices ---- */

/* Rows that name the same device mostly follow each other: each run of them is one key. */
static json_t *keys_of(struct bb_request *rq, struct call *call, struct bb_bulk_row *const *rows,
                       size_t count)
{
    json_t *keys = json_array();
    const char *last = NULL;

    bb_defer(rq, drop, keys);
    for (size_t i = 0; i < count; i++) {
        const char *cell = rows[i]->cells[DEVICE], *zone = rows[i]->cells[ZONE];
        const char *key = cell ? trimmed(rq, cell) : "";

        if (!*key) {
            bb_bulk_problem(rq, rows[i], "externalId", "is required");
            continue;
        }
        if ((!last || strcmp(last, key) != 0) && json_array_append_new(keys, json_string(key)))
            return NULL;
        last = key;
        zone = zone ? trimmed(rq, zone) : "";
        call->list[call->count++] = (struct one){
            .row = rows[i], .zone = *zone ? zone : NULL, .key = json_array_size(keys) - 1};
    }
    return keys;
}

static int by_number(const void *left, const void *right)
{
    const int64_t *a = left, *b = right;

    return (*a > *b) - (*a < *b);
}

/* Of the devices in `ids` those that take readings, in the order of their ids. NULL: failed. */
static int64_t *active_of(struct bb_request *rq, const int64_t *ids, size_t count, size_t *active)
{
    static const struct bb_sql look = {"SELECT * FROM device_active($1::bigint[])", 0};
    const struct bb_rows *rows = bb_query(rq, &look, BB_ARGS(bb_ints(ids, count)));

    if (!rows)
        return NULL;
    *active = bb_count(rq, rows);
    int64_t *list = bb_alloc(rq, (*active + 1) * sizeof(*list));

    for (size_t row = 0; row < *active; row++)
        list[row] = bb_cell_int(rq, rows, row, 0);
    qsort(list, *active, sizeof(*list), by_number);
    return list;
}

/* NULL: the row's device is there, and is Active. */
static const char *unfit(const struct bb_device *device, const char *problem, const int64_t *active,
                         size_t count)
{
    if (!device->size) /* without a problem: it was deleted just now */
        return problem ? problem : "Device not found";
    return bsearch(&device->id, active, count, sizeof(*active), by_number)
               ? NULL
               : "the device is Inactive";
}

/* Rows of devices that are unknown or Inactive are taken out. 0, or -1. */
static int find_devices(struct bb_request *rq, struct call *call, const json_t *keys)
{
    const struct reading *reading = rq->state;
    size_t count = 0, active_count;
    int64_t *ids, *active;
    const char **problems;
    struct bb_device *devices;

    if (!call->count)
        return 0;
    if (reading->devices->identify(reading->devices_state, rq, keys, call->job->organisation, &ids,
                                   &problems) ||
        reading->devices->get(reading->devices_state, rq, ids, json_array_size(keys), &devices))
        return -1;
    active = active_of(rq, ids, json_array_size(keys), &active_count);
    if (!active)
        return -1;
    for (size_t i = 0; i < call->count; i++) {
        struct one one = call->list[i];
        const char *problem;

        one.device = &devices[one.key];
        problem = unfit(one.device, problems[one.key], active, active_count);
        if (problem)
            bb_bulk_problem(rq, one.row, "externalId", problem);
        else
            call->list[count++] = one;
    }
    call->count = count;
    return 0;
}

static int by_device(const void *left, const void *right)
{
    const struct one *a = left, *b = right;

    if (a->device->id != b->device->id)
        return a->device->id < b->device->id ? -1 : 1;
    int zones = strcmp(a->zone ? a->zone : "", b->zone ? b->zone : "");

    return zones ? zones : a->row->number < b->row->number ? -1 : 1;
}

/* ---- the rows of a device ---- */

static void take_notes(struct bb_request *rq, struct call *call, struct bb_bulk_row *row,
                       const struct reading_notes *notes)
{
    for (const struct reading_note *note = notes->first; note; note = note->next) {
        bb_bulk_problem(rq, row, note->field, note->problem);
        call->over += note->kind == READING_OVER;
    }
}

static json_t *object_of(struct bb_request *rq, const struct bb_bulk_row *row)
{
    json_t *object = json_object();

    for (enum column i = START; i < ZONE; i++)
        if (row->cells[i] && object &&
            json_object_set_new(object, columns[i].name, json_string(row->cells[i]))) {
            json_decref(object);
            object = NULL;
        }
    if (object)
        bb_defer(rq, drop, object);
    return object;
}

/* Those that can be read by themselves are left, and their rows in `ones`. -1: no memory. */
static int read_rows(struct bb_request *rq, struct call *call,
                     struct reading_submission *submission, struct one *ones, size_t count)
{
    int64_t *numbers = bb_alloc(rq, count * sizeof(*numbers));

    *submission = (struct reading_submission){
        .flat = true, .named = ones->zone, .device = *ones->device, .numbers = numbers};
    submission->items = bb_alloc(rq, count * sizeof(*submission->items));
    submission->notes = bb_alloc(rq, (count + 1) * sizeof(*submission->notes));
    for (size_t i = 0; i < count; i++) {
        size_t at = submission->count;
        struct reading_item *item = &submission->items[at];
        const json_t *object = object_of(rq, ones[i].row);

        if (!object)
            return -1;
        *item = (struct reading_item){.index = at};
        reading_read_item(rq, submission, object, item);
        take_notes(rq, call, ones[i].row, &submission->notes[at]);
        if (submission->notes[at].first) {
            submission->notes[at] = (struct reading_notes){NULL, NULL};
            continue;
        }
        numbers[at] = ones[i].row->number;
        ones[submission->count++] = ones[i];
    }
    memset(submission->mistakes, 0, sizeof(submission->mistakes));
    submission->open = false;
    for (size_t i = 0; i < submission->count; i++)
        submission->open = submission->open || submission->items[i].open;
    return 0;
}

/* Takes those with mistakes out of the submission. */
static void sort_out(struct bb_request *rq, struct call *call,
                     struct reading_submission *submission, const struct one *ones)
{
    const struct reading_notes *whole = &submission->notes[submission->count];
    size_t count = 0, all = submission->count;

    for (size_t i = 0; i < all; i++) {
        take_notes(rq, call, ones[i].row, whole);
        take_notes(rq, call, ones[i].row, &submission->notes[i]);
    }
    for (size_t i = 0; i < all; i++)
        if (!ones[submission->items[i].index].row->problems)
            submission->items[count++] = submission->items[i];
    submission->count = count;
}

static void claim(struct bb_request *rq, const struct reading_submission *submission,
                  const struct one *ones)
{
    const char *name = bb_format(rq, "%lld", (long long)submission->device.id);

    for (size_t i = 0; i < submission->count; i++) {
        const struct reading_item *item = &submission->items[i];

        ones[item->index].row->claim = (struct bb_bulk_claim){
            .name = name, .field = "value", .from = item->start, .until = item->end};
    }
}

static void count_stored(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    const struct reading_submission *submission = arg;

    (void)tx;
    bb_metric_add(rq->host, READING_ACCEPTED, 0, submission->count);
}

/* Notes of Delta readings without a start are only about the starts that were supposed. */
static bool *forget_open(struct bb_request *rq, struct reading_submission *submission)
{
    bool *open = bb_alloc(rq, submission->count);

    for (size_t i = 0; i < submission->count; i++) {
        const struct reading_item *item = &submission->items[i];

        open[item->index] = item->open;
        if (item->open)
            submission->notes[item->index] = (struct reading_notes){NULL, NULL};
    }
    return open;
}

/* Delta readings without a start begin where one ends that is stored: those with mistakes are none
 * of these, and are taken out. 1: there were some, 0: none, -1: failed. */
static int take_out_closed(struct bb_request *rq, struct call *call,
                           struct reading_submission *submission, struct one *ones)
{
    const bool *open;
    size_t count = 0, all = submission->count;
    bool some = false;

    for (size_t i = 0; i < all; i++)
        some = some ||
               (!submission->items[i].open && submission->notes[submission->items[i].index].first);
    if (!some)
        return 0;
    open = forget_open(rq, submission);
    if (call->tx && reading_keep_refused_in(rq, call->tx, submission))
        return -1;
    for (size_t i = 0; i < all; i++) {
        if (open[i] || !submission->notes[i].first)
            ones[count++] = ones[i];
        else
            take_notes(rq, call, ones[i].row, &submission->notes[i]);
    }
    submission->count = count;
    return 1;
}

/* Finds what is wrong with them, and leaves it in the notes. 0, or -1: `bb_failed(rq)`. */
static int judge(struct bb_request *rq, struct call *call, struct reading_submission *submission,
                 struct one *ones, size_t count)
{
    for (;;) {
        if (read_rows(rq, call, submission, ones, count)) {
            bb_fail(rq, 503, "Out of memory");
            return -1;
        }
        if (!submission->count)
            return 0;
        if (reading_place(rq, submission))
            return -1;
        reading_check(rq, submission);
        if (reading_find_overlaps(rq, submission))
            return -1;
        reading_check_rows(rq, submission);
        if (!submission->open || submission->notes[submission->count].first)
            return 0;
        int taken = take_out_closed(rq, call, submission, ones);

        if (taken <= 0)
            return taken;
        count = submission->count;
    }
}

/* What was found wrong with rows is theirs, and the others are stored or claim their periods. */
static int conclude(struct bb_request *rq, struct call *call, struct reading_submission *submission,
                    struct one *ones)
{
    if (call->tx && reading_wrong(submission) && reading_keep_refused_in(rq, call->tx, submission))
        return -1;
    sort_out(rq, call, submission, ones);
    if (!call->tx)
        claim(rq, submission, ones);
    else if (submission->count)
        bb_after(rq, call->tx, count_stored, submission);
    return 0;
}

/* What others store between the look for overlaps and the commit fails the transaction. */
static int one_device(struct bb_request *rq, struct call *call, struct one *ones, size_t count)
{
    struct reading_submission *submission = bb_alloc(rq, sizeof(*submission));

    if (judge(rq, call, submission, ones, count) || conclude(rq, call, submission, ones))
        return -1;
    return call->tx && submission->count
               ? reading_add(rq, call->tx, submission, bb_wall_ms(rq->host))
               : 0;
}

/* ---- the rows of many devices ---- */

/* Submissions of different devices, in the order of their ids: they share their statements. */
struct crowd {
    struct reading_submission **list;
    struct one **ones;
    size_t count;
};

/* Those from the `first` one on, up to where one has to be judged again: the others are stored.
 * How many these were goes to *count. */
static int conclude_some(struct bb_request *rq, struct call *call, struct crowd *crowd,
                         size_t first, size_t *count)
{
    size_t stored = 0;

    for (*count = 0; first + *count < crowd->count; ++*count) {
        struct reading_submission *one = crowd->list[first + *count];

        if (one->open && reading_wrong(one))
            break;
        if (conclude(rq, call, one, crowd->ones[first + *count]))
            return -1;
        if (one->count)
            crowd->list[first + stored++] = one;
    }
    return call->tx && stored
               ? reading_add_many(rq, call->tx, crowd->list + first, stored, bb_wall_ms(rq->host))
               : 0;
}

/* Where a mistake may change from when the Delta readings without a start are, the rows of the
 * device are judged by themselves, in their turn: locks are taken in the order of ids. */
static int conclude_all(struct bb_request *rq, struct call *call, struct crowd *crowd)
{
    for (size_t at = 0, count; at < crowd->count; at += count + 1) {
        if (conclude_some(rq, call, crowd, at, &count))
            return -1;
        if (at + count < crowd->count &&
            one_device(rq, call, crowd->ones[at + count], crowd->list[at + count]->count))
            return -1;
    }
    return 0;
}

static int finish_crowd(struct bb_request *rq, struct call *call, struct crowd *crowd)
{
    if (!crowd->count)
        return 0;
    if (reading_place_dated(rq, crowd->list, crowd->count))
        return -1;
    for (size_t i = 0; i < crowd->count; i++)
        reading_check(rq, crowd->list[i]);
    if (reading_find_all_overlaps(rq, crowd->list, crowd->count))
        return -1;
    for (size_t i = 0; i < crowd->count; i++)
        reading_check_rows(rq, crowd->list[i]);
    if (conclude_all(rq, call, crowd))
        return -1;
    crowd->count = 0;
    return 0;
}

/* The rows of a device and time zone. Those of a device that the crowd has go by themselves. */
static int take_group(struct bb_request *rq, struct call *call, struct crowd *crowd,
                      struct one *ones, size_t count)
{
    struct reading_submission *submission = bb_alloc(rq, sizeof(*submission));
    int64_t last = crowd->count ? crowd->list[crowd->count - 1]->device.id : -1;

    if (read_rows(rq, call, submission, ones, count)) {
        bb_fail(rq, 503, "Out of memory");
        return -1;
    }
    if (!submission->count)
        return 0;
    if (last == submission->device.id)
        return finish_crowd(rq, call, crowd) ? -1 : one_device(rq, call, ones, submission->count);
    if (reading_date(rq, submission))
        return -1;
    crowd->list[crowd->count] = submission;
    crowd->ones[crowd->count++] = ones;
    return 0;
}

static bool same_group(const struct one *a, const struct one *b)
{
    return a->device->id == b->device->id &&
           strcmp(a->zone ? a->zone : "", b->zone ? b->zone : "") == 0;
}

static int all_devices(struct bb_request *rq, struct call *call, struct bb_bulk_row *const *rows,
                       size_t count)
{
    call->list = bb_alloc(rq, count * sizeof(*call->list));
    const json_t *keys = keys_of(rq, call, rows, count);

    if (!keys) {
        bb_fail(rq, 503, "Out of memory");
        return -1;
    }
    if (find_devices(rq, call, keys))
        return -1;
    if (call->count)
        qsort(call->list, call->count, sizeof(*call->list), by_device);
    struct crowd crowd = {
        .list = bb_alloc(rq, (call->count + 1) * sizeof(struct reading_submission *)),
        .ones = bb_alloc(rq, (call->count + 1) * sizeof(struct one *)),
    };

    for (size_t from = 0, to; from < call->count; from = to) {
        for (to = from + 1; to < call->count && same_group(&call->list[from], &call->list[to]);)
            to++;
        if (take_group(rq, call, &crowd, &call->list[from], to - from))
            return -1;
    }
    return finish_crowd(rq, call, &crowd);
}

static int check(struct bb_request *rq, const struct bb_bulk_job *job,
                 struct bb_bulk_row *const *rows, size_t count)
{
    struct call call = {.job = job};

    return all_devices(rq, &call, rows, count);
}

static void count_over(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    const struct call *call = arg;

    (void)tx;
    bb_metric_add(rq->host, READING_OVER_CEILING, 0, call->over);
}

static int store(struct bb_request *rq, struct bb_tx *tx, const struct bb_bulk_job *job,
                 struct bb_bulk_row *const *rows, size_t count)
{
    struct call *call = bb_alloc(rq, sizeof(*call));

    *call = (struct call){.job = job, .tx = tx};
    if (all_devices(rq, call, rows, count))
        return -1;
    if (call->over)
        bb_after(rq, tx, count_over, call);
    return 0;
}

const struct bb_bulk_rows reading_rows = {
    .size = sizeof(reading_rows),
    .help = "Meter readings, by the rules of POST /api/meter-reads/new/:externalId.",
    .roles = BB_ROLE_ADMIN | BB_ROLE_ORGANIZATION_ADMIN | BB_ROLE_DEVICE_OWNER | BB_ROLE_API_USER,
    .rows_max = AT_A_TIME,
    .columns = BB_TABLE(columns),
    .name_column = DEVICE,
    .check = check,
    .store = store,
};
