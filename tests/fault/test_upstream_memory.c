/*
 * Requests to other servers when allocations of libcurl or of the module fail. Each request
 * gets a response in time, none keeps its place in the pool, and the host stops as fast as usual.
 */
#include <sys/wait.h>

#include "fault/common.h"
#include "fault/torture.h"
#include "relay.h"

enum {
    CURL_ROUNDS = 160,
    CURL_DEEPEST = 80,
    ROUNDS = 300,
    DEEPEST = 150,
    ARM_MS = 20,
    ENDED_MS = 60000,
    TIMEOUT_MS = 2000
};

static struct host *start(const char *name, const struct rack *rack)
{
    struct host_spec spec = relay_spec(name, RELAY_LOCAL "  connection_idle: 1\n");

    spec.modules = "[auth, health, metrics, upstream, \"" TEST_RELAY "\"]";
    spec.plain = true;
    spec.environment = rack->environment;
    return relay_start(&spec);
}

/* Makes the nth allocation of a library ("": of any) fail; n runs from 1 up. */
static void refuse_each(const struct host *host, const struct rack *rack, const char *library,
                        int rounds, int deepest)
{
    struct catcher *catcher = catcher_start((const char *const[]){ANSWER_OK, NULL});

    snprintf(rack->numbers->only, sizeof(rack->numbers->only), "%s", library);
    for (int i = 0; i < rounds; i++) {
        rack_arm(rack, i % deepest + 1);
        struct answer *answer = relay(host, "{ss si ss}", "url", catcher_url(catcher, ""),
                                      "timeout", TIMEOUT_MS, "text", "short");

        ck_assert_msg(answer->status == 200 || answer->status >= 502 || answer->status == 0,
                      "round %d is answered %ld: %s", i, answer->status, answer->body);
        rack_failed(rack, ARM_MS);
    }
    rack_arm(rack, 0);
    ck_status(relay(host, "{ss}", "url", catcher_url(catcher, "")), 200);
}

static void torture(const char *name, const char *library, int rounds, int deepest)
{
    struct rack rack = rack_make(name);
    struct host *host = start(name, &rack);

    refuse_each(host, &rack, library, rounds, deepest);
    expect_running(host);
    fprintf(stderr, "%s: %ld allocations failed\n", name, atomic_load(&rack.numbers->failed));
    ck_assert_int_gt(atomic_load(&rack.numbers->failed), rounds / 8);
    WAIT_UNTIL(relay_under_way(host) == 0, ENDED_MS);
    host_stop(host);
}

TEST(a_failed_allocation_of_libcurl_blocks_no_request)
{
    torture("torture_relay_curl", "/libcurl.so", CURL_ROUNDS, CURL_DEEPEST);
}

TEST(a_failed_allocation_blocks_no_request)
{
    torture("torture_relay", "", ROUNDS, DEEPEST);
}

FAULT_SUITE(upstream_memory)
