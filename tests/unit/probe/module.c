/* A module for test_module.c: one of everything that can be had without a server. */
#include <busbar/busbar.h>

static int get(struct bb_request *rq)
{
    return bb_reply(rq, 200, json_object());
}

static void heard(struct bb_request *rq, const struct bb_event *event)
{
    (void)rq;
    (void)event;
}

/* The state is the greeting; "refuse" is one that it does not like. */
static int open_probe(struct bb_host *host, void **state)
{
    const char *greeting = bb_setting_text(host, "greeting");

    if (greeting[0] == 'r')
        return bb_open_fail(host, "the greeting \"%s\" is not nice", greeting);
    *state = bb_host_alloc(host, 1);
    return *state ? 0 : bb_open_fail(host, "out of memory");
}

static const struct bb_field settings[] = {
    {.name = "greeting", .type = BB_TEXT, .fallback = "hello", .max = 20},
};

static const struct bb_route routes[] = {
    {.method = "GET", .path = "/probe", .roles = BB_ANYONE, .handler = get},
};

static const struct bb_event_descriptor events[] = {
    {"probe.done", 1, {0}, "Something was probed."}};

static const struct bb_hook hooks[] = {
    {.event = "*", .kind = BB_COMMITTED, .committed = heard},
    {.event = "probe.undeclared", .kind = BB_COMMITTED, .committed = heard},
};

BB_EXPORT const struct bb_module busbar_module = {
    BB_MODULE_HEAD("probe", "1.0.0"), .settings = BB_TABLE(settings), .routes = BB_TABLE(routes),
    .events = BB_TABLE(events),       .hooks = BB_TABLE(hooks),       .open = open_probe,
};
