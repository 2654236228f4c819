/* A module that breaks its side of the contract: the log names it, and the host keeps running. */
#include "stage.h"

static void open_suite(void)
{
    stage_open(&(struct host_spec){
        .name = "bad_module",
        .modules = text("[auth, health, \"%s\"]", harness_test_module("module_bad"))});
    database_soon(the_postgres, "bad_module", "SELECT count(to_regclass('bad_row'))");
}

static const struct {
    const char *how;
    long status;
    int64_t rows; /* left in the database */
    const char *said;
} ways[] = {
    {"no-json", 500, 0, "sent a response without JSON"},
    {"commit-no-json", 500, 0, "sent a response without JSON"},
    {"commit-204", 204, 1, NULL},
    {"commit-error", 500, 0, "unit was committed with an error status"},
    {"status", 500, 0, "sent a response with an invalid status"},
    {"open-unit", 500, 0, "was never committed"},
    {"twice", 201, 1, "sent an error response after its transaction was committed"},
    {"sent", 500, 0, "returned a status that differs from its response"},
    {"kept", 500, 0, "returned a status that differs from its response"},
    {"minus", 500, 0, "a failure without a cause"},
    {"circle", 500, 0, "raised events in a circle"},
    {"waits", 500, 0, "called a function that waits"},
    {"setting", 200, 0, "read a setting that it does not declare"},
    {"audience", 500, 0, "an audience without its size"},
    {"pool", 500, 0, "used a pool that it does not declare"},
    {"nothing", 500, 0, "handler sent no response"},
    {"commit-twice", 500, 1, "used a unit that was already committed"},
    {"add-late", 500, 1, "used a unit that was already committed"},
    {"emit-late", 500, 1, "used a unit that was already committed"},
    {"add-null", 500, 0, "that does not belong to the request"},
    {"commit-null", 500, 0, "that does not belong to the request"},
    {"use-kept", 500, 0, "that does not belong to the request"},
    {"commit-kept", 500, 0, "that does not belong to the request"},
    {"gate-twice", 500, 0, "waited for a completion twice"},
    {"stream-twice", 500, 0, "opened a stream in a request that cannot have a stream"},
    {"reply-twice", 201, 0, "sent two responses"},
    {"reply-fail", 409, 0, "sent two responses"},
    {"unanswered", 500, 0, "returned a status without sending a response"},
    {"fail-after", 409, 1, "an error response after its transaction was committed"},
    {"last-more", 200, 2, NULL},
    {"last-refuses", 409, 0, NULL},
    {"last-circle", 500, 0, "bb_before() was called in a circle"},
};

TEST_EACH(a_module_that_breaks_the_api_is_logged_and_tolerated, COUNT(ways))
{
    const char *how = ways[_i].how;
    size_t before = host_log_size(host);
    int64_t rows = sql_number(db, "SELECT count(*) FROM bad_row");
    struct answer *answer = http(host, "POST", text("/bad/%s", how), NULL, NULL);

    ck_assert_msg(answer->status == ways[_i].status, "%s: %ld %s", how, answer->status,
                  answer->body);
    ck_assert_msg(sql_number(db, "SELECT count(*) FROM bad_row") - rows == ways[_i].rows,
                  "%s: the number of new rows is not %d", how, (int)ways[_i].rows);
    ck_status(http(host, "GET", "/api/health", NULL, NULL), 200);
    if (ways[_i].said)
        host_logs_line(host, before, ways[_i].said, "module=bad", "route=\"POST /bad/:how\"");
}

TEST(bb_reply_next_fails_in_a_hook)
{
    ck_status(http(host, "POST", "/bad/next", NULL, NULL), 201);
    host_logs_line(host, 0, "bb_reply_next() gives -1", "in bad.next", "module=bad");
}

STAGE_SUITE(bad_module, open_suite, 60)
