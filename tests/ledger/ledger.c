#include "ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct ledger {
    int intent, acknowledged;
};

static int open_file(const char *directory, const char *name)
{
    char path[4096];
    int length = snprintf(path, sizeof path, "%s/%s", directory, name);

    if (length < 0 || (size_t)length >= sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

struct ledger *ledger_open(const char *directory)
{
    struct ledger *ledger = malloc(sizeof *ledger);

    if (!ledger)
        return NULL;
    ledger->intent = open_file(directory, "intent");
    ledger->acknowledged = open_file(directory, "acknowledged");
    if (ledger->intent >= 0 && ledger->acknowledged >= 0)
        return ledger;
    ledger_close(ledger);
    return NULL;
}

/* One write() to a file opened for appending, so lines of several threads never mix. */
static int append(int fd, const char *line, int length)
{
    if (length < 0 || write(fd, line, (size_t)length) != length)
        return -1;
    return fdatasync(fd);
}

int ledger_intend(struct ledger *ledger, const char *marker, int64_t conversation)
{
    char line[LEDGER_MARKER + 32];

    return append(ledger->intent, line,
                  snprintf(line, sizeof line, "%s %" PRId64 "\n", marker, conversation));
}

int ledger_acknowledge(struct ledger *ledger, const char *marker, long status, const char *uuid)
{
    char line[LEDGER_MARKER + LEDGER_UUID + 32];

    return append(ledger->acknowledged, line,
                  snprintf(line, sizeof line, "%s %ld %s\n", marker, status, uuid));
}

void ledger_close(struct ledger *ledger)
{
    if (ledger->intent >= 0)
        close(ledger->intent);
    if (ledger->acknowledged >= 0)
        close(ledger->acknowledged);
    free(ledger);
}
