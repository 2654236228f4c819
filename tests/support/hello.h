/* The example modules, built outside of the source tree from the installed package alone. */
#ifndef TESTS_HELLO_H
#define TESTS_HELLO_H

#include "harness.h"

/*
 * Copies the installed example into a directory of that name and runs its makefile, as a user
 * without the source tree would. Returns the path of its hello.so.
 */
char *hello_build(const char *name);

/* Like hello_build(), but first replaces each `from` text by its `to` text everywhere in hello.c.
 */
char *hello_build_edited(const char *name, const char *const (*edits)[2], size_t count);

/* Builds another example: its directory, its program without ".so", and an argument for make. */
char *example_build(const char *example, const char *program, const char *argument);

/* A text in a source, and the text that replaces it. */
struct edit {
    const char *from, *to;
};

/*
 * Writes a module with `busbar module new NAME` and these arguments, changes NAME.`suffix` by the
 * edits (up to one without a `from`, or NULL), and builds the module with an argument for make (or
 * NULL). Returns the path of its file.
 */
char *module_build(const char *name, const char *arguments, const char *suffix,
                   const struct edit *edits, const char *argument);

#endif
