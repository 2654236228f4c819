/* Builds the whole document: the general parts, and the routes of all modules by their paths. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "docs.h"
#include "modules/common/hash.h"

/* ---- parts of JSON; failures are recorded until the end ---- */

void docs_put(struct docs_maker *maker, json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new(object, key, value))
        maker->failed = true;
}

void docs_append(struct docs_maker *maker, json_t *list, json_t *value)
{
    if (json_array_append_new(list, value))
        maker->failed = true;
}

void docs_put_text(struct docs_maker *maker, json_t *object, const char *key, const char *text)
{
    if (text && *text)
        docs_put(maker, object, key, json_string(text));
}

json_t *docs_reference(const char *kind, const char *name)
{
    return json_pack("{s:o}", "$ref", json_sprintf("#/components/%s/%s", kind, name));
}

/* ---- the events of all modules, as webhooks ---- */

/* Returns whether a module receives all events, which means that it passes them on. */
static bool passes_on(const struct bb_module *module)
{
    for (size_t i = 0; i < module->hooks.count; i++)
        if (!strcmp(DOCS_ROW(bb_hook, module->hooks, i)->event, "*"))
            return true;
    return false;
}

static bool are_sent(struct bb_host *host)
{
    const struct bb_module *module;

    for (size_t i = 0; (module = bb_module_at(host, i)) != NULL; i++)
        if (passes_on(module))
            return true;
    return false;
}

static json_t *signature(const char *name, const char *help)
{
    return json_pack("{s:s, s:s, s:b, s:s, s:{s:s}}", "name", name, "in", "header", "required",
                     true, "description", help, "schema", "type", "string");
}

static json_t *event_json(struct docs_maker *maker, const struct bb_module *module,
                          const struct bb_event_descriptor *event)
{
    json_t *headers = json_pack(
        "[o, o, o, o, o]", signature("X-Webhook-Event", "The name of the event."),
        signature("X-Webhook-Signature",
                  "HMAC-SHA256 of the raw body with the webhook's secret, in hexadecimal."),
        signature("webhook-id",
                  "Id of the event, the same in every attempt. Use it to drop duplicates."),
        signature("webhook-timestamp", "Time of this attempt, in seconds since 1970."),
        signature("webhook-signature",
                  "Signature as Standard Webhooks defines it: `v1,` and base64; several, separated "
                  "by spaces, while a secret is being rotated."));
    json_t *body = json_pack("{s:b, s:{s:{s:o}}}", "required", true, "content", "application/json",
                             "schema", docs_object(maker, &event->payload, false, true));
    json_t *answers = json_pack(
        "{s:{s:s}, s:{s:s}}", "2XX", "description", "Delivered.", "4XX", "description",
        "Not delivered. It is sent again, up to three attempts by default; 410 ends the attempts.");

    return json_pack("{s:{s:s, s:[s], s:s, s:s, s:o, s:o, s:o, s:[]}}", "post", "operationId",
                     event->name, "tags", module->name, "summary", event->help, "description",
                     event->help, "parameters", headers, "requestBody", body, "responses", answers,
                     "security");
}

/* Builds the events of all modules as webhooks; NULL if no module sends any. */
static json_t *docs_webhooks(struct docs_maker *maker)
{
    json_t *all = json_object();
    const struct bb_module *module;

    for (size_t i = 0; (module = bb_module_at(maker->host, i)) != NULL; i++)
        for (size_t k = 0; k < module->events.count; k++) {
            const struct bb_event_descriptor *event =
                DOCS_ROW(bb_event_descriptor, module->events, k);

            docs_put(maker, all, event->name, event_json(maker, module, event));
        }
    if (json_object_size(all) && are_sent(maker->host))
        return all;
    json_decref(all);
    return NULL;
}

/* ---- the whole document ---- */

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

/* ---- the texts that are sent, each with an entity tag ---- */

/* A different document has a different tag. */
static void make_tag(struct docs_text *text)
{
    snprintf(text->tag, sizeof(text->tag), "\"%016" PRIx64 "\"",
             hash_bytes(HASH_SEED, text->bytes, text->length));
}

static void drop(struct docs_text *text)
{
    free(text->bytes);
    *text = (struct docs_text){0};
}

int docs_make(struct bb_host *host, struct docs *docs)
{
    json_t *document = docs_document(host);
    char *json = document ? json_dumps(document, JSON_COMPACT) : NULL;

    docs->json = (struct docs_text){.bytes = json, .length = json ? strlen(json) : 0};
    if (!json || docs_yaml(document, &docs->yaml)) {
        drop(&docs->json);
        drop(&docs->yaml);
    }
    json_decref(document);
    make_tag(&docs->json);
    make_tag(&docs->yaml);
    return docs->json.bytes ? 0 : -1;
}
