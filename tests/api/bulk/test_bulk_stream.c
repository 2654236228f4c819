/*
 * The progress of a bulk upload as a live stream: from either host, to its end, only for its own
 * account. The stream ends with the job or its deletion, and is refused if a host has no room for
 * more.
 */
#include <stdlib.h>
#include <string.h>

#include "bulk.h"
#include "sse.h"
#include "suite.h"
#include "suites.h"

enum { ROWS = 4000, SOON_MS = 20000, STREAMS = 64 };

static struct host *second; /* on the same database */
static struct person *stranger;

static void set_up(void)
{
    struct host_spec spec = bulk_spec("bulk_stream", true);

    bulk_open("bulk_stream");
    spec.name = "bulk_stream_2";
    spec.database = "bulk_stream";
    second = host_start(&spec);
    stranger = person_make(host, admin, "bulk_stream.other", NULL);
}

static void tear_down(void)
{
    host_stop(second);
    host_stop(host);
}

static const char *upload_of(const char *name, int rows)
{
    size_t room = (size_t)rows * 40 + 64, length = 0;
    char *csv = kept(malloc(room));

    length += (size_t)snprintf(csv, room, "name,amount\n");
    for (int i = 1; i <= rows; i++)
        length +=
            (size_t)snprintf(csv + length, room - length, "%s%d,%d\n", name, i, i % 10 ? i : -i);
    return bulk_id(bulk_send(host, m, "type=Things", "x.csv", csv, length));
}

static struct sse *listen_to(const struct host *on, const struct person *who, const char *id)
{
    return sse_open_at(on, text(BULK "/%s/stream", id), who->token, NULL, 0);
}

static int64_t done_of(const struct sse_event *event)
{
    return json_integer_value(json_object_get(json_object_get(event->json, "progress"), "done"));
}

static const char *status_of(const struct sse_event *event)
{
    return json_string_value(json_object_get(event->json, "status"));
}

/* Reads events up to the last one and returns it; the number of finished rows never decreases. */
static struct sse_event *to_the_end(struct sse *sse)
{
    struct sse_event *event;
    int64_t done = -1;

    while ((event = sse_next(sse, SOON_MS)) != NULL) {
        ck_assert_int_ge(done_of(event), done);
        done = done_of(event);
        if (!strcmp(event->name, "ended"))
            return event;
        ck_assert_str_eq(event->name, "progress");
    }
    ck_abort_msg("the stream ended without a last event, %jd rows were done", (intmax_t)done);
    return NULL;
}

TEST(progress_comes_from_either_host_and_ends)
{
    const char *id = upload_of("either", ROWS);
    struct sse *one = listen_to(host, m, id), *two = listen_to(second, m, id);

    ck_assert_int_eq(one->status, 200);
    ck_assert_int_eq(two->status, 200);
    ck_assert_ptr_nonnull(strstr(one->headers, "text/event-stream"));
    struct sse_event *first = sse_next(one, SOON_MS);

    ck_assert_str_eq(status_of(first), "created");
    ck_assert_int_eq(done_of(first), 0);
    ck_status(bulk_post(m, id, "confirm"), 200);
    struct sse_event *last = to_the_end(one);

    ck_assert_str_eq(status_of(last), "finished");
    ck_assert_int_eq(done_of(last), ROWS);
    ck_assert_int_eq(done_of(to_the_end(two)), ROWS);
    ck_assert(sse_ends(one, SOON_MS));
    ck_assert(one->complete);
    sse_close(one);
    sse_close(two);
}

TEST(who_comes_late_hears_of_the_end_at_once)
{
    const char *id = upload_of("late", 10);

    bulk_store(m, id);
    struct sse *sse = listen_to(second, m, id);

    ck_assert_str_eq(status_of(to_the_end(sse)), "finished");
    ck_assert(sse_ends(sse, SOON_MS));
    sse_close(sse);
}

TEST(a_cancelled_one_ends_the_stream_and_a_deleted_one_too)
{
    const char *cancelled = upload_of("cancelled", 10), *deleted = upload_of("deleted", 10);
    struct sse *one = listen_to(second, m, cancelled), *two = listen_to(second, m, deleted);

    ck_status(bulk_post(m, cancelled, "cancel"), 200);
    ck_assert_str_eq(status_of(to_the_end(one)), "cancelled");
    ask(m, 200, NULL, "DELETE " BULK "/%s", deleted);
    ck_assert(sse_ends(two, SOON_MS));
    sse_close(one);
    sse_close(two);
}

TEST(others_have_no_stream_of_it)
{
    const char *id = upload_of("own", 10);
    const char *path = text(BULK "/%s/stream", id);

    ask(stranger, 404, NULL, "GET %s", path);
    ask(NULL, 401, NULL, "GET %s", path);
    struct sse *sse = listen_to(host, admin, id);

    ck_assert_int_eq(sse->status, 200);
    sse_close(sse);
}

TEST(an_account_has_so_many_streams_and_no_more)
{
    const char *id = upload_of("many", 10);
    struct sse *all[STREAMS];

    for (int i = 0; i < STREAMS; i++) {
        all[i] = listen_to(host, m, id);
        ck_assert_int_eq(all[i]->status, 200);
    }
    struct answer *more = http(host, "GET", text(BULK "/%s/stream", id), m->token, NULL);

    ck_error(more, 429, "Too many open streams for this account");
    ck_assert_ptr_nonnull(answer_header(more, "Retry-After"));
    for (int i = 0; i < STREAMS; i++)
        sse_close(all[i]);
}

static bool has_room(void *id)
{
    struct sse *sse = listen_to(host, m, id);
    bool open = sse->status == 200;

    sse_close(sse);
    return open;
}

TEST(who_has_left_makes_room)
{
    const char *id = upload_of("room", 10);

    ck_assert(wait_until(has_room, (void *)(uintptr_t)id, SOON_MS));
}

SUITE(bulk_stream, .before_all = set_up, .after_all = tear_down, .timeout_s = 120)
