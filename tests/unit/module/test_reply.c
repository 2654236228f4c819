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
    json_t *said = body();

    ck_assert_str_eq(json_string_value(json_object_get(said, "message")), "no ");
    ck_assert_int_eq(json_integer_value(json_object_get(said, "statusCode")), 404);
    ck_assert_str_eq(json_string_value(json_object_get(said, "error")), "Not Found");
    json_decref(said);
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
    json_t *said = body();

    ck_assert_int_eq(json_integer_value(json_object_get(said, "statusCode")), 503);
    ck_assert_str_eq(json_string_value(json_object_get(said, "error")), "Service Unavailable");
    json_decref(said);
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
