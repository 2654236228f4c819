/* Lists: a page of rows in the order of their ids, and the Link to the next one. */
#include "modules/auth/api/api.h"

int64_t auth_page_limit(struct bb_request *rq)
{
    return bb_arg_int(rq, "limit", AUTH_PAGE_MAX);
}

int auth_page_reply(struct bb_request *rq, const struct bb_rows *rows,
                    json_t *(*item)(struct bb_request *, const struct bb_rows *, size_t))
{
    size_t limit = (size_t)auth_page_limit(rq);
    size_t count = bb_count(rq, rows) > limit ? limit : bb_count(rq, rows);

    if (count < bb_count(rq, rows) && bb_reply_next(rq, bb_cell(rq, rows, count - 1, 0)) < 0)
        return bb_failed(rq);
    json_t *list = json_array();

    for (size_t i = 0; i < count; i++) {
        if (json_array_append_new(list, item(rq, rows, i))) {
            json_decref(list);
            return auth_reply(rq, 503, NULL);
        }
    }
    return auth_reply(rq, 200, list);
}
