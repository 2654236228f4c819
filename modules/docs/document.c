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
#include "modules/docs/openapi.h"

/* ---- the events of all modules, as webhooks ---- */

/* Adds the events of all modules as webhooks, if a module receives all events to send them. */
static void document_webhooks(struct docs_maker *maker, const json_t *base, json_t *document)
{
    json_t *all = json_object();
    const struct bb_module *module;
    bool sent = false;

    for (size_t i = 0; (module = bb_module_at(maker->host, i)) != NULL; i++) {
        for (size_t k = 0; k < module->hooks.count; k++)
            sent |= !strcmp(BB_ROW(bb_hook, module->hooks, k)->event, "*");
        for (size_t k = 0; k < module->events.count; k++) {
            const struct bb_event_descriptor *event =
                BB_ROW(bb_event_descriptor, module->events, k);
            json_t *item = json_deep_copy(json_object_get(base, "event"));
            json_t *post = json_object_get(item, "post");
            json_t *content = json_object_get(json_object_get(post, "requestBody"), "content");
            json_t *media = json_object_get(content, "application/json");

            docs_put(maker, post, "operationId", json_string(event->name));
            docs_put(maker, post, "tags", json_pack("[s]", docs_tag(maker, module)));
            docs_put(maker, post, "summary", json_string(event->help));
            docs_put(maker, post, "description", json_string(event->help));
            docs_put(maker, media, "schema", docs_object(maker, &event->payload, true));
            docs_put(maker, media, "example", example_of(&event->payload, false));
            docs_put(maker, all, event->name, item);
        }
    }
    if (json_object_size(all) && sent)
        docs_put(maker, document, "webhooks", all);
    else
        json_decref(all);
}

/* ---- named schemas ---- */

static json_t *document_items(json_t *schema)
{
    json_t *items = json_object_get(schema, "items");

    return items ? items : schema;
}

/* Returns a copy of the schema of a row of `names`; null if the document does not have it. */
static json_t *document_find(const json_t *paths, json_t *row)
{
    const char *name = "", *method = "", *path = "", *place = "";

    json_unpack(row, "[s, s, s, s]", &name, &method, &path, &place);
    json_t *operation = json_object_get(json_object_get(paths, path), method);
    json_t *at = json_object_get(operation, "responses");
    bool form = !strncmp(place, "form", 4), body = form || !strcmp(place, "body");

    if (body)
        at = json_object_get(operation, "requestBody");
    else
        at = json_object_iter_value(json_object_iter(at)); /* the first one is the success */
    at = json_object_get(json_object_get(at, "content"),
                         form ? "multipart/form-data" : "application/json");
    at = document_items(json_object_get(at, "schema"));
    if (form)
        place += place[4] ? 5 : 4; /* skips "form" or "form " */
    else if (body)
        place = "";
    if (*place)
        at = document_items(json_object_get(json_object_get(at, "properties"), place));
    return at ? json_deep_copy(at) : json_null();
}

static bool document_equal(const json_t *one, const json_t *other, const char *key)
{
    const json_t *value = json_object_get(one, key);

    return value ? json_equal(value, json_object_get(other, key)) : !json_object_get(other, key);
}

/*
 * Returns whether two schemas have equal properties and required names. Ignores `warnings` and
 * `warningDetails`, which the host adds together. If only `schema` has them, adds them to `named`.
 */
static bool document_same(const json_t *schema, json_t *named)
{
    json_t *properties = json_object_get(schema, "properties"), *value;
    json_t *wanted = json_object_get(named, "properties");
    bool warns = json_object_get(properties, "warningDetails") != NULL;
    bool knows = json_object_get(wanted, "warningDetails") != NULL;
    size_t more = warns && !knows ? 2 : 0, less = knows && !warns ? 2 : 0; /* 2 names */
    const char *key;

    if (!properties) /* most values; a named schema has properties */
        return false;
    if (json_object_size(properties) + less != json_object_size(wanted) + more ||
        !document_equal(schema, named, "required"))
        return false;
    json_object_foreach (wanted, key, value) {
        if (!json_equal(json_object_get(properties, key), value) && strncmp(key, "warning", 7) != 0)
            return false;
    }
    return !more || !json_object_update_missing(wanted, properties);
}

/* Replaces schemas below `value` that equal `named` by `reference`. The tables limit the depth. */
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

static void document_name(struct docs_maker *maker, const json_t *names, json_t *paths,
                          json_t *schemas)
{
    json_t *found = json_array(), *row;
    size_t i;

    json_array_foreach (names, i, row)
        docs_append(maker, found, document_find(paths, row));
    json_array_foreach (names, i, row) {
        const char *name = json_string_value(json_array_get(row, 0));
        json_t *reference = docs_reference("schemas", name);
        json_t *named = json_array_get(found, i);

        if (json_is_object(named)) {
            document_replace(maker, paths, named, reference);
            document_replace(maker, schemas, named, reference);
            docs_put(maker, schemas, name, json_incref(named));
        }
        json_decref(reference);
    }
    json_decref(found);
}

/* ---- the whole document ---- */

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
    json_t *base = json_loads(openapi_json, 0, NULL);
    json_t *document = json_object_get(base, "document"), *info = json_object_get(document, "info");
    json_t *paths = json_object_get(document, "paths"), *tags = json_object_get(document, "tags");
    const char *text = json_string_value(json_object_get(info, "description"));
    const struct bb_module *module;

    if (!base)
        return NULL;
    maker.titles = json_object_get(base, "titles");
    for (size_t i = 0; (module = bb_module_at(host, i)) != NULL; i++) {
        bool shown = module->events.count > 0;

        for (size_t k = 0; k < module->routes.count; k++) {
            const struct bb_route *route = BB_ROW(bb_route, module->routes, k);
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
                        json_pack("{s:s, s:s, s:s, s:s}", "name", docs_tag(&maker, module),
                                  "x-module", module->name, "x-version", module->version,
                                  "description", module->help ? module->help : module->name));
    }
    docs_put_text(&maker, json_object_get(info, "contact"), "url", about->contact);
    docs_put(&maker, info, "title", json_string(about->title));
    docs_put(&maker, info, "version", json_string(host->module->version));
    docs_put(&maker, info, "description",
             json_sprintf("%s%s%s", about->description, *about->description ? "\n\n" : "", text));
    document_name(&maker, json_object_get(base, "names"), paths,
                  json_object_get(json_object_get(document, "components"), "schemas"));
    document_webhooks(&maker, base, document);
    document = maker.failed ? NULL : json_incref(document);
    json_decref(base);
    return document;
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
    json_object_foreach (value, key, part) {
        json_t *name = json_string(key);

        fprintf(out, "%*s", 2 * depth, "");
        failed |= json_dumpf(name, out, JSON_ENCODE_ANY) || fputc(':', out) < 0;
        failed |= document_write_yaml(out, part, depth + 1);
        json_decref(name);
    }
    json_array_foreach (value, i, part)
        failed |=
            fprintf(out, "%*s-", 2 * depth, "") < 0 || document_write_yaml(out, part, depth + 1);
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
        snprintf(texts[i]->tag, sizeof(texts[i]->tag), "\"%016" PRIx64 "\"",
                 hash_bytes(HASH_SEED, texts[i]->bytes, texts[i]->length));
    }
    return docs->json.bytes ? 0 : -1;
}
