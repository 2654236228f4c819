/*
 * `busbar reference`: prints the document without a running host, for pages and programs generated
 * from it.
 */
#include "docs.h"

#include <string.h>

int docs_command_reference(struct bb_request *rq)
{
    struct docs *docs = rq->state;
    const char *format = bb_text(rq, "format");

    if (docs_make(rq->host, docs)) {
        bb_fail(rq, 503, "The reference could not be made: out of memory");
        return 1;
    }
    bool yaml = format && !strcmp(format, "yaml");

    bb_print_text(rq, yaml ? docs->yaml.bytes : docs->json.bytes);
    if (!yaml)
        bb_print_text(rq, "\n");
    return 0;
}
