/* The order of modules by the services they need. */
#include "core/module/generation.h"
#include "suite.h"

#define MODULES_MAX 8

static struct bb_module descriptors[MODULES_MAX];
static struct bb_service_descriptor gives[MODULES_MAX];
static struct bb_need needs[MODULES_MAX][2];
static struct core_module modules[MODULES_MAX];
static size_t count, order[MODULES_MAX];
static struct setting_problems problems;

static void setup(void)
{
    count = 0;
    memset(descriptors, 0, sizeof descriptors);
}

static void teardown(void)
{
    setting_problems_free(&problems);
}

/* Adds a module that provides version 2 of a service with the module's name, and needs up to two
 * others. */
static void add(const char *name, const char *first, const char *second, unsigned version)
{
    size_t i = count++;

    gives[i] = (struct bb_service_descriptor){name, 2, name};
    needs[i][0] = (struct bb_need){first, version};
    needs[i][1] = (struct bb_need){second, version};
    descriptors[i].name = name;
    descriptors[i].services = (struct bb_table){&gives[i], 1, sizeof gives[i]};
    descriptors[i].needs = (struct bb_table){needs[i],
                                             second  ? 2
                                             : first ? 1
                                                     : 0,
                                             sizeof needs[i][0]};
    modules[i] = (struct core_module){.descriptor = &descriptors[i]};
}

/* Returns the names in order, separated by spaces. */
static const char *ordered(void)
{
    static char text[256];

    for (size_t i = 0, used = 0; i < count; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? " " : "",
                                 modules[order[i]].descriptor->name);
    return text;
}

/* Modules, and their order, or the first problem and the number of problems. */
static const struct {
    struct {
        const char *name, *first, *second;
        unsigned version;
    } modules[4];
    const char *order, *problem;
    size_t problems;
} cases[] = {
    {{{"b", NULL, NULL, 1}, {"a", NULL, NULL, 1}}, .order = "b a"},
    {{{"d", "b", "c", 1}, {"b", "a", NULL, 2}, {"c", "a", NULL, 1}, {"a", NULL, NULL, 1}},
     .order = "a b c d"},
    {{{"a", "x", "y", 1}},
     .problem = "module a needs the service \"x\", which no module of the list `modules` provides",
     .problems = 2},
    {{{"a", NULL, NULL, 1}, {"b", "a", NULL, 3}},
     .problem =
         "module b needs the service \"a\" in version 3; module a provides version 2: upgrade it",
     .problems = 1},
    {{{"z", "a", NULL, 1}, {"a", "b", NULL, 1}, {"b", "c", NULL, 1}, {"c", "a", NULL, 1}},
     .problem = "modules need each other in a circle: a → b → c → a",
     .problems = 1},
    {{{"a", "a", NULL, 1}}, .problem = "modules need each other in a circle: a → a", .problems = 1},
};

TEST_EACH(modules_are_ordered_after_the_modules_they_need, sizeof cases / sizeof *cases)
{
    for (size_t i = 0; i < 4 && cases[_i].modules[i].name; i++)
        add(cases[_i].modules[i].name, cases[_i].modules[i].first, cases[_i].modules[i].second,
            cases[_i].modules[i].version);
    ck_assert_int_eq(service_order(modules, count, order, &problems), cases[_i].order ? 0 : -1);
    ck_assert_uint_eq(problems.count, cases[_i].problems);
    if (cases[_i].order)
        ck_assert_str_eq(ordered(), cases[_i].order);
    else
        ck_assert_str_eq(problems.lines[0], cases[_i].problem);
}

SUITE(service_order, .before_each = setup, .after_each = teardown)
