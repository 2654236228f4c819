/* The functions of struct bb_api that need only a generation. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/lib/json_in.h"
#include "core/lib/log.h"
#include "core/module/generation.h"
#include "core/module/module_error.h"
#include "core/module/service_order.h"

/* The arena has no lock, so only the module may use it, and only while it is opened. */
void *api_host_alloc(struct bb_host *host, size_t size)
{
    struct host_handle *handle = handle_of(host);

    return handle->opening ? arena_alloc(handle->generation->arena, size) : NULL;
}

/* Whether the module has declared the setting. If not, `open` fails, or a later call is logged. */
static bool may_ask(struct bb_host *host, const char *name, char as)
{
    struct host_handle *handle = handle_of(host);

    if (section_has(handle->settings, name, as))
        return true;
    const struct core_request *rq = request_running();
    char route[MODULE_ERROR_PLACE];
    const struct log_pair pairs[] = {
        {"module", host->module->name},
        {"setting", name},
        rq ? module_error_place(rq, route) : (struct log_pair){"route", NULL},
        {"request", rq ? rq->id : NULL},
    };

    log_pairs(BB_ERROR, "a module reads a setting that it does not declare with this type", pairs,
              sizeof pairs / sizeof *pairs);
    handle->broken = handle->broken || handle->opening;
    return false;
}

const char *api_setting_text(struct bb_host *host, const char *name)
{
    return may_ask(host, name, 't') ? section_text(handle_of(host)->settings, name) : "";
}

int64_t api_setting_int(struct bb_host *host, const char *name)
{
    return may_ask(host, name, 'i') ? section_int(handle_of(host)->settings, name) : 0;
}

double api_setting_number(struct bb_host *host, const char *name)
{
    return may_ask(host, name, 'n') ? section_number(handle_of(host)->settings, name) : 0;
}

json_t *api_setting_json(struct bb_host *host, const char *name)
{
    return may_ask(host, name, 'j') ? section_json(handle_of(host)->settings, name) : NULL;
}

const void *api_settings(struct bb_host *host)
{
    return handle_of(host)->bound;
}

int api_open_fail(struct bb_host *host, const char *format, va_list args)
{
    struct host_handle *handle = handle_of(host);

    free(handle->open_problem);
    if (vasprintf(&handle->open_problem, format, args) < 0)
        handle->open_problem = NULL;
    return -1;
}

/* Returns the version in which a table of needs names the service; 0: it does not. */
static unsigned version_needed(const struct bb_table *table, const char *name)
{
    const struct bb_need *needs = MODULE_ROWS(bb_need, *table);

    for (size_t i = 0; i < table->count; i++)
        if (!strcmp(needs[i].service, name))
            return needs[i].version;
    return 0;
}

/*
 * Only declared services: otherwise the provider might not be open yet, or might be removed in the
 * next version.
 */
struct bb_service api_service(struct bb_host *host, const char *name)
{
    const struct host_handle *handle = handle_of(host);
    const struct generation *g = handle->generation;
    const struct bb_module *descriptor = handle->module->descriptor;
    unsigned version = version_needed(&descriptor->needs, name);
    const struct bb_service_descriptor *given;

    if (!version && !handle->opening)
        version = version_needed(&descriptor->wants, name);
    const struct core_module *giver =
        version ? service_provider(g->modules, g->module_count, name, version, &given) : NULL;

    if (!giver)
        return (struct bb_service){NULL, NULL};
    return (struct bb_service){given->interface, giver->handle.host.state};
}

/*
 * Returns the version in which a table of needs names all services of a kind, as "kind*"; 0: it
 * does not.
 */
static unsigned kind_needed(const struct bb_table *table, const char *kind)
{
    const struct bb_need *needs = MODULE_ROWS(bb_need, *table);
    size_t length = strlen(kind);

    for (size_t i = 0; i < table->count; i++)
        if (!strncmp(needs[i].service, kind, length) && !strcmp(needs[i].service + length, "*"))
            return needs[i].version;
    return 0;
}

/* The caller's struct may be smaller or larger than the host's. */
static bool tell_given(struct core_module *module, const struct bb_service_descriptor *descriptor,
                       struct bb_given *given)
{
    size_t size = given->size;
    struct bb_given all = {size, descriptor->name, descriptor->version, descriptor->interface,
                           &module->handle.host};

    memcpy(given, &all, size < sizeof all ? size : sizeof all);
    return true;
}

bool api_service_at(struct bb_host *host, const char *kind, size_t index, struct bb_given *given)
{
    const struct host_handle *handle = handle_of(host);
    const struct generation *g = handle->generation;
    unsigned version = handle->opening ? 0 : kind_needed(&handle->module->descriptor->wants, kind);
    size_t length = strlen(kind);

    for (size_t i = 0; i < g->module_count && version; i++) {
        const struct bb_table *table = &g->modules[i].descriptor->services;
        const struct bb_service_descriptor *descriptors =
            MODULE_ROWS(bb_service_descriptor, *table);

        for (size_t k = 0; k < table->count; k++)
            if (!strncmp(descriptors[k].name, kind, length) && descriptors[k].version >= version &&
                !index--)
                return tell_given(&g->modules[i], &descriptors[k], given);
    }
    return false;
}

int api_seal(struct bb_host *host, const void *plain, size_t length, const char *purpose,
             unsigned char **sealed, size_t *sealed_length)
{
    return aead_close(handle_of(host)->generation->seal, plain, length, purpose, sealed,
                      sealed_length);
}

int api_unseal(struct bb_host *host, const void *sealed, size_t length, const char *purpose,
               unsigned char **plain, size_t *plain_length)
{
    int failed =
        aead_open(handle_of(host)->generation->seal, sealed, length, purpose, plain, plain_length);

    if (failed == -2)
        json_set_starved();
    return failed;
}

bool api_superseded(struct bb_host *host)
{
    return generation_superseded(handle_of(host)->generation);
}

const struct bb_module *api_module_at(struct bb_host *host, size_t index)
{
    const struct generation *g = handle_of(host)->generation;

    return index < g->module_count ? g->modules[index].descriptor : NULL;
}

size_t api_event_names(struct bb_host *host, const char *const **names)
{
    const struct generation *g = handle_of(host)->generation;

    *names = g->event_names;
    return g->event_count;
}
