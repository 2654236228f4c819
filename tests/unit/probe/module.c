/* A module for test_module.c: one of everything that works without a server. */
#include "probe.h"

static int get(struct bb_request *rq)
{
    return bb_reply(rq, 200, json_object());
}

static void heard(struct bb_request *rq, const struct bb_event *event)
{
    (void)rq;
    (void)event;
}

/* The state is a copy of the greeting; greetings that begin with "r" are refused. */
static int open_probe(struct bb_host *host, void **state)
{
    const char *greeting = bb_setting_text(host, "greeting");

    if (greeting[0] == 'r')
        return bb_open_fail(host, "the greeting \"%s\" is not nice", greeting);
    *state = bb_host_alloc(host, 1);
    return *state ? 0 : bb_open_fail(host, "out of memory");
}

static const char *const colours[] = {"red", "green", NULL};

// clang-format off
static const struct bb_field settings[] = {
    {.name = "greeting", .type = BB_TEXT, .fallback = "hello", .max = 20,
     .bind = BB_BIND(struct probe_settings, greeting)},
    {.name = "email", .type = BB_EMAIL, .fallback = "ada@example.com",
     .bind = BB_BIND(struct probe_settings, email)},
    {.name = "uuid", .type = BB_UUID, .fallback = "00000000-0000-7000-8000-000000000000",
     .bind = BB_BIND(struct probe_settings, uuid)},
    {.name = "since", .type = BB_TIME, .fallback = "2024-01-01T00:00:00Z",
     .bind = BB_BIND(struct probe_settings, since)},
    {.name = "colour", .type = BB_CHOICE, .choices = colours, .fallback = "red",
     .bind = BB_BIND(struct probe_settings, colour)},
    {.name = "nothing", .type = BB_TEXT, .bind = BB_BIND(struct probe_settings, nothing)},
    {.name = "loud", .type = BB_BOOL, .fallback = "true",
     .bind = BB_BIND(struct probe_settings, loud)},
    {.name = "times", .type = BB_INT, .fallback = "7",
     .bind = BB_BIND(struct probe_settings, times)},
    {.name = "share", .type = BB_NUMBER, .fallback = "0.5",
     .bind = BB_BIND(struct probe_settings, share)},
    {.name = "unbound", .type = BB_INT, .fallback = "3"},
    {.name = "names", .type = BB_LIST, .fallback = "[\"a\"]",
     .bind = BB_BIND(struct probe_settings, names)},
    {.name = "ages", .type = BB_OBJECT, .bind = BB_BIND(struct probe_settings, ages)},
    {.name = "any", .type = BB_ANY, .fallback = "[4]", .bind = BB_BIND(struct probe_settings, any)},
};
// clang-format on

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
    BB_MODULE_HEAD("probe", "1.0.0"),
    .settings = BB_TABLE(settings),
    .settings_size = sizeof(struct probe_settings),
    .routes = BB_TABLE(routes),
    .events = BB_TABLE(events),
    .hooks = BB_TABLE(hooks),
    .open = open_probe,
};
