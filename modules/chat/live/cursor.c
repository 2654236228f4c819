#include "modules/chat/live/cursor.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define XID_MAX (UINT64_MAX / 4)

/* Returns the first index in xip whose value is not below xid. */
static size_t place_of(const struct chat_mark *mark, uint64_t xid)
{
    size_t low = 0, high = mark->count;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (mark->xip[middle] < xid)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool under_way(const struct chat_mark *mark, uint64_t xid)
{
    size_t at = place_of(mark, xid);

    return at < mark->count && mark->xip[at] == xid;
}

bool chat_mark_has(const struct chat_mark *mark, uint64_t xid)
{
    return xid < mark->xmax && !under_way(mark, xid);
}

int chat_mark_exclude(struct chat_mark *mark, uint64_t xid)
{
    if (!chat_mark_has(mark, xid))
        return 0;
    if (mark->count == CHAT_XIPS)
        return -1;
    size_t at = place_of(mark, xid);

    memmove(mark->xip + at + 1, mark->xip + at, (mark->count - at) * sizeof(mark->xip[0]));
    mark->xip[at] = xid;
    mark->count++;
    return 0;
}

void chat_mark_include(struct chat_mark *mark, uint64_t xid)
{
    size_t at = place_of(mark, xid);

    if (!under_way(mark, xid))
        return;
    mark->count--;
    memmove(mark->xip + at, mark->xip + at + 1, (mark->count - at) * sizeof(mark->xip[0]));
}

static bool not_behind(int64_t conversation, int64_t part, const struct chat_cursor *cursor)
{
    if (conversation != cursor->conversation)
        return conversation < cursor->conversation;
    return part <= cursor->part;
}

bool chat_cursor_has(const struct chat_cursor *cursor, uint64_t xid, int64_t conversation,
                     int64_t part)
{
    if (xid == cursor->xid)
        return not_behind(conversation, part, cursor);
    return chat_mark_has(&cursor->mark, xid);
}

static bool mark_covers(const struct chat_mark *more, const struct chat_mark *less)
{
    for (size_t i = 0; i < more->count; i++)
        if (chat_mark_has(less, more->xip[i]))
            return false;
    if (more->xmax >= less->xmax)
        return true;
    if (less->xmax - more->xmax > less->count)
        return false;
    for (uint64_t xid = more->xmax; xid < less->xmax; xid++)
        if (!under_way(less, xid))
            return false;
    return true;
}

bool chat_cursor_covers(const struct chat_cursor *more, const struct chat_cursor *less)
{
    if (!mark_covers(&more->mark, &less->mark))
        return false;
    return !less->xid || chat_cursor_has(more, less->xid, less->conversation, less->part);
}

/* ---- merging ---- */

/*
 * Keeps, of the transactions in progress in the mark with the higher xmax, those that the other
 * mark has not seen either.
 */
static void mark_merge(struct chat_mark *into, const struct chat_mark *more)
{
    struct chat_mark old = *into;
    const struct chat_mark *far = old.xmax > more->xmax ? &old : more;
    const struct chat_mark *near = far == more ? &old : more;

    into->xmax = far->xmax;
    into->count = 0;
    for (size_t i = 0; i < far->count; i++)
        if (!chat_mark_has(near, far->xip[i]))
            into->xip[into->count++] = far->xip[i];
}

/* Returns whether a cursor is in the middle of a transaction that another mark does not include. */
static bool parts(const struct chat_cursor *cursor, const struct chat_mark *other)
{
    return cursor->xid && !chat_mark_has(other, cursor->xid);
}

bool chat_cursor_merges(const struct chat_cursor *one, const struct chat_cursor *other)
{
    return one->xid == other->xid || !parts(one, &other->mark) || !parts(other, &one->mark);
}

int chat_cursor_merge(struct chat_cursor *into, const struct chat_cursor *more)
{
    bool mine = parts(into, &more->mark), theirs = parts(more, &into->mark);

    if (!chat_cursor_merges(into, more))
        return -1;
    if (theirs && (!mine || not_behind(into->conversation, into->part, more))) {
        into->xid = more->xid;
        into->conversation = more->conversation;
        into->part = more->part;
    } else if (!mine) {
        into->xid = 0;
        into->conversation = into->part = 0;
    }
    if (!into->home)
        into->home = more->home;
    mark_merge(&into->mark, &more->mark);
    return 0;
}

/* ---- text ---- */

/* Parses a decimal number of at most `max`; advances *at past it. */
static bool number(const char **at, uint64_t max, uint64_t *value)
{
    const char *from = *at;

    *value = 0;
    for (; **at >= '0' && **at <= '9'; (*at)++) {
        if (*value > (max - (uint64_t)(**at - '0')) / 10)
            return false;
        *value = *value * 10 + (uint64_t)(**at - '0');
    }
    return *at > from;
}

static bool passed(const char **at, char sign)
{
    if (**at != sign)
        return false;
    (*at)++;
    return true;
}

/* Parses a list of ascending numbers below xmax, separated by `sign`, and adds `base` to each. */
static int list_parse(const char **at, char sign, uint64_t base, struct chat_mark *mark)
{
    uint64_t xid;

    mark->count = 0;
    if (**at < '0' || **at > '9')
        return 0;
    do {
        if (mark->count == CHAT_XIPS || !number(at, XID_MAX, &xid))
            return -1;
        xid += base;
        if (xid >= mark->xmax || (mark->count && xid <= mark->xip[mark->count - 1]))
            return -1;
        mark->xip[mark->count++] = xid;
    } while (passed(at, sign));
    return 0;
}

int chat_mark_parse(const char *text, struct chat_mark *mark)
{
    uint64_t xmin;

    if (!number(&text, XID_MAX, &xmin) || !passed(&text, ':') ||
        !number(&text, XID_MAX, &mark->xmax) || xmin > mark->xmax || !passed(&text, ':') ||
        list_parse(&text, ',', 0, mark))
        return -1;
    return *text ? -1 : 0;
}

static uint64_t xmin_of(const struct chat_mark *mark)
{
    return mark->count ? mark->xip[0] : mark->xmax;
}

void chat_mark_text(const struct chat_mark *mark, char text[CHAT_SNAPSHOT_SIZE])
{
    int used =
        snprintf(text, CHAT_SNAPSHOT_SIZE, "%" PRIu64 ":%" PRIu64 ":", xmin_of(mark), mark->xmax);

    for (size_t i = 0; i < mark->count; i++)
        used += snprintf(text + used, CHAT_SNAPSHOT_SIZE - (size_t)used, "%s%" PRIu64, i ? "," : "",
                         mark->xip[i]);
}

/* Parses the leading home: "d", its number, "-". Ids of an older version have none. */
static bool home_parse(const char **at, uint64_t *home)
{
    *home = 0;
    return !passed(at, 'd') || (number(at, INT64_MAX, home) && passed(at, '-') && *home);
}

/*
 * The format is [dhome-]xmin-length-list[-xid-conversation-part]; list and xid are relative to
 * xmin.
 */
int chat_cursor_parse(const char *text, struct chat_cursor *cursor)
{
    uint64_t xmin, length, xid, conversation, part;

    cursor->xid = 0;
    cursor->conversation = cursor->part = 0;
    if (!home_parse(&text, &cursor->home) || !number(&text, XID_MAX, &xmin) ||
        !passed(&text, '-') || !number(&text, XID_MAX, &length) || !passed(&text, '-') ||
        !xmin) /* there is no transaction 0 */
        return -1;
    cursor->mark.xmax = xmin + length;
    if (list_parse(&text, '.', xmin, &cursor->mark))
        return -1;
    if (!*text)
        return 0;
    if (!passed(&text, '-') || !number(&text, XID_MAX, &xid) || !passed(&text, '-') ||
        !number(&text, INT64_MAX, &conversation) || !passed(&text, '-') ||
        !number(&text, INT64_MAX, &part) || *text || xmin + xid == 0 ||
        chat_mark_has(&cursor->mark, xmin + xid))
        return -1;
    cursor->xid = xmin + xid;
    cursor->conversation = (int64_t)conversation;
    cursor->part = (int64_t)part;
    return 0;
}

int chat_cursor_text(const struct chat_cursor *cursor, char text[CHAT_ID_SIZE])
{
    const struct chat_mark *mark = &cursor->mark;
    uint64_t xmin = xmin_of(mark);
    int used = cursor->home ? snprintf(text, CHAT_ID_SIZE, "d%" PRIu64 "-", cursor->home) : 0;

    used += snprintf(text + used, (size_t)(CHAT_ID_SIZE - used), "%" PRIu64 "-%" PRIu64 "-", xmin,
                     mark->xmax - xmin);
    for (size_t i = 0; i < mark->count && used < CHAT_ID_SIZE; i++)
        used += snprintf(text + used, (size_t)(CHAT_ID_SIZE - used), "%s%" PRIu64, i ? "." : "",
                         mark->xip[i] - xmin);
    if (cursor->xid && used < CHAT_ID_SIZE)
        used += snprintf(text + used, (size_t)(CHAT_ID_SIZE - used),
                         "-%" PRIu64 "-%" PRId64 "-%" PRId64, cursor->xid - xmin,
                         cursor->conversation, cursor->part);
    return used < CHAT_ID_SIZE ? 0 : -1;
}
