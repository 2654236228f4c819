/*
 * Devices as JSON: what is valid, who sees and changes what (threats O20 to O24, N04, N05), and
 * that parallel changes keep each other's fields. M is an OrganizationAdmin of one organisation, K
 * an ApiUser of others.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "suites.h"
#include "talk.h"

#define DEVICE "/api/device"
#define UNKNOWN_UUID "0195f3a0-1111-7222-8333-444455556666"

static struct host *host;
static struct person *admin, *m, *k;

static void set_up(void)
{
    host = host_start(&(struct host_spec){.name = "devices",
                                          .database = database_make(the_postgres, "devices"),
                                          .modules = "[auth, device]"});
    admin = admin_of(host);
    m = person_make(host, admin, "devices.m", NULL);
    k = person_make(host, admin, "devices.k", "ApiUser");
}

static void tear_down(void)
{
    host_stop(host);
}

static struct answer *post(const struct person *who, json_t *device)
{
    return http(host, "POST", DEVICE, who->token, device);
}

static struct answer *patch(const struct person *who, const char *key, json_t *device)
{
    return http(host, "PATCH", text(DEVICE "/%s", encoded(key)), who->token, device);
}

static struct answer *get(const struct person *who, const char *key)
{
    return http(host, "GET", text(DEVICE "/%s", encoded(key)), who->token, NULL);
}

static json_t *named(const char *external_id)
{
    return json_pack("{ss}", "externalId", external_id);
}

/* What the record says of a field, as JSON text. */
static const char *field(const struct answer *answer, const char *name)
{
    return kept(json_dumps(json_object_get(answer->json, name), JSON_ENCODE_ANY | JSON_COMPACT));
}

static void expect_problem(struct answer *answer, const char *name)
{
    const json_t *errors = json_object_get(ck_error(answer, 400, "")->json, "errors");

    ck_assert_str_eq(json_string_value(json_object_get(json_array_get(errors, 0), "field")), name);
}

START_TEST(a_device_is_registered_and_read_back_as_it_was_answered)
{
    struct answer *made =
        ck_status(post(m, json_pack("{ss ss ss ss sf ss ss ss ss ss ss ss si ss s{sb}}",
                                    "externalId", "  Whole 1 ", "siteName", "Hill", "countryCode",
                                    "deu", "commissioningDate", "2024-02-29T10:00:00Z", "capacity",
                                    9.9, "address", "Street 1", "latitude", "+52.5200", "longitude",
                                    "-13.4", "fuelCode", "ES100", "deviceTypeCode", "TC110",
                                    "serialNumber", "SN-1", "timezone", "Europe/Berlin",
                                    "yieldValue", 950, "colour", "blue", "nested", "deep", 1)),
                  201);

    ck_assert_str_eq(field(made, "externalId"), "\"Whole 1\"");
    ck_assert_str_eq(field(made, "countryCode"), "\"DEU\"");
    ck_assert_str_eq(field(made, "commissioningDate"), "\"2024-02-29\"");
    ck_assert_str_eq(field(made, "latitude"), "\"+52.5200\"");
    ck_assert_str_eq(field(made, "attributes"), "{\"colour\":\"blue\",\"nested\":{\"deep\":true}}");
    ck_assert_str_eq(field(made, "documents"), "[]");
    ck_assert_ptr_null(json_object_get(made->json, "warnings"));
    struct answer *read = ck_status(get(m, "whole 1"), 200);

    ck_assert_msg(json_equal(made->json, read->json), "%s\n%s", made->body, read->body);
    ck_assert_str_eq(get(m, answer_text(made, "uuid"))->body, read->body);
    ck_assert_str_eq(get(m, "SN-1")->body, read->body);
}

START_TEST(one_name_is_enough_and_none_is_not)
{
    ck_status(post(m, json_pack("{ss}", "siteName", "Only a site")), 201);
    ck_status(post(m, json_pack("{ss}", "serialNumber", "Only a number")), 201);
    struct answer *number = ck_status(post(m, json_pack("{si}", "externalId", 4711)), 201);

    ck_assert_str_eq(field(number, "externalId"), "\"4711\"");
    expect_problem(post(m, json_pack("{sf}", "capacity", 5.0)), "externalId");
    expect_problem(post(m, json_pack("{sn sn}", "externalId", "siteName")), "externalId");
}

START_TEST(an_external_id_is_unique_in_its_organisation_whatever_the_case)
{
    ck_status(post(m, named("Unique")), 201);
    struct answer *twice = ck_error(post(m, named("uNIQUE")), 409, "");

    ck_assert(json_is_false(json_object_get(twice->json, "success")));
    ck_status(post(k, named("UNIQUE")), 201);
    ck_status(post(m, named("Unique 2")), 201);
    ck_error(patch(m, "Unique 2", named("UNIQUE")), 409, "");
}

struct bad {
    const char *field, *value; /* JSON */
};

/* N04, N05 */
static const struct bad bad[] = {
    {"externalId", "\"\""},
    {"externalId", "\"a\\u0007b\""},
    {"externalId", "[]"},
    {"externalId", "1e300"},
    {"siteName", "\"  \""},
    {"siteName", "7"},
    {"countryCode", "\"XX\""},
    {"countryCode", "\"D\""},
    {"commissioningDate", "\"2026-02-30\""},
    {"commissioningDate", "\"0000-01-01\""},
    {"commissioningDate", "\"9999-12-31\""},
    {"commissioningDate", "\"01.05.2024\""},
    {"commissioningDate", "20240501"},
    {"capacity", "-1"},
    {"capacity", "0"},
    {"capacity", "\"5\""},
    {"capacity", "1e-400"},
    {"capacity", "10000001"},
    {"latitude", "91"},
    {"latitude", "\"90.0001\""},
    {"latitude", "\"1e5\""},
    {"latitude", "\"52,5\""},
    {"latitude", "\"\""},
    {"latitude", "true"},
    {"longitude", "\"-180.5\""},
    {"fuelCode", "\"\""},
    {"serialNumber", "5"},
    {"timezone", "\"Europe/Nowhere\""},
    {"timezone", "\"../../etc/passwd\""},
    {"timezone", "\"/etc/localtime\""},
    {"timezone", "\"localtime\""},
    {"timezone", "\"right/Europe/Berlin\""},
    {"timezone", "\"Europe//Berlin\""},
    {"yieldValue", "0"},
    {"yieldValue", "4001"},
    {"organizationId", "\"1\""},
    {"attributes", "[]"},
};

START_TEST(what_is_not_valid_is_named)
{
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *body =
            text("{\"%s\":%s%s}", bad[i].field, bad[i].value,
                 strcmp(bad[i].field, "externalId") ? ",\"externalId\":\"Bad\"" : "");
        struct answer *answer = http_send(
            host,
            &(struct call){.method = "POST", .path = DEVICE, .token = m->token, .body = body});

        ck_assert_msg(answer->status == 400, "%s: %ld %s", body, answer->status, answer->body);
        expect_problem(answer, bad[i].field);
    }
    ck_error(get(m, "Bad"), 404, "");
}

START_TEST(numbers_that_are_none_are_malformed)
{
    static const char *const numbers[] = {"1e400", "NaN", "9223372036854775808999", "Infinity"};

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        ck_error(
            http_send(host, &(struct call){.method = "POST",
                                           .path = DEVICE,
                                           .token = m->token,
                                           .body = text("{\"externalId\":\"N\",\"capacity\":%s}",
                                                        numbers[i])}),
            400, "");
}

START_TEST(what_is_unlikely_is_taken_with_a_warning)
{
    struct answer *made =
        ck_status(post(m, json_pack("{ss si ss ss}", "externalId", "Warned", "capacity", 5001,
                                    "fuelCode", "ES10", "deviceTypeCode", "TC1100")),
                  201);

    ck_assert_uint_eq(json_array_size(json_object_get(made->json, "warnings")), 3);
    ck_assert_ptr_null(json_object_get(get(m, "Warned")->json, "warnings"));
    struct answer *mended = ck_status(patch(m, "Warned",
                                            json_pack("{si ss ss}", "capacity", 5000, "fuelCode",
                                                      "ES200", "deviceTypeCode", "T012345")),
                                      200);

    ck_assert_ptr_null(json_object_get(mended->json, "warnings"));
}

START_TEST(attributes_are_bounded)
{
    char *large = kept(calloc(1, 33000));

    memset(large, 'x', 32999);
    expect_problem(post(m, json_pack("{ss ss}", "externalId", "Large", "note", large)),
                   "attributes");
}

/* O20 */
START_TEST(a_device_is_registered_where_one_may_act)
{
    json_t *foreign = json_pack("{ss sI}", "externalId", "Foreign", "organizationId",
                                (json_int_t)m->organisation);

    ck_error(post(k, json_incref(foreign)), 403, "");
    struct answer *own = ck_status(post(m, foreign), 201);

    ck_assert_int_eq(answer_int(own, "organizationId"), m->organisation);
}

START_TEST(an_api_user_of_several_organisations_says_in_which)
{
    struct person *many = person_make(host, admin, "devices.many", "ApiUser");
    struct answer *second = ck_status(http(host, "POST", "/api/organization", many->token,
                                           json_pack("{ss}", "name", "Second of many")),
                                      201);
    int64_t organisation = answer_int(second, "id");

    expect_problem(post(many, named("Both")), "organizationId");
    ck_status(post(many, json_pack("{ss sI}", "externalId", "Both", "organizationId",
                                   (json_int_t)organisation)),
              201);
    ck_status(post(many, json_pack("{ss sI}", "externalId", "both", "organizationId",
                                   (json_int_t)many->organisation)),
              201);
    ck_error(get(many, "Both"), 409, "Several devices");
    struct answer *one =
        http(host, "GET", text(DEVICE "/Both?organizationId=%jd", (intmax_t)organisation),
             many->token, NULL);

    ck_assert_str_eq(field(ck_status(one, 200), "externalId"), "\"Both\"");
}

/* O21, O22 */
START_TEST(devices_of_others_are_unknown)
{
    ck_status(post(m, json_pack("{ss ss}", "externalId", "Of M", "siteName", "Shared site")), 201);
    ck_status(post(k, json_pack("{ss ss}", "externalId", "Of K", "siteName", "Shared site")), 201);
    ck_error(get(k, "Of M"), 404, "Device not found");
    ck_error(patch(k, "Of M", json_pack("{si}", "capacity", 7)), 404, "Device not found");
    ck_error(
        http(host, "PATCH", DEVICE "/by-site/Shared%20site", k->token,
             json_pack("{sI si}", "organizationId", (json_int_t)m->organisation, "capacity", 7)),
        403, "");
    struct answer *changed = ck_status(http(host, "PATCH", DEVICE "/by-site/Shared%20site",
                                            k->token, json_pack("{si}", "capacity", 7)),
                                       200);

    ck_assert_str_eq(field(changed, "externalId"), "\"Of K\"");
    ck_assert_str_eq(field(get(m, "Of M"), "capacity"), "null");
    ck_status(get(admin, "Of M"), 200);
}

START_TEST(a_site_with_none_or_several_devices_is_not_changed)
{
    for (int i = 0; i < 2; i++)
        ck_status(post(m, json_pack("{ss ss}", "externalId", text("Twin %d", i), "siteName",
                                    "Twin site")),
                  201);
    ck_error(http(host, "PATCH", DEVICE "/by-site/No%20site", m->token, named("x")), 404, "");
    struct answer *several =
        ck_error(http(host, "PATCH", DEVICE "/by-site/Twin%20site", m->token, named("x")), 409, "");

    ck_assert_ptr_nonnull(strstr(answer_text(several, "message"), "Twin 0, Twin 1"));
}

START_TEST(a_serial_number_that_several_have_is_ambiguous)
{
    for (int i = 0; i < 2; i++)
        ck_status(post(m, json_pack("{ss ss}", "externalId", text("Serial %d", i), "serialNumber",
                                    "SN-twice")),
                  201);
    ck_error(get(m, "SN-twice"), 409, "");
    ck_status(post(m, json_pack("{ss}", "externalId", "SN-twice")), 201);
    ck_assert_str_eq(field(ck_status(get(m, "SN-twice"), 200), "externalId"), "\"SN-twice\"");
}

/* O23 */
START_TEST(what_the_host_gives_is_not_written)
{
    struct answer *made = ck_status(post(m, named("Assigned")), 201);
    struct answer *changed =
        ck_status(patch(m, "Assigned",
                        json_pack("{si ss ss s[] si}", "id", 1, "uuid", UNKNOWN_UUID, "createdAt",
                                  "2000-01-01T00:00:00.000Z", "documents", "groupId", 9)),
                  200);

    ck_assert_int_eq(answer_int(changed, "id"), answer_int(made, "id"));
    ck_assert_str_eq(answer_text(changed, "uuid"), answer_text(made, "uuid"));
    ck_assert_str_eq(answer_text(changed, "createdAt"), answer_text(made, "createdAt"));
    ck_assert_str_eq(field(changed, "attributes"), "{\"groupId\":9}");
}

/* O24 */
START_TEST(other_roles_register_nothing)
{
    struct person *owner = person_with_role(host, admin, "devices.owner", "DeviceOwner");

    ck_error(post(admin, named("By Admin")), 403, "Forbidden");
    ck_error(post(owner, named("By owner")), 403, "Forbidden");
    ck_error(get(m, "By owner"), 404, "");
}

struct patcher {
    const char *name;
    long bad;
};

static void *patch_often(void *arg)
{
    struct patcher *patcher = arg;

    for (int i = 1; i <= 50; i++) {
        struct answer *answer = patch(m, "Parallel", json_pack("{si}", patcher->name, i));

        patcher->bad += answer->status != 200;
    }
    return NULL;
}

START_TEST(parallel_changes_of_different_fields_all_survive)
{
    struct patcher patchers[] = {{"capacity", 0}, {"yieldValue", 0}, {"latitude", 0}, {"note", 0}};
    pthread_t threads[4];

    ck_status(post(m, named("Parallel")), 201);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, patch_often, &patchers[i]), 0);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        ck_assert_int_eq(patchers[i].bad, 0);
    }
    struct answer *device = ck_status(get(m, "Parallel"), 200);

    ck_assert_str_eq(field(device, "capacity"), "50");
    ck_assert_str_eq(field(device, "yieldValue"), "50");
    ck_assert_str_eq(field(device, "latitude"), "\"50\"");
    ck_assert_str_eq(field(device, "attributes"), "{\"note\":50}");
}

START_TEST(lists_are_filtered_and_paged)
{
    struct person *lister = person_make(host, admin, "devices.lister", NULL);

    for (int i = 0; i < 5; i++)
        ck_status(post(lister, json_pack("{ss ss}", "externalId", text("L%d", i), "countryCode",
                                         i % 2 ? "ES" : "DE")),
                  201);
    struct answer *all = ck_status(http(host, "GET", DEVICE, lister->token, NULL), 200);
    struct answer *spain =
        ck_status(http(host, "GET", DEVICE "?countryCode=es", lister->token, NULL), 200);
    struct answer *page = ck_status(http(host, "GET", DEVICE "?limit=3", lister->token, NULL), 200);

    ck_assert_uint_eq(json_array_size(all->json), 5);
    ck_assert_uint_eq(json_array_size(spain->json), 2);
    ck_assert_uint_eq(json_array_size(page->json), 3);
    const char *link = answer_header(page, "Link");

    ck_assert_ptr_nonnull(link);
    struct answer *rest = ck_status(
        http(host, "GET", text("%.*s", (int)strcspn(link + 1, ">"), link + 1), lister->token, NULL),
        200);

    ck_assert_uint_eq(json_array_size(rest->json), 2);
    ck_assert(json_equal(json_array_get(rest->json, 0), json_array_get(all->json, 3)));
    ck_assert_ptr_null(answer_header(rest, "Link"));
}

START_TEST(a_repeated_registration_is_answered_again)
{
    const char *const headers[] = {"Idempotency-Key: device-1", NULL};
    struct call call = {.method = "POST",
                        .path = DEVICE,
                        .token = m->token,
                        .body = "{\"externalId\":\"Again\"}",
                        .headers = headers};
    struct answer *first = ck_status(http_send(host, &call), 201);

    ck_assert_str_eq(ck_status(http_send(host, &call), 201)->body, first->body);
}

/* A twin stumbles over the first one's name before it meets the key. */
START_TEST(twenty_registrations_at_once_with_one_key_are_one)
{
    static const char *const headers[] = {"Idempotency-Key: device-20", NULL};
    struct call calls[20];
    struct answer *answers[20];

    for (int i = 0; i < 20; i++)
        calls[i] = (struct call){.method = "POST",
                                 .path = DEVICE,
                                 .token = m->token,
                                 .body = "{\"externalId\":\"Twins\"}",
                                 .headers = headers};
    parallel(host, calls, answers, 20);
    for (int i = 0; i < 20; i++)
        ck_assert_str_eq(ck_status(answers[i], 201)->body, answers[0]->body);
}

/* JSON numbers never come back with an exponent, nor as another number. */
START_TEST(a_small_number_as_external_id_keeps_its_digits)
{
    struct answer *made = ck_status(post(m, json_pack("{sf}", "externalId", 0.00002)), 201);

    ck_assert_str_eq(answer_text(made, "externalId"), "0.00002");
}

Suite *devices_suite(void)
{
    Suite *suite = suite_create("devices");
    TCase *tests = tcase_create("devices");

    tcase_set_timeout(tests, 60);
    tcase_add_unchecked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, a_device_is_registered_and_read_back_as_it_was_answered);
    tcase_add_test(tests, one_name_is_enough_and_none_is_not);
    tcase_add_test(tests, an_external_id_is_unique_in_its_organisation_whatever_the_case);
    tcase_add_test(tests, what_is_not_valid_is_named);
    tcase_add_test(tests, numbers_that_are_none_are_malformed);
    tcase_add_test(tests, what_is_unlikely_is_taken_with_a_warning);
    tcase_add_test(tests, attributes_are_bounded);
    tcase_add_test(tests, a_device_is_registered_where_one_may_act);
    tcase_add_test(tests, an_api_user_of_several_organisations_says_in_which);
    tcase_add_test(tests, devices_of_others_are_unknown);
    tcase_add_test(tests, a_site_with_none_or_several_devices_is_not_changed);
    tcase_add_test(tests, a_serial_number_that_several_have_is_ambiguous);
    tcase_add_test(tests, what_the_host_gives_is_not_written);
    tcase_add_test(tests, other_roles_register_nothing);
    tcase_add_test(tests, parallel_changes_of_different_fields_all_survive);
    tcase_add_test(tests, lists_are_filtered_and_paged);
    tcase_add_test(tests, a_repeated_registration_is_answered_again);
    tcase_add_test(tests, twenty_registrations_at_once_with_one_key_are_one);
    tcase_add_test(tests, a_small_number_as_external_id_keeps_its_digits);
    suite_add_tcase(suite, tests);
    return suite;
}
