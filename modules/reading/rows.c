/*
 * The service "bulk rows:Reads": readings of many devices. The rows of a device that name the same
 * time zone are one submission, as a request would bring it, but that what is wrong with one row is
 * no matter of the others: it is taken out before the next step looks at them.
 */
#include <stdlib.h>
#include <string.h>

#include "modules/reading/base/reading.h"

enum { AT_A_TIME = 500 };
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

/* Rows of unknown devices are taken out. 0, or -1. */
static int find_devices(struct bb_request *rq, struct call *call, const json_t *keys)
{
    const struct reading *reading = rq->state;
    size_t count = 0;
    int64_t *ids;
    const char **problems;
    struct bb_device *devices;

    if (!call->count)
        return 0;
    if (reading->devices->identify(reading->devices_state, rq, keys, call->job->organisation, &ids,
                                   &problems) ||
        reading->devices->get(reading->devices_state, rq, ids, json_array_size(keys), &devices))
        return -1;
    for (size_t i = 0; i < call->count; i++) {
        struct one one = call->list[i];
        const char *problem = problems[one.key];

        one.device = &devices[one.key];
        if (one.device->size)
            call->list[count++] = one;
        else /* without a problem: it was deleted just now */
            bb_bulk_problem(rq, one.row, "externalId", problem ? problem : "Device not found");
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

static void take_notes(struct bb_request *rq, struct bb_bulk_row *row,
                       const struct reading_notes *notes)
{
    for (const struct reading_note *note = notes->first; note; note = note->next)
        bb_bulk_problem(rq, row, note->field, note->problem);
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
static int read_rows(struct bb_request *rq, struct reading_submission *submission, struct one *ones,
                     size_t count, bool trial)
{
    int64_t *numbers = bb_alloc(rq, count * sizeof(*numbers));

    *submission = (struct reading_submission){.flat = true,
                                              .named = ones->zone,
                                              .device = *ones->device,
                                              .numbers = numbers,
                                              .trial = trial};
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
        take_notes(rq, ones[i].row, &submission->notes[at]);
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
static void sort_out(struct bb_request *rq, struct reading_submission *submission,
                     const struct one *ones)
{
    const struct reading_notes *whole = &submission->notes[submission->count];
    size_t count = 0, all = submission->count;

    for (size_t i = 0; i < all; i++) {
        take_notes(rq, ones[i].row, whole);
        take_notes(rq, ones[i].row, &submission->notes[i]);
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
            .name = name, .field = "endDate", .from = item->start, .until = item->end};
    }
}

static void count_stored(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    const struct reading_submission *submission = arg;

    (void)tx;
    bb_metric_add(rq->host, READING_ACCEPTED, 0, submission->count);
}

/* Delta readings without a start begin where one ends that is stored: those with mistakes are none
 * of these, and are taken out. Whether there were any. */
static bool take_out_closed(struct bb_request *rq, struct reading_submission *submission,
                            struct one *ones)
{
    bool *open = bb_alloc(rq, submission->count);
    size_t count = 0;

    for (size_t i = 0; i < submission->count; i++)
        open[submission->items[i].index] = submission->items[i].open;
    for (size_t i = 0; i < submission->count; i++) {
        if (open[i] || !submission->notes[i].first)
            ones[count++] = ones[i];
        else
            take_notes(rq, ones[i].row, &submission->notes[i]);
    }
    bool some = count < submission->count;

    submission->count = count;
    return some;
}

/* Finds what is wrong with them, and leaves it in the notes. 0, or -1: `bb_failed(rq)`. */
static int judge(struct bb_request *rq, struct reading_submission *submission, struct one *ones,
                 size_t count, bool trial)
{
    for (;;) {
        if (read_rows(rq, submission, ones, count, trial)) {
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
        if (!submission->open || submission->notes[submission->count].first ||
            !take_out_closed(rq, submission, ones))
            return 0;
        count = submission->count;
    }
}

/* What was found wrong with rows is theirs, and the others are stored or claim their periods. */
static int conclude(struct bb_request *rq, const struct call *call,
                    struct reading_submission *submission, struct one *ones)
{
    if (call->tx && reading_wrong(submission) && reading_keep_refused_in(rq, call->tx, submission))
        return -1;
    sort_out(rq, submission, ones);
    if (!call->tx)
        claim(rq, submission, ones);
    else if (submission->count)
        bb_after(rq, call->tx, count_stored, submission);
    return 0;
}

/* What others store between the look for overlaps and the commit fails the transaction. */
static int one_device(struct bb_request *rq, const struct call *call, struct one *ones,
                      size_t count)
{
    struct reading_submission *submission = bb_alloc(rq, sizeof(*submission));

    if (judge(rq, submission, ones, count, !call->tx) || conclude(rq, call, submission, ones))
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
static int conclude_some(struct bb_request *rq, const struct call *call, struct crowd *crowd,
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
static int conclude_all(struct bb_request *rq, const struct call *call, struct crowd *crowd)
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

static int finish_crowd(struct bb_request *rq, const struct call *call, struct crowd *crowd)
{
    if (!crowd->count)
        return 0;
    if (reading_place_dated(rq, crowd->list, crowd->count))
        return -1;
    for (size_t i = 0; i < crowd->count; i++)
        reading_check(rq, crowd->list[i]);
    if (reading_find_all_overlaps(rq, crowd->list, crowd->count) || conclude_all(rq, call, crowd))
        return -1;
    crowd->count = 0;
    return 0;
}

/* The rows of a device and time zone. Those of a device that the crowd has go by themselves. */
static int take_group(struct bb_request *rq, const struct call *call, struct crowd *crowd,
                      struct one *ones, size_t count)
{
    struct reading_submission *submission = bb_alloc(rq, sizeof(*submission));
    int64_t last = crowd->count ? crowd->list[crowd->count - 1]->device.id : -1;

    if (read_rows(rq, submission, ones, count, !call->tx)) {
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

static int store(struct bb_request *rq, struct bb_tx *tx, const struct bb_bulk_job *job,
                 struct bb_bulk_row *const *rows, size_t count)
{
    struct call call = {.job = job, .tx = tx};

    return all_devices(rq, &call, rows, count);
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
