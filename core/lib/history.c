#include "core/lib/history.h"

#include <string.h>

static struct crash_row *row_of(struct crash_history *history, const struct crash_note *note)
{
    for (size_t i = 0; i < history->row_count; i++)
        if (!strcmp(history->rows[i].module, note->module))
            return &history->rows[i];
    if (history->row_count == HISTORY_ROWS)
        return NULL;
    struct crash_row *row = &history->rows[history->row_count++];

    *row = (struct crash_row){.count = 0};
    memcpy(row->module, note->module, sizeof row->module);
    return row;
}

/* The worker has served, so its start succeeded. */
static void forget_starts(struct crash_history *history)
{
    for (size_t i = 0; i < history->row_count; i++)
        history->rows[i].in_vain = 0;
}

void history_add(struct crash_history *history, const struct crash_note *note, bool served,
                 int64_t now_ms)
{
    struct crash_row *row = row_of(history, note);

    history->restarts++;
    history->last = *note;
    if (served)
        forget_starts(history);
    if (!row)
        return;
    row->count++;
    row->in_vain += !served;
    memcpy(row->file, note->file, sizeof row->file);
    memmove(row->at_ms + 1, row->at_ms, sizeof row->at_ms - sizeof *row->at_ms);
    row->at_ms[0] = now_ms;
    int64_t third = row->at_ms[QUARANTINE_CRASHES - 1];

    if (*row->file &&
        ((third && now_ms - third <= QUARANTINE_MS) || row->in_vain >= QUARANTINE_CRASHES))
        row->out = true;
}

void history_forgive(struct crash_history *history)
{
    for (size_t i = 0; i < history->row_count; i++) {
        history->rows[i].out = false;
        history->rows[i].in_vain = 0;
        memset(history->rows[i].at_ms, 0, sizeof history->rows[i].at_ms);
    }
}

const struct crash_row *history_out(const struct crash_history *history, const char *name)
{
    for (size_t i = 0; i < history->row_count; i++) {
        const struct crash_row *row = &history->rows[i];

        if (row->out && (!strcmp(row->file, name) || !strcmp(row->module, name)))
            return row;
    }
    return NULL;
}
