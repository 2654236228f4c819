/*
 * console: serves the web console, a page and its files as scripts/make-web builds them from web/.
 * The page gets all its data from the API, with the token of the logged-in user.
 */
#include <busbar/busbar.h>

#include "modules/common/assets.h"

/* The state is the pages; NULL: they are not installed. */
static int console_page(struct bb_request *rq)
{
    return assets_reply(rq, rq->state);
}

static int console_root(struct bb_request *rq)
{
    if (bb_reply_header(rq, "Location", "/console"))
        return bb_fail(rq, 503, "Out of memory");
    return bb_reply_bytes(rq, 302, "text/plain; charset=utf-8", "/console\n", 9);
}

// clang-format off

static const struct bb_field settings[] = {
    {.name = "pages", .type = BB_TEXT, .max = 4096, .fallback = "",
     .help = "Directory of the console's files. Empty: the installed files."},
};

static const struct bb_field file_segments[] = {
    {.name = "file", .type = BB_TEXT, .flags = BB_VERBATIM, .min = 1, .max = 255,
     .help = "Name of the file."},
};

static const int known_or_absent[] = {304, 404, 0}; /* the pages may not be installed */

static const struct bb_route routes[] = {
    {.method = "GET", .path = "/", .roles = BB_ANYONE, .handler = console_root, .success = 302,
     .reply_type = "text/plain", .help = "Redirect to the console."},
    {.method = "GET", .path = "/console", .roles = BB_ANYONE, .handler = console_page,
     .reply_type = "text/html", .errors = known_or_absent,
     .help = "Open the web console."},
    {.method = "GET", .path = "/console/assets/:file", .roles = BB_ANYONE, .handler = console_page,
     .segments = BB_TABLE(file_segments), .reply_type = "*/*",
     .errors = known_or_absent, .help = "Get a script or style of the console."},
};

// clang-format on

static int console_open(struct bb_host *host, void **state)
{
    struct assets *pages = NULL;
    int failed =
        assets_open(host, bb_setting_text(host, "pages"), CONSOLE_PAGES, "the console", &pages);

    *state = pages;
    return failed;
}

static void console_close(struct bb_host *host, void *state)
{
    (void)host;
    assets_free(state);
}

BB_EXPORT const struct bb_module busbar_module = {
    BB_MODULE_HEAD("console", "1.0.0"),
    .help = "The web console: chat, webhooks, devices, bulk uploads, certificates and accounts.",
    .settings = BB_TABLE(settings),
    .routes = BB_TABLE(routes),
    .open = console_open,
    .close = console_close,
};
