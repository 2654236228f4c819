/*
 * What the suites of the webhooks' API stand on: a host with the module; Anna and Ben, Users, and
 * an agent, an ApiUser, each in an organisation of their own.
 */
#ifndef TESTS_HOOK_OWNERS_H
#define TESTS_HOOK_OWNERS_H

#include "hook.h"
#include "stage.h"

extern struct person *anna, *ben, *agent;

/* For a suite's set-up. `more`: lines of the section webhook, with two spaces before them. */
void hook_owners_open(const char *name, const char *more);

#endif
