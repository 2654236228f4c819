/* Adds `warnings` to the object of an answer. */
#include "core/lib/warning.h"
#include "core/module/reply.h"

void api_vwarn(struct bb_request *pub, const char *format, va_list args)
{
    struct core_request *rq = request_of(pub);

    if (warnings_vadd(&rq->warnings, format, args))
        request_out_of_memory(rq);
}

/* Returns the object's own warnings, if any, followed by the request's; NULL: out of memory. */
static json_t *joined(const struct core_request *rq, const json_t *object)
{
    const json_t *own = json_object_get(object, "warnings");
    json_t *all = json_is_array(own) ? json_copy((json_t *)(uintptr_t)own) : json_array();

    if (all && json_array_extend(all, rq->warnings)) {
        json_decref(all);
        all = NULL;
    }
    return all;
}

/* Modifies a copy, because the module may have kept a reference to the object. */
json_t *reply_with_warnings(struct core_request *rq, int status, json_t *json)
{
    if (!rq->warnings || status >= 300 || !json_is_object(json))
        return json;
    json_t *copy = json_copy(json);
    bool failed = !copy || json_object_set_new(copy, "warnings", joined(rq, json));

    json_decref(json);
    if (!failed)
        return copy;
    json_decref(copy);
    request_out_of_memory(rq);
}
