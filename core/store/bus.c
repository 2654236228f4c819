/* The event bus: events raised in transactions, and the hooks on them. */
#include <stdatomic.h>
#include <string.h>

#include "core/lib/log.h"
#include "core/lib/text.h"
#include "core/module/reply.h"
#include "core/store/sql.h"

/* Hooks within a transaction may raise events, on the same stack. DEPTH_MAX limits the nesting. */
enum { HOOKS_MAX = 4096, HOOK_DEADLINE_MS = 30000, DEPTH_MAX = 8 };

/* Copies the publisher's audience, which may be on the stack. NULL: out of memory. */
static const struct bb_audience *bus_audience_copy(struct arena *arena,
                                                   const struct bb_audience *from)
{
    struct bb_audience *copy = arena_alloc(arena, sizeof *copy);
    size_t count = 0;

    while (from && from->emails && from->emails[count])
        count++;
    const char **emails = arena_alloc(arena, (count + 1) * sizeof(char *));
    if (!copy || !emails)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        emails[i] = arena_text(arena, from->emails[i], strlen(from->emails[i]));
        if (!emails[i])
            return NULL;
    }
    *copy = (struct bb_audience){
        .size = sizeof *copy, .organization = from ? from->organization : 0, .emails = emails};
    return copy;
}

int api_emit(struct bb_tx *tx, const char *name, json_t *payload,
             const struct bb_audience *audience)
{
    struct core_request *rq = request_running();

    if (!tx_usable(rq, tx, "bb_emit()")) {
        json_decref(payload);
        return -1;
    }
    const struct core_event *event = generation_event(rq->generation, name);

    if (!payload) {
        module_error_no_json(rq, 500);
        return request_fail(rq, FAILED_ANSWERED);
    }
    const char *wrong = NULL;

    if (!event || &event->module->handle.host != rq->pub.host)
        wrong = "module raised an event that it does not declare";
    else if (audience && audience->size < sizeof *audience)
        wrong = "module raised an event with an audience without its size";
    else if (rq->hook_depth >= DEPTH_MAX)
        wrong = "hooks raised events in a circle";
    if (wrong) {
        json_decref(payload);
        module_error(rq, wrong, name);
        return -1;
    }
    const struct bb_audience *kept = bus_audience_copy(rq->arena, audience);
    struct raised *raised = arena_alloc(rq->arena, sizeof *raised);
    char *id = arena_alloc(rq->arena, TEXT_UUID_SIZE);

    if (!raised || !id || !kept) {
        json_decref(payload);
        request_out_of_memory(rq);
    }
    text_uuid7(id);
    account_add(event->module->handle.account, ACCOUNT_EVENTS, 1);
    raised->event = event;
    raised->payload = payload;
    raised->descriptor = (struct bb_event){.size = sizeof raised->descriptor,
                                           .name = event->descriptor->name,
                                           .id = id,
                                           .wall_ms = shared_clock_ms(),
                                           .payload = payload,
                                           .audience = kept};
    *tx->raised_end = raised;
    tx->raised_end = &raised->next;
    struct bb_host *publisher = rq->pub.host;
    const char *outer = rq->hooked;
    bool vetoed = false;

    /* runs the hooks on behalf of their modules, on the publisher's fiber */
    rq->hook_depth++;
    rq->hooked = raised->descriptor.name;
    for (size_t i = 0; i < event->within_count && !vetoed; i++) {
        const struct core_hook *hook = &event->within[i];

        request_enter(rq, &hook->host->host);
        vetoed = hook->hook->within(&rq->pub, tx, &raised->descriptor, rq->pub.state) ||
                 rq->within_failed;
    }
    rq->hook_depth--;
    rq->hooked = outer;
    request_enter(rq, publisher);
    if (vetoed && rq->response.status)
        request_fail(rq, FAILED_ANSWERED);
    return vetoed ? -1 : 0;
}

/* The request of a committed hook; has a reference to the payload. */
struct hook_run {
    struct core_request rq; /* first, because bus_hook_entry() casts it to struct hook_run */
    const struct core_hook *hook;
    struct bb_event event;
    json_t *payload;
};

static atomic_uint_fast64_t hooks_lost;

uint64_t bus_hooks_lost(void)
{
    return atomic_load(&hooks_lost);
}

static void bus_hook_lost(const struct raised *raised)
{
    atomic_fetch_add(&hooks_lost, 1);
    log_line(BB_ERROR, "committed hook dropped", "event", raised->descriptor.name, NULL);
}

static void bus_hook_entry(struct core_request *rq)
{
    struct hook_run *run = (struct hook_run *)(void *)rq;

    run->hook->hook->committed(&rq->pub, &run->event);
}

static void bus_hook_ended(struct core_request *rq)
{
    struct hook_run *run = (struct hook_run *)(void *)rq;

    json_decref(run->payload);
    request_free(rq);
}

static void bus_hook_schedule(struct core_request *publisher, const struct core_hook *hook,
                              const struct raised *raised)
{
    struct loop *loop = publisher->loop;
    struct hook_run *run = NULL;

    if (loop->requests < HOOKS_MAX)
        run = request_make(sizeof *run, REQUEST_HOOK, loop, publisher->generation);
    if (!run) {
        bus_hook_lost(raised);
        return;
    }
    struct core_request *rq = &run->rq;

    run->hook = hook;
    run->payload = json_incref(raised->payload);
    run->event = raised->descriptor;
    run->event.id = arena_text(rq->arena, raised->descriptor.id, strlen(raised->descriptor.id));
    run->event.audience = bus_audience_copy(rq->arena, raised->descriptor.audience);
    rq->owner = publisher->owner;
    rq->name = run->event.name;
    memcpy(rq->trace, request_trace(publisher), sizeof rq->trace);
    rq->entry = bus_hook_entry;
    rq->ended = bus_hook_ended;
    rq->deadline_ms = rq->loop->now_ms + HOOK_DEADLINE_MS;
    request_enter(rq, &hook->host->host);
    if (run->event.id && run->event.audience) {
        request_schedule(rq);
        return;
    }
    bus_hook_lost(raised);
    bus_hook_ended(rq);
}

void bus_committed(struct bb_tx *tx)
{
    for (const struct raised *at = tx->raised; at; at = at->next) {
        for (size_t i = 0; i < at->event->committed_count; i++)
            bus_hook_schedule(tx->rq, &at->event->committed[i], at);
    }
}
