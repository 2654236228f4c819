/* Checks events of webhooks and streams against the reference's `webhooks`. */
#include "client.h"
#include "reference.h"
#include "schema.h"

/* Returns whether the event belongs to a module of the tests or examples. */
static bool is_foreign(const char *name)
{
    static const char *const names[] = {"poke.", "wave.", "heap.", "crash.", "spy.", "visit."};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (!strncmp(name, names[i], strlen(names[i])))
            return true;
    }
    return false;
}

static const json_t *member_at(const json_t *object, const char *const *keys)
{
    while (object && *keys)
        object = json_object_get(object, *keys++);
    return object;
}

/* The events of a bulk upload's stream have the schema of an entry in the list of bulk uploads. */
static const json_t *progress_schema(const char *name)
{
    static const char *const list[] = {"paths",   "/api/bulk-upload", "get",    "responses", "200",
                                       "content", "application/json", "schema", "items",     NULL};

    return !strcmp(name, "progress") || !strcmp(name, "ended")
               ? member_at(reference_document(), list)
               : NULL;
}

/* Returns the schema of the event's payload, or NULL if there is no such event. */
static const json_t *payload_schema(const char *name)
{
    const char *const payload[] = {"webhooks",         name,     "post", "requestBody", "content",
                                   "application/json", "schema", NULL};

    return member_at(reference_document(), payload);
}

/* A delivery must have each header that the event's operation requires. */
static const char *head_problem(const char *name, const char *head)
{
    const char *const at[] = {"webhooks", name, "post", "parameters", NULL};
    const json_t *parameters = member_at(reference_document(), at), *one;
    size_t i;

    json_array_foreach (parameters, i, one) {
        const char *header = json_string_value(json_object_get(one, "name"));
        const char *value = header_in(head, header);

        if (!value && !json_is_true(json_object_get(one, "required")))
            continue;
        json_t *said = value ? json_string(value) : NULL;
        const char *problem =
            said ? schema_problem(reference_document(), json_object_get(one, "schema"), said)
                 : " is missing";

        json_decref(said);
        if (problem)
            return text("the header %s%s", header, problem);
    }
    return NULL;
}

static const char *body_problem(const json_t *schema, const char *body, size_t length)
{
    json_t *json = json_loadb(body, length, JSON_DECODE_ANY, NULL);
    const char *problem =
        json ? schema_problem(reference_document(), schema, json) : " is not JSON";

    json_decref(json);
    return problem ? text("the body%s", problem) : NULL;
}

void reference_keeps_event(const char *name, const char *head, const char *body, size_t length)
{
    const json_t *schema = payload_schema(name);
    const char *problem = NULL;

    if (!reference_document() || is_foreign(name))
        return;
    if (!schema && !head)
        schema = progress_schema(name);
    if (!schema && !head && (!strcmp(name, "reset") || !strcmp(name, "typing"))) /* no webhook */
        return;
    if (!schema)
        problem = "it is not an event of the reference";
    if (!problem && head)
        problem = head_problem(name, head);
    if (!problem)
        problem = body_problem(schema, body, length);
    ck_assert_msg(!problem, "%s of %s, and %s: docs/reference.md\n%.2000s",
                  head ? "A delivery" : "An event in a stream", name, problem, body);
}
