/*
 * Changes of devices: an empty PATCH, or one with values that the device already has, returns the
 * unchanged device, writes nothing and raises no event.
 */
#include <stdlib.h>
#include <string.h>

#include "spy.h"
#include "stage.h"
#include "suite.h"
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

TEST(an_empty_patch_and_one_of_the_same_values_change_nothing_and_raise_nothing)
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

TEST(one_value_that_is_another_is_a_change_whatever_else_is_the_same)
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

/* Clears everything that can be cleared; the externalId stays. */
static json_t *nothing(void)
{
    return json_pack("{sn sn sn sn sn sn sn sn sn sn sn sn sn}", "siteName", "countryCode",
                     "commissioningDate", "capacity", "address", "latitude", "longitude",
                     "fuelCode", "deviceTypeCode", "serialNumber", "timezone", "yieldValue",
                     "attributes");
}

static json_t *everything(const char *key)
{
    json_t *device = whole(key);

    json_object_set_new(device, "siteName", json_string("Site"));
    json_object_set_new(device, "address", json_string("Street 1"));
    json_object_set_new(device, "fuelCode", json_string("ES100"));
    json_object_set_new(device, "deviceTypeCode", json_string("TC110"));
    json_object_set_new(device, "serialNumber", json_string("SN-1"));
    json_object_set_new(device, "yieldValue", json_integer(1000));
    return device;
}

TEST(null_clears_a_field_and_an_attribute)
{
    ck_status(http(host, "POST", DEVICE, m->token, everything("cleared")), 201);
    ck_status(http(host, "POST", DEVICE, m->token, json_pack("{ss}", "externalId", "bare")), 201);
    struct answer *bare = ck_status(http(host, "GET", DEVICE "/bare", m->token, NULL), 200);
    struct answer *some =
        patch("cleared", json_pack("{sn sn s{sn si}}", "yieldValue", "projectName", "attributes",
                                   "roof", "wall", 1));

    ck_assert(json_is_null(json_object_get(some->json, "yieldValue")));
    ck_assert(json_is_null(json_object_get(some->json, "siteName")));
    ck_assert_str_eq(answer_text(some, "serialNumber"), "SN-1");
    ck_assert_str_eq(kept(json_dumps(json_object_get(some->json, "attributes"), JSON_COMPACT)),
                     "{\"wall\":1}");
    ck_assert_int_eq(updates_of("cleared"), 1);
    struct answer *more = patch("cleared", json_pack("{sn si}", "wall", "door", 2));

    ck_assert_str_eq(kept(json_dumps(json_object_get(more->json, "attributes"), JSON_COMPACT)),
                     "{\"door\":2}");
    patch("cleared", nothing());
    struct answer *after = ck_status(http(host, "GET", DEVICE "/cleared", m->token, NULL), 200);
    static const char *const own[] = {"id", "uuid", "externalId", "createdAt", "updatedAt"};

    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        json_object_del(after->json, own[i]);
        json_object_del(bare->json, own[i]);
    }
    ck_assert_msg(json_equal(after->json, bare->json), "%s", after->body);
    ck_assert_int_eq(updates_of("cleared"), 3);
    patch("cleared", nothing());
    ck_assert_int_eq(updates_of("cleared"), 3);
    ck_assert_str_eq(sql_text(db,
                              "SELECT payload::jsonb ->> 'changed' FROM spy_event WHERE"
                              " name = 'device.updated' AND payload LIKE '%cleared%'"
                              " ORDER BY wall_ms LIMIT 1",
                              0, NULL),
                     "[\"siteName\", \"yieldValue\", \"attributes\"]");
}

/* Fails the test unless the response's only problem is in this field. */
static void refused(struct answer *answer, const char *field)
{
    ck_status(answer, 400);
    ck_assert_str_eq(json_string_value(json_object_get(
                         json_array_get(json_object_get(answer->json, "errors"), 0), "field")),
                     field);
}

TEST(what_a_device_must_have_is_not_cleared)
{
    ck_status(http(host, "POST", DEVICE, m->token, everything("named")), 201);
    ck_status(
        http(host, "POST", DEVICE, m->token, json_pack("{ss}", "serialNumber", "only this one")),
        201);
    refused(http(host, "PATCH", DEVICE "/named", m->token, json_pack("{sn}", "status")), "status");
    refused(http(host, "PATCH", DEVICE "/only%20this%20one", m->token,
                 json_pack("{sn}", "serialNumber")),
            "externalId");
    refused(http(host, "PATCH", DEVICE "/named", m->token,
                 json_pack("{sn sn sn}", "externalId", "siteName", "serialNumber")),
            "externalId");
    ck_status(http(host, "GET", DEVICE "/named", m->token, NULL), 200);
    struct answer *unnamed = patch("named", json_pack("{sn}", "externalId"));

    ck_assert(json_is_null(json_object_get(unnamed->json, "externalId")));
    ck_status(http(host, "GET", DEVICE "/named", m->token, NULL), 404);
    ck_status(http(host, "GET", DEVICE "/SN-1", m->token, NULL), 200);
}

/* An empty text counts as absent, and the response warns about it. */
TEST(an_empty_text_clears_nothing_and_warns)
{
    ck_status(http(host, "POST", DEVICE, m->token, everything("emptied")), 201);
    struct answer *answer = patch("emptied", json_pack("{ss}", "address", ""));

    ck_assert_str_eq(answer_text(answer, "address"), "Street 1");
    answer_warns(answer, "address: ");
}

/* Each attribute, with a text of 100 digits, has 110 bytes of JSON; the database adds two
 * spaces. */
static json_t *attributes_of(char letter, int count)
{
    json_t *attributes = json_object();

    for (int i = 0; i < count; i++)
        json_object_set_new(attributes, text("%c%03d", letter, i), json_string(text("%0100d", i)));
    return json_pack("{so}", "attributes", attributes);
}

TEST(attributes_that_grow_by_changes_keep_their_bound)
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

STAGE_SUITE(device_changes, set_up, 60)
