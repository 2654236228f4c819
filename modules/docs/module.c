/*
 * The tables of the docs module. Builds the document from the other modules' tables before the
 * first request.
 */
#include <stdlib.h>
#include <string.h>

#include "modules/common/assets.h"
#include "modules/common/tables.h"
#include "modules/docs/docs.h"

/* ---- `busbar reference`: the document without a running host ---- */

static int docs_command_reference(struct bb_request *rq)
{
    struct docs *docs = rq->state;
    const char *format = bb_text(rq, "format");

    if (docs_make(rq->host, docs)) {
        bb_fail(rq, 503, "Cannot create the reference: out of memory");
        return 1;
    }
    bool yaml = format && !strcmp(format, "yaml");

    bb_print_text(rq, yaml ? docs->yaml.bytes : docs->json.bytes);
    if (!yaml)
        bb_print_text(rq, "\n");
    return 0;
}

/* ---- the routes of the document and its page ---- */

static int docs_show(struct bb_request *rq, const struct docs_text *text, const char *type)
{
    if (!text->bytes)
        return bb_fail(rq, 503, "Out of memory");
    if (bb_reply_header(rq, "ETag", text->tag) || bb_reply_header(rq, "Cache-Control", "no-cache"))
        return bb_fail(rq, 500, "Internal server error");
    if (assets_known(rq, text->tag))
        return bb_reply(rq, 304, NULL);
    return bb_reply_bytes(rq, 200, type, text->bytes, text->length);
}

static int docs_show_json(struct bb_request *rq)
{
    const struct docs *docs = rq->state;

    return docs_show(rq, &docs->json, "application/json");
}

static int docs_show_yaml(struct bb_request *rq)
{
    const struct docs *docs = rq->state;

    return docs_show(rq, &docs->yaml, "application/yaml");
}

static int docs_show_page(struct bb_request *rq)
{
    const struct docs *docs = rq->state;

    return assets_reply(rq, docs->pages);
}

/* ---- the tables ---- */

// clang-format off

#define SETTINGS struct docs_settings
static const struct bb_field settings[] = {
    {.name = "title", .type = BB_TEXT, .min = 1, .max = 120, .fallback = "busbar",
     .bind = BB_BIND(struct docs_settings, title),
     .help = "Name of the service, shown at the top of the reference."},
    SETTING_TEXT(description, 0, 4000, "", "Introduction to the reference, in Markdown."),
    SETTING_TEXT(pages, 0, 4096, "",
        "Directory of the files of the page /swagger. Empty: the installed files."),
    SETTING_TEXT(contact, 0, 2048, "", "URL of a page for questions about the API."),
};

static const struct bb_field document_reply[] = {
    {.name = "openapi", .type = BB_TEXT, .flags = BB_REQUIRED, .example = "3.1.0"},
    {.name = "info", .type = BB_OBJECT, .flags = BB_REQUIRED,
     .example = "{\"title\":\"busbar\",\"version\":\"1.0.0\"}"},
    {.name = "servers", .type = BB_LIST, .flags = BB_REQUIRED},
    {.name = "tags", .type = BB_LIST, .flags = BB_REQUIRED, .help = "The modules."},
    {.name = "paths", .type = BB_OBJECT, .flags = BB_REQUIRED},
    {.name = "components", .type = BB_OBJECT, .flags = BB_REQUIRED},
    {.name = "webhooks", .type = BB_OBJECT, .help = "The events, if a loaded module sends "
                                                    "webhooks."},
};

static const int known[] = {304, 0};

#define DOCUMENT "Get this reference as an OpenAPI 3.1 document, with the loaded modules."

static const struct bb_route routes[] = {
    {.method = "GET", .path = "/swagger-json", .roles = BB_ANYONE, .handler = docs_show_json,
     .reply = BB_TABLE(document_reply), .errors = known, .help = DOCUMENT},
    {.method = "GET", .path = "/openapi.json", .roles = BB_ANYONE, .handler = docs_show_json,
     .reply = BB_TABLE(document_reply), .errors = known, .help = DOCUMENT},
    {.method = "GET", .path = "/openapi.yaml", .roles = BB_ANYONE, .handler = docs_show_yaml,
     .reply = BB_TABLE(document_reply), .reply_type = "application/yaml", .errors = known,
     .help = DOCUMENT},
    {.method = "GET", .path = "/swagger", .roles = BB_ANYONE, .handler = docs_show_page,
     .reply_type = "text/html", .errors = assets_errors,
     .help = "Open this reference as a page on which you can try requests."},
    {.method = "GET", .path = "/swagger/assets/:file", .roles = BB_ANYONE,
     .handler = docs_show_page, .segments = BB_TABLE(assets_segments),
     .reply_type = "*/*", .errors = assets_errors,
     .help = "Get a script or style of the reference page."},
};

static const struct bb_need wants[] = {{BB_BULK_ROWS "*", 1}};

static const char *const formats[] = {"json", "yaml", NULL};

static const struct bb_field reference_options[] = {
    {.name = "format", .type = BB_CHOICE, .choices = formats, .fallback = "json",
     .help = "Format of the document."},
};

static const struct bb_command commands[] = {
    {.name = "reference", .options = BB_TABLE(reference_options), .run = docs_command_reference,
     .help = "Prints the reference of the API for the modules in the configuration file."},
};

// clang-format on

static int docs_open(struct bb_host *host, void **state)
{
    struct docs *docs = bb_host_alloc(host, sizeof(*docs));
    const struct docs_settings *own = bb_settings(host);

    if (!docs)
        return bb_open_fail(host, "out of memory");
    *state = docs;
    return assets_open(host, own->pages, DOCS_PAGES, "/swagger", &docs->pages);
}

static void docs_start(struct bb_host *host, void *state)
{
    if (docs_make(host, state))
        bb_host_log(host, BB_ERROR, "cannot create the reference of the API: out of memory");
}

static void docs_close(struct bb_host *host, void *state)
{
    struct docs *docs = state;

    (void)host;
    free(docs->json.bytes);
    free(docs->yaml.bytes);
    assets_free(docs->pages);
}

BB_EXPORT const struct bb_module busbar_module = {
    BB_MODULE_HEAD("docs", "1.0.0"),
    .help = "This reference, for people and for generators of clients.",
    .settings = BB_TABLE(settings),
    .settings_size = sizeof(struct docs_settings),
    .routes = BB_TABLE(routes),
    .wants = BB_TABLE(wants),
    .commands = BB_TABLE(commands),
    .open = docs_open,
    .start = docs_start,
    .close = docs_close,
};
