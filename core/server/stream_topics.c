/*
 * Topics: sets of streams of a module that get the same data. A tree contains the topics that have
 * at least one stream. It has one lock, which is taken before the lock of a stream.
 */
#include <pthread.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "core/server/stream_parts.h"

struct topic {
    const struct bb_host *host; /* identifies the module and generation */
    const char *name;
    struct topic_place *first;
    char copy[]; /* the name */
};

/* One per process, because there is one engine. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *topics;

static int compare(const void *a, const void *b)
{
    const struct topic *one = a, *other = b;

    if (one->host != other->host)
        return one->host < other->host ? -1 : 1;
    return strcmp(one->name, other->name);
}

/* The following functions run under the lock. Returns NULL if there is none. */
static struct topic *find(const struct bb_host *host, const char *name)
{
    const struct topic key = {.host = host, .name = name};
    struct topic *const *found = tfind(&key, &topics, compare);

    return found ? *found : NULL;
}

static struct topic *make(const struct bb_host *host, const char *name)
{
    size_t size = strlen(name) + 1;
    struct topic *topic = malloc(sizeof *topic + size);

    if (!topic)
        return NULL;
    memcpy(topic->copy, name, size);
    topic->host = host;
    topic->name = topic->copy;
    topic->first = NULL;
    if (tsearch(topic, &topics, compare))
        return topic;
    free(topic);
    return NULL;
}

static void drop_empty(struct topic *topic)
{
    if (topic->first)
        return;
    tdelete(topic, &topics, compare);
    free(topic);
}

/* Adds a place to a stream's list; false if the stream is already in that topic. */
static bool add_to_stream(struct bb_stream *stream, struct topic_place *place)
{
    pthread_mutex_lock(&stream->lock);
    const struct topic_place *known = stream->places;

    while (known && known->topic != place->topic)
        known = known->next_of_stream;
    if (!known) {
        place->next_of_stream = stream->places;
        stream->places = place;
    }
    pthread_mutex_unlock(&stream->lock);
    return !known;
}

static struct topic_place *take_from_stream(struct bb_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    struct topic_place *places = stream->places;

    stream->places = NULL;
    pthread_mutex_unlock(&stream->lock);
    return places;
}

static int join(const struct bb_host *host, struct bb_stream *stream, const char *name)
{
    struct topic *topic = find(host, name);
    struct topic_place *place = calloc(1, sizeof *place);

    if (place && !topic)
        topic = make(host, name);
    if (!place || !topic) {
        free(place);
        return -1;
    }
    place->stream = stream;
    place->topic = topic;
    if (!add_to_stream(stream, place)) {
        free(place); /* the stream is already in it */
        return 0;
    }
    place->at = &topic->first;
    place->next = topic->first;
    if (place->next)
        place->next->at = &place->next;
    topic->first = place;
    return 0;
}

int api_stream_join(struct bb_host *host, struct bb_stream *stream, const char *topic)
{
    pthread_mutex_lock(&lock);
    int failed = join(host, stream, topic);
    pthread_mutex_unlock(&lock);
    return failed;
}

size_t api_stream_publish(struct bb_host *host, const char *name, struct bb_chunk *chunk)
{
    size_t count = 0;

    pthread_mutex_lock(&lock);
    const struct topic *topic = find(host, name);

    for (const struct topic_place *at = topic ? topic->first : NULL; at; at = at->next)
        count += api_stream_send(at->stream, chunk) == 0;
    pthread_mutex_unlock(&lock);
    return count;
}

/* Most streams are in no topic, and must not wait for publishers. */
static bool is_in_one(struct bb_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    bool joined = stream->places != NULL;
    pthread_mutex_unlock(&stream->lock);
    return joined;
}

void topics_leave(struct bb_stream *stream)
{
    if (!is_in_one(stream))
        return;
    pthread_mutex_lock(&lock);
    for (struct topic_place *place = take_from_stream(stream), *next; place; place = next) {
        next = place->next_of_stream;
        *place->at = place->next;
        if (place->next)
            place->next->at = place->at;
        drop_empty(place->topic);
        free(place);
    }
    pthread_mutex_unlock(&lock);
}
