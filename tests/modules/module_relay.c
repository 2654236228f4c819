/* Sends requests through the module upstream, as its own request asks, and returns the result. */
#include <busbar/busbar.h>

enum { HEADERS_MAX = 200 };

static json_t *headers_json(const struct bb_upstream_response *answer)
{
    json_t *list = json_array();

    for (size_t i = 0; i < answer->header_count; i++)
        json_array_append_new(list,
                              json_pack("[ss]", answer->headers[i].name, answer->headers[i].value));
    return list;
}

static json_t *answer_json(const struct bb_upstream_response *answer)
{
    return json_pack("{si si ss? sb so si ss% ss?}", "status", answer->status, "failed",
                     answer->failed, "error", answer->error, "sent", (int)answer->sent, "headers",
                     headers_json(answer), "length", (int)answer->length, "body", answer->body,
                     answer->length, "type", bb_upstream_header(answer, "content-type"));
}

static size_t take_headers(const json_t *given, struct bb_upstream_header *headers)
{
    size_t count = 0;
    const char *name;
    json_t *value;

    json_object_foreach ((json_t *)given, name, value) {
        if (count < HEADERS_MAX)
            headers[count++] =
                (struct bb_upstream_header){.name = name, .value = json_string_value(value)};
    }
    return count;
}

static json_t *number(struct bb_request *rq, const char *name)
{
    return json_object_get(bb_body(rq), name);
}

static const struct bb_upstream_response *send_it(struct bb_request *rq)
{
    struct bb_upstream_header *headers = bb_alloc(rq, HEADERS_MAX * sizeof(*headers));
    const char *text = bb_text(rq, "text");
    const struct bb_upstream_request request = {
        .size = sizeof(request),
        .method = bb_text(rq, "method"),
        .url = bb_text(rq, "url"),
        .headers = headers,
        .header_count = take_headers(number(rq, "headers"), headers),
        .body = text,
        .length = text ? strlen(text) : 0,
        .timeout_ms = json_integer_value(number(rq, "timeout")),
        .response_max = (size_t)json_integer_value(number(rq, "most")),
    };

    return bb_upstream_send(bb_service(rq->host, BB_UPSTREAM), rq, &request);
}

static int relay(struct bb_request *rq)
{
    const struct bb_upstream_response *answer = send_it(rq);

    for (json_int_t i = 1; i < json_integer_value(number(rq, "times")); i++)
        answer = send_it(rq);
    if (!answer->status && !json_is_true(number(rq, "tell")))
        return bb_fail_text(rq, answer->failed, answer->error);
    return bb_reply(rq, 200, answer_json(answer));
}

static int command(struct bb_request *rq)
{
    bb_print(rq, "%s\n", send_it(rq)->error);
    return 0;
}

static const struct bb_field body[] = {
    {.name = "url", .type = BB_TEXT, .flags = BB_REQUIRED | BB_VERBATIM, .max = 4096},
    {.name = "method", .type = BB_TEXT, .flags = BB_VERBATIM | BB_EMPTY, .max = 64},
    {.name = "headers", .type = BB_OBJECT},
    {.name = "text", .type = BB_TEXT, .flags = BB_VERBATIM | BB_EMPTY, .max = 33554432},
    {.name = "timeout", .type = BB_INT},
    {.name = "most", .type = BB_INT},
    {.name = "times", .type = BB_INT},
    {.name = "tell", .type = BB_BOOL},
};

static const int errors[] = {502, 503, 504, 0};

static const struct bb_route routes[] = {
    {.method = "POST",
     .path = "/relay",
     .roles = BB_ANYONE,
     .body = BB_TABLE(body),
     .handler = relay,
     .errors = errors,
     .deadline_ms = 30000,
     .body_max = 33554432},
    {.method = "POST",
     .path = "/relay/soon",
     .roles = BB_ANYONE,
     .body = BB_TABLE(body),
     .handler = relay,
     .errors = errors,
     .deadline_ms = 700},
};

static const struct bb_command commands[] = {
    {.name = "relay", .options = BB_TABLE(body), .run = command},
};

static const struct bb_need needs[] = {{BB_UPSTREAM, 1}};

BB_EXPORT const struct bb_module busbar_module = {
    BB_MODULE_HEAD("relay", "1.0.0"),
    .routes = BB_TABLE(routes),
    .commands = BB_TABLE(commands),
    .needs = BB_TABLE(needs),
};
