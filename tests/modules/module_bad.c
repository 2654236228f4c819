/* A module that breaks the contract, each route in another way. The host must name the module in
 * its log and keep running. */
#include <busbar/busbar.h>

#include <string.h>

static const char schema[] = "-- step 1: what bad modules write\n"
                             "CREATE TABLE bad_row (what text NOT NULL)\n";

static const struct bb_sql insert = {"INSERT INTO bad_row VALUES ($1)", BB_SQL_WRITE};

static struct bb_tx *unit_of(struct bb_request *rq, const char *what)
{
    struct bb_tx *unit = bb_unit(rq, 1);

    return unit && bb_add(rq, unit, &insert, BB_ARGS(bb_t(what))) >= 0 ? unit : NULL;
}

static int commit(struct bb_request *rq, const char *what, int status, json_t *json)
{
    int done = bb_commit(rq, unit_of(rq, what), status, json);

    return done ? done : bb_failed(rq);
}

static int emit(struct bb_request *rq, const char *event)
{
    struct bb_tx *unit = unit_of(rq, event);

    if (bb_emit(rq, unit, event, json_object(), NULL))
        return bb_failed(rq);
    int done = bb_commit(rq, unit, 201, json_object());

    return done ? done : bb_failed(rq);
}

static int emit_to_no_size(struct bb_request *rq)
{
    const struct bb_audience audience = {.organization = 1};

    return bb_emit(rq, unit_of(rq, "audience"), "bad.next", json_object(), &audience)
               ? bb_failed(rq)
               : 200;
}

static int returns_an_error(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    (void)arg;
    bb_tx_query(rq, tx, &insert, BB_ARGS(bb_t("sent")));
    bb_reply(rq, 200, json_object());
    return 409;
}

static int answers_an_error(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    (void)arg;
    bb_tx_query(rq, tx, &insert, BB_ARGS(bb_t("kept")));
    bb_fail(rq, 409, "No");
    return 200;
}

static int fails(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    (void)arg;
    bb_tx_query(rq, tx, &insert, BB_ARGS(bb_t("minus")));
    return -1;
}

static void nothing(void *arg)
{
    (void)arg;
}

static int leave_open(struct bb_request *rq)
{
    unit_of(rq, "open");
    bb_end(rq, bb_reply(rq, 200, json_object()));
}

static int answer_twice(struct bb_request *rq)
{
    commit(rq, "twice", 201, json_object());
    return bb_fail(rq, 409, "No");
}

static int commit_twice(struct bb_request *rq)
{
    struct bb_tx *unit = unit_of(rq, "commit-twice");

    bb_commit(rq, unit, 200, json_object());
    int done = bb_commit(rq, unit, 200, json_object());

    return done ? done : bb_failed(rq);
}

static int add_late(struct bb_request *rq)
{
    struct bb_tx *unit = unit_of(rq, "add-late");

    bb_commit(rq, unit, 200, json_object());
    return bb_add(rq, unit, &insert, BB_ARGS(bb_t("late"))) < 0 ? bb_failed(rq) : 200;
}

static int emit_late(struct bb_request *rq)
{
    struct bb_tx *unit = unit_of(rq, "emit-late");

    bb_commit(rq, unit, 200, json_object());
    return bb_emit(rq, unit, "bad.next", json_object(), NULL) ? bb_failed(rq) : 200;
}

static int add_to_none(struct bb_request *rq)
{
    return bb_add(rq, NULL, &insert, BB_ARGS(bb_t("none"))) < 0 ? bb_failed(rq) : 200;
}

static int commit_none(struct bb_request *rq)
{
    return bb_commit(rq, NULL, 200, json_object()) ? 200 : bb_failed(rq);
}

static struct bb_tx *kept; /* belongs to a request or transaction that has ended */

static int keep_handle(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    (void)arg;
    kept = tx;
    return bb_reply(rq, 200, json_object());
}

static int use_kept(struct bb_request *rq)
{
    bb_transaction(rq, keep_handle, NULL);
    return bb_tx_query(rq, kept, &insert, BB_ARGS(bb_t("kept"))) ? 200 : bb_failed(rq);
}

/* The request of the kept transaction has ended. */
static int commit_kept(struct bb_request *rq)
{
    return bb_commit(rq, kept, 200, json_object()) ? 200 : bb_failed(rq);
}

static int wait_twice(struct bb_request *rq)
{
    struct bb_completion *completion = bb_completion(rq);

    bb_completion_signal(rq->host, completion);
    bb_completion_wait(rq, completion, 1000);
    return bb_completion_wait(rq, completion, 1000) ? bb_failed(rq) : 200;
}

static int stream_twice(struct bb_request *rq)
{
    const struct bb_stream_options options = {.size = sizeof options};
    struct bb_stream *stream;

    bb_stream_open(rq, &options, &stream);
    return bb_stream_open(rq, &options, &stream);
}

static int reply_twice(struct bb_request *rq)
{
    bb_reply(rq, 200, json_object());
    return bb_reply(rq, 201, json_object());
}

static int reply_then_fail(struct bb_request *rq)
{
    bb_reply(rq, 200, json_object());
    return bb_fail(rq, 409, "No");
}

static int writes(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    const int *status = arg;

    bb_add(rq, tx, &insert, BB_ARGS(bb_t("writes")));
    return *status;
}

/* Gives no response; `status` is 0 if a response may come later. */
static int write_silently(struct bb_request *rq, int status)
{
    return bb_transaction(rq, writes, &status);
}

static int fail_after(struct bb_request *rq)
{
    write_silently(rq, 0);
    return bb_fail(rq, 409, "After");
}

/* ---- functions that run before the commit ---- */

static int write_counted(struct bb_request *rq, struct bb_tx *tx, void *state)
{
    int *count = state;

    while ((*count)--)
        if (bb_add(rq, tx, &insert, BB_ARGS(bb_t("counted"))) < 0)
            return -1;
    return 0;
}

static int count_one(struct bb_request *rq, struct bb_tx *tx)
{
    int *count = bb_before(rq, tx, write_counted, sizeof *count);

    *count += 1;
    return 0;
}

static int count_more(struct bb_request *rq, struct bb_tx *tx, void *state)
{
    (void)state;
    return count_one(rq, tx);
}

static int refuse_late(struct bb_request *rq, struct bb_tx *tx, void *state)
{
    (void)tx;
    (void)state;
    bb_fail(rq, 409, "Too late");
    return -1;
}

static int ask_again(struct bb_request *rq, struct bb_tx *tx, void *state)
{
    (void)state;
    return bb_before(rq, tx, ask_again, 1) ? 0 : -1;
}

static int counts_before(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    const char *how = arg;
    bool more = !strcmp(how, "last-more"), refuses = !strcmp(how, "last-refuses");

    count_one(rq, tx);
    if (!bb_before(rq, tx, more ? count_more : refuses ? refuse_late : ask_again, 1))
        return -1;
    return bb_reply(rq, 200, json_object());
}

static const struct {
    const char *how;
    int (*run)(struct bb_request *rq);
} others[] = {
    {"commit-twice", commit_twice}, {"add-late", add_late},          {"emit-late", emit_late},
    {"add-null", add_to_none},      {"commit-null", commit_none},    {"use-kept", use_kept},
    {"commit-kept", commit_kept},   {"gate-twice", wait_twice},      {"stream-twice", stream_twice},
    {"reply-twice", reply_twice},   {"reply-fail", reply_then_fail}, {"fail-after", fail_after},
};

static int handle_other(struct bb_request *rq, const char *how)
{
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (!strcmp(how, others[i].how))
            return others[i].run(rq);
    }
    return strcmp(how, "unanswered") ? 0 : write_silently(rq, 200);
}

static int handle(struct bb_request *rq)
{
    const char *how = bb_segment(rq, "how");

    if (!strcmp(how, "no-json"))
        return bb_reply(rq, 200, NULL);
    if (!strcmp(how, "commit-no-json"))
        return commit(rq, how, 201, NULL);
    if (!strcmp(how, "commit-204"))
        return commit(rq, how, 204, NULL);
    if (!strcmp(how, "commit-error"))
        return commit(rq, how, 409, json_object());
    if (!strcmp(how, "status"))
        return bb_reply(rq, 42, json_object());
    if (!strcmp(how, "open-unit"))
        return leave_open(rq);
    if (!strcmp(how, "twice"))
        return answer_twice(rq);
    if (!strcmp(how, "sent"))
        return bb_transaction(rq, returns_an_error, NULL);
    if (!strcmp(how, "kept"))
        return bb_transaction(rq, answers_an_error, NULL);
    if (!strcmp(how, "minus"))
        return bb_transaction(rq, fails, NULL);
    if (!strcmp(how, "circle"))
        return emit(rq, "bad.circle");
    if (!strcmp(how, "waits"))
        return emit(rq, "bad.waits");
    if (!strcmp(how, "next"))
        return emit(rq, "bad.next");
    if (!strcmp(how, "audience"))
        return emit_to_no_size(rq);
    if (!strncmp(how, "last-", 5))
        return bb_transaction(rq, counts_before, (char *)(uintptr_t)how);
    if (!strcmp(how, "setting"))
        return bb_reply(rq, 200,
                        json_pack("{s:s}", "value", bb_setting_text(rq->host, "undeclared")));
    if (!strcmp(how, "pool"))
        return bb_offload(rq, "undeclared", nothing, NULL) ? bb_failed(rq)
                                                           : bb_reply(rq, 200, json_object());
    return handle_other(rq, how);
}

static int raise_again(struct bb_request *rq, struct bb_tx *tx, const struct bb_event *event,
                       void *state)
{
    (void)state;
    return bb_emit(rq, tx, event->name, json_object(), NULL);
}

/* It also ignores that the host refused it. */
static int wait_within(struct bb_request *rq, struct bb_tx *tx, const struct bb_event *event,
                       void *state)
{
    static const struct bb_sql look = {"SELECT 1", 0};

    (void)tx;
    (void)event;
    (void)state;
    bb_query(rq, &look, BB_NO_ARGS);
    return 0;
}

/* In a committed hook there is no HTTP request any more that could have a next page. */
static void name_the_next(struct bb_request *rq, const struct bb_event *event)
{
    bb_log(rq, BB_INFO, "bb_reply_next() gives %d in %s", bb_reply_next(rq, "cursor"), event->name);
}

static const struct bb_field segments[] = {{.name = "how", .type = BB_TEXT, .max = 30}};

static const struct bb_route routes[] = {
    {.method = "POST",
     .path = "/bad/:how",
     .roles = BB_ANYONE,
     .handler = handle,
     .segments = BB_TABLE(segments),
     .flags = BB_NO_BODY},
};

static const struct bb_event_descriptor events[] = {
    {"bad.circle", 1, {0}, "Its hook raises it again."},
    {"bad.waits", 1, {0}, "Its hook waits."},
    {"bad.next", 1, {0}, "Its hook names a next page after the commit."},
};

static const struct bb_hook hooks[] = {
    {.event = "bad.circle", .kind = BB_WITHIN, .within = raise_again},
    {.event = "bad.waits", .kind = BB_WITHIN, .within = wait_within},
    {.event = "bad.next", .kind = BB_COMMITTED, .committed = name_the_next},
};

BB_EXPORT const struct bb_module busbar_module = {
    BB_MODULE_HEAD("bad", "1.0.0"), .schema = schema,         .routes = BB_TABLE(routes),
    .events = BB_TABLE(events),     .hooks = BB_TABLE(hooks),
};
