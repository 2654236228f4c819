/*
 * Builds the whole document: the general parts, and the routes of all modules by their paths.
 * Writes it as JSON and as YAML.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "modules/common/hash.h"
#include "modules/docs/docs.h"

/* ---- the events of all modules, as webhooks ---- */

static json_t *document_signature(const char *name, bool required, const char *help)
{
    return json_pack("{s:s, s:s, s:b, s:s, s:{s:s}}", "name", name, "in", "header", "required",
                     required, "description", help, "schema", "type", "string");
}

static json_t *document_event(struct docs_maker *maker, const struct bb_module *module,
                              const struct bb_event_descriptor *event)
{
    json_t *headers = json_pack(
        "[o, o, o, o, o]", document_signature("X-Webhook-Event", true, "The name of the event."),
        document_signature(
            "X-Webhook-Signature", false,
            "HMAC-SHA256 of the raw body with the webhook's secret, in hexadecimal. Absent if the "
            "webhook signs only with Ed25519."),
        document_signature(
            "webhook-id", true,
            "Id of the event, the same in every attempt. Use it to drop duplicates."),
        document_signature("webhook-timestamp", true,
                           "Time of this attempt, in seconds since 1970."),
        document_signature(
            "webhook-signature", true,
            "Signatures as Standard Webhooks defines them, separated by spaces: `v1,` and base64 "
            "for HMAC, `v1a,` and base64 for Ed25519; two of each while keys are being rotated."));
    json_t *body = json_pack("{s:b, s:{s:{s:o}}}", "required", true, "content", "application/json",
                             "schema", docs_object(maker, &event->payload, true));
    json_t *answers = json_pack(
        "{s:{s:s}, s:{s:s}}", "2XX", "description", "Delivered.", "4XX", "description",
        "The delivery failed. It is sent again, by default up to three attempts in total; 410 ends "
        "the attempts.");

    return json_pack("{s:{s:s, s:[s], s:s, s:s, s:o, s:o, s:o, s:[]}}", "post", "operationId",
                     event->name, "tags", module->name, "summary", event->help, "description",
                     event->help, "parameters", headers, "requestBody", body, "responses", answers,
                     "security");
}

/* Adds the events of all modules as webhooks, if a module receives all events to send them. */
static void document_webhooks(struct docs_maker *maker, json_t *document)
{
    json_t *all = json_object();
    const struct bb_module *module;
    bool sent = false;

    for (size_t i = 0; (module = bb_module_at(maker->host, i)) != NULL; i++) {
        for (size_t k = 0; k < module->hooks.count; k++)
            sent |= !strcmp(DOCS_ROW(bb_hook, module->hooks, k)->event, "*");
        for (size_t k = 0; k < module->events.count; k++) {
            const struct bb_event_descriptor *event =
                DOCS_ROW(bb_event_descriptor, module->events, k);

            docs_put(maker, all, event->name, document_event(maker, module, event));
        }
    }
    if (json_object_size(all) && sent)
        docs_put(maker, document, "webhooks", all);
    else
        json_decref(all);
}

/* ---- named schemas, so that generated clients have types ---- */

/* The objects that these operations return, alone or in a list. An object comes before its parts.
 */
static const struct {
    const char *name, *path;
} document_names[] = {
    {"Account", "/api/admin/users"},
    {"AuditRecord", "/api/admin/audit-log"},
    {"Organization", "/api/admin/organizations"},
    {"ApiClient", "/api/auth/clients"},
    {"BulkUpload", "/api/bulk-upload"},
    {"Conversation", "/api/chat/conversations/user/{email}"},
    {"Message", "/api/chat/chain/{headUuid}"},
    {"FoundMessage", "/api/chat/search"},
    {"Webhook", "/api/chat/webhooks"},
    {"Delivery", "/api/chat/webhooks/{id}/deliveries"},
    {"Device", "/api/device"},
    {"Document", "/api/device/{externalId}/documents"},
    {"Reading", "/api/meter-reads/new/{externalId}"},
    {"ReadingTotal", "/api/meter-reads/new/{externalId}/totals"},
    {"RefusedReading", "/api/meter-reads/refused"},
    {"DeviceGroup", "/api/device-group"},
    {"SharedGroup", "/api/device-group/shared"},
    {"GroupShare", "/api/device-group/{id}/share"},
    {"CertificateEntry", "/api/certificate-log"},
    {"CertificateTotal", "/api/certificate-log/totals"},
};

/*
 * Returns whether two schemas differ at most by `warnings`, which only single objects have; then
 * the named schema gets them, too.
 */
static bool document_same(const json_t *schema, json_t *named)
{
    json_t *properties = json_object_get(schema, "properties"), *value;
    json_t *wanted = json_object_get(named, "properties");
    json_t *warnings = json_object_get(properties, "warnings");
    size_t more = warnings && !json_object_get(wanted, "warnings");
    size_t less = !warnings && json_object_get(wanted, "warnings");
    const char *key;

    if (json_object_size(properties) + less != json_object_size(wanted) + more ||
        !json_equal(json_object_get(schema, "required"), json_object_get(named, "required")))
        return false;
    json_object_foreach(wanted, key, value)
    {
        if (!json_equal(json_object_get(properties, key), value) && strcmp(key, "warnings") != 0)
            return false;
    }
    return !more || !json_object_set(wanted, "warnings", warnings);
}

/* Replaces all equal schemas below `value`. The recursion is bounded by the modules' tables. */
static void document_replace(struct docs_maker *maker, json_t *value, json_t *named,
                             json_t *reference)
{
    const char *key;
    json_t *part;
    void *next;

    json_object_foreach_safe(value, next, key, part)
    {
        if (document_same(part, named))
            docs_put(maker, value, key, json_incref(reference));
        else
            document_replace(maker, part, named, reference);
    }
    for (size_t i = 0; i < json_array_size(value); i++)
        document_replace(maker, json_array_get(value, i), named, reference);
}

static void document_name(struct docs_maker *maker, json_t *paths, json_t *schemas)
{
    /* from a path to the schema of the items of its list */
    static const char *const steps[] = {"get",    "responses", "200", "content", "application/json",
                                        "schema", "items"};
    json_t *found[sizeof(document_names) / sizeof(document_names[0])];
    size_t count = sizeof(found) / sizeof(found[0]);

    for (size_t i = 0; i < count; i++) {
        json_t *at = json_object_get(paths, document_names[i].path);

        for (size_t k = 0; k < sizeof(steps) / sizeof(steps[0]); k++)
            at = json_object_get(at, steps[k]);
        found[i] = json_deep_copy(at); /* NULL: the path is not in the document */
    }
    for (size_t i = 0; i < count; i++) {
        json_t *reference = docs_reference("schemas", document_names[i].name);

        if (found[i]) {
            document_replace(maker, paths, found[i], reference);
            document_replace(maker, schemas, found[i], reference);
            docs_put(maker, schemas, document_names[i].name, json_incref(found[i]));
        }
        json_decref(found[i]);
        json_decref(reference);
    }
}

/* ---- the whole document ---- */

static const char how[] =
    "Requests and responses are JSON in UTF-8.\n\n**Log in:** get a token from `POST "
    "/api/auth/login` (people) or `POST /api/auth/getAccess` (programs), and send it with every "
    "request as `Authorization: Bearer <token>`.\n\n**Roles:** each operation names the role it "
    "requires. With another role the response is 403.\n\n**Errors** have the same form everywhere: "
    "see the schema `Error`. Quote its `requestId` when you ask for help.\n\n**Lists** come in "
    "pages. While there are more, the `Link` header has the address of the next "
    "page.\n\n**Retries:** send an `Idempotency-Key` with a request that creates something. "
    "Sending it again then returns the first response and creates nothing.\n\nA request whose head "
    "is malformed or too large is refused (400, 414, 431) before the operation is known.";

/*
 * Adds a route below its path, in which each :name becomes {name}. {name} is one character longer,
 * so a path of colons would double in length.
 */
static void document_add_route(struct docs_maker *maker, const struct bb_module *module,
                               const struct bb_route *route, json_t *paths)
{
    char *path = calloc(1, strlen(route->path) * 2 + 1), *to = path, method[16] = "";
    bool inside = false;

    if (!path) {
        maker->failed = true;
        return;
    }
    for (const char *at = route->path; *at; at++) {
        if (inside && *at == '/') {
            *to++ = '}';
            inside = false;
        }
        *to++ = *at == ':' ? '{' : *at;
        inside |= *at == ':';
    }
    if (inside)
        *to = '}';
    json_t *item = json_object_get(paths, path);

    if (!item)
        docs_put(maker, paths, path, item = json_object());
    for (size_t k = 0; route->method[k] && k + 1 < sizeof(method); k++)
        method[k] = (char)(route->method[k] | 0x20); /* ASCII lower case */
    docs_put(maker, item, method, docs_operation(maker, module, route));
    free(path);
}

/* Returns the document, owned by the caller; NULL: out of memory. */
static json_t *document_make(struct bb_host *host)
{
    struct docs_maker maker = {.host = host};
    const struct docs_settings *about = bb_settings(host);
    json_t *contact = json_pack("{s:s}", "name", "The operator of this service");
    json_t *paths = json_object(), *tags = json_array();
    const struct bb_module *module;

    for (size_t i = 0; (module = bb_module_at(host, i)) != NULL; i++) {
        const char *help = module->help ? module->help : "";
        bool shown = module->events.count > 0;

        for (size_t k = 0; k < module->routes.count; k++) {
            const struct bb_route *route = DOCS_ROW(bb_route, module->routes, k);
            const char *type = route->reply_type ? route->reply_type : "";
            bool page =
                route->roles & BB_ANYONE && (!strcmp(type, "text/html") || !strcmp(type, "*/*"));

            if (page || route->success == 302)
                continue; /* for browsers: a page or its files, or a redirect */
            document_add_route(&maker, module, route, paths);
            shown = true;
        }
        if (shown)
            docs_append(&maker, tags,
                        json_pack("{s:s, s:o}", "name", module->name, "description",
                                  json_sprintf("%s%sModule %s, version %s.", help, *help ? " " : "",
                                               module->name, module->version)));
    }
    docs_put_text(&maker, contact, "url", about->contact);
    json_t *info = json_pack(
        "{s:s, s:s, s:o, s:o, s:{s:s, s:s}}", "title", about->title, "version",
        host->module->version, "description",
        json_sprintf("%s%s%s", about->description, *about->description ? "\n\n" : "", how),
        "contact", contact, "license", "name", "BSD-2-Clause", "identifier", "BSD-2-Clause");
    json_t *document =
        json_pack("{s:s, s:o, s:[{s:s, s:s}], s:o, s:o, s:o}", "openapi", "3.1.0", "info", info,
                  "servers", "url", "/", "description", "This service.", "tags", tags, "paths",
                  paths, "components", docs_components(&maker));

    document_name(&maker, paths,
                  json_object_get(json_object_get(document, "components"), "schemas"));
    document_webhooks(&maker, document);
    if (!maker.failed && document)
        return document;
    json_decref(document);
    return NULL;
}

/* ---- YAML ---- */

/*
 * Writes the value of a key or an item. Texts, numbers and empty lists are written as JSON, which
 * is valid YAML, so no text is read as a number, a date or a boolean. The depth of the recursion is
 * bounded by the modules' tables. Returns 0, or another value if out of memory.
 */
static int document_write_yaml(FILE *out, json_t *value, int depth)
{
    const char *key;
    json_t *part;
    size_t i;
    int failed = 0;

    if (!json_object_size(value) && !json_array_size(value))
        return fputc(' ', out) < 0 ||
               json_dumpf(value, out, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15)) ||
               fputc('\n', out) < 0;
    if (depth)
        fputc('\n', out);
    json_object_foreach(value, key, part)
    {
        json_t *name = json_string(key);

        fprintf(out, "%*s", 2 * depth, "");
        failed |= json_dumpf(name, out, JSON_ENCODE_ANY) || fputc(':', out) < 0;
        failed |= document_write_yaml(out, part, depth + 1);
        json_decref(name);
    }
    json_array_foreach(value, i, part)
    {
        failed |=
            fprintf(out, "%*s-", 2 * depth, "") < 0 || document_write_yaml(out, part, depth + 1);
    }
    return failed;
}

/* ---- the texts that are sent, with an entity tag for each ---- */

int docs_make(struct bb_host *host, struct docs *docs)
{
    struct docs_text *const texts[] = {&docs->json, &docs->yaml};
    json_t *document = document_make(host);
    FILE *out = document ? open_memstream(&docs->yaml.bytes, &docs->yaml.length) : NULL;
    bool made = out && !document_write_yaml(out, document, 0);

    made = out && !fclose(out) && made;
    docs->json.bytes = made ? json_dumps(document, JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;
    docs->json.length = docs->json.bytes ? strlen(docs->json.bytes) : 0;
    json_decref(document);
    for (size_t i = 0; i < 2; i++) {
        if (!docs->json.bytes) {
            free(texts[i]->bytes);
            *texts[i] = (struct docs_text){0};
        }
        /* A different document has a different tag. */
        snprintf(texts[i]->tag, sizeof(texts[i]->tag), "\"%016" PRIx64 "\"",
                 hash_bytes(HASH_SEED, texts[i]->bytes, texts[i]->length));
    }
    return docs->json.bytes ? 0 : -1;
}
