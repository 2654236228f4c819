/* GET /console with its files, and / which redirects to it. */
#include "console.h"

int console_page(struct bb_request *rq)
{
    const struct console *console = rq->state;

    return assets_page(rq, console->pages, "index.html");
}

int console_file(struct bb_request *rq)
{
    const struct console *console = rq->state;

    return assets_file(rq, console->pages, bb_segment(rq, "file"));
}

int console_root(struct bb_request *rq)
{
    if (bb_reply_header(rq, "Location", "/console"))
        return bb_fail(rq, 503, "Out of memory");
    return bb_reply_bytes(rq, 302, "text/plain; charset=utf-8", "/console\n", 9);
}
