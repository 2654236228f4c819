/* Finds rows of a bulk upload that overlap other rows of the same device. */
#include "modules/reading/base/reading.h"

/*
 * The readings sorted by end, and which of them are accepted so far; accepted readings do not
 * overlap.
 */
struct timeline {
    const struct reading_item *items;
    size_t count;
    bool *taken;
};

/* Returns whether the reading has no mistake other than overlaps that are not searched yet. */
static bool valid(const struct reading_submission *submission, const struct reading_item *item)
{
    return reading_placed(item) && !submission->notes[item->index].first;
}

static bool any_overlap(const struct reading_submission *submission)
{
    const struct reading_item *before = NULL;

    for (size_t i = 0; i < submission->count; i++) {
        const struct reading_item *item = &submission->items[i];

        if (!valid(submission, item))
            continue;
        if (before && item->start < before->end)
            return true;
        before = item;
    }
    return false;
}

/*
 * Returns an accepted reading that overlaps the one at `place`, or NULL. Only the nearest accepted
 * readings can overlap it.
 */
static const struct reading_item *overlapped(const struct timeline *line, size_t place)
{
    const struct reading_item *item = &line->items[place];

    for (size_t i = place; i > 0; i--)
        if (line->taken[i - 1]) {
            if (item->start < line->items[i - 1].end)
                return &line->items[i - 1];
            break;
        }
    for (size_t i = place + 1; i < line->count; i++)
        if (line->taken[i])
            return line->items[i].start < item->end ? &line->items[i] : NULL;
    return NULL;
}

/* Returns, by index (the order of the rows), the place of each reading in the order by end. */
static size_t *places_of(struct bb_request *rq, const struct reading_submission *submission)
{
    size_t *places = bb_alloc(rq, submission->count * sizeof(*places));

    for (size_t i = 0; i < submission->count; i++)
        places[submission->items[i].index] = i;
    return places;
}

void reading_check_rows(struct bb_request *rq, struct reading_submission *submission)
{
    if (submission->notes[submission->count].first || !any_overlap(submission))
        return;
    const size_t *places = places_of(rq, submission);
    struct timeline line = {submission->items, submission->count,
                            bb_alloc(rq, submission->count * sizeof(bool))};

    for (size_t index = 0; index < submission->count; index++) {
        const struct reading_item *item = &submission->items[places[index]], *other;

        if (!valid(submission, item))
            continue;
        other = overlapped(&line, places[index]);
        if (other)
            reading_clash(rq, submission, READING_OVERLAP, index, "overlaps row %lld",
                          (long long)submission->numbers[other->index]);
        else
            line.taken[places[index]] = true;
    }
}
