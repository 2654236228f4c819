/* Hooks in the fake host: who may see an event that a test raises. */
#include <busbar/fake.h>
#include <signal.h>
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

static int pages(struct bb_request *rq)
{
    return bb_reply_next(rq, "9") ? bb_failed(rq) : bb_reply(rq, 200, json_array());
}

static const struct bb_field query[] = {{.name = "limit", .type = BB_INT, .min = 1, .max = 9},
                                        {.name = "after", .type = BB_INT, .min = 0, .max = 99}};
static const struct bb_field segments[] = {{.name = "site", .type = BB_TEXT}};
static const struct bb_route paged[] = {{.method = "GET",
                                         .path = "/plants/:site",
                                         .roles = BB_ANYONE,
                                         .handler = pages,
                                         .segments = BB_TABLE(segments),
                                         .query = BB_TABLE(query)}};
static const struct bb_module with_pages = {BB_MODULE_HEAD("pages", "1.0.0"),
                                            .routes = BB_TABLE(paged)};

START_TEST(the_link_to_the_next_page_is_that_of_the_host)
{
    struct bb_fake *fake = bb_fake_new(&with_pages);

    ck_assert_int_eq(bb_fake_open(fake), 0);
    ck_assert_int_eq(bb_fake_call(fake, "GET", "/plants/roof?after=3&limit=5", NULL), 200);
    ck_assert_str_eq(bb_fake_replied(fake, "Link"), "</plants/roof?limit=5&after=9>; rel=\"next\"");
    bb_fake_free(fake);
}
END_TEST

static const struct bb_route twins[] = {
    {.method = "GET", .path = "/a/:one", .roles = BB_ANYONE, .handler = pages},
    {.method = "GET", .path = "/a/:other", .roles = BB_ANYONE, .handler = pages}};
static const struct bb_module with_twins = {BB_MODULE_HEAD("twins", "1.0.0"),
                                            .routes = BB_TABLE(twins)};

START_TEST(two_routes_of_one_shape_end_the_test)
{
    bb_fake_free(bb_fake_new(&with_twins));
}
END_TEST

static int announces(struct bb_request *rq)
{
    struct bb_tx *unit = bb_unit(rq, 1);
    const struct bb_audience audience = {.organisation = 7};

    return bb_emit(rq, unit, "plant.gone", json_object(), &audience) ? bb_failed(rq) : 200;
}

static const struct bb_event_descriptor events[] = {{.name = "plant.gone", .version = 1}};
static const struct bb_route sizeless[] = {
    {.method = "POST", .path = "/gone", .roles = BB_ANYONE, .handler = announces}};
static const struct bb_module with_sizeless = {
    BB_MODULE_HEAD("sizeless", "1.0.0"), .routes = BB_TABLE(sizeless), .events = BB_TABLE(events)};

START_TEST(an_audience_without_its_size_ends_the_test)
{
    struct bb_fake *fake = bb_fake_new(&with_sizeless);

    bb_fake_open(fake);
    bb_fake_call(fake, "POST", "/gone", NULL);
}
END_TEST

Suite *fake_events_suite(void)
{
    Suite *suite = suite_create("fake_events");
    TCase *tests = tcase_create("all");

    tcase_add_test(tests, an_event_has_the_audience_that_the_test_gives);
    tcase_add_test(tests, the_link_to_the_next_page_is_that_of_the_host);
    tcase_add_test_raise_signal(tests, two_routes_of_one_shape_end_the_test, SIGABRT);
    tcase_add_test_raise_signal(tests, an_audience_without_its_size_ends_the_test, SIGABRT);
    suite_add_tcase(suite, tests);
    return suite;
}
