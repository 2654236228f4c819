/* hello: counts the messages of every author, and greets with the count. */
#include <busbar/busbar.h>

static const struct bb_sql add = {"INSERT INTO hello_count VALUES ($1, 1) ON CONFLICT (email) DO "
                                  "UPDATE SET n = hello_count.n + 1",
                                  BB_SQL_WRITE};
static const struct bb_sql get = {"SELECT n FROM hello_count WHERE email = $1", 0};

/* Runs after the commit of a message, with a copy of the event, on a separate fiber. */
static void heard(struct bb_request *rq, const struct bb_event *event)
{
    const json_t *message = json_object_get(event->payload, "message");
    const char *author = json_string_value(json_object_get(message, "username"));

    if (!bb_query(rq, &add, BB_ARGS(bb_t(author))))
        bb_log(rq, BB_WARN, "event %s was not counted", event->id);
}

static int hello(struct bb_request *rq)
{
    const char *greeting = bb_setting_text(rq->host, "greeting");
    const char *email = rq->principal->email;
    struct bb_rows *rows = bb_query_or_end(rq, &get, BB_ARGS(bb_t(email)));
    int64_t n = bb_count(rq, rows) ? bb_cell_int(rq, rows, 0, 0) : 0;

    return bb_reply(rq, 200,
                    json_pack("{s:s, s:s, s:I}", "greeting", greeting, "email", email, "messages",
                              (json_int_t)n));
}

static const struct bb_field settings[] = {
    {.name = "greeting", .type = BB_TEXT, .max = 80, .fallback = "hello", .help = "The greeting."}};
static const struct bb_field reply[] = {
    {.name = "greeting", .type = BB_TEXT, .flags = BB_REQUIRED},
    {.name = "email", .type = BB_EMAIL, .flags = BB_REQUIRED, .help = "The caller's."},
    {.name = "messages", .type = BB_INT, .flags = BB_REQUIRED, .help = "Written by the caller."}};
static const struct bb_route routes[] = {{.method = "GET",
                                          .path = "/api/hello",
                                          .roles = BB_ANY_ROLE,
                                          .handler = hello,
                                          .reply = BB_TABLE(reply),
                                          .help = "Greets the caller."}};
static const struct bb_hook hooks[] = {
    {.event = "message.new", .kind = BB_COMMITTED, .committed = heard}};

BB_EXPORT const struct bb_module busbar_module = {
    BB_MODULE_HEAD("hello", "1.0.0"),
    .schema = "-- step 1: a counter for each author\n"
              "CREATE TABLE hello_count (email text PRIMARY KEY, n bigint NOT NULL);\n",
    .settings = BB_TABLE(settings), .routes = BB_TABLE(routes), .hooks = BB_TABLE(hooks)};
