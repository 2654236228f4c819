/* Builds the whole document: the general parts, and the routes of all modules by their paths. */
#include "docs.h"

#include <stdlib.h>
#include <string.h>

static const char how[] =
    "Requests and responses are JSON in UTF-8.\n\n"
    "**Log in:** get a token from `POST /api/auth/login` (people) or `POST /api/auth/getAccess` "
    "(programs), and send it with every request as `Authorization: Bearer <token>`.\n\n"
    "**Roles:** each operation names the role it requires. With another role the response is "
    "403.\n\n"
    "**Errors** have the same form everywhere: see the schema `Error`. Quote its `requestId` when "
    "you ask for help.\n\n"
    "**Lists** come in pages. While there are more, the `Link` header has the address of the next "
    "page.\n\n"
    "**Retries:** send an `Idempotency-Key` with a request that creates something. Sending it "
    "again then returns the first response and creates nothing.\n\n"
    "A request whose head is malformed or too large is refused (400, 414, 431) before an "
    "operation is looked for.";

static json_t *info_json(struct docs_maker *maker, const struct docs_settings *about)
{
    json_t *contact = json_pack("{s:s}", "name", "The operator of this service");

    docs_put_text(maker, contact, "url", about->contact);
    return json_pack(
        "{s:s, s:s, s:o, s:o, s:{s:s, s:s}}", "title", about->title, "version",
        maker->host->module->version, "description",
        json_sprintf("%s%s%s", about->description, *about->description ? "\n\n" : "", how),
        "contact", contact, "license", "name", "BSD-2-Clause", "identifier", "BSD-2-Clause");
}

static json_t *security_schemes(void)
{
    return json_pack(
        "{s:{s:s, s:s, s:s, s:s}, s:{s:s, s:s, s:{s:{s:s, s:{}}}}}", "bearer", "type", "http",
        "scheme", "bearer", "bearerFormat", "JWT", "description",
        "Paste the `accessToken` from `POST /api/auth/login` or `POST /api/auth/getAccess`.",
        "clientCredentials", "type", "oauth2", "description",
        "For programs: the `client_id` and `client_secret` from `POST /api/auth/clients`.", "flows",
        "clientCredentials", "tokenUrl", "/api/auth/getAccess", "scopes");
}

static json_t *idempotency_key(void)
{
    return json_pack(
        "{s:s, s:s, s:b, s:s, s:{s:s, s:i, s:i}}", "name", "Idempotency-Key", "in", "header",
        "required", false, "description",
        "A text of your choice, new for each thing you create (a UUID, for example). The same "
        "request with the same key returns the first response again and creates nothing.",
        "schema", "type", "string", "minLength", 1, "maxLength", 255);
}

static json_t *components(struct docs_maker *maker)
{
    return json_pack("{s:{s:o}, s:o, s:o, s:{s:o}, s:o}", "schemas", "Error",
                     docs_error_schema(maker), "responses", docs_shared_answers(maker), "headers",
                     docs_shared_headers(maker), "parameters", "IdempotencyKey", idempotency_key(),
                     "securitySchemes", security_schemes());
}

/* Adds the routes of a module; a module without routes or events has no tag. */
static void add_module(struct docs_maker *maker, const struct bb_module *module, json_t *paths,
                       json_t *tags)
{
    if (module->routes.count || module->events.count)
        docs_append(
            maker, tags,
            json_pack("{s:s, s:o}", "name", module->name, "description",
                      json_sprintf("%s%sModule %s, version %s.", module->help ? module->help : "",
                                   module->help ? " " : "", module->name, module->version)));
    for (size_t i = 0; i < module->routes.count; i++) {
        const struct bb_route *route = DOCS_ROW(bb_route, module->routes, i);
        char *path = docs_path(route->path), method[16] = "";
        json_t *item = path ? json_object_get(paths, path) : NULL;

        if (path && !item)
            docs_put(maker, paths, path, item = json_object());
        for (size_t k = 0; route->method[k] && k + 1 < sizeof(method); k++)
            method[k] = (char)(route->method[k] | 0x20); /* ASCII lower case */
        docs_put(maker, item, method, docs_operation(maker, module, route));
        free(path);
    }
}

json_t *docs_document(struct bb_host *host)
{
    struct docs_maker maker = {.host = host};
    json_t *paths = json_object(), *tags = json_array();
    const struct bb_module *module;

    for (size_t i = 0; (module = bb_module_at(host, i)) != NULL; i++)
        add_module(&maker, module, paths, tags);
    json_t *document =
        json_pack("{s:s, s:o, s:[{s:s, s:s}], s:o, s:o, s:o}", "openapi", "3.1.0", "info",
                  info_json(&maker, bb_settings(host)), "servers", "url", "/", "description",
                  "This service.", "tags", tags, "paths", paths, "components", components(&maker));
    json_t *webhooks = docs_webhooks(&maker);

    if (webhooks)
        docs_put(&maker, document, "webhooks", webhooks);
    if (!maker.failed)
        return document;
    json_decref(document);
    return NULL;
}
