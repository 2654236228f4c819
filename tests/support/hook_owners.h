/*
 * Fixture of the suites of the webhooks' API: a host with the module; Anna and Ben, who are Users,
 * and an agent, which is an ApiUser, each in a separate organization.
 */
#ifndef TESTS_HOOK_OWNERS_H
#define TESTS_HOOK_OWNERS_H

#include "hook.h"
#include "stage.h"

extern struct person *anna, *ben, *agent;

/* Call it in a suite's set-up. `more`: lines of the section webhook that begin with two spaces. */
void hook_owners_open(const char *name, const char *more);

#endif
