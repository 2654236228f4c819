#include <jansson.h>

#include "core/module/reply.h"
#include "suite.h"

static struct generation generation;
static struct loop loop;
static struct core_request *rq;

static void set_up(void)
{
    atomic_store(&generation.holders, 1);
    ck_assert_int_eq(loop_init(&loop, NULL, 0), 0);
    rq = request_make(sizeof *rq, REQUEST_COMMAND, &loop, &generation);
    ck_assert_ptr_nonnull(rq);
}

static void tear_down(void)
{
    request_free(rq);
    loop_free(&loop);
}

/* Returns the response's body; the caller frees it. */
static json_t *body(void)
{
    const char *text = rq->response.fixed ? rq->response.fixed : rq->response.body;
    json_t *json = json_loadb(text, rq->response.length, 0, NULL);

    ck_assert(json_is_object(json));
    return json;
}

static void expect_member(const char *name, const char *value)
{
    json_t *said = body();

    ck_assert_str_eq(json_string_value(json_object_get(said, name)), value);
    json_decref(said);
}

/* Fails the test unless the response has this status and this whole body. */
static void expect_response(int status, const char *text)
{
    const struct response *response = &rq->response;
    const char *bytes = response->fixed ? response->fixed : response->body;

    ck_assert_int_eq(response->status, status);
    ck_assert_msg(response->length == strlen(text) && !memcmp(bytes, text, response->length),
                  "%.*s instead of %s", (int)response->length, bytes, text);
}

/* A message of any length is cut to the space available, between characters. */
TEST(a_long_error_message_is_cut_between_characters)
{
    char text[2000];

    for (size_t first = 0; first < 4; first++) {
        memset(text, 'x', first);
        for (size_t at = first; at + 4 < sizeof text; at += 4)
            memcpy(text + at, "\xF0\x9F\x90\x9F", 5);
        ck_assert_int_eq(reply_error(rq, 409, "%s", text), 409);
        json_t *said = body();
        const char *message = json_string_value(json_object_get(said, "message"));

        ck_assert_ptr_nonnull(message);
        ck_assert_uint_gt(strlen(message), 500);
        ck_assert_uint_eq(strlen(message) % 4, first);
        ck_assert(!strncmp(message, text, strlen(message)));
        json_decref(said);
    }
}

TEST(an_error_message_with_invalid_utf8_is_cut)
{
    ck_assert_int_eq(reply_error(rq, 404, "%s", "no \xFF text"), 404);
    expect_response(404, "{\"statusCode\":404,\"message\":\"no \",\"error\":\"Not Found\"}");
}

TEST(statuses_of_errors_have_their_reasons)
{
    char text[1024] = "";

    for (int status = 0; status < 600; status++)
        if (strcmp(reply_reason(status), "Error") != 0)
            sprintf(text + strlen(text), "%d %s;", status, reply_reason(status));
    ck_assert_str_eq(text,
                     "400 Bad Request;401 Unauthorized;403 Forbidden;404 Not Found;"
                     "405 Method Not Allowed;408 Request Timeout;409 Conflict;410 Gone;"
                     "411 Length Required;412 Precondition Failed;413 Payload Too Large;"
                     "414 URI Too Long;415 Unsupported Media Type;422 Unprocessable Entity;"
                     "429 Too Many Requests;431 Request Header Fields Too Large;"
                     "500 Internal Server Error;501 Not Implemented;502 Bad Gateway;"
                     "503 Service Unavailable;504 Gateway Timeout;505 HTTP Version Not Supported;");
}

static const struct bb_route oauth = {.flags = BB_OAUTH_ERRORS};

TEST(an_error_has_all_members)
{
    rq->id = "mine";
    rq->errors = json_pack("[{ss ss}]", "field", "a", "problem", "is required");
    reply_problems(rq, 400, "first",
                   json_pack("[{ss ss}]", "field", "b", "problem", "is required"));
    expect_response(
        400, "{\"statusCode\":400,\"message\":\"first\",\"error\":\"Bad Request\",\"errors\":["
             "{\"field\":\"a\",\"problem\":\"is required\",\"code\":\"required\"},"
             "{\"field\":\"b\",\"problem\":\"is required\",\"code\":\"required\"}],"
             "\"requestId\":\"mine\"}");
    reply_error(rq, 409, "first");
    expect_response(
        409, "{\"statusCode\":409,\"message\":\"first\",\"error\":\"Conflict\",\"success\":false,"
             "\"requestId\":\"mine\"}");
    rq->id = NULL;
    rq->route = &oauth;
    static const int statuses[] = {422, 401, 429, 503, 500};
    static const char *const errors[] = {"invalid_request", "invalid_client",
                                         "temporarily_unavailable", "temporarily_unavailable",
                                         "server_error"};

    for (size_t i = 0; i < COUNT(statuses); i++) {
        reply_error(rq, statuses[i], "x");
        expect_member("error", errors[i]);
        expect_member("error_description", "x");
    }
}

TEST(each_failure_has_its_response)
{
    static const struct {
        enum failure_kind kind;
        int status;
        const char *message;
    } failures[] = {
        {FAILED_UNAVAILABLE, 503, "A dependency of the service is not available"},
        {FAILED_BUSY, 503, "The service is busy"},
        {FAILED_DEADLINE, 503, "The request took too long"},
        {FAILED_MEMORY, 503, "The service is out of memory"},
        {FAILED_REFUSED, 500, "Internal server error"},
        {FAILED_NOT, 500, "Internal server error"},
        {FAILED_SHARE, 429, "Too many requests in progress for this address"},
    };

    for (size_t i = 0; i < COUNT(failures); i++) {
        rq->failure.kind = failures[i].kind;
        ck_assert_int_eq(reply_failed(rq), failures[i].status);
        expect_member("message", failures[i].message);
    }
    ck_assert_str_eq(reply_header_get(rq, "Retry-After"), "1");
    rq->owner.account = 7;
    reply_failed(rq);
    expect_member("message", "Too many requests in progress for this account");
}

TEST(headers_with_special_characters_are_refused)
{
    EACH_TEXT (bad, "", "a b", "a:", "a\tb", "a\r", "\na", "a\"")
        ck_assert_int_eq(reply_header(rq, bad, "x"), -1);
    EACH_TEXT (bad, "a\x1f", "\r\n", "\x7f")
        ck_assert_int_eq(reply_header(rq, "X-A", bad), -1);
    ck_assert_int_eq(reply_header(rq, "X-A", " \x80~"), 0);
    ck_assert_str_eq(reply_header_get(rq, "x-a"), " \x80~");
}

/* The sizes at the bound: 8,192 values, or fewer with longer strings. */
TEST(only_large_json_is_counted)
{
    json_t *list = json_array();

    for (int i = 0; i < 8189; i++)
        json_array_append_new(list, json_integer(i));
    json_array_append_new(list, json_pack("{ss}", "a", "12345678"));
    ck_assert_uint_eq(reply_large_memory(list), 240 * 8192 + 8);
    json_array_remove(list, 0);
    ck_assert_uint_eq(reply_large_memory(list), 0);
    json_decref(list);
}

TEST(warnings_are_added_to_objects_of_successes)
{
    json_t *object = json_pack("{s:[s]}", "warnings", "own");

    rq->warnings = json_pack("[s, s]", "a: b: is required", "c: is odd");
    ck_assert_ptr_eq(reply_with_warnings(rq, 300, object), object);
    reply_json(rq, 299, reply_with_warnings(rq, 299, object), false);
    expect_response(299, "{\"warnings\":[\"own\",\"a: b: is required\",\"c: is odd\"],"
                         "\"warningDetails\":["
                         "{\"field\":\"a: b\",\"problem\":\"is required\",\"code\":\"required\"},"
                         "{\"field\":\"c\",\"problem\":\"is odd\"}]}");
}

/* After a failed allocation, a request may report a problem that does not exist. */
TEST(a_request_without_memory_is_503_whatever_its_error)
{
    rq->json_oom = true;
    ck_assert_int_eq(reply_error(rq, 400, "wrong"), 503);
    ck_assert_str_eq(reply_header_get(rq, "Retry-After"), "1");
    rq->json_oom = false;
    ck_assert_int_eq(reply_error(rq, 400, "wrong"), 400);
}

static int failures; /* this many allocations fail from now on */

static void *scarce(size_t size)
{
    return failures-- > 0 ? NULL : malloc(size);
}

/* Allocations fail once, or always: the first one is for the body. */
TEST_EACH(an_error_that_cannot_be_allocated_is_503_with_a_body, 2)
{
    static const int failing[] = {1, 1000};

    failures = failing[_i];
    json_set_alloc_funcs(scarce, free);
    int status = reply_error(rq, 400, "wrong");

    json_set_alloc_funcs(malloc, free);
    ck_assert_int_eq(status, 503);
    ck_assert_str_eq(reply_header_get(rq, "Retry-After"), "1");
    expect_member("error", "Service Unavailable");
}

/* A handler had set headers of a response that it could not finish. */
TEST(an_error_drops_the_headers_of_the_replaced_response)
{
    ck_assert_int_eq(reply_header(rq, "WWW-Authenticate", "Bearer error=\"invalid_token\""), 0);
    ck_assert_int_eq(reply_header(rq, "Link", "<?after=2>; rel=\"next\""), 0);
    ck_assert_int_eq(reply_error(rq, 401, "Unauthorized"), 401);
    ck_assert_str_eq(reply_header_get(rq, "WWW-Authenticate"), "Bearer error=\"invalid_token\"");
    ck_assert_ptr_null(reply_header_get(rq, "Link"));
    rq->json_oom = true;
    ck_assert_int_eq(reply_error(rq, 401, "Unauthorized"), 503);
    ck_assert_ptr_null(reply_header_get(rq, "WWW-Authenticate"));
    ck_assert_str_eq(reply_header_get(rq, "Retry-After"), "1");
}

SUITE(reply, .before_each = set_up, .after_each = tear_down)
