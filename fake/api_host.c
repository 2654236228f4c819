/* The host's functions of host.h, for the fake. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "core/base/text.h"
#include "fake/api.h"

#define SEALED "sealed for "

void *fake_host_alloc(struct bb_host *host, size_t size)
{
    return fake_pool_alloc(&fake_of(host)->pool, size);
}

int fake_open_fail(struct bb_host *host, const char *format, va_list args)
{
    struct bb_fake *fake = fake_of(host);

    free(fake->open_problem);
    if (vasprintf(&fake->open_problem, format, args) < 0)
        fake_die("out of memory");
    return -1;
}

struct bb_service fake_service(struct bb_host *host, const char *name)
{
    const struct pair *pair = fake_pair_find(fake_of(host)->services, name, false);

    if (!pair && fake_table_find(&host->module->wants, name))
        return (struct bb_service){NULL, NULL};
    if (!pair)
        fake_die("the service %s is not given; bb_fake_give() does it", name);
    return (struct bb_service){.interface = pair->data, .state = pair->host.state};
}

/* Those that the test gave, whatever `wants` says, the last one first. */
bool fake_service_at(struct bb_host *host, const char *kind, size_t index, struct bb_given *given)
{
    size_t size = given->size, length = strlen(kind);

    for (struct pair *pair = fake_of(host)->services; pair; pair = pair->next) {
        struct bb_given all = {size, pair->name, 1, pair->data, &pair->host};

        if (strncmp(pair->name, kind, length) != 0 || index--)
            continue;
        memcpy(given, &all, size < sizeof all ? size : sizeof all);
        return true;
    }
    return false;
}

/* Outside of a run (in open, say) nobody reads it. */
void fake_host_log(struct bb_host *host, enum bb_level level, const char *format, va_list args)
{
    struct run *run = fake_of(host)->run;

    (void)level;
    if (!run)
        return;
    fake_text_append(&run->log, fake_pool_format(&run->pool, format, args));
    fake_text_append(&run->log, "\n");
}

int64_t fake_signals_fresh_ms(struct bb_host *host)
{
    (void)host;
    return 900;
}

int64_t fake_now_ms(void)
{
    return clock_mono_ms();
}

int64_t fake_wall_ms(void)
{
    return clock_wall_ms();
}

int fake_random_bytes(void *bytes, size_t length)
{
    return getrandom(bytes, length, 0) == (ssize_t)length ? 0 : -1;
}

/* Nothing is encrypted: the purpose and the plain bytes behind it. */
int fake_seal(struct bb_host *host, const void *plain, size_t length, const char *purpose,
              unsigned char **sealed, size_t *sealed_length)
{
    size_t head = strlen(SEALED) + strlen(purpose) + 1;

    (void)host;
    *sealed_length = head + length;
    *sealed = malloc(*sealed_length + 1);
    if (!*sealed)
        return -1;
    sprintf((char *)*sealed, SEALED "%s", purpose);
    memcpy(*sealed + head, plain, length);
    return 0;
}

int fake_unseal(struct bb_host *host, const void *sealed, size_t length, const char *purpose,
                unsigned char **plain, size_t *plain_length)
{
    const char *text = sealed;
    size_t head = strlen(SEALED) + strlen(purpose) + 1;

    (void)host;
    if (length < head || text[head - 1] || strncmp(text, SEALED, strlen(SEALED)) != 0 ||
        strcmp(text + strlen(SEALED), purpose) != 0)
        return -1;
    *plain_length = length - head;
    *plain = calloc(1, *plain_length + 1);
    if (!*plain)
        return -2;
    memcpy(*plain, text + head, *plain_length);
    return 0;
}

bool fake_stopping(struct bb_worker_context *context)
{
    (void)context;
    return true;
}

int64_t fake_leave_ms(struct bb_worker_context *context)
{
    (void)context;
    return 0;
}

bool fake_superseded(struct bb_host *host)
{
    (void)host;
    return false;
}

bool fake_drained(struct bb_worker_context *context)
{
    (void)context;
    return true;
}

void fake_wake(struct bb_host *host, const char *worker)
{
    (void)host;
    (void)worker;
}

/* At once, and within the run that goes on, if there is one. */
int fake_run_now(struct bb_host *host, void (*work)(struct bb_request *, void *), void *arg)
{
    struct run *run = fake_of(host)->run;

    if (!run)
        run = fake_run_begin(fake_of(host));
    work(&run->rq, arg);
    return 0;
}

int fake_run_then(struct bb_host *host, void (*work)(struct bb_request *, void *),
                  void (*then)(void *, bool), void *arg)
{
    fake_run_now(host, work, arg);
    then(arg, true);
    return 0;
}

void fake_completion_signal(struct bb_completion *completion)
{
    completion->open = true;
}

/* It is alone. */
const struct bb_module *fake_module_at(struct bb_host *host, size_t index)
{
    return index ? NULL : host->module;
}

size_t fake_event_names(struct bb_host *host, const char *const **names)
{
    const struct bb_table *events = &host->module->events;
    const char **list = fake_pool_alloc(&fake_of(host)->pool, (events->count + 1) * sizeof *list);

    for (size_t i = 0; i < events->count; i++)
        list[i] = ROW(bb_event_descriptor, *events, i)->name;
    *names = list;
    return events->count;
}

void fake_metric_add(struct bb_host *host, size_t metric, size_t value, uint64_t by)
{
    const struct bb_table *metrics = &host->module->metrics;

    if (metric >= metrics->count || metric >= FAKE_METRICS || value >= FAKE_METRICS)
        fake_die("the module has no metric %zu with a value %zu", metric, value);
    fake_of(host)->metrics[metric][value] += by;
}

uint64_t bb_fake_metric(const struct bb_fake *fake, size_t metric, size_t value)
{
    return metric < FAKE_METRICS && value < FAKE_METRICS ? fake->metrics[metric][value] : 0;
}
