/*
 * spy: a module for the tests of the bus. Its hook `within` writes every event to the module's
 * table in the publisher's transaction; its hook `committed` writes the copy it received, and
 * whether the first row was already there. Texts in its settings make it misbehave for messages
 * that contain them. It keeps nothing in memory. One setting makes its job allocate more memory
 * than there is.
 */
#include <stdlib.h>
#include <string.h>

#include <busbar/busbar.h>

static const char schema[] =
    "-- step 1: what was seen\n"
    "CREATE TABLE spy_event (id uuid PRIMARY KEY, name text NOT NULL, wall_ms bigint NOT NULL,"
    " payload text NOT NULL, organisation bigint NOT NULL, emails text NOT NULL,"
    " trace text NOT NULL);\n"
    "CREATE TABLE spy_committed (id uuid PRIMARY KEY, name text NOT NULL, payload text NOT NULL,"
    " stored boolean NOT NULL, trace text NOT NULL);\n"
    "CREATE TABLE spy_run (id uuid PRIMARY KEY, trace text NOT NULL);\n"
    "CREATE TABLE spy_late (id uuid PRIMARY KEY,"
    " event uuid NOT NULL REFERENCES spy_event DEFERRABLE INITIALLY DEFERRED);\n";

static const struct bb_sql store = {
    "INSERT INTO spy_event (id, name, wall_ms, payload, organisation, emails, trace)"
    " VALUES ($1::uuid, $2::text, $3::bigint, $4::text, $5::bigint, $6::text, $7::text)",
    BB_SQL_WRITE};
static const struct bb_sql raise_condition = {"SELECT busbar_require(false, 422, 'not today')",
                                              BB_SQL_WRITE};
static const struct bb_sql break_statement = {"SELECT 1 / ($1::int - 1)", BB_SQL_WRITE};
static const struct bb_sql break_commit = {
    "INSERT INTO spy_late (id, event) VALUES ($1::uuid, gen_random_uuid())", BB_SQL_WRITE};
static const struct bb_sql break_read = {"SELECT 1 / ($1::int - 1)", 0};
static const struct bb_sql store_copy = {
    "INSERT INTO spy_committed (id, name, payload, stored, trace)"
    " SELECT $1::uuid, $2::text, $3::text, EXISTS (SELECT FROM spy_event WHERE id = $1::uuid), "
    "$4::text",
    BB_SQL_WRITE};

static const struct bb_field settings[] = {
    {.name = "veto", .type = BB_TEXT, .fallback = "", .help = "The hook vetoes."},
    {.name = "raise", .type = BB_TEXT, .fallback = "", .help = "A statement raises a condition."},
    {.name = "break", .type = BB_TEXT, .fallback = "", .help = "A statement fails."},
    {.name = "sour", .type = BB_TEXT, .fallback = "", .help = "A read after the commit fails."},
    {.name = "late", .type = BB_TEXT, .fallback = "", .help = "The commit itself fails."},
    {.name = "greedy", .type = BB_BOOL, .fallback = "false", .help = "The job runs out of memory."},
};

/* Returns whether the event's message contains the text of a setting. */
static bool told(const struct bb_request *rq, const struct bb_event *event, const char *setting)
{
    const char *text = bb_setting_text(rq->host, setting);
    const json_t *message = json_object_get(event->payload, "message");
    const char *entry = json_string_value(json_object_get(message, "chatEntry"));

    return *text && entry && strstr(entry, text);
}

static const char *payload_text(struct bb_request *rq, const struct bb_event *event)
{
    char *text = json_dumps(event->payload, JSON_COMPACT);

    if (text)
        bb_defer(rq, free, text);
    return text;
}

static const char *emails_of(struct bb_request *rq, const struct bb_event *event)
{
    const char *all = "";

    for (size_t i = 0; event->audience->emails && event->audience->emails[i]; i++)
        all = bb_format(rq, "%s%s%s", all, i ? " " : "", event->audience->emails[i]);
    return all;
}

static int add_faults(struct bb_request *rq, struct bb_tx *tx, const struct bb_event *event)
{
    if (told(rq, event, "raise") && bb_add(rq, tx, &raise_condition, BB_NO_ARGS) < 0)
        return -1;
    if (told(rq, event, "break") && bb_add(rq, tx, &break_statement, BB_ARGS(bb_i(1))) < 0)
        return -1;
    if (told(rq, event, "late") && bb_add(rq, tx, &break_commit, BB_ARGS(bb_t(event->id))) < 0)
        return -1;
    return 0;
}

static int within(struct bb_request *rq, struct bb_tx *tx, const struct bb_event *event,
                  void *state)
{
    const char *payload = payload_text(rq, event);

    (void)state;
    if (told(rq, event, "veto")) {
        bb_fail(rq, 409, "The spy does not like this message");
        return -1;
    }
    if (!payload || bb_add(rq, tx, &store,
                           BB_ARGS(bb_t(event->id), bb_t(event->name), bb_i(event->wall_ms),
                                   bb_t(payload), bb_i(event->audience->organization),
                                   bb_t(emails_of(rq, event)), bb_t(bb_traceparent(rq)))) < 0)
        return -1;
    return add_faults(rq, tx, event);
}

static void committed(struct bb_request *rq, const struct bb_event *event)
{
    const char *payload = payload_text(rq, event);

    if (told(rq, event, "sour") && bb_query(rq, &break_read, BB_ARGS(bb_i(1))))
        bb_log(rq, BB_ERROR, "a division by zero was answered");
    if (!payload || !bb_query(rq, &store_copy,
                              BB_ARGS(bb_t(event->id), bb_t(event->name), bb_t(payload),
                                      bb_t(bb_traceparent(rq)))))
        bb_log(rq, BB_ERROR, "the spy could not write its copy");
}

static void once(struct bb_request *rq)
{
    static const struct bb_sql ran = {"INSERT INTO spy_run SELECT gen_random_uuid(), $1::text",
                                      BB_SQL_WRITE};

    if (bb_setting_int(rq->host, "greedy") && bb_query(rq, &ran, BB_ARGS(bb_t(bb_traceparent(rq)))))
        bb_alloc(rq, SIZE_MAX / 2);
}

static const struct bb_job jobs[] = {
    {.name = "spy.once", .every_s = 1, .flags = BB_ONCE, .run = once},
};

static const struct bb_hook hooks[] = {
    {.event = "*", .kind = BB_WITHIN, .within = within},
    {.event = "*", .kind = BB_COMMITTED, .committed = committed},
};

BB_EXPORT const struct bb_module busbar_module = {
    BB_MODULE_HEAD("spy", "1.0.0"), .schema = schema,       .settings = BB_TABLE(settings),
    .hooks = BB_TABLE(hooks),       .jobs = BB_TABLE(jobs),
};
