/*
 * docs: the reference of the API, built from the tables of the loaded modules. The document
 * (OpenAPI 3.1) is built after each load of the configuration, before the first request, because
 * only loading or removing a module changes it. The parts that no table has are in openapi.json:
 *
 *   document  the document without the modules' parts
 *   event     the webhook of an event, without the parts that come from the event's declaration
 *   titles    titles of modules for people, by module name
 *   names     schemas that get a name, so that generated clients have types. A row has the name,
 *             the method and path of an operation, and the schema's place in it: "" or a member's
 *             name in the successful response, "body", or "form" and a part of multipart/form-data.
 *             In a list, the item gets the name. An object comes before the objects inside it.
 */
#ifndef DOCS_H
#define DOCS_H

#include <busbar/busbar.h>

#include "modules/common/example.h"

struct docs_text {
    char *bytes; /* from malloc(); NULL: out of memory */
    size_t length;
    char tag[24]; /* entity tag, quoted */
};

struct docs {
    struct docs_text json, yaml;
    struct assets *pages; /* NULL: not installed */
};

/* The settings: texts about the service, and the directory of the page's files; "" if unset. */
struct docs_settings {
    const char *title, *description, *contact, *pages;
};

/* Creates the document as JSON and YAML. Returns 0, or -1 if out of memory. */
int docs_make(struct bb_host *host, struct docs *docs);

/*
 * Used while a document is built, to record whether memory ran out. All functions accept NULL for
 * JSON that could not be created, and record this as a failure.
 */
struct docs_maker {
    struct bb_host *host;
    const json_t *titles; /* of modules, by name */
    bool failed;
};

/* Returns the tag of a module's operations and events: its title, or its name if it has none. */
static inline const char *docs_tag(const struct docs_maker *maker, const struct bb_module *module)
{
    const char *title = json_string_value(json_object_get(maker->titles, module->name));

    return title ? title : module->name;
}

/* schema.c: builds JSON objects and lists. These functions take ownership of `value`. */
void docs_put(struct docs_maker *maker, json_t *object, const char *key, json_t *value);
void docs_append(struct docs_maker *maker, json_t *list, json_t *value);
/* These add nothing for a NULL or empty text or an empty list, and take ownership of `list`. */
void docs_put_text(struct docs_maker *maker, json_t *object, const char *key, const char *text);
void docs_put_list(struct docs_maker *maker, json_t *object, const char *key, json_t *list);
json_t *docs_reference(const char *kind, const char *name); /* {"$ref": "#/components/…"} */

/* Return the schema of a field or an object, in a response (`answer` is true) or a request. */
json_t *docs_schema(struct docs_maker *maker, const struct bb_field *field, bool answer);
json_t *docs_object(struct docs_maker *maker, const struct bb_table *fields, bool answer);

/* operation.c: returns the OpenAPI operation of a route; the caller owns it. */
json_t *docs_operation(struct docs_maker *maker, const struct bb_module *module,
                       const struct bb_route *route);

#endif
