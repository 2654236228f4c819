/* Running what the module's tables name: routes, hooks, jobs, commands, channels. */
#include <stdlib.h>
#include <string.h>

#include "core/base/arena.h"
#include "fake/fake.h"

struct run *fake_run_begin(struct bb_fake *fake)
{
    struct run *run = calloc(1, sizeof *run);

    if (!run)
        fake_die("out of memory");
    fake_run_free(fake->run);
    fake->run = run;
    run->fake = fake;
    run->rq = (struct bb_request){
        .size = sizeof run->rq, .api = &fake_api, .host = &fake->host, .state = fake->host.state};
    return run;
}

void fake_run_undo(struct run *run)
{
    while (run->undo) {
        struct undo *undo = run->undo;

        run->undo = undo->next;
        undo->call(undo->arg);
    }
}

void fake_run_free(struct run *run)
{
    if (!run)
        return;
    fake_run_undo(run);
    for (struct raised *at = run->raised; at; at = at->next)
        json_decref(at->payload);
    json_decref(run->body);
    json_decref(run->reply);
    json_decref(run->warnings);
    arena_free(run->arena);
    fake_pool_free(&run->pool);
    free(run->log);
    free(run->printed);
    free(run);
}

static json_t *parse(const char *text)
{
    json_error_t error;
    json_t *json = text ? json_loads(text, JSON_DECODE_ANY, &error) : NULL;

    if (text && !json)
        fake_die("no JSON: %s: %s", error.text, text);
    return json;
}

/* Matches one path with a pattern of :names; takes the segments. */
static bool match(struct run *run, const char *pattern, const char *path)
{
    while (*pattern == '/' && *path == '/') {
        size_t name = strcspn(++pattern, "/"), text = strcspn(++path, "/?");

        if (*pattern == ':' && text) {
            char *key = fake_pool_text(&run->pool, pattern + 1),
                 *value = fake_pool_text(&run->pool, path);

            key[name - 1] = '\0';
            value[text] = '\0';
            fake_pair_set(&run->pool, &run->segments, key, value);
        } else if (name != text || strncmp(pattern, path, name) != 0) {
            return false;
        }
        pattern += name;
        path += text;
    }
    return !*pattern && (!*path || *path == '?');
}

/* A pattern with fewer :names goes first, as in the host's router. */
static const struct bb_route *find_route(struct run *run, const char *method, const char *path)
{
    const struct bb_table *table = &run->fake->host.module->routes;
    const struct bb_route *found = NULL;
    struct pair *segments = NULL;

    for (size_t i = 0; i < table->count; i++) {
        const struct bb_route *route = ROW(bb_route, *table, i);

        run->segments = NULL;
        if (strcmp(route->method, method) != 0 || !match(run, route->path, path))
            continue;
        if (!found || !run->segments) {
            found = route;
            segments = run->segments;
        }
    }
    run->segments = segments;
    return found;
}

int bb_fake_call(struct bb_fake *fake, const char *method, const char *path, const char *body)
{
    struct run *run = fake_run_begin(fake);
    const struct bb_route *route = find_route(run, method, path);

    if (!route)
        fake_die("the module has no route %s %s", method, path);
    if (!(route->roles & BB_ANYONE))
        run->rq.principal = fake->principal;
    const char *query = strchr(path, '?');

    run->path = fake_pool_text(&run->pool, path);
    run->body = body ? parse(body) : json_object();
    if (!fake_check(run, route, query ? query + 1 : NULL))
        route->handler(&run->rq);
    fake_run_undo(run);
    if (!run->status)
        fake_die("the handler of %s %s has not answered", method, path);
    return run->status;
}

static bool concerns(const struct bb_hook *hook, const char *event)
{
    return !strcmp(hook->event, event) || !strcmp(hook->event, "*");
}

static struct bb_event event_make(struct run *run, const char *name, const json_t *payload,
                                  const struct bb_audience *audience)
{
    static const char *const no_emails[] = {NULL};
    static const struct bb_audience nobody = {.size = sizeof nobody, .emails = no_emails};

    return (struct bb_event){.size = sizeof(struct bb_event),
                             .name = name,
                             .id = bb_new_uuid(&run->rq),
                             .wall_ms = bb_wall_ms(&run->fake->host),
                             .payload = payload,
                             .audience = audience ? audience : &nobody};
}

/* In a transaction of somebody else; its statements run with it. */
static int run_within(struct run *run, const struct bb_event *event)
{
    const struct bb_table *hooks = &run->fake->host.module->hooks;
    struct bb_tx *tx = fake_tx_unit(&run->rq, 0);

    for (size_t i = 0; i < hooks->count; i++) {
        const struct bb_hook *hook = ROW(bb_hook, *hooks, i);

        if (hook->within && concerns(hook, event->name) &&
            hook->within(&run->rq, tx, event, run->rq.state))
            return -1;
    }
    return fake_tx_finish(tx) ? 0 : -1;
}

int bb_fake_raise(struct bb_fake *fake, const char *name, const char *payload)
{
    return bb_fake_raise_to(fake, name, payload, NULL);
}

int bb_fake_raise_to(struct bb_fake *fake, const char *name, const char *payload,
                     const struct bb_audience *audience)
{
    struct run *run = fake_run_begin(fake);
    const struct bb_table *hooks = &fake->host.module->hooks;

    run->body = parse(payload);
    struct bb_event event = event_make(run, name, run->body, audience);
    int vetoed = run_within(run, &event);

    for (size_t i = 0; !vetoed && i < hooks->count; i++) {
        const struct bb_hook *hook = ROW(bb_hook, *hooks, i);

        if (hook->committed && concerns(hook, name))
            hook->committed(&run->rq, &event);
    }
    fake_run_undo(run);
    return vetoed;
}

int bb_fake_job(struct bb_fake *fake, const char *name)
{
    const struct bb_job *job = fake_table_find(&fake->host.module->jobs, name);
    struct run *run = fake_run_begin(fake);

    if (!job)
        fake_die("the module has no job %s", name);
    job->run(&run->rq);
    fake_run_undo(run);
    return 0;
}

int bb_fake_command(struct bb_fake *fake, const char *name, const char *options)
{
    const struct bb_command *command = fake_table_find(&fake->host.module->commands, name);
    struct run *run = fake_run_begin(fake);

    if (!command)
        fake_die("the module has no command %s", name);
    run->body = options ? parse(options) : json_object();
    int status = command->run(&run->rq);

    fake_run_undo(run);
    return status;
}

void bb_fake_notify(struct bb_fake *fake, const char *name, const char *payload)
{
    const struct bb_channel *channel = fake_table_find(&fake->host.module->channels, name);

    if (!channel)
        fake_die("the module has no channel %s", name);
    channel->heard(fake->host.state, payload);
}
