/*
 * What counts as a change of a device: an empty PATCH, and one of values that the device has
 * already, are answered with the device as it is, write nothing and raise nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "spy.h"
#include "stage.h"
#include "suites.h"
#include "talk.h"

#define DEVICE "/api/device"

static struct person *m;

static void set_up(void)
{
    stage_open(&(struct host_spec){
        .name = "device_changes",
        .modules = text("[auth, device, \"%s\"]", harness_test_module("module_spy"))});
    spy_await("device_changes");
    m = person_make(host, admin, "changes.m", NULL);
}

static struct answer *patch(const char *key, json_t *device)
{
    return ck_status(http(host, "PATCH", text(DEVICE "/%s", key), m->token, device), 200);
}

static int64_t updates_of(const char *key)
{
    const char *values[] = {key};

    return atoll(sql_text(db,
                          "SELECT count(*) FROM spy_event WHERE name = 'device.updated'"
                          " AND payload::jsonb -> 'device' ->> 'externalId' = $1",
                          1, values));
}

static json_t *whole(const char *key)
{
    return json_pack("{ss ss ss sf ss ss ss s{sb}}", "externalId", key, "countryCode", "de",
                     "commissioningDate", "2024-02-29", "capacity", 9.9, "latitude", "52.5200",
                     "longitude", "13.4", "timezone", "Europe/Berlin", "attributes", "roof", 1);
}

START_TEST(an_empty_patch_and_one_of_the_same_values_change_nothing_and_raise_nothing)
{
    struct answer *made = ck_status(http(host, "POST", DEVICE, m->token, whole("same")), 201);
    json_t *const same[] = {json_object(),
                            whole("same"),
                            json_pack("{sn}", "siteName"),
                            json_pack("{ss}", "commissioningDate", "2024-02-29T12:00:00+0100"),
                            json_pack("{sb}", "roof", 1),
                            json_incref(made->json)};

    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        struct answer *answer = patch("same", same[i]);

        ck_assert_msg(json_equal(answer->json, made->json), "%zu: %s", i, answer->body);
    }
    ck_assert_int_eq(updates_of("same"), 0);
    ck_assert_int_eq(sql_number(db, "SELECT count(*) FROM device WHERE external_id = 'same'"
                                    " AND updated_at = created_at"),
                     1);
}

START_TEST(one_value_that_is_another_is_a_change_whatever_else_is_the_same)
{
    struct answer *made = ck_status(http(host, "POST", DEVICE, m->token, whole("other")), 201);
    json_t *device = whole("other");
    int64_t changes = 0;

    json_object_set_new(device, "siteName", json_string("Now it has one"));
    struct answer *changed = patch("other", device);

    ck_assert_str_eq(answer_text(changed, "siteName"), "Now it has one");
    ck_assert_str_ne(answer_text(changed, "updatedAt"), answer_text(made, "updatedAt"));
    ck_assert_int_eq(updates_of("other"), ++changes);
    json_t *const others[] = {json_pack("{sf}", "capacity", 9.8),
                              json_pack("{ss}", "latitude", "52.52"), json_pack("{sb}", "roof", 0),
                              json_pack("{si}", "wall", 1)};

    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        patch("other", others[i]);
        ck_assert_int_eq(updates_of("other"), ++changes);
    }
}

/* Each name below, with 100 digits of text, has 110 bytes of JSON; the database adds two blanks. */
static json_t *attributes_of(char letter, int count)
{
    json_t *attributes = json_object();

    for (int i = 0; i < count; i++)
        json_object_set_new(attributes, text("%c%03d", letter, i), json_string(text("%0100d", i)));
    return json_pack("{so}", "attributes", attributes);
}

START_TEST(attributes_that_grow_by_changes_keep_their_bound)
{
    ck_status(http(host, "POST", DEVICE, m->token, json_pack("{ss}", "externalId", "grown")), 201);
    patch("grown", attributes_of('a', 150));
    struct answer *full = patch("grown", attributes_of('b', 147)); /* 32,671 bytes */
    struct answer *over =
        ck_status(http(host, "PATCH", DEVICE "/grown", m->token, attributes_of('c', 1)), 400);

    ck_assert_str_eq(answer_text(over, "message"), "The request is not valid");
    ck_assert_ptr_nonnull(strstr(over->body, "\"field\":\"attributes\""));
    struct answer *after = ck_status(http(host, "GET", DEVICE "/grown", m->token, NULL), 200);

    ck_assert_msg(json_equal(after->json, full->json), "%s", after->body);
    ck_assert_int_eq(updates_of("grown"), 2);
    patch("grown", attributes_of('b', 1));
}

Suite *device_changes_suite(void)
{
    const TTest *const tests[] = {
        an_empty_patch_and_one_of_the_same_values_change_nothing_and_raise_nothing,
        one_value_that_is_another_is_a_change_whatever_else_is_the_same,
        attributes_that_grow_by_changes_keep_their_bound,
    };

    return stage_suite("device_changes", set_up, 60, TESTS(tests));
}
