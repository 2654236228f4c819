/*
 * The service "bulk rows:Reads": readings of many devices. The rows of a device that name the same
 * time zone form a submission, like the readings of a request. Unlike in a request, a mistake in
 * one row does not affect other rows, because the row is removed before the next step.
 */
#include <stdlib.h>
#include <string.h>

#include "modules/reading/reading.h"

enum column { DEVICE, START, END, VALUE, UNIT, TYPE, ZONE, COLUMNS };

/* A row being processed. */
struct one {
    struct bb_bulk_row *row;
    const struct bb_device *device;
    const char *zone; /* NULL: no zone */
    size_t key;       /* index of the row's key in the list of keys */
    bool two_keys;    /* keys[key - 1] is the row's name as sent, and has priority */
};

struct call {
    const struct bb_bulk_job *job;
    struct bb_tx *tx; /* NULL: the rows are only checked */
    struct one *list;
    size_t count;
    size_t over;     /* rows above the ceiling */
    json_t *refused; /* if `tx` is set: refused rows for reading_refused_store() */
};

// clang-format off
static const struct bb_field rows_columns[COLUMNS] = {
    [DEVICE] = {.name = "externalId", .type = BB_TEXT, .flags = BB_REQUIRED, .example = "PLANT-7",
                .help = "The device: its externalId (ignoring case), uuid, serialNumber or id."},
    [START] = {.name = "startDate", .type = BB_TEXT, .alias = "starttimestamp",
               .example = "2026-04-01T00:00:00Z", .help = "Start of the period, ISO 8601. Required "
                                                          "for History."},
    [END] = {.name = "endDate", .type = BB_TEXT, .flags = BB_REQUIRED, .alias = "endtimestamp",
             .example = "2026-04-02T00:00:00Z", .help = "End of the period, ISO 8601."},
    [VALUE] = {.name = "value", .type = BB_NUMBER, .flags = BB_REQUIRED, .example = "31.4",
               .help = "The energy in `unit`, 0 or more."},
    [UNIT] = {.name = "unit", .type = BB_TEXT, .flags = BB_REQUIRED, .example = "kWh",
              .help = "Wh, kWh, MWh or GWh, in upper or lower case."},
    [TYPE] = {.name = "type", .type = BB_TEXT, .flags = BB_REQUIRED, .example = "History",
              .help = "History or Delta, in upper or lower case."},
    [ZONE] = {.name = "timezone", .type = BB_TEXT, .example = "Europe/Berlin",
              .help = "IANA time zone of dates without an offset. Default: UTC."},
};
// clang-format on

/* ---- the devices that the rows of a call name ---- */

/* Fills call->list and returns the rows' keys. `places` maps each key to its index + 1. */
static json_t *rows_keys(struct bb_request *rq, struct call *call, struct bb_bulk_row *const *rows,
                         size_t count)
{
    json_t *keys = bb_hold(rq, json_array()), *places = bb_hold(rq, json_object());

    for (size_t i = 0; i < count; i++) {
        const char *cell = rows[i]->cells[DEVICE], *zone = rows[i]->cells[ZONE];
        const char *key = cell ? bb_trimmed(rq, cell) : "", *sent = rows[i]->name_as_sent;
        json_int_t place = sent ? 0 : json_integer_value(json_object_get(places, key));

        if (!*key) {
            bb_bulk_problem(rq, rows[i], "externalId", "is required");
            continue;
        }
        if (sent)
            bb_push(rq, keys, json_string(bb_trimmed(rq, sent)));
        if (!place) {
            bb_push(rq, keys, json_string(key));
            place = (json_int_t)json_array_size(keys);
            bb_set(rq, places, key, json_integer(place));
        }
        zone = zone ? bb_trimmed(rq, zone) : "";
        call->list[call->count++] = (struct one){.row = rows[i],
                                                 .zone = *zone ? zone : NULL,
                                                 .key = (size_t)place - 1,
                                                 .two_keys = sent != NULL};
    }
    return keys;
}

static int rows_by_zone(const struct one *a, const struct one *b)
{
    return strcmp(a->zone ? a->zone : "", b->zone ? b->zone : "");
}

static int rows_by_device(const void *left, const void *right)
{
    const struct one *a = left, *b = right;
    int zones = rows_by_zone(a, b);

    if (a->device->id != b->device->id)
        return a->device->id < b->device->id ? -1 : 1;
    return zones ? zones : a->row->number < b->row->number ? -1 : 1;
}

/*
 * Fills call->list with the rows whose devices exist and are Active, sorted by device and time
 * zone. Reports a problem for every other row. Returns 0, or -1 if a query failed.
 */
static int rows_find_devices(struct bb_request *rq, struct call *call,
                             struct bb_bulk_row *const *rows, size_t count)
{
    static const struct bb_sql look = {
        "SELECT d IS NOT NULL FROM unnest($1::bigint[]) WITH ORDINALITY AS k (id, number)"
        " LEFT JOIN device_active($1::bigint[]) d ON d = k.id ORDER BY k.number",
        0};
    const struct reading *reading = rq->state;
    int64_t *ids;
    const char **problems;
    struct bb_device *devices;

    call->list = bb_alloc(rq, count * sizeof(*call->list));
    const json_t *keys = rows_keys(rq, call, rows, count);
    size_t key_count = json_array_size(keys), found = 0;

    if (!call->count)
        return 0;
    if (reading->devices->identify(reading->devices_state, rq, keys, call->job->organization, &ids,
                                   &problems) ||
        reading->devices->get(reading->devices_state, rq, ids, key_count, &devices))
        return -1;
    const struct bb_rows *active = bb_query(rq, &look, BB_ARGS(bb_ints(ids, key_count)));

    if (!active)
        return -1;
    for (size_t i = 0; i < call->count; i++) {
        struct one one = call->list[i];
        size_t key = one.key - (one.two_keys && ids[one.key - 1]);
        const char *problem = NULL;

        one.device = &devices[key];
        if (!one.device->size) /* problems[key] is NULL if the device was just deleted */
            problem = problems[key] ? problems[key] : "Device not found";
        else if (!bb_cell_int(rq, active, key, 0))
            problem = "the device is Inactive";
        if (problem)
            bb_bulk_problem(rq, one.row, "externalId", problem);
        else
            call->list[found++] = one;
    }
    call->count = found;
    if (found)
        qsort(call->list, found, sizeof(*call->list), rows_by_device);
    return 0;
}

/* ---- the rows of one device ---- */

static void rows_take_notes(struct bb_request *rq, struct call *call, struct bb_bulk_row *row,
                            const struct reading_note *note)
{
    for (; note; note = note->next) {
        bb_bulk_problem(rq, row, note->field, note->problem);
        call->over += note->kind == READING_OVER;
    }
}

/*
 * Initializes a submission from `count` rows in `ones`. Reports rows that cannot be parsed, and
 * removes them from `ones`.
 */
static void rows_read(struct bb_request *rq, struct call *call,
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
        json_t *object = bb_hold(rq, json_object());

        for (enum column c = START; c < ZONE; c++)
            if (ones[i].row->cells[c])
                bb_set(rq, object, rows_columns[c].name, json_string(ones[i].row->cells[c]));
        *item = (struct reading_item){.index = at};
        reading_read_item(rq, submission, object, item);
        rows_take_notes(rq, call, ones[i].row, submission->notes[at]);
        if (submission->notes[at]) {
            submission->notes[at] = NULL;
            continue;
        }
        numbers[at] = ones[i].row->number;
        ones[submission->count++] = ones[i];
    }
    memset(submission->mistakes, 0, sizeof(submission->mistakes));
    submission->wrong = 0;
    submission->open = false;
    for (size_t i = 0; i < submission->count; i++)
        submission->open = submission->open || submission->items[i].open;
}

/* Notes the mistakes of the submissions. Returns 0, or -1 if a query failed. */
static int rows_judge(struct bb_request *rq, struct reading_submission *const *list, size_t count)
{
    if (reading_place(rq, list, count))
        return -1;
    for (size_t i = 0; i < count; i++)
        reading_check(rq, list[i]);
    if (reading_find_overlaps(rq, list, count))
        return -1;
    for (size_t i = 0; i < count; i++)
        reading_check_rows(rq, list[i]);
    return 0;
}

/*
 * A Delta reading without a start begins at the end of the previous reading. If the previous
 * reading has a mistake, it is not stored, so this start is wrong. Therefore this function removes
 * the readings that have a start and a mistake, and checks the remaining readings again, until
 * there are none to remove. Returns 0, or -1 if a query failed.
 */
static int rows_judge_open(struct bb_request *rq, struct call *call,
                           struct reading_submission *submission, struct one *ones)
{
    while (submission->open && submission->wrong && !submission->notes[submission->count]) {
        size_t all = submission->count, count = 0;
        bool some = false;

        for (size_t i = 0; i < all; i++)
            some = some ||
                   (!submission->items[i].open && submission->notes[submission->items[i].index]);
        if (!some)
            return 0;
        for (size_t i = 0; i < all; i++)
            if (submission->items[i].open)
                submission->notes[submission->items[i].index] = NULL;
        if (call->tx)
            reading_refused_add(rq, submission, call->refused);
        for (size_t i = 0; i < all; i++) {
            rows_take_notes(rq, call, ones[i].row, submission->notes[i]);
            if (!submission->notes[i])
                ones[count++] = ones[i];
        }
        rows_read(rq, call, submission, ones, count);
        if (reading_date(rq, submission) || rows_judge(rq, &submission, 1))
            return -1;
    }
    return 0;
}

/*
 * Reports the mistakes of rows, and removes these rows from the submission. In a check, each
 * remaining row claims its period, so that overlapping rows are found. A Delta reading without a
 * start claims only its last millisecond, because its start depends on rows of other calls.
 */
static void rows_conclude(struct bb_request *rq, struct call *call,
                          struct reading_submission *submission, const struct one *ones)
{
    const struct reading_note *whole = submission->notes[submission->count];
    const char *name = bb_format(rq, "%lld", (long long)submission->device.id);
    size_t count = 0;

    if (submission->wrong && call->tx)
        reading_refused_add(rq, submission, call->refused);
    for (size_t i = 0; i < submission->count; i++) {
        rows_take_notes(rq, call, ones[i].row, whole);
        rows_take_notes(rq, call, ones[i].row, submission->notes[i]);
    }
    for (size_t i = 0; i < submission->count; i++) {
        const struct reading_item *item = &submission->items[i];
        struct bb_bulk_row *row = ones[item->index].row;

        if (row->problems)
            continue;
        if (!call->tx && !item->unsure)
            row->claim = (struct bb_bulk_claim){.name = name,
                                                .field = "value",
                                                .from = item->open ? item->end - 1 : item->start,
                                                .until = item->end};
        submission->items[count++] = *item;
    }
    submission->count = count;
}

/* ---- rows of many devices share their statements ---- */

/* Submissions of different devices, sorted by device id. */
struct crowd {
    struct reading_submission **list;
    struct one **ones;
    size_t count;
};

/*
 * Checks a crowd, stores its rows if call->tx is set, and empties it. The commit fails if another
 * request stores overlapping readings after the check. Returns 0, or -1 if a query failed.
 */
static int rows_finish(struct bb_request *rq, struct call *call, struct crowd *crowd)
{
    size_t stored = 0;

    if (crowd->count && rows_judge(rq, crowd->list, crowd->count))
        return -1;
    for (size_t i = 0; i < crowd->count; i++) {
        struct reading_submission *one = crowd->list[i];

        if (rows_judge_open(rq, call, one, crowd->ones[i]))
            return -1;
        rows_conclude(rq, call, one, crowd->ones[i]);
        if (one->count)
            crowd->list[stored++] = one;
    }
    crowd->count = 0;
    return call->tx && stored ? reading_add(rq, call->tx, crowd->list, stored, bb_wall_ms(rq->host))
                              : 0;
}

/*
 * Checks the rows of a call, and stores them if call->tx is set. If a device's rows have several
 * time zones, the rows of one zone are stored before the next zone is checked. Returns 0 or -1.
 */
static int rows_process(struct bb_request *rq, struct call *call, struct bb_bulk_row *const *rows,
                        size_t count)
{
    if (rows_find_devices(rq, call, rows, count))
        return -1;
    struct crowd crowd = {
        .list = bb_alloc(rq, (call->count + 1) * sizeof(struct reading_submission *)),
        .ones = bb_alloc(rq, (call->count + 1) * sizeof(struct one *)),
    };
    int64_t last = -1; /* id of the device that was added to the crowd last */

    for (size_t from = 0, to; from < call->count; from = to) {
        struct reading_submission *submission = bb_alloc(rq, sizeof(*submission));
        struct one *ones = &call->list[from];

        for (to = from + 1; to < call->count; to++)
            if (call->list[to].device->id != ones->device->id ||
                rows_by_zone(&call->list[to], ones))
                break;
        rows_read(rq, call, submission, ones, to - from);
        if (!submission->count)
            continue;
        if ((last == submission->device.id && rows_finish(rq, call, &crowd)) ||
            reading_date(rq, submission))
            return -1;
        last = submission->device.id;
        crowd.list[crowd.count] = submission;
        crowd.ones[crowd.count++] = ones;
    }
    return rows_finish(rq, call, &crowd);
}

/* ---- the service ---- */

static int rows_check(struct bb_request *rq, const struct bb_bulk_job *job,
                      struct bb_bulk_row *const *rows, size_t count)
{
    struct call call = {.job = job};

    return rows_process(rq, &call, rows, count);
}

static void rows_count_over(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    const struct call *call = arg;

    (void)tx;
    bb_metric_add(rq->host, READING_OVER_CEILING, 0, call->over);
}

static int rows_store(struct bb_request *rq, struct bb_tx *tx, const struct bb_bulk_job *job,
                      struct bb_bulk_row *const *rows, size_t count)
{
    struct call *call = bb_alloc(rq, sizeof(*call));

    *call = (struct call){.job = job, .tx = tx, .refused = bb_hold(rq, json_array())};
    if (rows_process(rq, call, rows, count) ||
        reading_refused_store(rq, tx, job->organization, call->refused))
        return -1;
    if (call->over)
        bb_after(rq, tx, rows_count_over, call);
    return 0;
}

const struct bb_bulk_rows reading_rows = {
    .size = sizeof(reading_rows),
    .help = "Meter readings, by the rules of POST /api/meter-reads/new/:externalId.",
    .roles = BB_ROLE_ADMIN | BB_ROLE_ORGANIZATION_ADMIN | BB_ROLE_DEVICE_OWNER | BB_ROLE_API_USER,
    .rows_max = 2000,
    .columns = BB_TABLE(rows_columns),
    .name_column = DEVICE,
    .check = rows_check,
    .store = rows_store,
    .together = true,
};
