#include "core/main/crashes.h"

#include "core/lib/json_out.h"
#include "core/lib/supervised.h"
#include "core/main/metrics.h"

static const char *name_of(const struct crash_row *row)
{
    return *row->module ? row->module : "unknown";
}

void crashes_print(FILE *out, const struct generation *g)
{
    const struct crash_history *history = supervised_history();

    if (history->restarts)
        fprintf(out, "the worker was restarted %u times; the last exit: %s%s%s%s%s\n",
                history->restarts, history->last.how, *history->last.module ? ", module " : "",
                history->last.module, *history->last.report ? ", report " : "",
                history->last.report);
    for (size_t i = 0; i < history->row_count; i++)
        fprintf(out, "  crashes of module %s: %u\n", name_of(&history->rows[i]),
                history->rows[i].count);
    for (size_t i = 0; i < g->left_out_count; i++)
        fprintf(out, "DISABLED: module %s, until the next reload: %s\n", g->left_out[i].name,
                g->left_out[i].why);
}

/* Unknown values become null. */
static json_t *known_json(const char *text)
{
    return *text ? json_out_text(text) : json_null();
}

static json_t *last_json(const struct crash_note *last)
{
    if (!*last->how)
        return json_null();
    return json_pack("{so so so}", "how", json_out_text(last->how), "module",
                     known_json(last->module), "report", known_json(last->report));
}

json_t *crashes_json(const struct generation *g)
{
    const struct crash_history *history = supervised_history();
    json_t *modules = json_array(), *left_out = json_array();

    for (size_t i = 0; i < history->row_count; i++)
        json_array_append_new(modules, json_pack("{so si}", "name",
                                                 json_out_text(name_of(&history->rows[i])), "count",
                                                 (int)history->rows[i].count));
    for (size_t i = 0; i < g->left_out_count; i++)
        json_array_append_new(left_out,
                              json_pack("{so so}", "name", json_out_text(g->left_out[i].name),
                                        "why", json_out_text(g->left_out[i].why)));
    return json_pack("{si so so so}", "restarts", (int)history->restarts, "last",
                     last_json(&history->last), "modules", modules, "leftOut", left_out);
}

void metrics_crashes(struct metrics *metrics)
{
    const struct crash_history *history = supervised_history();

    for (size_t i = 0; i < history->row_count; i++)
        metric_labelled(metrics, "module", name_of(&history->rows[i]), history->rows[i].count);
}

void metrics_restarts(struct metrics *metrics)
{
    metric_number(metrics, supervised_history()->restarts);
}

void metrics_left_out(struct metrics *metrics)
{
    const struct generation *g = metrics->rq->generation;

    for (size_t i = 0; i < g->left_out_count; i++)
        metric_labelled(metrics, "module", g->left_out[i].name, 1);
}

void metrics_stalls(struct metrics *metrics)
{
    metric_number(metrics, (double)atomic_load(&metrics->engine->stalls));
}
