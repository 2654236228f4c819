/*
 * console: serves the web console, a page and its files as scripts/make-web builds them from web/.
 * The page gets all its data from the API, with the token of the logged-in user.
 */
#include <string.h>

#include <busbar/busbar.h>

#include "modules/common/assets.h"

/* The module's state is the console's files; NULL: they are not installed. */
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

static int console_about(struct bb_request *rq)
{
    return bb_reply(rq, 200,
                    json_pack("{s:s, s:s, s:s}", "contact", bb_setting_text(rq->host, "contact"),
                              "help", bb_setting_text(rq->host, "help"), "version",
                              rq->host->module->version));
}

// clang-format off

#define CONTACT .name = "contact", .type = BB_TEXT, .example = "mailto:support@example.org"
#define GRAFANA .name = "grafana", .type = BB_TEXT, .example = "https://grafana.example.org/d/busbar"
#define HELP .name = "help", .type = BB_TEXT, .example = "https://docs.example.org/busbar"
#define LINK .max = 2048, .fallback = ""
#define SHOWN .flags = BB_REQUIRED, .help = "Empty: none."

static const struct bb_field settings[] = {
    {.name = "pages", .type = BB_TEXT, .max = 4096, .fallback = "",
     .help = "Directory of the console's files. Empty: the installed files."},
    {GRAFANA, LINK,
     .help = "URL of a Grafana dashboard. The status page links to it. Empty: no link."},
    {HELP, LINK, .help = "URL of your documentation. The login page and the help page link to it. "
                         "Empty: no link."},
    {CONTACT, LINK, .help = "URL of a page for questions to you, or mailto: and an e-mail. The "
                            "login page and the help page link to it. Empty: no link."},
};

static const struct bb_field links[] = {{GRAFANA, SHOWN}, {HELP, SHOWN}};
static const struct bb_field about[] = {
    {CONTACT, SHOWN}, {HELP, SHOWN},
    {.name = "version", .type = BB_TEXT, .flags = BB_REQUIRED, .example = "1.0.0"},
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
    {.method = "GET", .path = "/console/about", .roles = BB_ANYONE, .handler = console_about,
     .reply = BB_TABLE(about), .help = "Get the links and the version that the login shows."},
};

// clang-format on

static int console_open(struct bb_host *host, void **state)
{
    static const char *const urls[] = {"contact", "grafana", "help"}; /* contact may be mailto: */
    struct assets *pages = NULL;

    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        const char *url = bb_setting_text(host, urls[i]);

        if (*url && strncmp(url, "https://", 8) != 0 && strncmp(url, "http://", 7) != 0 &&
            (i || strncmp(url, "mailto:", 7) != 0))
            return bb_open_fail(host, "%s: must begin with %s", urls[i],
                                i ? "https:// or http://" : "https://, http:// or mailto:");
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
