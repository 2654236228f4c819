/* Checks of a url and of a list of events that the field tables cannot express. */
#include "modules/webhook/api/api.h"

#include <stdlib.h>
#include <string.h>

#include "modules/webhook/http/sign.h"

int webhook_check_url(struct bb_request *rq, const char **url)
{
    const struct webhook *webhook = rq->state;
    char *encoded = target_encode(*url);

    if (!encoded)
        return bb_no_memory(rq);
    bb_defer(rq, free, encoded);
    *url = encoded;
    const char *problem = target_problem(&webhook->settings.targets, encoded);

    return problem ? bb_invalid(rq, "url", "%s", problem) : 0;
}

int webhook_check_secret(struct bb_request *rq, const char *secret)
{
    if (!secret || sign_secret_good(secret))
        return 0;
    return bb_invalid(rq, "secret", "must have base64 after whsec_");
}

static bool declared(struct bb_request *rq, const char *name)
{
    const char *const *names = NULL;
    size_t count = bb_event_names(rq->host, &names);

    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

static bool listed(const json_t *list, const char *name)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (strcmp(json_string_value(json_array_get(list, i)), name) == 0)
            return true;
    return false;
}

static void drop(void *json)
{
    json_decref(json);
}

/* Collects the names of the list, each once. Returns 0, or the status of the response sent. */
static int take_names(struct bb_request *rq, const json_t *list, json_t *once)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));

        if (!strcmp(name, WEBHOOK_PING))
            continue;
        if (strcmp(name, WEBHOOK_ALL_EVENTS) != 0 && !declared(rq, name))
            return bb_invalid(rq, "events",
                              "must name events that GET /api/chat/webhooks/events lists");
        if (!listed(once, name) && json_array_append_new(once, json_string(name)))
            return bb_no_memory(rq);
    }
    return 0;
}

/*
 * [] and ["*"] mean all events. "ping" is dropped, because a test's ping needs no subscription; so
 * ["ping"] becomes [].
 */
int webhook_check_events(struct bb_request *rq, const json_t *list, const char **events)
{
    json_t *once = json_array();

    if (!once)
        return bb_no_memory(rq);
    bb_defer(rq, drop, once);
    int refused = take_names(rq, list, once);

    if (refused)
        return refused;
    *events = !json_array_size(once) || listed(once, WEBHOOK_ALL_EVENTS) ? "[\"" WEBHOOK_ALL_EVENTS
                                                                           "\"]"
                                                                         : bb_json(rq, once, NULL);
    return 0;
}
