/*
 * console: the web console, a page and what it uses, as scripts/make-web has built it (web/). All
 * that it knows it asks of the API, with the token of whoever is logged in.
 */
#ifndef CONSOLE_H
#define CONSOLE_H

#include <busbar/busbar.h>

#include "modules/common/assets.h"

struct console {
    struct assets *pages; /* NULL: they are not installed */
};

int console_page(struct bb_request *rq);
int console_file(struct bb_request *rq);
int console_root(struct bb_request *rq);

#endif
