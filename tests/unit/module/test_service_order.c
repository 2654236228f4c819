/* The order of modules by the services they need. */
#include <string.h>

#include "core/module/service_order.h"
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

TEST(modules_without_needs_stay_as_they_are_named)
{
    add("b", NULL, NULL, 1);
    add("a", NULL, NULL, 1);
    ck_assert_int_eq(service_order(modules, count, order, &problems), 0);
    ck_assert_str_eq(ordered(), "b a");
}

TEST(who_gives_comes_before_who_needs)
{
    add("d", "b", "c", 1);
    add("b", "a", NULL, 2);
    add("c", "a", NULL, 1);
    add("a", NULL, NULL, 1);
    ck_assert_int_eq(service_order(modules, count, order, &problems), 0);
    ck_assert_str_eq(ordered(), "a b c d");
}

TEST(every_gap_is_told)
{
    add("a", "x", "y", 1);
    add("b", "a", NULL, 3);
    ck_assert_int_eq(service_order(modules, count, order, &problems), -1);
    ck_assert_uint_eq(problems.count, 3);
    ck_assert_str_eq(problems.lines[0], "module a needs the service \"x\", which no module of the "
                                        "list `modules` gives");
    ck_assert_str_eq(problems.lines[2], "module b needs the service \"a\" in version 3; module a "
                                        "gives version 2: upgrade it");
}

TEST(a_circle_is_told_by_name)
{
    add("z", "a", NULL, 1);
    add("a", "b", NULL, 1);
    add("b", "c", NULL, 1);
    add("c", "a", NULL, 1);
    ck_assert_int_eq(service_order(modules, count, order, &problems), -1);
    ck_assert_uint_eq(problems.count, 1);
    ck_assert_str_eq(problems.lines[0], "modules need each other in a circle: a → b → c → a");
}

TEST(a_module_that_needs_itself_is_a_circle)
{
    add("a", "a", NULL, 1);
    ck_assert_int_eq(service_order(modules, count, order, &problems), -1);
    ck_assert_str_eq(problems.lines[0], "modules need each other in a circle: a → a");
}

SUITE(service_order, .before_each = setup, .after_each = teardown)
