/*
 * Published cases, which lie beside the project: ../shared/cases seen from its root, or the folder
 * that BUSBAR_CASES names. An absent file gives an empty list and a line that says so.
 */
#ifndef TESTS_UNIT_WEBHOOK_CASES_H
#define TESTS_UNIT_WEBHOOK_CASES_H

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef TEST_CASES
#define TEST_CASES "../shared/cases"
#endif

/* A list, given. Never NULL. */
static inline json_t *webhook_cases(const char *name)
{
    const char *folder = getenv("BUSBAR_CASES");
    char path[4096];

    snprintf(path, sizeof(path), "%s/%s", folder ? folder : TEST_CASES, name);
    json_t *cases = json_load_file(path, 0, NULL);

    if (cases)
        return cases;
    fprintf(stderr, "unit: skipped, not there: %s\n", path);
    return json_array();
}

#endif
