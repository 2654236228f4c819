#include "core/module/generation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/lib/json.h"
#include "core/lib/log.h"
#include "core/lib/meter.h"
#include "core/lib/thread.h"
#include "core/module/reply.h"

/* Returns "MODULE.METRIC", then a line for each label value, from malloc(). NULL: out of memory. */
static char *generation_meter_name(const char *module, const struct bb_metric *metric)
{
    char *name = NULL;
    size_t size;
    FILE *out = open_memstream(&name, &size);

    if (!out)
        return NULL;
    fprintf(out, "%s.%s", module, metric->name);
    for (const char *const *value = metric->values; value && *value; value++)
        fprintf(out, "\n%s", *value);
    bool failed = ferror(out);
    if (!fclose(out) && !failed)
        return name;
    free(name);
    return NULL;
}

int meters_bind(struct core_module *module, struct arena *arena)
{
    const struct bb_table *table = &module->descriptor->metrics;
    const struct bb_metric *rows = MODULE_ROWS(bb_metric, *table);

    module->handle.meters = arena_alloc(arena, (table->count + 1) * sizeof(struct meter *));
    module->handle.account = account_named(module->descriptor->name);
    if (!module->handle.meters || !module->handle.account)
        return -1;
    for (size_t i = 0; i < table->count; i++) {
        size_t values = 0;

        if (rows[i].read)
            continue;
        while (rows[i].values && rows[i].values[values])
            values++;
        module->handle.meters[i] = meter_named(
            generation_meter_name(module->descriptor->name, &rows[i]), values ? values : 1);
        if (!module->handle.meters[i])
            return -1;
    }
    return 0;
}

struct generation *generation_check(const char *conf_path, unsigned number,
                                    struct setting_problems *problems)
{
    struct generation *g = calloc(1, sizeof *g);

    if (g)
        g->arena = arena_new();
    if (!g || !g->arena) {
        setting_problem(problems, "out of memory");
        free(g);
        return NULL;
    }
    atomic_init(&g->holders, 1);
    g->number = number;
    if (!generation_load(g, conf_path, problems))
        return g;
    generation_destroy(g);
    return NULL;
}

int generation_open(struct generation *g, const struct bb_api *api,
                    struct setting_problems *problems)
{
    g->api = api;
    for (size_t i = 0; i < g->module_count; i++) {
        struct core_module *module = &g->modules[i];
        const struct bb_module *descriptor = module->descriptor;
        struct host_handle *handle = &module->handle;
        size_t size = descriptor->settings_size;
        void *bound = size ? arena_alloc(g->arena, size) : NULL;
        struct lifecycle_call call;
        int failed = 0;

        handle->host.api = g->api;
        handle->bound = bound;
        if (bound)
            section_store(handle->settings, bound);
        if (meters_bind(module, g->arena) || (size && !bound)) {
            setting_problem(problems, "module %s: out of memory", descriptor->name);
            return -1;
        }
        handle->opening = true;
        lifecycle_call_begin(&call, descriptor->name, "open");
        if (descriptor->open)
            failed = descriptor->open(&handle->host, &handle->host.state);
        lifecycle_call_end(&call);
        handle->opening = false;
        module->opened = !failed;
        if (failed)
            setting_problem(problems, "module %s: %s", descriptor->name,
                            handle->open_problem
                                ? handle->open_problem
                                : "cannot be opened: its open function gave no reason");
        else if (handle->broken)
            setting_problem(problems, "module %s: reads a setting that it does not declare",
                            descriptor->name);
        if (failed || handle->broken)
            return -1;
    }
    return 0;
}

/* Calls `start`, `quiesce` or `close`, unless it is NULL. */
static void generation_call(struct core_module *module, const char *name,
                            void (*function)(struct bb_host *, void *))
{
    struct lifecycle_call call;

    if (!function)
        return;
    lifecycle_call_begin(&call, module->descriptor->name, name);
    function(&module->handle.host, module->handle.host.state);
    lifecycle_call_end(&call);
}

void generation_start(struct generation *g)
{
    for (size_t i = 0; i < g->module_count; i++) {
        struct host_handle *handle = &g->modules[i].handle;

        for (int k = 0; k < ACCOUNT_LIMITS; k++) /* a changed limit begins with nothing used */
            if (atomic_exchange(&handle->account->limits[k], handle->limits[k]) !=
                handle->limits[k])
                atomic_store(&handle->account->until_us[k], 0);
        generation_call(&g->modules[i], "start", g->modules[i].descriptor->start);
        g->modules[i].started = true;
    }
}

void generation_quiesce(struct generation *g)
{
    for (size_t i = g->module_count; i-- > 0;) {
        struct core_module *module = &g->modules[i];

        generation_call(module, "quiesce", module->started ? module->descriptor->quiesce : NULL);
        module->started = false;
    }
}

void generation_acquire(struct generation *g)
{
    atomic_fetch_add_explicit(&g->holders, 1, memory_order_relaxed);
}

bool generation_try_acquire(struct generation *g)
{
    size_t holders = atomic_load(&g->holders);

    while (holders && !atomic_compare_exchange_weak(&g->holders, &holders, holders + 1))
        ;
    return holders != 0;
}

/* With acq_rel, the thread that destroys the generation sees all writes of its other users. */
void generation_release(struct generation *g)
{
    if (atomic_fetch_sub_explicit(&g->holders, 1, memory_order_acq_rel) != 1)
        return;
    if (g->released)
        g->released(g);
    else
        generation_destroy(g);
}

void generation_destroy(struct generation *g)
{
    if (!g)
        return;
    generation_quiesce(g);
    g->engine = NULL; /* makes bb_run() fail in `close` */
    for (size_t i = g->module_count; i-- > 0;) {
        struct core_module *module = &g->modules[i];

        generation_call(module, "close", module->opened ? module->descriptor->close : NULL);
        free(module->handle.open_problem);
    }
    arena_free(g->arena);
    free(g);
}

const struct core_module *generation_module(const struct generation *g, const char *name)
{
    for (size_t i = 0; i < g->module_count; i++)
        if (!strcmp(g->modules[i].descriptor->name, name))
            return &g->modules[i];
    return NULL;
}

const struct core_event *generation_event(const struct generation *g, const char *name)
{
    for (size_t i = 0; i < g->event_count; i++)
        if (!strcmp(g->events[i].descriptor->name, name))
            return &g->events[i];
    return NULL;
}

/* ---- the functions of struct bb_api that need only a generation ---- */

/* Refuses calls outside of `open`, because the arena has no lock. */
void *api_host_alloc(struct bb_host *host, size_t size)
{
    struct host_handle *handle = handle_of(host);

    return handle->opening ? arena_alloc(handle->generation->arena, size) : NULL;
}

static const struct setting_value generation_no_setting;

/* Returns a setting that the module declares with this type. For any other setting, logs an error
 * and returns an empty setting; if this happens in `open`, the module fails to open. */
static const struct setting_value *generation_setting(struct bb_host *host, const char *name,
                                                      char as)
{
    struct host_handle *handle = handle_of(host);
    const struct setting_value *value = section_value(handle->settings, name, as);

    if (value)
        return value;
    const struct core_request *rq = request_running();
    char route[MODULE_ERROR_PLACE];
    const struct log_pair pairs[] = {
        {"module", host->module->name},
        {"setting", name},
        rq ? module_error_place(rq, route) : (struct log_pair){"route", NULL},
        {"request", rq ? rq->id : NULL},
    };

    log_pairs(BB_ERROR, "module read a setting that it does not declare with this type", pairs,
              sizeof pairs / sizeof *pairs);
    handle->broken = handle->broken || handle->opening;
    return &generation_no_setting;
}

const char *api_setting_text(struct bb_host *host, const char *name)
{
    const struct setting_value *value = generation_setting(host, name, 't');

    return value == &generation_no_setting ? "" : json_string_value(value->json);
}

const char *generation_directory(struct bb_host *host, const char *name)
{
    const struct generation *g = handle_of(host)->generation;
    const char *dot = strchr(name, '.');

    for (size_t i = 0; dot && i < g->module_count; i++) {
        const char *module = g->modules[i].descriptor->name;

        if (strlen(module) == (size_t)(dot - name) && !strncmp(module, name, strlen(module)))
            return api_setting_text(&g->modules[i].handle.host, dot + 1);
    }
    return dot ? NULL : api_setting_text(host, name);
}

int64_t api_setting_int(struct bb_host *host, const char *name)
{
    return setting_integer(generation_setting(host, name, 'i'));
}

double api_setting_number(struct bb_host *host, const char *name)
{
    return json_number_value(generation_setting(host, name, 'n')->json);
}

json_t *api_setting_json(struct bb_host *host, const char *name)
{
    return generation_setting(host, name, 'j')->json;
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

/* Returns the version in the row whose service is `name` followed by `more`; 0: there is none. */
static unsigned generation_needs(const struct bb_table *table, const char *name, const char *more)
{
    size_t length = strlen(name);

    MODULE_EACH (bb_need, need, *table)
        if (!strncmp(need->service, name, length) && !strcmp(need->service + length, more))
            return need->version;
    return 0;
}

/* During `open`, finds only services in `needs`: other providers may not be open yet. */
struct bb_service api_service(struct bb_host *host, const char *name)
{
    const struct host_handle *handle = handle_of(host);
    const struct generation *g = handle->generation;
    const struct bb_module *descriptor = handle->module->descriptor;
    unsigned version = generation_needs(&descriptor->needs, name, "");
    const struct bb_service_descriptor *given;

    if (!version && !handle->opening)
        version = generation_needs(&descriptor->wants, name, "");
    const struct core_module *giver =
        version ? service_provider(g->modules, g->module_count, name, version, &given) : NULL;

    if (!giver)
        return (struct bb_service){NULL, NULL};
    return (struct bb_service){given->interface, giver->handle.host.state};
}

bool api_service_at(struct bb_host *host, const char *kind, size_t index, struct bb_given *given)
{
    const struct host_handle *handle = handle_of(host);
    const struct generation *g = handle->generation;
    unsigned version = generation_needs(&handle->module->descriptor->wants, kind, "*");
    size_t length = strlen(kind);

    for (size_t i = 0; i < g->module_count && version; i++) {
        MODULE_EACH (bb_service_descriptor, found, g->modules[i].descriptor->services) {
            if (strncmp(found->name, kind, length) != 0 || found->version < version || index--)
                continue;
            if (handle->opening)
                return true;
            /* the caller's struct may be smaller or larger than the host's */
            size_t size = given->size;
            const struct bb_given all = {size, found->name, found->version, found->interface,
                                         &g->modules[i].handle.host};

            memcpy(given, &all, size < sizeof all ? size : sizeof all);
            return true;
        }
    }
    return handle->opening && version && g->left_out_count && !index;
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
        json_note_oom();
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

void api_metric_add(struct bb_host *host, size_t metric, size_t value, uint64_t by)
{
    const struct host_handle *handle = handle_of(host);
    struct meter *meter =
        metric < handle->module->descriptor->metrics.count ? handle->meters[metric] : NULL;

    if (meter)
        meter_add(meter, value, by);
}
