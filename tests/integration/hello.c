#include "hello.h"

#include <string.h>

#include "harness.h"

static const char *root(void)
{
    const char *program = harness_program(false);

    return text("%.*s", (int)(strlen(program) - strlen("/bin/busbar")), program);
}

static char *replaced(const char *in, const char *from, const char *to)
{
    const char *at = strstr(in, from);

    ck_assert_msg(at != NULL, "hello.c has no %s", from);
    return text("%.*s%s%s", (int)(at - in), in, to, at + strlen(from));
}

char *hello_build_edited(const char *name, const char *const (*edits)[2], size_t count)
{
    const char *copy = harness_path(name), *source = text("%s/hello.c", copy);
    const char *example = text("%s/share/doc/busbar/examples/hello", root());
    const char *const copying[] = {"cp", "-r", example, copy, NULL};
    const char *const making[] = {"make", "-C", copy, "hello.so", NULL};
    const char *const environment[] = {text("PKG_CONFIG_PATH=%s/lib/pkgconfig", root()), NULL};
    const char *log = harness_path(text("%s.log", name));

    ck_assert_int_eq(process_run(&(struct process_spec){.argv = copying, .log = log}), 0);
    for (size_t i = 0; i < count; i++)
        file_write(source, replaced(file_text(source), edits[i][0], edits[i][1]));
    ck_assert_msg(process_run(&(struct process_spec){
                      .argv = making, .environment = environment, .log = log}) == 0,
                  "hello does not build:\n%s", file_text(log));
    return text("%s/hello.so", copy);
}

char *hello_build(const char *name)
{
    return hello_build_edited(name, NULL, 0);
}
