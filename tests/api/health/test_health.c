/* Liveness and state of the dependencies. */
#include "client.h"
#include "suite.h"
#include "suites.h"

static struct host *host;

static void set_up(void)
{
    host = host_start(
        &(struct host_spec){.name = "health", .database = database_make(the_postgres, "health")});
}

static void tear_down(void)
{
    host_stop(host);
}

static bool is_ok(void *path)
{
    return http(host, "GET", path, NULL, NULL)->status == 200;
}

TEST(health_answers_ok_without_a_token)
{
    struct answer *answer = ck_status(http(host, "GET", "/api/health", NULL, NULL), 200);

    ck_assert_str_eq(answer->body, "{\"status\":\"ok\"}");
    ck_assert_str_eq(answer_header(answer, "Content-Type"), "application/json; charset=utf-8");
}

TEST(status_names_the_dependencies_as_up)
{
    ck_assert(wait_until(is_ok, "/api/health/status", 5000));
    struct answer *answer = ck_status(http(host, "GET", "/api/health/status", NULL, NULL), 200);
    const json_t *details = json_object_get(answer->json, "details");

    ck_assert_str_eq(answer_text(answer, "status"), "ok");
    ck_assert_uint_eq(json_object_size(json_object_get(answer->json, "info")), 4);
    ck_assert_uint_eq(json_object_size(json_object_get(answer->json, "error")), 0);
    ck_assert_ptr_nonnull(json_object_get(details, "database"));
    ck_assert_ptr_nonnull(json_object_get(details, "redis"));
    ck_assert_ptr_nonnull(json_object_get(json_object_get(details, "clock"), "offsetMs"));
    ck_assert_ptr_nonnull(json_object_get(details, "schema"));
}

TEST(a_host_starts_without_postgresql_and_redis)
{
    struct postgres none = {.sockets = harness_path("nowhere")};
    struct host *alone = host_start(&(struct host_spec){
        .name = "health-alone", .pg = &none, .database = "none", .redis = harness_path("nowhere")});

    ck_status(http(alone, "GET", "/api/health", NULL, NULL), 200);
    struct answer *answer = ck_status(http(alone, "GET", "/api/health/status", NULL, NULL), 503);

    ck_assert_str_eq(answer_text(answer, "status"), "error");
    ck_assert_uint_eq(json_object_size(json_object_get(answer->json, "error")), 3);
    answer =
        ck_error(http(alone, "POST", "/api/auth/login", NULL,
                      json_pack("{ss ss}", "username", ADMIN_EMAIL, "password", "a-made-up-token")),
                 503, "");
    ck_assert_ptr_nonnull(answer_header(answer, "Retry-After"));
    host_stop(alone);
}

TEST(unknown_paths_and_methods_are_told_apart)
{
    ck_error(http(host, "GET", "/api/nothing", NULL, NULL), 404, "");
    struct answer *answer = ck_error(http(host, "DELETE", "/api/health", NULL, NULL), 405, "");

    ck_assert_ptr_nonnull(answer_header(answer, "Allow"));
}

SUITE(health, .timeout_s = 60, .before_all = set_up, .after_all = tear_down)
