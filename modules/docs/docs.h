/*
 * docs: the reference of the API, made from the tables of the modules that are loaded. The document
 * (OpenAPI 3.1) is made once for each generation, before its first request, so that loading or
 * removing a module changes it and nothing else can.
 */
#ifndef DOCS_H
#define DOCS_H

#include <busbar/busbar.h>

#include "modules/common/assets.h"

/* The row at a place of a table, however large the rows are that the host has. */
#define DOCS_ROW(type, table, index)                                                               \
    ((const struct type *)(const void *)((const char *)(table).rows + (index) * (table).stride))

struct docs_text {
    char *bytes; /* malloc'ed; NULL: no memory */
    size_t length;
    char tag[24]; /* entity tag, quoted */
};

struct docs {
    struct docs_text json, yaml;
    struct assets *pages; /* NULL: they are not installed */
};

/* What is said of the service beside the tables, and where the page's files are; "": none. */
struct docs_settings {
    const char *title, *description, *contact, *pages;
};

/*
 * While a document is made: what was put into it without memory. All functions take NULL for JSON
 * that could not be made, and count that as a failure.
 */
struct docs_maker {
    struct bb_host *host;
    bool failed;
};

/* document.c: the whole, the caller's; NULL: no memory. */
json_t *docs_document(struct bb_host *host);

/* json_maker.c: take `value`. */
void docs_put(struct docs_maker *maker, json_t *object, const char *key, json_t *value);
void docs_append(struct docs_maker *maker, json_t *list, json_t *value);
/* A text that is absent where it is NULL or empty. */
void docs_put_text(struct docs_maker *maker, json_t *object, const char *key, const char *text);
json_t *docs_reference(const char *kind, const char *name); /* {"$ref": "#/components/…"} */

/* schema.c: what a field, or an object of fields, may be. `answer`: in what the host sends. */
json_t *docs_schema(struct docs_maker *maker, const struct bb_field *field, bool answer);
json_t *docs_object(struct docs_maker *maker, const struct bb_table *fields, bool others,
                    bool answer);

/* operation.c: a route. */
json_t *docs_operation(struct docs_maker *maker, const struct bb_module *module,
                       const struct bb_route *route);
/* The path in OpenAPI's form, "/api/device/{externalId}": the caller's; NULL: no memory. */
char *docs_path(const char *path);

/* rows.c: the columns of rows in Markdown, the caller's; NULL: the route is not about rows, unless
 * maker->failed. */
char *docs_columns(struct docs_maker *maker, const struct bb_module *module,
                   const struct bb_route *route);

/* body.c: what a request may bring; NULL: nothing, unless maker->failed. */
json_t *docs_request_body(struct docs_maker *maker, const struct bb_route *route);

/* responses.c: the answers of a route, and those that routes share. */
json_t *docs_answers(struct docs_maker *maker, const struct bb_route *route);
json_t *docs_shared_answers(struct docs_maker *maker);

/* components.c: what answers refer to. */
json_t *docs_shared_headers(struct docs_maker *maker);
json_t *docs_error_schema(struct docs_maker *maker);

/* events.c: the events of all modules as webhooks; NULL where nobody sends any. */
json_t *docs_webhooks(struct docs_maker *maker);

/* document_text.c: both texts of the generation's document. 0, or -1: no memory, and neither is
 * there. */
int docs_make(struct bb_host *host, struct docs *docs);

/* yaml.c: 0, or -1: no memory. */
int docs_yaml(const json_t *document, struct docs_text *text);

/* show.c */
int docs_show_json(struct bb_request *rq);
int docs_show_yaml(struct bb_request *rq);
int docs_show_page(struct bb_request *rq);
int docs_show_file(struct bb_request *rq);

/* command.c: `busbar reference`. */
int docs_command_reference(struct bb_request *rq);

#endif
