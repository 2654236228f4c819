/* Checks the rows of a device; valid rows are stored, or recorded as claims. */
#include <string.h>

#include "modules/reading/rows/rows.h"

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

int rows_read(struct bb_request *rq, struct call *call, struct reading_submission *submission,
              struct one *ones, size_t count)
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
        if (rows_read(rq, call, submission, ones, count)) {
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

int rows_conclude(struct bb_request *rq, struct call *call, struct reading_submission *submission,
                  const struct one *ones)
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

/* If others store readings between the search for overlaps and the commit, the commit fails. */
int rows_of_device(struct bb_request *rq, struct call *call, struct one *ones, size_t count)
{
    struct reading_submission *submission = bb_alloc(rq, sizeof(*submission));

    if (judge(rq, call, submission, ones, count) || rows_conclude(rq, call, submission, ones))
        return -1;
    return call->tx && submission->count
               ? reading_add(rq, call->tx, submission, bb_wall_ms(rq->host))
               : 0;
}
