/* `busbar settings`: the reference of all settings, generated from the tables that check them. */
#include <inttypes.h>
#include <stdio.h>

#include "core/lib/host_settings.h"
#include "core/main/cli.h"

static const char *type_text(const struct bb_field *field)
{
    static const char *const texts[] = {
        [BB_TEXT] = "text",      [BB_EMAIL] = "e-mail address",
        [BB_UUID] = "UUID",      [BB_INT] = "integer",
        [BB_NUMBER] = "number",  [BB_BOOL] = "true or false",
        [BB_TIME] = "time",      [BB_CHOICE] = "choice",
        [BB_OBJECT] = "mapping", [BB_LIST] = "list",
        [BB_ANY] = "any",
    };

    return texts[field->type];
}

static void print_bounds(const struct bb_field *field)
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

/* A bar would end the cell. */
static void print_cell(const char *text)
{
    for (; *text; text++) {
        if (*text == '|')
            putchar('\\');
        putchar(*text);
    }
}

static void print_field(const struct bb_field *field)
{
    const char *unit = setting_unit(field);

    if (unit)
        printf("| `%s` | time, %s | ", field->name, unit);
    else
        printf("| `%s` | %s | ", field->name, type_text(field));
    if (field->fallback)
        printf("`%s`", *field->fallback ? field->fallback : "\"\"");
    else if (field->flags & BB_REQUIRED)
        printf("required");
    printf(" | ");
    print_bounds(field);
    printf(" | ");
    print_cell(field->help ? field->help : "");
    if (field->flags & BB_RESTART)
        printf(" Changed by a restart only.");
    if (field->example) {
        printf(" Example: `");
        print_cell(field->example);
        putchar('`');
    }
    puts(" |");
}

static void print_section(const char *title, const char *help, const struct bb_table *fields)
{
    printf("## %s\n\n", title);
    if (help)
        printf("%s\n\n", help);
    if (!fields->count) {
        puts("No settings.\n");
        return;
    }
    puts("| Setting | Type | Default | Bounds | Meaning |\n|---|---|---|---|---|");
    for (size_t i = 0; i < fields->count; i++)
        print_field(&MODULE_ROWS(bb_field, *fields)[i]);
    putchar('\n');
}

static void print_modules(const struct generation *g)
{
    for (size_t i = 0; i < g->module_count; i++) {
        const struct bb_module *descriptor = g->modules[i].descriptor;
        char title[128];

        snprintf(title, sizeof title, "%s: module %s %s", descriptor->name, descriptor->name,
                 descriptor->version);
        print_section(title, NULL, &descriptor->settings);
    }
}

/* Invalid values do not matter here, because only the tables are used. */
int cmd_settings(const struct cli *cli)
{
    struct setting_problems problems = {0};
    struct generation *g = generation_check(cli->conf, 0, &problems);

    for (size_t i = 0; i < host_section_count; i++)
        print_section(*host_sections[i].name ? host_sections[i].name : "Top of the file",
                      host_sections[i].help, &host_sections[i].fields);
    if (g) {
        print_modules(g);
        generation_destroy(g);
    }
    setting_problems_print(&problems, stderr);
    setting_problems_free(&problems);
    return CLI_DONE;
}
