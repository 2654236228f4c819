#include "hello.h"

static const char *root(void)
{
    const char *program = harness_program(false);

    return text("%.*s", (int)(strlen(program) - strlen("/bin/busbar")), program);
}

static char *replaced(const char *in, const char *from, const char *to)
{
    const char *at = strstr(in, from);

    ck_assert_msg(at != NULL, "the source has no %s", from);
    return text("%.*s%s%s", (int)(at - in), in, to, at + strlen(from));
}

static char *copy_example(const char *example, const char *name)
{
    char *copy = harness_path(name);
    const char *const *copying =
        words("cp -r %s/share/doc/busbar/examples/%s %s", root(), example, copy);

    ck_assert_int_eq(process_run(&(struct process_spec){.argv = copying, .log = "/dev/null"}), 0);
    return copy;
}

static char *make_example(const char *copy, const char *target, const char *argument)
{
    const char *const making[] = {"make", "-C", copy, target, argument, NULL};
    const char *const environment[] = {text("PKG_CONFIG_PATH=%s/lib/pkgconfig", root()), NULL};
    const char *log = text("%s.log", copy);

    ck_assert_msg(process_run(&(struct process_spec){
                      .argv = making, .environment = environment, .log = log}) == 0,
                  "%s does not build:\n%s", target, file_text(log));
    return text("%s/%s", copy, target);
}

char *example_build(const char *example, const char *program, const char *argument)
{
    return make_example(copy_example(example, example), text("%s.so", program), argument);
}

char *hello_build_edited(const char *name, const char *const (*edits)[2], size_t count)
{
    const char *copy = copy_example("hello", name), *source = text("%s/hello.c", copy);

    for (size_t i = 0; i < count; i++)
        file_write(source, replaced(file_text(source), edits[i][0], edits[i][1]));
    return make_example(copy, "hello.so", NULL);
}

char *hello_build(const char *name)
{
    return hello_build_edited(name, NULL, 0);
}

char *module_build(const char *name, const char *arguments, const char *suffix,
                   const struct edit *edits, const char *argument)
{
    char *directory = harness_path(name), *source = text("%s/%s.%s", directory, name, suffix);
    const char *const *writing =
        words("%s module new %s %s", harness_program(false), directory, arguments);
    const char *log = text("%s.log", directory);

    ck_assert_msg(process_run(&(struct process_spec){.argv = writing, .log = log}) == 0, "%s",
                  file_text(log));
    for (; edits && edits->from; edits++)
        file_write(source, replaced(file_text(source), edits->from, edits->to));
    return make_example(directory, text("%s.so", name), argument);
}
