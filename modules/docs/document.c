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
    json_t *body = json_pack(
        "{s:b, s:{s:{s:o, s:o}}}", "required", true, "content", "application/json", "schema",
        docs_object(maker, &event->payload, true), "example", docs_example(maker, &event->payload));
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

// clang-format off

/*
 * Each row names an object: of an operation's successful response ("", or the name of a member), or
 * of its request ("body", or "form" for multipart/form-data). Of a list it is the items' object. An
 * object comes before its parts.
 */
static const struct {
    const char *name, *method, *path, *place;
} document_names[] = {
    {"Account", "get", "/api/admin/users", ""},
    {"AccountChange", "put", "/api/admin/users/{id}", "body"},
    {"ChangedAccount", "put", "/api/admin/users/{id}", ""},
    {"Invitation", "post", "/api/admin/users", "body"},
    {"Registration", "post", "/api/user/register", "body"},
    {"PasswordChange", "put", "/api/user/password", "body"},
    {"PasswordReset", "post", "/api/user/password/reset", "body"},
    {"LinkRequest", "post", "/api/user/password/reset-request", "body"},
    {"EmailConfirmation", "post", "/api/user/email/confirm", "body"},
    {"Profile", "get", "/api/auth/me", ""},
    {"ProfileChange", "patch", "/api/auth/me", "body"},
    {"Login", "post", "/api/auth/login", "body"},
    {"AccessToken", "post", "/api/auth/login", ""},
    {"AccessRequest", "post", "/api/auth/getAccess", "body"},
    {"Session", "get", "/api/auth/sessions", ""},
    {"SigningKey", "post", "/api/admin/rotate-secret", ""},
    {"Confirmation", "post", "/api/auth/logout", ""},
    {"Success", "delete", "/api/auth/sessions/{id}", ""},
    {"AuditRecord", "get", "/api/admin/audit-log", ""},
    {"Organization", "get", "/api/admin/organizations", ""},
    {"NewOrganization", "post", "/api/organization", "body"},
    {"OrganizationLink", "put", "/api/admin/organizations/{id}", "body"},
    {"ApiClient", "get", "/api/auth/clients", ""},
    {"NewApiClient", "post", "/api/auth/clients", "body"},
    {"CreatedApiClient", "post", "/api/auth/clients", ""},
    {"BulkFile", "post", "/api/bulk-upload", "form"},
    {"BulkUpload", "get", "/api/bulk-upload", ""},
    {"BulkUploadLog", "get", "/api/bulk-upload/bulk-upload-log/{bulkUploadId}", ""},
    {"BulkRow", "get", "/api/bulk-upload/bulk-upload-log/{bulkUploadId}", "rows"},
    {"ConfirmedBulkUpload", "post", "/api/bulk-upload/{bulkUploadId}/confirm", ""},
    {"StartedConversation", "post", "/api/chat/conversations/start", ""},
    {"Conversation", "get", "/api/chat/conversations/user/{email}", ""},
    {"ConversationSearch", "post", "/api/chat/conversations/find", "body"},
    {"NewConversation", "post", "/api/chat/conversations/start", "body"},
    {"FirstMessage", "post", "/api/chat/conversations/start", "message"},
    {"VisibleConversation", "get", "/api/chat/conversations", ""},
    {"LastMessage", "get", "/api/chat/conversations", "lastMessage"},
    {"Message", "get", "/api/chat/chain/{headUuid}", ""},
    {"FoundMessage", "get", "/api/chat/search", ""},
    {"NewMessage", "post", "/api/chat/conversations/{id}/messages", "body"},
    {"ReadMark", "patch", "/api/chat/conversations/{id}/read", "body"},
    {"UnreadCount", "get", "/api/chat/unread-count/{email}", ""},
    {"Webhook", "get", "/api/chat/webhooks", ""},
    {"NewWebhook", "post", "/api/chat/webhooks", "body"},
    {"WebhookChange", "patch", "/api/chat/webhooks/{id}", "body"},
    {"WebhookTest", "post", "/api/chat/webhooks/{id}/test", "body"},
    {"WebhookTestResult", "post", "/api/chat/webhooks/{id}/test", ""},
    {"WebhookFilterTest", "post", "/api/chat/webhooks/{id}/filter/test", "body"},
    {"WebhookFilterResult", "post", "/api/chat/webhooks/{id}/filter/test", ""},
    {"WebhookRotation", "post", "/api/chat/webhooks/{id}/rotate-secret", "body"},
    {"RotatedWebhook", "post", "/api/chat/webhooks/{id}/rotate-secret", ""},
    {"WebhookStatistics", "get", "/api/chat/webhooks/statistics", ""},
    {"WebhookHour", "get", "/api/chat/webhooks/{id}/statistics", ""},
    {"WebhookKeys", "get", "/api/chat/webhooks/{id}/jwks", ""},
    {"PolledEvents", "get", "/api/chat/webhooks/{id}/events", ""},
    {"Consumer", "get", "/api/chat/webhooks/{id}/consumers", ""},
    {"OffsetCommit", "post", "/api/chat/webhooks/{id}/commit", "body"},
    {"Delivery", "get", "/api/chat/webhooks/{id}/deliveries", ""},
    {"DeliveryDetails", "get", "/api/chat/webhooks/{id}/deliveries/{deliveryId}", ""},
    {"DeliveryAttempt", "get", "/api/chat/webhooks/{id}/deliveries", "attempts"},
    {"Recovery", "post", "/api/chat/webhooks/{id}/recover", ""},
    {"RecoveryRequest", "post", "/api/chat/webhooks/{id}/recover", "body"},
    {"Replay", "get", "/api/chat/webhooks/{id}/replay", ""},
    {"ReplayRequest", "post", "/api/chat/webhooks/{id}/replay", "body"},
    {"Device", "get", "/api/device", ""},
    {"DeviceForm", "post", "/api/device", "form"},
    {"DeviceChangeForm", "patch", "/api/device/{externalId}", "form"},
    {"DeviceFields", "post", "/api/device", "body"},
    {"DeviceDuplicate", "get", "/api/admin/device-duplicates", ""},
    {"Document", "get", "/api/device/{externalId}/documents", ""},
    {"Country", "get", "/api/reference/countries", ""},
    {"ReferenceCode", "get", "/api/reference/fuel-codes", ""},
    {"TimeZone", "get", "/api/reference/time-zones", ""},
    {"Reading", "get", "/api/meter-reads/new/{externalId}", ""},
    {"NewReadings", "post", "/api/meter-reads/new/{externalId}", "body"},
    {"StoredReadings", "post", "/api/meter-reads/new/{externalId}", ""},
    {"StoredReading", "get", "/api/meter-reads/latestread/{externalId}", ""},
    {"ReadingVoid", "delete", "/api/meter-reads/new/{externalId}/{readingId}", "body"},
    {"ReadingTotal", "get", "/api/meter-reads/new/{externalId}/totals", ""},
    {"RefusedReading", "get", "/api/meter-reads/refused", ""},
    {"DeviceGroup", "get", "/api/device-group", ""},
    {"NewDeviceGroup", "post", "/api/device-group", "body"},
    {"DeviceGroupChange", "patch", "/api/device-group/{id}", "body"},
    {"DeviceGroupMembers", "post", "/api/device-group/{id}/devices", "body"},
    {"SharedGroup", "get", "/api/device-group/shared", ""},
    {"GroupShare", "get", "/api/device-group/{id}/share", ""},
    {"NewGroupShare", "post", "/api/device-group/{id}/share", "body"},
    {"CertificatePage", "get", "/api/certificate-log/issuer/certifiedlogOfdevices", ""},
    {"Certificate", "get", "/api/certificate-log/issuer/certifiedlogOfdevices", "certificatelog"},
    {"CertificateEntry", "get", "/api/certificate-log", ""},
    {"CertificateChange", "patch", "/api/certificate-log/{id}", "body"},
    {"CertificateTotal", "get", "/api/certificate-log/totals", ""},
    {"CertificateExplanation", "get", "/api/certificate-log/explain", ""},
    {"DeviceCoverage", "get", "/api/device/{externalId}/coverage", ""},
    {"Liveness", "get", "/api/health", ""},
    {"Readiness", "get", "/api/health/ready", ""},
    {"HealthStatus", "get", "/api/health/status", ""},
    {"ConsoleLinks", "get", "/console/settings", ""},
    {"OpenApiDocument", "get", "/openapi.json", ""},
};

// clang-format on

static json_t *document_items(json_t *schema)
{
    json_t *items = json_object_get(schema, "items");

    return items ? items : schema;
}

/* Returns a copy of the schema of a row, or NULL if its path is not in the document. */
static json_t *document_find(const json_t *paths, size_t row)
{
    const char *place = document_names[row].place;
    json_t *operation = json_object_get(json_object_get(paths, document_names[row].path),
                                        document_names[row].method);
    json_t *at = json_object_get(operation, "responses");
    bool form = !strcmp(place, "form"), body = form || !strcmp(place, "body");

    if (body)
        at = json_object_get(operation, "requestBody");
    else
        at = json_object_iter_value(json_object_iter(at)); /* the first one is the success */
    at = json_object_get(json_object_get(at, "content"),
                         form ? "multipart/form-data" : "application/json");
    at = document_items(json_object_get(at, "schema"));
    if (*place && !body)
        at = document_items(json_object_get(json_object_get(at, "properties"), place));
    return json_deep_copy(at);
}

static bool document_equal(const json_t *one, const json_t *other, const char *key)
{
    const json_t *value = json_object_get(one, key);

    return value ? json_equal(value, json_object_get(other, key)) : !json_object_get(other, key);
}

/*
 * Returns whether two schemas differ at most by null as a value, and by `warnings`, which only
 * single objects have; then the named schema gets them, too.
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
        !document_equal(schema, named, "required"))
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
        if (!document_same(part, named))
            document_replace(maker, part, named, reference);
        else if (json_is_array(json_object_get(part, "type"))) /* the object or null */
            docs_put(maker, value, key,
                     json_pack("{s:[O, {s:s}]}", "anyOf", reference, "type", "null"));
        else
            docs_put(maker, value, key, json_incref(reference));
    }
    for (size_t i = 0; i < json_array_size(value); i++) {
        part = json_array_get(value, i);
        if (document_same(part, named))
            maker->failed |= json_array_set(value, i, reference) != 0;
        else
            document_replace(maker, part, named, reference);
    }
}

static void document_name(struct docs_maker *maker, json_t *paths, json_t *schemas)
{
    json_t *found[sizeof(document_names) / sizeof(document_names[0])];
    size_t count = sizeof(found) / sizeof(found[0]);

    for (size_t i = 0; i < count; i++)
        found[i] = document_find(paths, i);
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
                        json_pack("{s:s, s:s, s:s}", "name", module->name, "x-version",
                                  module->version, "description",
                                  module->help ? module->help : module->name));
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
