#include "suite.h"

Suite *suite_of(const char *name, const TTest *const *tests, size_t count, TCase **cases)
{
    Suite *suite = suite_create(name);

    *cases = tcase_create(name);
    for (size_t i = 0; i < count; i++)
        tcase_add_test(*cases, tests[i]);
    suite_add_tcase(suite, *cases);
    return suite;
}
