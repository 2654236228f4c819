/*
 * Calls in a pool that end only when the file $LATE_GATE exists. Each call adds a byte to the file
 * $LATE_BEGUN when a thread begins it.
 */
#include <busbar/busbar.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct call {
    char written[256]; /* after the request's deadline */
    bool open;
};

static void wait_for_gate(void *arg)
{
    const char *gate = getenv("LATE_GATE"), *begun = getenv("LATE_BEGUN");
    int fd = begun ? open(begun, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
    struct call *call = arg;

    if (fd < 0 || write(fd, "x", 1) != 1)
        abort();
    close(fd);
    while (gate && access(gate, F_OK))
        usleep(5000);
    memset(call->written, 'x', sizeof call->written);
    call->open = true;
}

/* The call uses memory of the fiber, and the header uses memory of the request. */
static int late(struct bb_request *rq)
{
    struct call call = {.open = false};

    bb_reply_header(rq, "X-Late", bb_format(rq, "%s", "yes"));
    int failed = bb_offload(rq, "gate", wait_for_gate, &call);
    bb_log(rq, BB_INFO, "the call has ended: %s, %s", failed ? "dropped" : "in time",
           call.open && call.written[255] == 'x' ? "whole" : "broken");
    return failed ? bb_failed(rq) : bb_reply(rq, 200, json_object());
}

static const struct bb_field body[] = {{.name = "text", .type = BB_TEXT}};

#define ROUTE(at, ms)                                                                              \
    {                                                                                              \
        .method = "POST", .path = (at), .roles = BB_ANYONE, .body = BB_TABLE(body),                \
        .handler = late, .deadline_ms = (ms)                                                       \
    }

static const struct bb_route routes[] = {ROUTE("/late", 5000), ROUTE("/late/patient", 60000)};

static const struct bb_pool pools[] = {{.name = "gate", .threads = 8, .queue = 8}};

BB_EXPORT const struct bb_module busbar_module = {
    BB_MODULE_HEAD("late", "1.0.0"),
    .routes = BB_TABLE(routes),
    .pools = BB_TABLE(pools),
};
