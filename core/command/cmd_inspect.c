/* `busbar inspect` and `busbar modcheck`: tools for modules' files, which do not load them. */
#include <stdio.h>
#include <string.h>

#include "core/command/cli.h"
#include "core/inspect/inspect.h"
#include "core/inspect/modcheck.h"
#include "core/module/elf_image.h"

static int complain(const char *path, const char *why)
{
    fprintf(stderr, "busbar: inspect: %s: %s\n", path, why);
    return CLI_FAILED;
}

/* Returns the descriptor as JSON, with data that only the file contains. */
static json_t *descriptor_json(struct arena *arena, const struct elf_file *file,
                               const struct elf_image *image, char *why, size_t why_size)
{
    size_t size = 0;
    const struct bb_module *descriptor = elf_image_find(image, file, BB_MODULE_SYMBOL, &size);
    char id[129];

    snprintf(why, why_size, "is no busbar module: it exports no data " BB_MODULE_SYMBOL);
    if (descriptor)
        descriptor = module_descriptor_copy(arena, descriptor, size, why, why_size);
    if (!descriptor)
        return NULL;
    json_t *json = inspect_json(descriptor);

    snprintf(why, why_size, "has texts that are no UTF-8");
    if (json && elf_file_build_id(file, id, sizeof id))
        json_object_set_new(json, "buildId", json_string(id));
    return json;
}

/* Returns 0, or -1 if out of memory. */
static int print(json_t *json, bool as_json)
{
    if (!as_json && inspect_sanitize(json))
        return -1;
    if (!as_json) {
        inspect_print(json, stdout);
        return 0;
    }
    json_dumpf(json, stdout, JSON_INDENT(2));
    putchar('\n');
    return 0;
}

static int show(const char *path, const struct elf_file *file, bool as_json)
{
    struct arena *arena = arena_new();
    struct elf_image image = {0};
    char why[512] = "finds no memory";
    json_t *json = NULL;

    if (arena && !elf_image_make(&image, file, why, sizeof why))
        json = descriptor_json(arena, file, &image, why, sizeof why);
    int status = CLI_DONE;

    if (!json)
        status = complain(path, why);
    else if (print(json, as_json))
        status = complain(path, "finds no memory");
    json_decref(json);
    elf_image_free(&image);
    arena_free(arena);
    return status;
}

int cmd_inspect(const struct cli *cli)
{
    bool as_json = false;
    const char *path = NULL;
    struct elf_file file;
    char why[512];

    for (int i = 0; i < cli->argc; i++) {
        if (!strcmp(cli->argv[i], "--json"))
            as_json = true;
        else if (cli->argv[i][0] != '-' && !path)
            path = cli->argv[i];
        else
            return cli_misused("inspect does not take", cli->argv[i]);
    }
    if (!path)
        return cli_misused("inspect wants", "a file");
    cli_guard_files();
    if (elf_file_open(&file, path, why, sizeof why))
        return complain(path, why);
    int status = show(path, &file, as_json);

    elf_file_close(&file);
    return status;
}

int cmd_modcheck(const struct cli *cli)
{
    struct setting_problems findings = {0};
    size_t before = 0;

    if (!cli->argc)
        return cli_misused("modcheck wants", "files");
    cli_guard_files();
    for (int i = 0; i < cli->argc; i++) {
        modcheck(cli->argv[i], &findings);
        if (findings.count == before)
            printf("%s: ok\n", cli->argv[i]);
        before = findings.count;
    }
    setting_problems_print(&findings, stdout);
    setting_problems_free(&findings);
    return before ? CLI_FAILED : CLI_DONE;
}
