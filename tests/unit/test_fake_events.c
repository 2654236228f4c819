/* Hooks in the fake host: who may see an event that a test raises. */
#include <busbar/fake.h>
#include <string.h>

#include "suites.h"

static const char *seen_by; /* the first e-mail of the last event */
static int64_t seen_in;

static void heard(struct bb_request *rq, const struct bb_event *event)
{
    (void)rq;
    seen_by = event->audience->emails[0];
    seen_in = event->audience->organisation;
}

static const struct bb_hook hooks[] = {
    {.event = "plant.new", .kind = BB_COMMITTED, .committed = heard}};

static const struct bb_module hears = {BB_MODULE_HEAD("hears", "1.0.0"), .hooks = BB_TABLE(hooks)};

START_TEST(an_event_has_the_audience_that_the_test_gives)
{
    static const char *const emails[] = {"ada@solar.example", NULL};
    const struct bb_audience ada = {.size = sizeof(ada), .organisation = 7, .emails = emails};
    struct bb_fake *fake = bb_fake_new(&hears);

    ck_assert_int_eq(bb_fake_open(fake), 0);
    ck_assert_int_eq(bb_fake_raise_to(fake, "plant.new", "{}", &ada), 0);
    ck_assert_str_eq(seen_by, "ada@solar.example");
    ck_assert_int_eq(seen_in, 7);
    ck_assert_int_eq(bb_fake_raise(fake, "plant.new", "{}"), 0);
    ck_assert_ptr_null(seen_by);
    ck_assert_int_eq(seen_in, 0);
    bb_fake_free(fake);
}
END_TEST

Suite *fake_events_suite(void)
{
    Suite *suite = suite_create("fake_events");
    TCase *tests = tcase_create("all");

    tcase_add_test(tests, an_event_has_the_audience_that_the_test_gives);
    suite_add_tcase(suite, tests);
    return suite;
}
