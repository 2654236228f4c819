/*
 * The service "bulk rows:Reads": readings of many devices. The rows of a device that name the same
 * time zone form one submission, like a request. Unlike in a request, a mistake in one row does not
 * affect the others: the row is removed before the next step.
 */
#include <stdlib.h>
#include <string.h>

#include "modules/reading/base/reading.h"

enum column { DEVICE, START, END, VALUE, UNIT, TYPE, ZONE, COLUMNS };

/* A row being processed. */
struct one {
    struct bb_bulk_row *row;
    const struct bb_device *device;
    const char *zone; /* NULL: none */
    size_t key;       /* index of its key in the list of keys */
    bool two_keys; /* the previous key also belongs to the row and takes precedence: the name as it
                      was sent */
};

struct call {
    const struct bb_bulk_job *job;
    struct bb_tx *tx; /* NULL: only a check */
    struct one *list;
    size_t count;
    size_t over;     /* rows above the ceiling */
    json_t *refused; /* with `tx`: refused rows for reading_refused_store() */
};

// clang-format off
static const struct bb_field rows_columns[COLUMNS] = {
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

/* ---- the devices that the rows of a call name ---- */

/* Rows of the same device are usually adjacent: each run of them is one key. */
static json_t *keys_of(struct bb_request *rq, struct call *call, struct bb_bulk_row *const *rows,
                       size_t count)
{
    json_t *keys = json_array();
    const char *last = NULL;

    bb_defer(rq, bb_json_drop, keys);
    for (size_t i = 0; i < count; i++) {
        const char *cell = rows[i]->cells[DEVICE], *zone = rows[i]->cells[ZONE];
        const char *key = cell ? bb_trimmed(rq, cell) : "", *sent = rows[i]->name_as_sent;

        if (!*key) {
            bb_bulk_problem(rq, rows[i], "externalId", "is required");
            continue;
        }
        if (sent && json_array_append_new(keys, json_string(bb_trimmed(rq, sent))))
            return NULL;
        if ((sent || !last || strcmp(last, key) != 0) &&
            json_array_append_new(keys, json_string(key)))
            return NULL;
        last = key;
        zone = zone ? bb_trimmed(rq, zone) : "";
        call->list[call->count++] = (struct one){.row = rows[i],
                                                 .zone = *zone ? zone : NULL,
                                                 .key = json_array_size(keys) - 1,
                                                 .two_keys = sent != NULL};
    }
    return keys;
}

static int by_number(const void *left, const void *right)
{
    const int64_t *a = left, *b = right;

    return (*a > *b) - (*a < *b);
}

/* Returns the devices in `ids` that accept readings, sorted by id. NULL: failed. */
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

/* Returns NULL if the row's device exists and is Active. */
static const char *unfit(const struct bb_device *device, const char *problem, const int64_t *active,
                         size_t count)
{
    if (!device->size) /* no problem, but not found: deleted just now */
        return problem ? problem : "Device not found";
    return bsearch(&device->id, active, count, sizeof(*active), by_number)
               ? NULL
               : "the device is Inactive";
}

/* Removes the rows of devices that are unknown or Inactive. Returns 0, or -1. */
static int look_up(struct bb_request *rq, struct call *call, const json_t *keys)
{
    const struct reading *reading = rq->state;
    size_t count = 0, active_count;
    int64_t *ids, *active;
    const char **problems;
    struct bb_device *devices;

    if (!call->count)
        return 0;
    if (reading->devices->identify(reading->devices_state, rq, keys, call->job->organization, &ids,
                                   &problems) ||
        reading->devices->get(reading->devices_state, rq, ids, json_array_size(keys), &devices))
        return -1;
    active = active_of(rq, ids, json_array_size(keys), &active_count);
    if (!active)
        return -1;
    for (size_t i = 0; i < call->count; i++) {
        struct one one = call->list[i];
        const char *problem;

        if (one.two_keys && ids[one.key - 1])
            one.key--;
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

/* Returns whether two rows belong to the same submission. */
static bool rows_together(const struct one *a, const struct one *b)
{
    return a->device->id == b->device->id &&
           strcmp(a->zone ? a->zone : "", b->zone ? b->zone : "") == 0;
}

/*
 * Fills call->list with the rows whose devices are known and Active, grouped by device, and reports
 * the problems of the other rows. Returns 0, or -1: `bb_failed(rq)`.
 */
static int rows_find_devices(struct bb_request *rq, struct call *call,
                             struct bb_bulk_row *const *rows, size_t count)
{
    call->list = bb_alloc(rq, count * sizeof(*call->list));
    const json_t *keys = keys_of(rq, call, rows, count);

    if (!keys) {
        bb_no_memory(rq);
        return -1;
    }
    if (look_up(rq, call, keys))
        return -1;
    if (call->count)
        qsort(call->list, call->count, sizeof(*call->list), by_device);
    return 0;
}

/* ---- the rows of one device ---- */

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
            json_object_set_new(object, rows_columns[i].name, json_string(row->cells[i]))) {
            json_decref(object);
            object = NULL;
        }
    if (object)
        bb_defer(rq, bb_json_drop, object);
    return object;
}

/*
 * Parses the rows of one submission, `count` entries of `ones`. Rows that cannot be parsed are
 * removed from the submission and from `ones`. Returns 0, or -1: `bb_failed(rq)`.
 */
static int rows_read(struct bb_request *rq, struct call *call,
                     struct reading_submission *submission, struct one *ones, size_t count)
{
    int64_t *numbers = bb_alloc(rq, count * sizeof(*numbers));

    *submission = (struct reading_submission){.flat = true,
                                              .named = ones->zone,
                                              .device = *ones->device,
                                              .numbers = numbers,
                                              .provisional = !call->tx};
    submission->items = bb_alloc(rq, count * sizeof(*submission->items));
    submission->notes = bb_alloc(rq, (count + 1) * sizeof(*submission->notes));
    for (size_t i = 0; i < count; i++) {
        size_t at = submission->count;
        struct reading_item *item = &submission->items[at];
        const json_t *object = object_of(rq, ones[i].row);

        if (!object) {
            bb_no_memory(rq);
            return -1;
        }
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

/* If rows are being stored, adds the refused ones to the list of all devices. */
static int keep_refused(struct bb_request *rq, struct call *call,
                        const struct reading_submission *submission)
{
    if (!call->tx || !reading_refused_add(rq, submission, call->refused))
        return 0;
    bb_no_memory(rq);
    return -1;
}

/* Removes the readings with mistakes from the submission. */
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

/*
 * A Delta reading without a start begins at the end of the previous reading, which may be in
 * another part of the file; so it claims only its end.
 */
static void claim(struct bb_request *rq, const struct reading_submission *submission,
                  const struct one *ones)
{
    const char *name = bb_format(rq, "%lld", (long long)submission->device.id);

    for (size_t i = 0; i < submission->count; i++) {
        const struct reading_item *item = &submission->items[i];

        if (item->unsure)
            continue;
        ones[item->index].row->claim =
            (struct bb_bulk_claim){.name = name,
                                   .field = "value",
                                   .from = item->open ? item->end - 1 : item->start,
                                   .until = item->end};
    }
}

static void count_stored(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    const struct reading_submission *submission = arg;

    (void)tx;
    bb_metric_add(rq->host, READING_ACCEPTED, 0, submission->count);
}

/* Drops the notes of Delta readings without a start, because they are about assumed starts. */
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

/*
 * Delta readings without a start begin at the end of a stored reading. Readings with mistakes are
 * not stored, so they are removed first. Returns 1 if there were any, 0 if not, -1 on failure.
 */
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
    if (keep_refused(rq, call, submission))
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

/* Finds the mistakes and leaves them in the notes. Returns 0, or -1: `bb_failed(rq)`. */
static int judge(struct bb_request *rq, struct call *call, struct reading_submission *submission,
                 struct one *ones, size_t count)
{
    for (;;) {
        if (rows_read(rq, call, submission, ones, count))
            return -1;
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

/*
 * Reports the mistakes of the rows; the other rows are stored, or claim their periods. Returns 0 or
 * -1: `bb_failed(rq)`.
 */
static int rows_conclude(struct bb_request *rq, struct call *call,
                         struct reading_submission *submission, const struct one *ones)
{
    if (reading_wrong(submission) && keep_refused(rq, call, submission))
        return -1;
    sort_out(rq, call, submission, ones);
    if (!call->tx)
        claim(rq, submission, ones);
    else if (submission->count)
        bb_after(rq, call->tx, count_stored, submission);
    return 0;
}

/*
 * Does all steps for the rows of one device. If others store readings between the search for
 * overlaps and the commit, the commit fails. Returns 0 or -1.
 */
static int rows_of_device(struct bb_request *rq, struct call *call, struct one *ones, size_t count)
{
    struct reading_submission *submission = bb_alloc(rq, sizeof(*submission));

    if (judge(rq, call, submission, ones, count) || rows_conclude(rq, call, submission, ones))
        return -1;
    return call->tx && submission->count
               ? reading_add(rq, call->tx, submission, bb_wall_ms(rq->host))
               : 0;
}

/* ---- rows of many devices share their statements ---- */

/* Submissions of different devices that share their statements, sorted by device id. */
struct crowd {
    struct reading_submission **list;
    struct one **ones;
    size_t count;
};

/*
 * Concludes the submissions from index `first` up to one that must be checked again, and stores
 * them. *count is the number of submissions concluded.
 */
static int conclude_some(struct bb_request *rq, struct call *call, struct crowd *crowd,
                         size_t first, size_t *count)
{
    size_t stored = 0;

    for (*count = 0; first + *count < crowd->count; ++*count) {
        struct reading_submission *one = crowd->list[first + *count];

        if (one->open && reading_wrong(one))
            break;
        if (rows_conclude(rq, call, one, crowd->ones[first + *count]))
            return -1;
        if (one->count)
            crowd->list[first + stored++] = one;
    }
    return call->tx && stored
               ? reading_add_many(rq, call->tx, crowd->list + first, stored, bb_wall_ms(rq->host))
               : 0;
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
    /*
     * If a mistake may change where Delta readings without a start begin, the rows of the device
     * are checked separately, in their turn, because locks are taken in the order of ids.
     */
    for (size_t at = 0, count; at < crowd->count; at += count + 1) {
        if (conclude_some(rq, call, crowd, at, &count))
            return -1;
        if (at + count < crowd->count &&
            rows_of_device(rq, call, crowd->ones[at + count], crowd->list[at + count]->count))
            return -1;
    }
    crowd->count = 0;
    return 0;
}

/*
 * Adds the rows of a device and time zone. If the crowd already has the device, they are handled
 * separately.
 */
static int take_group(struct bb_request *rq, struct call *call, struct crowd *crowd,
                      struct one *ones, size_t count)
{
    struct reading_submission *submission = bb_alloc(rq, sizeof(*submission));
    int64_t last = crowd->count ? crowd->list[crowd->count - 1]->device.id : -1;

    if (rows_read(rq, call, submission, ones, count))
        return -1;
    if (!submission->count)
        return 0;
    if (last == submission->device.id)
        return finish_crowd(rq, call, crowd) ? -1
                                             : rows_of_device(rq, call, ones, submission->count);
    if (reading_date(rq, submission))
        return -1;
    crowd->list[crowd->count] = submission;
    crowd->ones[crowd->count++] = ones;
    return 0;
}

/* Does all steps for a call whose devices were found. Returns 0 or -1. */
static int rows_of_devices(struct bb_request *rq, struct call *call)
{
    struct crowd crowd = {
        .list = bb_alloc(rq, (call->count + 1) * sizeof(struct reading_submission *)),
        .ones = bb_alloc(rq, (call->count + 1) * sizeof(struct one *)),
    };

    for (size_t from = 0, to; from < call->count; from = to) {
        for (to = from + 1; to < call->count && rows_together(&call->list[from], &call->list[to]);)
            to++;
        if (take_group(rq, call, &crowd, &call->list[from], to - from))
            return -1;
    }
    return finish_crowd(rq, call, &crowd);
}

/* ---- the service ---- */

static int check(struct bb_request *rq, const struct bb_bulk_job *job,
                 struct bb_bulk_row *const *rows, size_t count)
{
    struct call call = {.job = job};

    return rows_find_devices(rq, &call, rows, count) || rows_of_devices(rq, &call) ? -1 : 0;
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
    call->refused = bb_json_hold(rq, json_array());
    if (!call->refused) {
        bb_no_memory(rq);
        return -1;
    }
    if (rows_find_devices(rq, call, rows, count) || rows_of_devices(rq, call) ||
        reading_refused_store(rq, tx, job->organization, call->refused))
        return -1;
    if (call->over)
        bb_after(rq, tx, count_over, call);
    return 0;
}

const struct bb_bulk_rows reading_rows = {
    .size = sizeof(reading_rows),
    .help = "Meter readings, by the rules of POST /api/meter-reads/new/:externalId.",
    .roles = BB_ROLE_ADMIN | BB_ROLE_ORGANIZATION_ADMIN | BB_ROLE_DEVICE_OWNER | BB_ROLE_API_USER,
    .rows_max = 2000,
    .columns = BB_TABLE(rows_columns),
    .name_column = DEVICE,
    .check = check,
    .store = store,
    .together = true,
};
