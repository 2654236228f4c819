#include "modules/chat/cursor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XID_MAX (INT64_MAX / 1000)

/* Returns whether PostgreSQL accepts these digits, ':' and ',' as a snapshot: xmin:xmax:xip,… */
static bool is_snapshot(const char *text)
{
    char *at;
    int64_t xmin = strtoll(text, &at, 10), xmax = *at == ':' ? strtoll(at + 1, &at, 10) : 0;
    int64_t last = 0;

    if (!xmin || xmax < xmin || xmax > XID_MAX || *at++ != ':')
        return false;
    while (*at) {
        int64_t xid = strtoll(at, &at, 10);

        if (xid < xmin || xid >= xmax || xid <= last || (*at && (*at++ != ',' || !*at)))
            return false;
        last = xid;
    }
    return true;
}

static bool is_key(const char *text, int64_t key[3])
{
    int length = 0;

    return sscanf(text, "%18" SCNd64 ".%18" SCNd64 ".%18" SCNd64 "%n", key, key + 1, key + 2,
                  &length) == 3 &&
           !text[length];
}

int chat_cursor_split(char *text, struct chat_cursor *cursor)
{
    char *parts[5], *home = *text == 'd' ? text + 1 : NULL;
    size_t count = 0;

    *cursor = (struct chat_cursor){.home = home ? strtoull(home, &text, 10) : 0};
    if (home && (*home < '1' || *home > '9' || *text++ != '-'))
        return -1;
    if (text[strspn(text, "0123456789:,.-")])
        return -1;
    while (text && count < sizeof(parts) / sizeof(parts[0]))
        parts[count++] = strsep(&text, "-");
    cursor->seen = parts[0];
    cursor->target = count > 1 ? parts[1] : NULL;
    if (count == 4 && is_snapshot(parts[0]) && is_snapshot(parts[1]) &&
        chat_snapshot_compare(parts[0], parts[1]) <= 0 && is_key(parts[2], cursor->block) &&
        is_key(parts[3], cursor->event))
        count = 1;
    return count == 1 && is_snapshot(parts[0]) ? 0 : -1;
}

/* A snapshot shows the transactions below xmax, except those in progress (xip). */
int chat_snapshot_compare(const char *one, const char *other)
{
    const char *snapshots[] = {one, other};
    uint64_t xmax[2];
    size_t in_progress[2] = {0};

    for (int i = 0; i < 2; i++) {
        char *list;

        xmax[i] = strtoull(strchr(snapshots[i], ':') + 1, &list, 10);
        while (*list && *list != '-')
            in_progress[i] += *list++ == ',';
        in_progress[i] += list[-1] != ':';
    }
    if (xmax[0] != xmax[1])
        return xmax[0] < xmax[1] ? -1 : 1;
    /* with the same xmax, the later snapshot has fewer transactions in progress */
    return (in_progress[0] < in_progress[1]) - (in_progress[0] > in_progress[1]);
}

bool chat_cursor_has(const char *here, const char *there)
{
    size_t home = strcspn(here, "-") + 1;
    const char *seen = there + home, *target = NULL;

    if (strncmp(here, there, home) != 0)
        return false;
    target = strchr(seen, '-');
    return chat_snapshot_compare(target ? target + 1 : seen, here + home) <= 0;
}
