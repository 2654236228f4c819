/* Devices as JSON: valid values (N04, N05), and registering the same device twice. */
#include <stdlib.h>
#include <string.h>

#include "devices.h"
#include "suite.h"
#include "suites.h"
#include "talk.h"

static void set_up(void)
{
    devices_open("devices");
}

TEST(a_device_is_registered_and_read_back_as_it_was_answered)
{
    struct answer *made = ck_status(
        device_post(m, json_pack("{ss ss ss ss sf ss ss ss ss ss ss ss si ss s{sb}}", "externalId",
                                 "  Whole 1 ", "siteName", "Hill", "countryCode", "deu",
                                 "commissioningDate", "2024-02-29T10:00:00Z", "capacity", 9.9,
                                 "address", "Street 1", "latitude", "+52.5200", "longitude",
                                 "-13.4", "fuelCode", "ES100", "deviceTypeCode", "TC110",
                                 "serialNumber", "SN-1", "timezone", "Europe/Berlin", "yieldValue",
                                 950, "colour", "blue", "nested", "deep", 1)),
        201);

    ck_assert_str_eq(device_field(made, "externalId"), "\"Whole 1\"");
    ck_assert_str_eq(device_field(made, "countryCode"), "\"DEU\"");
    ck_assert_str_eq(device_field(made, "commissioningDate"), "\"2024-02-29\"");
    ck_assert_str_eq(device_field(made, "latitude"), "\"+52.5200\"");
    ck_assert_str_eq(device_field(made, "attributes"),
                     "{\"colour\":\"blue\",\"nested\":{\"deep\":true}}");
    ck_assert_str_eq(device_field(made, "documents"), "[]");
    ck_assert_ptr_null(json_object_get(made->json, "warnings"));
    struct answer *read = ck_status(device_get(m, "whole 1"), 200);

    ck_assert_msg(json_equal(made->json, read->json), "%s\n%s", made->body, read->body);
    ck_assert_str_eq(device_get(m, answer_text(made, "uuid"))->body, read->body);
    ck_assert_str_eq(device_get(m, "SN-1")->body, read->body);
}

TEST(one_name_is_enough_and_none_is_not)
{
    ck_status(device_post(m, json_pack("{ss}", "siteName", "Only a site")), 201);
    ck_status(device_post(m, json_pack("{ss}", "serialNumber", "Only a number")), 201);
    struct answer *number = ck_status(device_post(m, json_pack("{si}", "externalId", 4711)), 201);

    ck_assert_str_eq(device_field(number, "externalId"), "\"4711\"");
    device_problem(device_post(m, json_pack("{sf}", "capacity", 5.0)), "externalId");
    device_problem(device_post(m, device_named(" \xe3\x80\x80\xc2\xa0")), "externalId");
    struct answer *pasted = ck_status(
        device_post(m, device_named("\xef\xbb\xbf\xc2\xa0 A\xc2\xa0 B\xe2\x80\x89\xe3\x80\x80")),
        201);

    ck_assert_str_eq(device_field(pasted, "externalId"), "\"A\xc2\xa0 B\"");
    device_problem(device_post(m, json_pack("{sn sn}", "externalId", "siteName")), "externalId");
}

TEST(an_external_id_is_unique_in_its_organization_whatever_the_case)
{
    ck_status(device_post(m, device_named("Unique")), 201);
    struct answer *twice = ck_error(device_post(m, device_named("uNIQUE")), 409, "");

    ck_assert(json_is_false(json_object_get(twice->json, "success")));
    ck_status(device_post(k, device_named("UNIQUE")), 201);
    ck_status(device_post(m, device_named("Unique 2")), 201);
    ck_error(device_patch(m, "Unique 2", device_named("UNIQUE")), 409, "");
}

/* A plant cannot be registered again under an id that is equivalent or looks the same. */
TEST(an_external_id_that_looks_like_another_is_that_one)
{
    static const char *const same[][2] = {{"look\u00E9", "looke\u0301"},
                                          {"look1", "\uFF4C\uFF4F\uFF4F\uFF4B\uFF11"},
                                          {"Gro\u00DF", "GROSS"},
                                          {"\u00C9t\u00C9", "\u00E9t\u00E9"},
                                          {"\uFB01n", "FIN"}};

    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        struct answer *made = ck_status(device_post(m, device_named(same[i][0])), 201);

        ck_error(device_post(m, device_named(same[i][1])), 409, "A device with this externalId");
        ck_assert_int_eq(answer_int(ck_status(device_get(m, same[i][1]), 200), "id"),
                         answer_int(made, "id"));
        struct answer *listed =
            http(host, "GET", text(DEVICE "?externalId=%s", encoded(same[i][1])), m->token, NULL);

        ck_assert_uint_eq(json_array_size(ck_status(listed, 200)->json), 1);
    }
    struct answer *composed = ck_status(device_post(m, device_named("kept e\u0301")), 201);

    ck_assert_str_eq(answer_text(composed, "externalId"), "kept \u00E9");
}

TEST(an_external_id_of_invisible_characters_or_another_path_is_refused)
{
    static const char *const refused[] = {
        "see\u200Bn", "see\u00ADn", "see\u2060n", "see\u202En", "see\u3164n", "see\u2800n",
        "see\uFEFFn", "see\u2028n", ".",          "..",         "my",         "MY",
    };

    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct answer *answer = ck_status(device_post(m, device_named(refused[i])), 400);

        device_problem(answer, "externalId");
    }
}

TEST(a_site_name_of_invisible_characters_is_refused)
{
    static const char *const refused[] = {"si\u200Bte", "\u202Esite", "si\u00ADte", "e\u0301"};

    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct answer *answer =
            http(host, "POST", DEVICE, m->token, json_pack("{ss}", "siteName", refused[i]));

        device_problem(ck_status(answer, 400), "siteName");
    }
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
    {"externalId", "\".\""},
    {"externalId", "\" .. \""},
    {"externalId", "\"my\""},
    {"siteName", "true"},
    {"siteName", "7.5"},
    {"countryCode", "\"XX\""},
    {"countryCode", "\"D\""},
    {"commissioningDate", "\"2026-02-30\""},
    {"commissioningDate", "\"0000-01-01\""},
    {"commissioningDate", "\"9999-12-31\""},
    {"commissioningDate", "\"01.05.2024\""},
    {"commissioningDate", "20240501"},
    {"commissioningDate", "\"2024-01-01T99:99:99Z\""},
    {"commissioningDate", "\"2024-01-01T10:00:00+25:00\""},
    {"commissioningDate", "\"2024-01-01T10:00:60Z\""},
    {"commissioningDate", "\"2024-01-01T10\""},
    {"commissioningDate", "\"2024-01-01T\""},
    {"commissioningDate", "\"2024-01-01Z\""},
    {"commissioningDate", "\"2024-01-01T10:00:00Z0\""},
    {"capacity", "-1"},
    {"capacity", "0"},
    {"capacity", "\"5 kW\""},
    {"capacity", "1e-400"},
    {"capacity", "10000001"},
    {"latitude", "91"},
    {"latitude", "\"90.0001\""},
    {"latitude", "\"1e5\""},
    {"latitude", "\"52,5\""},
    {"latitude", "true"},
    {"longitude", "\"-180.5\""},
    {"fuelCode", "[]"},
    {"serialNumber", "5.5"},
    {"timezone", "\"Europe/Nowhere\""},
    {"timezone", "\"../../etc/passwd\""},
    {"timezone", "\"/etc/localtime\""},
    {"timezone", "\"localtime\""},
    {"timezone", "\"right/Europe/Berlin\""},
    {"timezone", "\"Europe//Berlin\""},
    {"yieldValue", "0"},
    {"yieldValue", "4001"},
    {"organizationId", "\"one\""},
    {"attributes", "[]"},
};

TEST(what_is_not_valid_is_named)
{
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *body =
            text("{\"%s\":%s%s}", bad[i].field, bad[i].value,
                 strcmp(bad[i].field, "externalId") ? ",\"externalId\":\"Bad\"" : "");
        struct answer *answer = http_send(
            host,
            &(struct call){.method = "POST", .path = DEVICE, .token = m->token, .body = body});

        ck_assert_msg(answer->status == 400, "%s: %ld %s", body, answer->status, answer->body);
        device_problem(answer, bad[i].field);
    }
    ck_error(device_get(m, "Bad"), 404, "");
}

TEST(every_mistake_of_every_kind_is_named_in_one_answer)
{
    static const char *const fields[] = {"siteName",          "countryCode", "capacity",
                                         "commissioningDate", "latitude",    "timezone",
                                         "organizationId",    "attributes"};
    static const char body[] = "{%s\"siteName\":[],\"countryCode\":\"XX\",\"capacity\":\"much\","
                               "\"commissioningDate\":\"2024-02-30\",\"latitude\":91,"
                               "\"timezone\":\"Nowhere\",\"organizationId\":-1,\"attributes\":7}";

    for (int i = 0; i < 2; i++) {
        struct call call = {.method = i ? "PATCH" : "POST",
                            .path = i ? DEVICE "/nobody" : DEVICE,
                            .token = m->token,
                            .body = text(body, i ? "" : "\"externalId\":\"\\u0001\",")};
        struct answer *answer = ck_error(http_send(host, &call), 400, "");
        const json_t *errors = json_object_get(answer->json, "errors");
        size_t index, expected = sizeof fields / sizeof *fields + (i ? 0 : 1);
        const json_t *error;

        ck_assert_msg(json_array_size(errors) == expected, "%s", answer->body);
        for (size_t f = 0; f < sizeof fields / sizeof *fields; f++) {
            bool named = false;

            json_array_foreach(errors, index, error)
            {
                named =
                    named || !strcmp(json_string_value(json_object_get(error, "field")), fields[f]);
            }
            ck_assert_msg(named, "%s: %s", fields[f], answer->body);
        }
    }
    struct answer *nameless =
        device_post(m, json_pack("{si ss}", "capacity", -1, "countryCode", "XX"));

    ck_assert_uint_eq(json_array_size(json_object_get(ck_error(nameless, 400, "")->json, "errors")),
                      3);
}

TEST(pages_of_devices_with_large_attributes_are_short)
{
    enum { DEVICES = 60, MIB = 1024 * 1024 };
    struct person *large = person_make(host, admin, "devices.large", NULL);
    const char *after = "";
    int pages = 0, devices = 0;

    for (int i = 0; i < DEVICES; i++)
        ck_status(device_post(large, json_pack("{ss ss}", "externalId", text("large%d", i), "note",
                                               text("%030000d", i))),
                  201);
    while (after) {
        struct answer *page = ck_status(
            http(host, "GET", text(DEVICE "?limit=100%s", after), large->token, NULL), 200);
        const char *link = answer_header(page, "Link");
        const char *cursor = link ? strstr(link, "after=") : NULL;

        ck_assert_uint_lt(page->length, MIB + 65536);
        ck_assert_uint_gt(json_array_size(page->json), 0);
        devices += (int)json_array_size(page->json);
        after = cursor ? text("&%.*s", (int)strcspn(cursor, ">&"), cursor) : NULL;
        pages++;
    }
    ck_assert_int_eq(devices, DEVICES);
    ck_assert_int_ge(pages, 2);
}

TEST(numbers_that_are_none_are_malformed)
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

TEST(what_is_unlikely_is_taken_with_a_warning)
{
    struct answer *made =
        ck_status(device_post(m, json_pack("{ss si ss ss}", "externalId", "Warned", "capacity",
                                           5001, "fuelCode", "ES10", "deviceTypeCode", "TC1100")),
                  201);

    ck_assert_uint_eq(json_array_size(json_object_get(made->json, "warnings")), 3);
    ck_assert_ptr_null(json_object_get(device_get(m, "Warned")->json, "warnings"));
    struct answer *mended =
        ck_status(device_patch(m, "Warned",
                               json_pack("{si ss ss}", "capacity", 5000, "fuelCode", "ES200",
                                         "deviceTypeCode", "T012345")),
                  200);

    ck_assert_ptr_null(json_object_get(mended->json, "warnings"));
}

TEST(attributes_are_bounded)
{
    char *large = kept(calloc(1, 33000));

    memset(large, 'x', 32999);
    device_problem(device_post(m, json_pack("{ss ss}", "externalId", "Large", "note", large)),
                   "attributes");
}

/* The database writes all digits of such numbers, which do not fit into a JSON integer. */
TEST(attributes_with_huge_numbers_are_read_back_and_keep_the_digits_of_others)
{
    static const char body[] =
        "{\"externalId\":\"Huge\",\"a\":1e30,\"b\":[1.5e300,5,-1e19,9223372036854775807],"
        "\"c\":{\"-\":-9223372036854775808,\"0.5\":[9007199254740993,0.25]},"
        "\"text\":\"\\\"10000000000000000000000\\\\\"}";
    struct answer *made =
        ck_status(http_send(host,
                            &(struct call){
                                .method = "POST", .path = DEVICE, .token = m->token, .body = body}),
                  201);
    struct answer *read = ck_status(device_get(m, "Huge"), 200);
    static const char *const parts[] = {"\"a\":1e+30,",
                                        "[1.5e+300,5,-10000000000000000000,9223372036854775807]",
                                        "\"-\":-9223372036854775808", "[9007199254740993,0.25]",
                                        "\"text\":\"\\\"10000000000000000000000\\\\\""};

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        ck_assert_msg(strstr(made->body, parts[i]), "%s", made->body);
        ck_assert_msg(strstr(read->body, parts[i]), "%s", read->body);
    }
    struct answer *list = ck_status(http(host, "GET", DEVICE, m->token, NULL), 200);

    ck_assert_msg(strstr(list->body, "\"a\": 1000000000000000000000000000000e0,"), "%s",
                  list->body);
    ck_assert_ptr_nonnull(list->json);
    ck_assert(strstr(list->body, "\"text\": \"\\\"10000000000000000000000\\\\\""));
    struct answer *changed = ck_status(device_patch(m, "Huge", json_pack("{sf}", "d", 2e40)), 200);

    ck_assert_ptr_nonnull(strstr(changed->body, "2e+40"));
    ck_assert_ptr_nonnull(strstr(changed->body, "9007199254740993"));
}

TEST(a_repeated_registration_is_answered_again)
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

/* A concurrent request fails on the first one's name before it finds the key. */
TEST(twenty_registrations_at_once_with_one_key_are_one)
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

/* JSON numbers are never returned with an exponent, nor as another number. */
TEST(a_small_number_as_external_id_keeps_its_digits)
{
    struct answer *made = ck_status(device_post(m, json_pack("{sf}", "externalId", 0.00002)), 201);

    ck_assert_str_eq(answer_text(made, "externalId"), "0.00002");
}

/* Numbers near the equator or Greenwich keep exactly the digits that were sent. */
TEST(a_number_as_latitude_or_longitude_keeps_its_digits)
{
    static const struct {
        double degrees;
        const char *text;
    } places[] = {{0.0, "0"}, {0.00005, "0.00005"}, {-0.00001, "-0.00001"}, {1e-300, "0"}};

    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        struct answer *made = ck_status(
            device_post(m, json_pack("{ss sf sf}", "externalId", text("Equator %zu", i), "latitude",
                                     places[i].degrees, "longitude", places[i].degrees)),
            201);

        ck_assert_str_eq(answer_text(made, "latitude"), places[i].text);
        ck_assert_str_eq(answer_text(made, "longitude"), places[i].text);
    }
}

/* A client that registers an id with spaces around it may also request it with them. */
TEST(a_device_is_found_by_the_name_that_was_sent)
{
    ck_status(device_post(m, json_pack("{ss ss ss}", "externalId", " Padded ", "siteName",
                                       " Padded site ", "serialNumber", " SN-padded ")),
              201);
    static const char *const keys[] = {"%20Padded%20", "%C2%A0padded", "SN-padded%20"};

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        struct answer *found =
            ck_status(http(host, "GET", text(DEVICE "/%s", keys[i]), m->token, NULL), 200);

        ck_assert_str_eq(answer_text(found, "externalId"), "Padded");
    }
    ck_status(http(host, "PATCH", DEVICE "/by-site/%20Padded%20site%20", m->token,
                   json_pack("{si}", "capacity", 7)),
              200);
    struct answer *listed = ck_status(
        http(host, "GET", DEVICE "?siteName=%20Padded%20site%20&serialNumber=SN-padded%20",
             m->token, NULL),
        200);

    ck_assert_uint_eq(json_array_size(listed->json), 1);
}

STAGE_SUITE(devices, set_up, 60)
