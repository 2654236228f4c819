#include "core/lib/supervised.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/lib/descriptor_store.h"

static int channel = -1;
static struct crash_history history;
static struct stored_descriptors kept[KEPT_MAX];
static size_t kept_count;

static void keep(const char *key, const int *fds, size_t count)
{
    struct stored_descriptors *place = &kept[kept_count];

    if (kept_count == KEPT_MAX) {
        for (size_t i = 0; i < count; i++)
            close(fds[i]);
        return;
    }
    snprintf(place->key, sizeof place->key, "%s", key);
    memcpy(place->fds, fds, count * sizeof *fds);
    place->count = count;
    kept_count++;
}

void supervised_begin(void)
{
    const char *number = getenv(CHANNEL_VARIABLE);
    static union {
        struct packet packet;
        struct start_packet start;
    } got;
    int fds[CHANNEL_FILES];
    size_t count;

    if (!number)
        return;
    prctl(PR_SET_NAME, "busbar");     /* it was executed as /proc/self/exe */
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* cleared if the executable has capabilities */
    channel = (int)strtol(number, NULL, 10);
    unsetenv(CHANNEL_VARIABLE);
    (void)fcntl(channel, F_SETFD, FD_CLOEXEC);
    while (channel_receive(channel, &got, sizeof got, fds, &count, 0) > 0) {
        if (got.packet.kind == PACKET_KEEP)
            keep(got.packet.text, fds, count);
        if (got.packet.kind != PACKET_START)
            continue;
        history = got.start.history;
        return;
    }
    channel = -1;
}

bool supervised(void)
{
    return channel >= 0;
}

static void say(enum packet_kind kind, const char *text, const int *fds, size_t count)
{
    struct packet packet = {.kind = kind};

    if (channel < 0)
        return;
    snprintf(packet.text, sizeof packet.text, "%s", text);
    (void)channel_send(channel, &packet, sizeof packet, fds, count);
}

void supervised_tell(const char *text)
{
    say(PACKET_NOTIFY, text, NULL, 0);
}

/*
 * The supervisor has a duplicate that would still listen, so the socket is shut down for all
 * processes, and the supervisor drops its descriptors, which no worker needs any more.
 */
static void shut(struct stored_descriptors *place)
{
    say(PACKET_KEEP, place->key, NULL, 0);
    for (size_t i = 0; i < place->count; i++) {
        shutdown(place->fds[i], SHUT_RDWR);
        close(place->fds[i]);
    }
    place->key[0] = '\0';
}

size_t supervised_take(const char *key, int *fds)
{
    size_t count = 0;

    for (size_t i = 0; i < kept_count; i++) {
        struct stored_descriptors *place = &kept[i];

        if (strcmp(place->key, key) != 0)
            continue;
        memcpy(fds, place->fds, place->count * sizeof *fds);
        count = place->count;
        place->key[0] = '\0';
    }
    return count;
}

static bool ends_in(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);

    return length >= tail && !strcmp(text + length - tail, end);
}

bool supervised_shut(const char *key, const char *end)
{
    size_t kind = strcspn(key, ":") + 1;
    bool any = false;

    for (size_t i = 0; i < kept_count; i++) {
        struct stored_descriptors *place = &kept[i];

        if (strncmp(place->key, key, kind) != 0 || !strcmp(place->key, key) ||
            !ends_in(place->key, end))
            continue;
        shut(place);
        any = true;
    }
    return any;
}

void supervised_keep(const char *key, const int *fds, size_t count)
{
    if (count <= CHANNEL_FILES && strlen(key) < CHANNEL_TEXT)
        say(PACKET_KEEP, key, fds, count);
}

void supervised_crashed(const struct crash_note *note)
{
    static struct packet packet; /* a process has only one end */

    if (channel < 0)
        return;
    packet.kind = PACKET_CRASH;
    packet.note = *note;
    (void)channel_send(channel, &packet, sizeof packet, NULL, 0);
}

void supervised_forgive(void)
{
    history_forgive(&history);
    say(PACKET_FORGIVE, "", NULL, 0);
}

void supervised_log(bool json)
{
    say(PACKET_LOG, json ? "json" : "logfmt", NULL, 0);
}

const struct crash_history *supervised_history(void)
{
    return &history;
}
