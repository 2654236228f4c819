/*
 * Downloads of CSV of any length, page by page (pieces.h), each with a slot (slots.h). Each module
 * that uses this has its own copy compiled in.
 */
#ifndef COMMON_EXPORT_H
#define COMMON_EXPORT_H

#include <busbar/busbar.h>

#include "modules/common/csv.h"
#include "modules/common/slots.h"

struct export_source {
    const char *name;           /* of the file */
    const char *const *columns; /* of the header line, NULL-terminated; NULL: `write` writes it */
    /*
     * Writes the next page of rows, and updates `state` for the page after it. Returns 1 if there
     * is more, 0 if that was the last page, -1 on failure. May park the fiber.
     */
    int (*write)(struct bb_request *rq, struct csv *csv, void *state);
};

/*
 * Takes a slot and responds with the file, or with 429 or 503 if no slot is free. Takes ownership
 * of `state`, which is freed with free() at the end; NULL: out of memory. `source` must live as
 * long as the module. Returns the status of the response sent.
 */
int export_begin(struct bb_request *rq, struct slots *slots, const struct export_source *source,
                 void *state);

#endif
