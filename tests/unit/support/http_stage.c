#include "http_stage.h"

#include <arpa/inet.h>
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/lib/host_settings.h"
#include "core/lib/log.h"
#include "core/lib/text.h"
#include "core/server/stream.h"
#include "fixture.h"
#include "http_client.h"
#include "http_routes.h"

enum { PATIENCE_MS = 15000, DEADLINE_MS = 10000, CONNECTIONS = 64 };

struct loop http_stage_loop;
struct generation http_stage_generation;
static struct engine engine;
static struct timer patience;
static bool (*awaited)(const void *of);
static const void *awaited_of;

static void run_http(void *of)
{
    (void)of;
    if (http_stage_loop.http)
        http_run(http_stage_loop.http);
}

static int64_t wait_for_http(void *of)
{
    (void)of;
    return http_stage_loop.http ? http_timeout_ms(http_stage_loop.http) : -1;
}

static void look(void *of)
{
    (void)of;
    if (awaited(awaited_of))
        http_stage_loop.stop = true;
}

static void give_up(struct timer *timer)
{
    (void)timer;
    ck_abort_msg("the condition that the test waits for does not become true");
}

static void make_generation(void)
{
    http_stage_generation = (struct generation){
        .holders = 1,
        .engine = &engine,
        .arena = arena,
    };
    http_routes_add(&http_stage_generation);
}

void http_stage_set_up(void)
{
    log_level(BB_ERROR, false);
    conf_setup();
    make_generation();
    engine = (struct engine){
        .generation = &http_stage_generation, .loops = &http_stage_loop, .loop_count = 1};
    pthread_mutex_init(&engine.lock, NULL);
    patience = (struct timer){.fire = give_up};
    ck_assert_int_eq(loop_init(&http_stage_loop, &engine, 0), 0);
    loop_add_part(&http_stage_loop, &(struct loop_part){run_http, wait_for_http, NULL});
    loop_add_part(&http_stage_loop, &(struct loop_part){.run = look});
}

static void read_settings(const char *section)
{
    static struct host_settings host;
    FILE *file = fopen(conf, "w");

    ck_assert_ptr_nonnull(file);
    fprintf(file, "http:\n  listen: 127.0.0.1:0\n%s", section ? section : "");
    fclose(file);
    http_stage_generation.settings = settings_load(arena, conf, &problems);
    ck_assert_ptr_nonnull(http_stage_generation.settings);
    host_settings_bind(http_stage_generation.settings, &problems);
    setting_problems_print(&problems, stderr);
    ck_assert_uint_eq(problems.count, 0);
    host = *http_stage_generation.settings->host;
    host.http.deadline = DEADLINE_MS;
    host.http.max_body = HTTP_STAGE_MAX_BODY;
    host.http.max_requests = 2048;
    host.http.client_percent = 25;
    host.log.access = false;
    http_stage_generation.host = &host;
}

void http_stage_open(const char *section, unsigned connections, unsigned per_address)
{
    const struct http_settings settings = {
        .listeners = &engine.listeners,
        .max_connections = connections ? connections : CONNECTIONS,
        .per_address = per_address ? per_address : CONNECTIONS,
        .header_ms = HTTP_STAGE_HEADER_MS,
        .body_ms = HTTP_STAGE_BODY_MS,
        .idle_ms = HTTP_STAGE_IDLE_MS,
        .write_ms = HTTP_STAGE_WRITE_MS,
    };

    read_settings(section);
    ck_assert_int_eq(listeners_open(&engine.listeners, "127.0.0.1:0", CONNECTIONS), 0);
    http_stage_loop.http = http_new(&http_stage_loop, &settings);
    ck_assert_ptr_nonnull(http_stage_loop.http);
    timer_clear(&http_stage_loop.timers, &http_stage_loop.http->sweep);
}

unsigned http_stage_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof address;

    ck_assert_int_eq(getsockname(engine.listeners.fds[0], (struct sockaddr *)&address, &length), 0);
    return ntohs(address.sin_port);
}

void http_stage_until(bool (*is_so)(const void *of), const void *of)
{
    awaited = is_so;
    awaited_of = of;
    http_stage_loop.stop = false;
    timer_set(&http_stage_loop.timers, &patience, clock_mono_ms() + PATIENCE_MS);
    loop_run(&http_stage_loop);
    timer_clear(&http_stage_loop.timers, &patience);
}

static void make_earlier(int64_t *time, int64_t ms)
{
    if (*time)
        *time = *time > ms ? *time - ms : 1; /* 0 would mean no limit */
}

void http_stage_pass(int64_t ms)
{
    struct http *http = http_stage_loop.http;

    for (struct connection *at = LIST_FIRST(&http->connections); at; at = LIST_NEXT(at, link)) {
        make_earlier(&at->limit_ms, ms);
        make_earlier(&at->stop_ms, ms);
        make_earlier(&at->drops_ms, ms);
    }
    http_stage_loop.now_ms = clock_mono_ms();
    connections_sweep(http);
}

void http_stage_look_at_streams(void)
{
    timer_set(&http_stage_loop.timers, &http_stage_loop.http->streams.timer, clock_mono_ms());
}

static bool has_so_many(const void *of)
{
    return http_stage_loop.http->connection_count == *(const size_t *)of;
}

void http_stage_expect_connections(size_t count)
{
    http_stage_until(has_so_many, &count);
}

static bool has_no_requests(const void *of)
{
    (void)of;
    return !http_stage_loop.requests;
}

void http_stage_expect_no_requests(void)
{
    http_stage_until(has_no_requests, NULL);
}

size_t http_stage_taken(enum quota quota)
{
    return quota_taken(&quota_tables[quota]);
}

static void expect_nothing_left(void)
{
    http_stage_expect_connections(0);
    http_stage_expect_no_requests();
    ck_assert_uint_eq(streams_open(), 0);
    ck_assert_uint_eq(atomic_load(&http_stage_generation.holders), 1);
    for (enum quota quota = 0; quota < QUOTA_POOLS; quota++)
        ck_assert_msg(!http_stage_taken(quota), "quota %d is still taken", (int)quota);
}

void http_stage_tear_down(void)
{
    clients_leave();
    if (http_stage_loop.http) {
        http_routes_go_on();
        expect_nothing_left();
        http_free(http_stage_loop.http);
        listeners_close(&engine.listeners);
    }
    loop_free(&http_stage_loop);
    for (enum quota quota = 0; quota < QUOTA_POOLS; quota++)
        quota_table_free(&quota_tables[quota]);
    pthread_mutex_destroy(&engine.lock);
    conf_teardown();
}
