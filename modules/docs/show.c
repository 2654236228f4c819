/* GET /swagger-json and its other names: send the document made when this generation went live. */
#include "docs.h"

#include <string.h>

static int show(struct bb_request *rq, const struct docs_text *text, const char *type)
{
    if (!text->bytes)
        return bb_fail(rq, 503, "Out of memory");
    if (bb_reply_header(rq, "ETag", text->tag) || bb_reply_header(rq, "Cache-Control", "no-cache"))
        return bb_fail(rq, 500, "Internal server error");
    if (assets_known(rq, text->tag))
        return bb_reply(rq, 304, NULL);
    return bb_reply_bytes(rq, 200, type, text->bytes, text->length);
}

int docs_show_json(struct bb_request *rq)
{
    const struct docs *docs = rq->state;

    return show(rq, &docs->json, "application/json");
}

int docs_show_yaml(struct bb_request *rq)
{
    const struct docs *docs = rq->state;

    return show(rq, &docs->yaml, "application/yaml");
}

int docs_show_page(struct bb_request *rq)
{
    const struct docs *docs = rq->state;

    return assets_page(rq, docs->pages, "index.html");
}

int docs_show_file(struct bb_request *rq)
{
    const struct docs *docs = rq->state;

    return assets_file(rq, docs->pages, bb_segment(rq, "file"));
}
