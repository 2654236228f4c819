/* The events of all modules, as the webhooks that a service with the module `webhook` sends. */
#include "docs.h"

#include <string.h>

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

json_t *docs_webhooks(struct docs_maker *maker)
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
