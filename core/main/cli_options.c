/* Parses options of modules' commands by their tables of fields. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "core/lib/field.h"
#include "core/main/cli.h"

#define NAME_SIZE 64
#define SECRET_MAX 4096 /* bytes */

struct reader {
    const struct bb_table *fields;
    struct arena *arena;
    const char **texts; /* one for each field; NULL: not given */
};

void cli_option_name(const char *field, char *out, size_t size)
{
    size_t used = 0;

    for (; *field && used + 2 < size; field++) {
        if (isupper((unsigned char)*field) && used)
            out[used++] = '-';
        out[used++] = (char)tolower((unsigned char)*field);
        if (*field == '_')
            out[used - 1] = '-';
    }
    out[used] = '\0';
}

/* Returns the field for `--name` or `--name=value`; *value is the text after the =, or NULL. */
static const struct bb_field *cli_find_option(const struct bb_table *fields, const char *arg,
                                              const char **value)
{
    const struct bb_field *rows = MODULE_ROWS(bb_field, *fields);
    size_t length = strcspn(arg, "=");
    char name[NAME_SIZE];

    *value = arg[length] ? arg + length + 1 : NULL;
    if (strncmp(arg, "--", 2) != 0)
        return NULL;
    for (size_t i = 0; i < fields->count; i++) {
        cli_option_name(rows[i].name, name, sizeof name);
        if (strlen(name) == length - 2 && !strncmp(name, arg + 2, length - 2))
            return &rows[i];
    }
    return NULL;
}

static int cli_complain(const char *option, const char *reason)
{
    fprintf(stderr, "busbar: %s: %s\n", option, reason);
    return -1;
}

const struct bb_field *cli_word(const struct bb_table *fields)
{
    const struct bb_field *rows = MODULE_ROWS(bb_field, *fields);

    for (size_t i = 0; i < fields->count; i++)
        if ((rows[i].flags & (BB_REQUIRED | BB_SECRET)) == BB_REQUIRED)
            return &rows[i];
    return NULL;
}

/* Parses the option at argv[*at], and its value if that is a separate word. */
static int cli_take_option(struct reader *reader, int argc, char **argv, int *at)
{
    const char *arg = argv[*at], *value;
    const struct bb_field *field = cli_find_option(reader->fields, arg, &value);

    if (!field && (arg[0] != '-' || !arg[1])) {
        field = cli_word(reader->fields);
        value = arg;
    }
    if (!field)
        return cli_complain(arg, "unknown option");
    size_t index = (size_t)(field - MODULE_ROWS(bb_field, *reader->fields));

    if (field->flags & BB_SECRET)
        return cli_complain(argv[*at], "is secret and cannot be given on the command line, because "
                                       "other users can see it; see --help");
    if (reader->texts[index])
        return cli_complain(arg, "is given twice");
    if (!value && field->type == BB_BOOL)
        value = "true";
    if (!value && *at + 1 < argc)
        value = argv[++*at];
    if (!value)
        return cli_complain(arg, "needs a value");
    reader->texts[index] = value;
    return 0;
}

void cli_variable_name(const char *field, char *out, size_t size)
{
    char option[64];

    cli_option_name(field, option, sizeof option);
    snprintf(out, size, "BUSBAR_%s", option);
    for (; *out; out++) {
        *out = (char)toupper((unsigned char)*out);
        if (*out == '-')
            *out = '_';
    }
}

/* Secret options are never in argv, which every user of the machine can read. */
static const char *cli_secret_of(const struct bb_field *field, struct arena *arena)
{
    struct termios kept, quiet;
    char option[64], variable[80], line[SECRET_MAX];

    cli_option_name(field->name, option, sizeof option);
    cli_variable_name(field->name, variable, sizeof variable);
    const char *value = getenv(variable);

    if (value || !(field->flags & BB_REQUIRED))
        return value;
    bool terminal = isatty(STDIN_FILENO);
    bool hidden = terminal && !tcgetattr(STDIN_FILENO, &kept);

    if (hidden) { /* no echo while the user types */
        quiet = kept;
        quiet.c_lflag &= ~(tcflag_t)ECHO;
        hidden = !tcsetattr(STDIN_FILENO, TCSAFLUSH, &quiet);
    }
    if (terminal)
        fprintf(stderr, "%s: ", option);
    bool got = fgets(line, sizeof line, stdin);

    if (hidden) {
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &kept);
        fputc('\n', stderr);
    }
    const char *text = got ? arena_text(arena, line, strcspn(line, "\r\n")) : NULL;

    explicit_bzero(line, sizeof line);
    return text;
}

/* Checks one option and sets it in `object`. Returns 0, or -1 after a message. */
static int cli_set_option(struct reader *reader, const struct bb_field *field, const char *text,
                          json_t *object)
{
    struct problems found = {.arena = reader->arena};
    char option[NAME_SIZE + 2] = "--";

    cli_option_name(field->name, option + 2, NAME_SIZE);
    if (!text && field->flags & BB_SECRET)
        text = cli_secret_of(field, reader->arena);
    if (!text)
        text = field->fallback;
    const char *normal = field_check_text(field, text, reader->arena, &found);

    if (!normal && !text && !found.count)
        return 0; /* absent and not required */
    if (!normal)
        return cli_complain(option, found.count ? found.list[0].text : "out of memory");
    return json_object_set_new(object, field->name, field_json(field, normal))
               ? cli_complain(option, "out of memory")
               : 0;
}

json_t *cli_options(const struct bb_table *fields, int argc, char **argv)
{
    struct reader reader = {.fields = fields, .arena = arena_new()};
    bool failed = !reader.arena;
    json_t *object = NULL;

    if (reader.arena)
        reader.texts = arena_alloc(reader.arena, (fields->count + 1) * sizeof *reader.texts);
    if (!reader.texts)
        failed = cli_complain("options", "out of memory");
    for (int i = 0; !failed && i < argc; i++)
        failed = cli_take_option(&reader, argc, argv, &i);
    if (!failed) {
        object = json_object();
        failed = !object;
    }
    for (size_t i = 0; !failed && i < fields->count; i++)
        failed =
            cli_set_option(&reader, &MODULE_ROWS(bb_field, *fields)[i], reader.texts[i], object);
    arena_free(reader.arena);
    if (!failed)
        return object;
    json_decref(object);
    return NULL;
}
