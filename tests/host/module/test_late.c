/* Calls in a pool that are still running at their request's deadline. */
#include "client.h"
#include "wire.h"

enum { SOON_MS = 10000, CALLS = 4 };

static const char post[] = "POST /late HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                           "Content-Length: 14\r\n\r\n{\"text\":\"abc\"}";

static void log_soon(const struct host *host, const char *what, size_t times)
{
    WAIT_UNTIL_MSG(host_logged(host, what) >= times, SOON_MS, "%s: not %zu times in the log", what,
                   times);
}

static const char *gate, *begun;

static struct host *start(const char *name)
{
    gate = harness_path(text("%s.gate", name));
    begun = harness_path(text("%s.begun", name));
    return host_start(&(struct host_spec){
        .name = name,
        .database = "none",
        .modules = text("[health, \"%s\"]", harness_test_module("module_late")),
        .environment = word_list(text("LATE_GATE=%s", gate), text("LATE_BEGUN=%s", begun))});
}

/* The memory that the thread writes to exists until it returns; then everything is freed. */
static void let_calls_end(struct host *host, size_t calls)
{
    file_write(gate, "");
    log_soon(host, "the call has ended: dropped, whole", calls);
    ck_status(http(host, "GET", "/api/health", NULL, NULL), 200);
    host_stop(host);
}

/* Some clients leave before the deadline, the others get a response. */
TEST(a_client_may_disconnect_during_a_pool_call)
{
    struct host *host = start("late_gone");
    struct wire *wires[CALLS];

    for (int i = 0; i < CALLS; i++) {
        wires[i] = wire_open(host);
        ck_assert(wire_send(wires[i], post, strlen(post)));
    }
    WAIT_UNTIL(strlen(file_text(begun)) == CALLS, SOON_MS);
    for (int i = 0; i < CALLS; i += 2)
        wire_close(wires[i], i % 4 == 0);
    for (int i = 1; i < CALLS; i += 2) {
        const struct wire_answer *answer = ck_wire_error(wire_read(wires[i], SOON_MS), 503);

        ck_assert_ptr_nonnull(strstr(answer->body, "The request took too long"));
        ck_assert_str_eq(header_in(answer->headers, "X-Late"), "yes");
        wire_close(wires[i], false);
    }
    ck_assert_uint_eq(host_logged(host, "the call has ended"), 0);
    log_soon(host, "route=/late", CALLS);
    let_calls_end(host, CALLS);
}

TEST(a_pool_call_that_ends_in_time_is_answered)
{
    struct host *host = start("late_in_time");

    file_write(gate, "");
    ck_status(http(host, "POST", "/late/patient", NULL, json_object()), 200);
    host_logs(host, 0, "the call has ended: in time, whole");
}

SUITE(late, .timeout_s = 60)
