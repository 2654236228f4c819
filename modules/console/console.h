/*
 * console: serves the web console, a page and its files as scripts/make-web builds them from web/.
 * The page gets all its data from the API, with the token of the logged-in user.
 */
#ifndef CONSOLE_H
#define CONSOLE_H

#include <busbar/busbar.h>

#include "modules/common/assets.h"

struct console {
    struct assets *pages; /* NULL: not installed */
};

int console_page(struct bb_request *rq);
int console_file(struct bb_request *rq);
int console_root(struct bb_request *rq);

#endif
