#include "modules/chat/cursor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Parses a decimal number and advances *at past it. Returns 0 or -1. */
static int number(const char **at, int64_t *value)
{
    const char *from = *at;

    *value = 0;
    for (; **at >= '0' && **at <= '9'; (*at)++) {
        if (*value > INT64_MAX / 1000)
            return -1;
        *value = *value * 10 + (**at - '0');
    }
    return *at > from ? 0 : -1;
}

static bool passed(const char **at, char sign)
{
    if (**at != sign)
        return false;
    (*at)++;
    return true;
}

int chat_key_compare(const struct chat_key *one, const struct chat_key *other)
{
    if (one->xid != other->xid)
        return one->xid < other->xid ? -1 : 1;
    if (one->conversation != other->conversation)
        return one->conversation < other->conversation ? -1 : 1;
    return one->number < other->number ? -1 : one->number > other->number;
}

/*
 * ---- snapshots: xmin:xmax:xip,xip,… ----
 *
 * A snapshot shows the transactions below xmax except those in progress (xip).
 */

static const char *after_colon(const char *snapshot)
{
    return strchr(snapshot, ':') + 1;
}

/* With the same xmax, the later snapshot has fewer transactions in progress. */
int chat_snapshot_compare(const char *one, const char *other)
{
    const char *snapshots[] = {one, other};
    uint64_t xmax[2];
    size_t in_progress[2] = {0};

    for (int i = 0; i < 2; i++) {
        const char *list = after_colon(after_colon(snapshots[i]));

        xmax[i] = strtoull(after_colon(snapshots[i]), NULL, 10);
        for (in_progress[i] = *list != '\0'; *list; list++)
            in_progress[i] += *list == ',';
    }
    if (xmax[0] != xmax[1])
        return xmax[0] < xmax[1] ? -1 : 1;
    if (in_progress[0] != in_progress[1])
        return in_progress[0] > in_progress[1] ? -1 : 1;
    return 0;
}

bool chat_snapshot_has(const char *snapshot, int64_t xid)
{
    const char *at = after_colon(snapshot);
    int64_t listed;

    if (number(&at, &listed) || xid >= listed)
        return false;
    while (*at++)
        if (!number(&at, &listed) && listed == xid)
            return false;
    return true;
}

/* Advances *at past a snapshot that PostgreSQL accepts. Returns 0 or -1. */
static int snapshot_parse(const char **at)
{
    int64_t xmin, xmax, xid, last = 0;

    if (number(at, &xmin) || !xmin || !passed(at, ':') || number(at, &xmax) || xmax < xmin ||
        !passed(at, ':'))
        return -1;
    if (**at < '0' || **at > '9')
        return 0;
    do {
        if (number(at, &xid) || xid < xmin || xid >= xmax || xid <= last)
            return -1;
        last = xid;
    } while (passed(at, ','));
    return 0;
}

/* ---- cursors ---- */

static struct chat_cursor *cursor_new(uint64_t home, const char *seen, size_t seen_length,
                                      const char *target, size_t target_length)
{
    struct chat_cursor *cursor = calloc(1, sizeof(*cursor) + seen_length + target_length + 2);

    if (!cursor)
        return NULL;
    cursor->home = home;
    cursor->seen = memcpy(cursor->text, seen, seen_length);
    if (target)
        cursor->target = memcpy(cursor->text + seen_length + 1, target, target_length);
    return cursor;
}

struct chat_cursor *chat_cursor_new(uint64_t home, const char *seen, const char *target)
{
    return cursor_new(home, seen, strlen(seen), target, target ? strlen(target) : 0);
}

struct chat_cursor *chat_cursor_copy(const struct chat_cursor *cursor)
{
    struct chat_cursor *copy = chat_cursor_new(cursor->home, cursor->seen, cursor->target);

    if (!copy)
        return NULL;
    copy->block = cursor->block;
    copy->event = cursor->event;
    return copy;
}

static int key_parse(const char **at, struct chat_key *key)
{
    return passed(at, '-') && !number(at, &key->xid) && passed(at, '.') &&
                   !number(at, &key->conversation) && passed(at, '.') && !number(at, &key->number)
               ? 0
               : -1;
}

/* The format is [dhome-]seen[-target-block-event]. */
struct chat_cursor *chat_cursor_parse(const char *text)
{
    struct chat_key block = {0}, event = {0};
    const char *seen, *target = NULL;
    size_t target_length = 0;
    int64_t home = 0;

    if (passed(&text, 'd') && (number(&text, &home) || !home || !passed(&text, '-')))
        return NULL;
    seen = text;
    if (snapshot_parse(&text))
        return NULL;
    size_t seen_length = (size_t)(text - seen);

    if (passed(&text, '-')) {
        target = text;
        if (snapshot_parse(&text))
            return NULL;
        target_length = (size_t)(text - target);
        if (key_parse(&text, &block) || key_parse(&text, &event))
            return NULL;
    }
    struct chat_cursor *cursor =
        *text ? NULL : cursor_new((uint64_t)home, seen, seen_length, target, target_length);

    if (!cursor)
        return NULL;
    cursor->block = block;
    cursor->event = event;
    return cursor;
}

int chat_cursor_text(const struct chat_cursor *cursor, char text[CHAT_ID_SIZE])
{
    const struct chat_key *block = &cursor->block, *event = &cursor->event;
    int used = snprintf(text, CHAT_ID_SIZE, "d%" PRIu64 "-%s", cursor->home, cursor->seen);

    if (cursor->target && used < CHAT_ID_SIZE)
        used += snprintf(text + used, (size_t)(CHAT_ID_SIZE - used),
                         "-%s-%" PRId64 ".%" PRId64 ".%" PRId64 "-%" PRId64 ".%" PRId64 ".%" PRId64,
                         cursor->target, block->xid, block->conversation, block->number, event->xid,
                         event->conversation, event->number);
    return used < CHAT_ID_SIZE ? 0 : -1;
}
