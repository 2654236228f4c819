/* The calls of the service "auditor": before the handler, and once more with the outcome. */
#include "http_client.h"
#include "http_routes.h"
#include "http_stage.h"
#include "suite.h"

#define TOKEN "Authorization: Bearer t\r\nContent-Type: application/json\r\n"
#define BODY "Content-Length: 13\r\n\r\n{\"text\":\"my\"}"

static struct client *client;

/* Fails the test unless `count` requests were recorded, the last one with this outcome. */
static void recorded(unsigned count, int status)
{
    http_routes_expect(&http_routes.audited, count);
    ck_assert_uint_eq(http_routes.audits, count);
    ck_assert_int_eq(http_routes.audited_status, status);
}

TEST(a_request_is_recorded_before_its_handler_and_with_its_outcome)
{
    client_ask(client, POST("/audited") TOKEN BODY, "\"my\"");
    recorded(1, 200);
    ck_assert_uint_eq(http_routes.audited_begun, 0);
    ck_assert_uint_eq(http_routes.begun, 1);
}

TEST(a_request_that_cannot_be_recorded_is_refused)
{
    http_routes.audit = 503;
    client_ask(client, POST("/audited") TOKEN BODY, "\"statusCode\":503");
    recorded(0, 0);
    ck_assert_uint_eq(http_routes.begun, 0);
}

TEST(a_request_of_the_wrong_role_is_recorded)
{
    client_ask(client, POST("/forbidden") TOKEN BODY, "\"statusCode\":403");
    recorded(1, 403);
    ck_assert_uint_eq(http_routes.begun, 0);
}

TEST(limits_refuse_a_wrong_role_before_it_is_recorded)
{
    const struct quota_owner owner = {.account = 7};
    const struct quota_limits limits = quota_bounds(&http_stage_generation, QUOTA_REQUESTS);
    struct quota_charge others = {.bytes = 0};

    http_routes.account = owner.account;
    quota_take(&quota_tables[QUOTA_REQUESTS], &others, &owner, limits.each, &limits);
    client_ask(client, POST("/forbidden") TOKEN BODY, "\"statusCode\":429");
    recorded(0, 0);
    quota_release_all(&quota_tables[QUOTA_REQUESTS], &others);
}

TEST(other_requests_are_not_recorded)
{
    client_ask(client, POST("/own") TOKEN BODY, "\"my\"");
    client_ask(client, POST("/audited") TOKEN "Content-Length: 2\r\n\r\n{}", "\"statusCode\":400");
    client_ask(client, "DELETE /audited HTTP/1.1\r\nHost: h\r\n" TOKEN "\r\n", "HTTP/1.1 4");
    http_routes.token = 401;
    client_ask(client, POST("/audited") TOKEN BODY, "\"statusCode\":401");
    recorded(0, 0);
}

TEST(a_request_answered_at_its_deadline_is_recorded_when_its_handler_ends)
{
    client_ask(client, GET("/audited"), "\"statusCode\":503");
    ck_assert_uint_eq(http_routes.audits, 1);
    ck_assert_uint_eq(http_routes.audited, 0);
    http_routes_go_on();
    recorded(1, 503);
    http_stage_expect_no_requests();
}

CLIENT_SUITE(http_audit, NULL)
