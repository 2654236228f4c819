/*
 * console: serves the web console, a page and its files as scripts/make-web builds them from web/.
 * The page gets all its data from the API, with the token of the logged-in user.
 */
#include <string.h>

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

static int console_links(struct bb_request *rq)
{
    return bb_reply(rq, 200,
                    json_pack("{s:s, s:s}", "grafana", bb_setting_text(rq->host, "grafana"), "help",
                              bb_setting_text(rq->host, "help")));
}

// clang-format off

static const struct bb_field settings[] = {
    {.name = "pages", .type = BB_TEXT, .max = 4096, .fallback = "",
     .help = "Directory of the console's files. Empty: the installed files."},
    {.name = "grafana", .type = BB_TEXT, .max = 2048, .fallback = "",
     .help = "URL of a Grafana dashboard, to which the status page links. Empty: no link.",
     .example = "https://grafana.example.org/d/busbar"},
    {.name = "help", .type = BB_TEXT, .max = 2048, .fallback = "",
     .help = "URL of your documentation, to which the help page links. Empty: no link.",
     .example = "https://docs.example.org/busbar"},
};

static const struct bb_field links[] = {
    {.name = "grafana", .type = BB_TEXT, .flags = BB_REQUIRED, .help = "Empty: none.",
     .example = "https://grafana.example.org/d/busbar"},
    {.name = "help", .type = BB_TEXT, .flags = BB_REQUIRED, .help = "Empty: none.",
     .example = "https://docs.example.org/busbar"},
};

static const struct bb_route routes[] = {
    {.method = "GET", .path = "/", .roles = BB_ANYONE, .handler = console_root, .success = 302,
     .reply_type = "text/plain", .help = "Redirect to the console."},
    {.method = "GET", .path = "/console", .roles = BB_ANYONE, .handler = console_page,
     .reply_type = "text/html", .errors = assets_errors,
     .help = "Open the web console."},
    {.method = "GET", .path = "/console/assets/:file", .roles = BB_ANYONE, .handler = console_page,
     .segments = BB_TABLE(assets_segments), .reply_type = "*/*",
     .errors = assets_errors, .help = "Get a script or style of the console."},
    {.method = "GET", .path = "/console/settings", .roles = BB_ANY_ROLE, .handler = console_links,
     .reply = BB_TABLE(links), .help = "Get the links that the console shows."},
};

// clang-format on

static int console_open(struct bb_host *host, void **state)
{
    static const char *const urls[] = {"grafana", "help"};
    struct assets *pages = NULL;

    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        const char *url = bb_setting_text(host, urls[i]);

        if (*url && strncmp(url, "https://", 8) != 0 && strncmp(url, "http://", 7) != 0)
            return bb_open_fail(host, "%s: must begin with https:// or http://", urls[i]);
    }
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
