/*
 * Channels of the listener: collects the channels of the modules of all generations, and notifies
 * them.
 */
#include "core/store/pg_channel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/lib/activity.h"

enum { NAMES_MAX = 256 /* channels */ };

static void tell(const struct core_module *module, const struct bb_channel *channel,
                 const char *payload)
{
    struct activity before = activity_enter((struct activity){
        .module = module->descriptor->name, .kind = "channel", .name = channel->name});

    channel->heard(module->handle.host.state, payload);
    activity_leave(before);
}

static void tell_generation(const struct generation *generation, const char *name,
                            const char *payload)
{
    for (size_t i = 0; i < generation->module_count; i++) {
        const struct core_module *module = &generation->modules[i];
        const struct bb_channel *channels = MODULE_ROWS(bb_channel, module->descriptor->channels);

        for (size_t j = 0; j < module->descriptor->channels.count; j++) {
            if (!name || !strcmp(channels[j].name, name))
                tell(module, &channels[j], payload);
        }
    }
}

void pg_listener_tell(struct engine *engine, const char *name, const char *payload)
{
    struct generation *list[GENERATIONS_MAX];
    size_t count = engine_generations(engine, list);

    for (size_t i = 0; i < count; i++)
        tell_generation(list[i], name, payload);
    engine_generations_release(list, count);
}

struct names {
    const char *list[NAMES_MAX];
    size_t count;
};

static int add_name(struct names *names, const char *name)
{
    for (size_t i = 0; i < names->count; i++)
        if (!strcmp(names->list[i], name))
            return 0;
    if (names->count == NAMES_MAX)
        return -1;
    names->list[names->count++] = name;
    return 0;
}

static int add_names(struct names *names, const struct generation *generation)
{
    for (size_t i = 0; i < generation->module_count; i++) {
        const struct bb_table *table = &generation->modules[i].descriptor->channels;

        for (size_t j = 0; j < table->count; j++)
            if (add_name(names, MODULE_ROWS(bb_channel, *table)[j].name))
                return -1;
    }
    return 0;
}

/* LISTEN for all channels in one text. Names come from the modules' tables, not from outside. */
static char *listen_text(PGconn *pg, const struct names *names)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    if (!out)
        return NULL;
    fputs("SELECT 1", out);
    for (size_t i = 0; i < names->count; i++) {
        char *name = PQescapeIdentifier(pg, names->list[i], strlen(names->list[i]));

        fprintf(out, "; LISTEN %s", name ? name : "\"\"");
        PQfreemem(name);
    }
    if (!fclose(out))
        return text;
    free(text);
    return NULL;
}

int pg_listener_send_listen(struct engine *engine, PGconn *pg)
{
    struct generation *list[GENERATIONS_MAX];
    struct names names = {.count = 0};
    size_t count = engine_generations(engine, list);
    char *text = NULL;
    int failed = 0;

    for (size_t i = 0; i < count && !failed; i++)
        failed = add_names(&names, list[i]);
    if (!failed)
        text = listen_text(pg, &names);
    failed = !text || !PQsendQuery(pg, text);
    free(text);
    engine_generations_release(list, count);
    return failed ? -1 : 0;
}
