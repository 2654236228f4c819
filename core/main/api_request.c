/* Functions with which modules read a request. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/lib/field.h"
#include "core/main/api.h"
#include "core/server/http_txn.h"

const char *api_segment(struct bb_request *rq, const char *name)
{
    const struct http_txn *txn = http_txn_of(rq);

    if (request_of(rq)->kind != REQUEST_HTTP)
        return "";
    for (size_t i = 0; i < txn->match.count; i++) {
        if (!strcmp(txn->match.segment[i].field->name, name))
            return txn->segments[i];
    }
    return "";
}

int64_t api_segment_int(struct bb_request *rq, const char *name)
{
    return strtoll(api_segment(rq, name), NULL, 10);
}

const char *api_arg(struct bb_request *rq, const char *name)
{
    if (request_of(rq)->kind != REQUEST_HTTP)
        return NULL;
    return query_get(&http_txn_of(rq)->args, name);
}

int64_t api_arg_int(struct bb_request *rq, const char *name, int64_t absent)
{
    const char *text = api_arg(rq, name);

    return text ? strtoll(text, NULL, 10) : absent;
}

json_t *api_body(struct bb_request *rq)
{
    return request_of(rq)->body;
}

json_t *api_check(struct bb_request *rq, const struct bb_table *fields, json_t *object,
                  json_t *errors)
{
    struct problems problems = {.arena = request_of(rq)->arena,
                                .warnings = &request_of(rq)->warnings};
    json_t *checked = fields_check(fields, object, &problems);

    problems_list(&problems, errors);
    return checked;
}

/* Bearer tokens are not passed to modules; OAuth routes need the Basic credentials. */
const char *api_header(struct bb_request *rq, const char *name)
{
    const struct http_txn *txn = http_txn_of(rq);

    if (!strcasecmp(name, "traceparent"))
        return request_trace(request_of(rq));
    if (request_of(rq)->kind != REQUEST_HTTP)
        return NULL;
    if (!strcasecmp(name, "Authorization") && !(txn->match.flags & BB_OAUTH_ERRORS))
        return NULL;
    return http_txn_list(txn, name);
}

const char *api_client_address(struct bb_request *rq)
{
    return request_of(rq)->kind == REQUEST_HTTP ? http_txn_of(rq)->address : "";
}
