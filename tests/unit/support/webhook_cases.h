/*
 * Published test cases, kept next to the project: in ../shared/cases relative to its root, or in
 * the folder named by BUSBAR_CASES. If a file is absent, the list is empty and a line on standard
 * error says so.
 */
#ifndef TESTS_UNIT_WEBHOOK_CASES_H
#define TESTS_UNIT_WEBHOOK_CASES_H

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef TEST_CASES
#define TEST_CASES "../shared/cases"
#endif

/* Returns a list that the caller owns; never NULL. */
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
