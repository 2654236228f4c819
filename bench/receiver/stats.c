/* Statistics of received requests: for each path their number, distinct ids, and latencies. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "receiver.h"

struct seen {
    char id[40];
    int64_t at_ms; /* wall clock */
};

struct path {
    struct path *next;
    char name[WIRE_PATH];
    struct seen *list;
    size_t count, room;
    int64_t *latencies; /* microseconds */
    size_t latency_count, latency_room;
};

static struct path *paths;
static int64_t first_ms, last_ms;
static size_t opened, open_now, shaken, resumed;

int64_t receiver_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int64_t wall_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void *grown(void *list, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return list;
    *room = *room ? 2 * *room : 256;
    list = realloc(list, *room * size);
    if (!list)
        abort();
    return list;
}

static struct path *path_of(const char *name)
{
    struct path *path = paths;

    while (path && strcmp(path->name, name))
        path = path->next;
    if (path)
        return path;
    path = calloc(1, sizeof(*path));
    if (!path)
        abort();
    snprintf(path->name, sizeof(path->name), "%s", name);
    path->next = paths;
    paths = path;
    return path;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Parses milliseconds with up to three decimals; returns microseconds, or 0 if there is no number.
 */
static int64_t sent_us(const char *body, size_t length)
{
    static const char key[] = "sentAt";
    const char *at = memmem(body, length, key, sizeof(key) - 1), *end = body + length;
    int64_t sent = 0;
    int decimals = 0;

    while (at && at < end && !is_digit(*at))
        at++;
    for (; at && at < end && is_digit(*at); at++)
        sent = sent * 10 + (*at - '0');
    if (at && at < end && *at == '.')
        at++;
    for (; decimals < 3; decimals++)
        sent = sent * 10 + (at && at < end && is_digit(*at) ? *at++ - '0' : 0);
    return sent;
}

static void note_latency(struct path *path, const char *body, size_t length, int64_t now)
{
    int64_t sent = sent_us(body, length);

    if (!sent)
        return;
    path->latencies =
        grown(path->latencies, path->latency_count, &path->latency_room, sizeof(*path->latencies));
    path->latencies[path->latency_count++] = now - sent;
}

void stats_note(const struct wire *wire)
{
    struct path *path = path_of(wire->path);
    int64_t now_us = wall_us(), now = now_us / 1000;

    path->list = grown(path->list, path->count, &path->room, sizeof(*path->list));
    snprintf(path->list[path->count].id, sizeof(path->list->id), "%.39s", wire->id);
    path->list[path->count++].at_ms = now;
    note_latency(path, wire->bytes + wire->head, wire->body_length, now_us);
    first_ms = first_ms ? first_ms : now;
    last_ms = now;
}

void stats_forget(void)
{
    while (paths) {
        struct path *path = paths;

        paths = path->next;
        free(path->list);
        free(path->latencies);
        free(path);
    }
    first_ms = last_ms = 0;
    opened = shaken = resumed = 0;
}

void stats_opened(void)
{
    opened++;
    open_now++;
}

void stats_closed(void)
{
    open_now--;
}

void stats_shaken(bool was_resumed)
{
    shaken++;
    resumed += was_resumed;
}

static int by_number(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;

    return (left > right) - (left < right);
}

static int by_id(const void *a, const void *b)
{
    return strcmp(((const struct seen *)a)->id, ((const struct seen *)b)->id);
}

/* Sorts a copy, because the list itself stays in the order of arrival. */
static size_t distinct(const struct path *path)
{
    struct seen *copy = malloc((path->count + 1) * sizeof(*copy));
    size_t found = 0;

    if (!copy)
        abort();
    memcpy(copy, path->list, path->count * sizeof(*copy));
    qsort(copy, path->count, sizeof(*copy), by_id);
    for (size_t i = 0; i < path->count; i++)
        found += !i || strcmp(copy[i].id, copy[i - 1].id) != 0;
    free(copy);
    return found;
}

/* Returns milliseconds, or -1 if there are no latencies. */
static double quantile(const struct path *path, double q)
{
    if (!path->latency_count)
        return -1;
    return (double)path->latencies[(size_t)((double)(path->latency_count - 1) * q)] / 1000;
}

static void write_path(FILE *out, struct path *path)
{
    if (path->latency_count) /* otherwise the list may be NULL */
        qsort(path->latencies, path->latency_count, sizeof(*path->latencies), by_number);
    fprintf(out, "\"%s\":{\"requests\":%zu,\"ids\":%zu,\"p50\":%.3f,\"p99\":%.3f,\"max\":%.3f}",
            path->name, path->count, distinct(path), quantile(path, 0.5), quantile(path, 0.99),
            quantile(path, 1));
}

char *stats_text(void)
{
    char *text = NULL;
    size_t length, total = 0;
    FILE *out = open_memstream(&text, &length);

    if (!out)
        abort();
    for (const struct path *path = paths; path; path = path->next)
        total += path->count;
    fprintf(out, "{\"requests\":%zu,\"firstMs\":%" PRId64 ",\"lastMs\":%" PRId64 ",", total,
            first_ms, last_ms);
    fprintf(out, "\"connections\":%zu,\"open\":%zu,\"handshakes\":%zu,\"resumed\":%zu,\"paths\":{",
            opened, open_now, shaken, resumed);
    for (struct path *path = paths; path; path = path->next) {
        write_path(out, path);
        fputs(path->next ? "," : "", out);
    }
    fputs("}}\n", out);
    fclose(out);
    return text;
}

char *stats_ids(const char *name)
{
    const struct path *path = path_of(name);
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    if (!out)
        abort();
    fputc('[', out);
    for (size_t i = 0; i < path->count; i++)
        fprintf(out, "%s[\"%s\",%" PRId64 "]", i ? "," : "", path->list[i].id, path->list[i].at_ms);
    fputs("]\n", out);
    fclose(out);
    return text;
}

char *stats_count(const char *prefix)
{
    size_t total = 0;
    char *text = NULL;

    for (const struct path *path = paths; path; path = path->next)
        total += strncmp(path->name, prefix, strlen(prefix)) ? 0 : path->count;
    return asprintf(&text, "{\"requests\":%zu}\n", total) < 0 ? NULL : text;
}
