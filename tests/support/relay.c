#include "relay.h"

#include "exposition.h"

struct host_spec relay_spec(const char *name, const char *more)
{
    return (struct host_spec){.name = name,
                              .modules = text("[auth, health, metrics, upstream, \"%s\"]",
                                              harness_test_module("module_relay")),
                              .http = "  metrics_networks: [127.0.0.1]\n  deadline: 60000\n",
                              .more = more};
}

struct host *relay_start(const struct host_spec *spec)
{
    struct host *host = host_start(spec);

    status_soon(host, "/api/health/ready", NULL, 200);
    return host;
}

static struct answer *ask(const struct host *host, bool tell, const char *format, va_list members)
{
    json_t *body = json_vpack_ex(NULL, 0, format, members);

    ck_assert_msg(body != NULL, "%s", format);
    json_object_set_new(body, "tell", json_boolean(tell));
    return http(host, "POST", "/relay", NULL, body);
}

struct answer *relay(const struct host *host, const char *format, ...)
{
    va_list members;

    va_start(members, format);
    struct answer *answer = ask(host, false, format, members);
    va_end(members);
    return answer;
}

struct answer *relay_tells(const struct host *host, const char *format, ...)
{
    va_list members;

    va_start(members, format);
    struct answer *answer = ask(host, true, format, members);
    va_end(members);
    return ck_status(answer, 200);
}

const char *relay_header(const struct answer *answer, const char *name)
{
    size_t i;
    json_t *pair;

    json_array_foreach (json_object_get(answer->json, "headers"), i, pair) {
        if (!strcmp(json_string_value(json_array_get(pair, 0)), name))
            return json_string_value(json_array_get(pair, 1));
    }
    return NULL;
}

double relay_under_way(const struct host *host)
{
    return exposition_value(exposition_get(host, NULL), "busbar_upstream_calls", "");
}

double relay_outcomes(const struct host *host, const char *outcome)
{
    return exposition_value(exposition_get(host, NULL), "busbar_upstream_calls_total",
                            text("outcome=\"%s\"", outcome));
}
