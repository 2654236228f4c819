#include "poke.h"

enum { FREELY = 8 /* more than the number of connections */ };

struct host *poke_start(const struct host_spec *spec)
{
    struct host_spec on = *spec;

    if (!on.http)
        on.http = "  loops: 1\n  metrics_networks: [127.0.0.1]\n";
    if (!on.modules)
        on.modules = text("[auth, health, metrics, \"%s\"]", harness_test_module("module_poke"));
    struct host *host = host_start(&on);

    status_soon(host, "/api/poke/query/shape", NULL, 200);
    return host;
}

struct answer *poke(const struct host *host, const char *method, const char *what, long status)
{
    struct answer *answer = http(host, method, text("/api/poke/%s", what), NULL, NULL);

    ck_status(answer, status);
    ck_assert_msg(answer->seconds * 1000 < (double)AT_ONCE_MS, "%s: %.0f ms", what,
                  answer->seconds * 1000);
    return answer;
}

struct wire *poke_begin(const struct host *host, const char *what)
{
    struct wire *wire = wire_open(host);

    ck_assert(
        wire_say(wire, "POST /api/poke/%s HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", what));
    return wire;
}

void poke_lends(const struct host *host)
{
    for (int i = 0; i < FREELY; i++)
        poke(host, "POST", "transaction/one", 201);
}
