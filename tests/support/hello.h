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

#endif
