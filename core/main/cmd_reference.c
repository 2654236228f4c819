/*
 * `busbar settings`, `busbar metrics` and `busbar problems` print references, generated from the
 * tables of the sources. scripts/make-docs puts them into docs/, and scripts/make-man makes manual
 * pages from them and from the public headers.
 */
#include <inttypes.h>
#include <stdio.h>

#include "core/lib/field.h"
#include "core/lib/host_settings.h"
#include "core/main/cli.h"
#include "core/main/metrics.h"
#include "core/module/module_validate.h"

static void cmd_reference_print_bounds(const struct bb_field *field)
{
    for (const char *const *choice = field->choices; choice && *choice; choice++)
        printf("%s`%s`", choice == field->choices ? "" : ", ", *choice);
    if (!field->min && !field->max)
        return;
    if (field->max < field->min)
        printf("from %" PRId64, field->min);
    else if (field->type == BB_INT || field->type == BB_NUMBER)
        printf("%" PRId64 " to %" PRId64, field->min, field->max);
    else
        printf("at most %" PRId64 " %s", field->max,
               field->type == BB_LIST ? "items" : "characters");
}

/* Escapes bars, because a bar would end the cell. */
static void cmd_reference_print_cell(const char *text)
{
    for (; *text; text++) {
        if (*text == '|')
            putchar('\\');
        putchar(*text);
    }
}

static void cmd_reference_print_section(const char *title, const char *help,
                                        const struct bb_table *fields)
{
    printf("## %s\n\n", title);
    if (help)
        printf("%s\n\n", help);
    if (!fields->count) {
        puts("No settings.\n");
        return;
    }
    puts("| Setting | Type | Default | Bounds | Meaning |\n|---|---|---|---|---|");
    MODULE_EACH (bb_field, field, *fields) {
        static const char *const types[] = {
            [BB_TEXT] = "text",      [BB_EMAIL] = "e-mail address",
            [BB_UUID] = "UUID",      [BB_INT] = "integer",
            [BB_NUMBER] = "number",  [BB_BOOL] = "true or false",
            [BB_TIME] = "time",      [BB_CHOICE] = "choice",
            [BB_OBJECT] = "mapping", [BB_LIST] = "list",
            [BB_ANY] = "any",
        };
        const char *unit = setting_unit(field);

        if (unit)
            printf("| `%s` | time, %s | ", field->name, unit);
        else
            printf("| `%s` | %s | ", field->name, types[field->type]);
        if (field->fallback)
            printf("`%s`", *field->fallback ? field->fallback : "\"\"");
        else if (field->flags & BB_REQUIRED)
            printf("required");
        printf(" | ");
        cmd_reference_print_bounds(field);
        printf(" | ");
        cmd_reference_print_cell(field->help ? field->help : "");
        if (field->flags & BB_RESTART)
            printf(" A change takes effect only after a restart.");
        if (field->example) {
            printf(" Example: `");
            cmd_reference_print_cell(field->example);
            putchar('`');
        }
        puts(" |");
    }
    putchar('\n');
}

static void cmd_reference_print_head(const char *title)
{
    printf("## %s\n\n| Metric | Type | Labels | Meaning |\n|---|---|---|---|\n", title);
}

/* Loads the modules for their tables. Prints problems of the settings, but ignores them. */
static struct generation *cmd_reference_load(const struct cli *cli)
{
    struct setting_problems problems = {0};
    struct generation *g = generation_check(cli->conf, 0, &problems);

    setting_problems_print(&problems, stderr);
    setting_problems_free(&problems);
    return g;
}

int cmd_settings(const struct cli *cli)
{
    struct generation *g = cmd_reference_load(cli);
    char title[128];

    for (size_t i = 0; i < host_section_count; i++)
        cmd_reference_print_section(*host_sections[i].name ? host_sections[i].name
                                                           : "Top of the file",
                                    host_sections[i].help, &host_sections[i].fields);
    for (size_t i = 0; g && i < g->module_count; i++) {
        const struct bb_module *module = g->modules[i].descriptor;

        snprintf(title, sizeof title, "%s: module %s %s", module->name, module->name,
                 module->version);
        cmd_reference_print_section(title, NULL, &module->settings);
    }
    generation_destroy(g);
    return CLI_DONE;
}

int cmd_metrics(const struct cli *cli)
{
    struct generation *g = cmd_reference_load(cli);
    char title[128];

    cmd_reference_print_head("The host");
    for (size_t i = 0; i < host_metric_count; i++)
        printf("| `%s` | %s | %s | %s |\n", host_metrics[i].name, host_metrics[i].type,
               host_metrics[i].labels ? host_metrics[i].labels : "", host_metrics[i].help);
    putchar('\n');
    for (size_t i = 0; g && i < g->module_count; i++) {
        const struct bb_module *module = g->modules[i].descriptor;

        if (!module->metrics.count)
            continue;
        snprintf(title, sizeof title, "Module %s %s", module->name, module->version);
        cmd_reference_print_head(title);
        MODULE_EACH (bb_metric, metric, module->metrics) {
            char name[METRIC_NAME_MAX];

            metric_full_name(module, metric, name);
            printf("| `%s` | %s | ", name, metric->kind == BB_COUNTER ? "counter" : "gauge");
            if (metric->label)
                printf("%s: ", metric->label);
            for (size_t j = 0; metric->label && metric->values[j]; j++)
                printf("%s`%s`", j ? ", " : "", metric->values[j]);
            printf(" | %s |\n", metric->help);
        }
        putchar('\n');
    }
    generation_destroy(g);
    return CLI_DONE;
}

int cmd_problems(const struct cli *cli)
{
    (void)cli;
    puts("| Code | Text | Parameter |\n|---|---|---|");
    for (const struct problem_row *row = problem_rows + 1; row->code; row++) {
        const char *at = strchr(row->text, '{');

        printf("| `%s` | %s |", row->code, row->text);
        for (const char *comma = " "; at; comma = ", ", at = strchr(at + 1, '{'))
            printf("%s`%.*s`", comma, (int)strcspn(at + 1, "}"), at + 1);
        puts(" |");
    }
    return CLI_DONE;
}
