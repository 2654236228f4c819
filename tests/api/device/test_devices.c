/* Devices as JSON: valid values, and registering the same device twice. */
#include "devices.h"
#include "talk.h"

#define MAKE "POST /api/device "
#define EXACT "'warnings':'(absent)'"
#define NAMELESS "{'errors':[{'field':'externalId'}]}"

TEST(a_registered_device_is_read_back_as_in_the_response)
{
    struct answer *made = ask(
        m, 201,
        "{'externalId':'Whole 1','countryCode':'DEU','commissioningDate':'2024-02-29',"
        "'latitude':'+52.5200','attributes':{'colour':'blue','nested':{'deep':true}},"
        "'documents':[]," EXACT "}",
        MAKE "{'externalId':'  Whole 1 ','siteName':'Hill','countryCode':'deu','capacity':9.9,"
             "'commissioningDate':'2024-02-29T10:00:00Z','address':'Street 1','fuelCode':'ES100',"
             "'latitude':'+52.5200','longitude':'-13.4','deviceTypeCode':'TC110','yieldValue':950,"
             "'serialNumber':'SN-1','timezone':'Europe/Berlin','colour':'blue',"
             "'nested':{'deep':true}}");
    struct answer *read = ck_status(device_get(m, "whole 1"), 200);

    ck_assert_msg(json_equal(made->json, read->json), "%s\n%s", made->body, read->body);
    ck_assert_str_eq(device_get(m, answer_text(made, "uuid"))->body, read->body);
    ck_assert_str_eq(device_get(m, "SN-1")->body, read->body);
}

/* JSON numbers are never returned with an exponent, nor as another number. */
TEST(one_key_is_enough_and_unique_in_its_organization_in_any_case)
{
    exchanges(host, {MAKE "{'siteName':'Only a site'}", m, 201},
              {MAKE "{'serialNumber':'Only a number'}", m, 201},
              {MAKE "{'externalId':4711}", m, 201, "{'externalId':'4711'}"},
              {MAKE "{'externalId':0.00002}", m, 201, "{'externalId':'0.00002'}"},
              {MAKE "{'capacity':5.0}", m, 400, NAMELESS},
              {MAKE "{'externalId':' \xe3\x80\x80\xc2\xa0'}", m, 400, NAMELESS},
              {MAKE "{'externalId':null,'siteName':null}", m, 400, NAMELESS},
              {MAKE "{'externalId':'\xef\xbb\xbf\xc2\xa0 A\xc2\xa0 B\xe2\x80\x89\xe3\x80\x80'}", m,
               201, "{'externalId':'A\xc2\xa0 B'}"},
              {MAKE "{'externalId':'Unique'}", m, 201},
              {MAKE "{'externalId':'uNIQUE'}", m, 409, "{'success':false}"},
              {MAKE "{'externalId':'UNIQUE'}", k, 201}, {MAKE "{'externalId':'Unique 2'}", m, 201},
              {"PATCH /api/device/Unique%202 {'externalId':'UNIQUE'}", m, 409});
}

/* A plant cannot be registered again under an id that is equivalent or looks the same. */
TEST(an_external_id_that_looks_like_another_is_a_conflict)
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

static const struct {
    const char *field, *values[16]; /* values: JSON */
} bad[] = {
    {"externalId",
     {"\"\"", "\"a\\u0007b\"", "[]", "1e300", "\".\"", "\" .. \"", "\"MY\"", "\"see\u200Bn\"",
      "\"see\u00ADn\"", "\"see\u2060n\"", "\"see\u202En\"", "\"see\u3164n\"", "\"see\u2800n\"",
      "\"see\uFEFFn\"", "\"see\u2028n\""}},
    {"siteName",
     {"\"si\u200Bte\"", "\"\u202Esite\"", "\"si\u00ADte\"", "\"e\u0301\"", "true", "7.5"}},
    {"countryCode", {"\"XX\"", "\"D\""}},
    {"commissioningDate",
     {"\"2026-02-30\"", "\"0000-01-01\"", "\"9999-12-31\"", "\"01.05.2024\"", "20240501",
      "\"2024-01-01T99:99:99Z\"", "\"2024-01-01T10:00:00+25:00\"", "\"2024-01-01T10:00:60Z\"",
      "\"2024-01-01T10\"", "\"2024-01-01T\"", "\"2024-01-01Z\"", "\"2024-01-01T10:00:00Z0\""}},
    {"capacity", {"-1", "0", "\"5 kW\"", "1e-400", "10000001"}},
    {"latitude",
     {"91", "\"90.0001\"", "\"1e5\"", "\"52,5\"", "true", "\"52.500000000000000000000000000000\""}},
    {"longitude", {"\"-180.5\""}},
    {"fuelCode", {"[]"}},
    {"serialNumber", {"5.5"}},
    {"timezone",
     {"\"Europe/Nowhere\"", "\"../../etc/passwd\"", "\"/etc/localtime\"", "\"localtime\"",
      "\"right/Europe/Berlin\"", "\"Europe//Berlin\""}},
    {"yieldValue", {"0", "4001"}},
    {"organizationId", {"\"one\""}},
    {"attributes", {"[]"}},
};

TEST(invalid_fields_are_reported)
{
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        for (const char *const *value = bad[i].values; *value; value++)
            ask(m, 400, text("{'errors':[{'field':'%s'}]}", bad[i].field), MAKE "{'%s':%s%s}",
                bad[i].field, *value,
                strcmp(bad[i].field, "externalId") ? ",\"externalId\":\"Bad\"" : "");
    ck_error(device_get(m, "Bad"), 404, "");
}

TEST(all_errors_of_a_device_are_reported_in_one_response)
{
    static const char body[] = "'siteName':[],'countryCode':'XX','capacity':'much','latitude':91,"
                               "'commissioningDate':'2024-02-30','timezone':'Nowhere',"
                               "'organizationId':-1,'attributes':7}";
    const struct exchange rows[] = {
        {text(MAKE "{'externalId':'\\u0001',%s", body), m, 400},
        {text("PATCH /api/device/nobody {%s", body), m, 400},
    };

    for (size_t i = 0; i < 2; i++) {
        struct answer *answer = ask_with(&rows[i]);

        ck_assert_uint_eq(json_array_size(json_object_get(answer->json, "errors")), 9 - i);
        EACH_TEXT (field, "siteName", "countryCode", "capacity", "commissioningDate", "latitude",
                   "timezone", "organizationId", "attributes")
            ck_assert_msg(strstr(answer->body, text("{\"field\":\"%s\"", field)), "%s: %s", field,
                          answer->body);
    }
    ask(m, 400, "{'errors':[{},{},{}]}", MAKE "{'capacity':-1,'countryCode':'XX'}");
}

TEST(pages_of_devices_with_large_attributes_have_fewer_devices)
{
    enum { DEVICES = 60, MIB = 1024 * 1024 };
    struct person *large = person_make(host, admin, "devices.large", NULL);
    int pages = 0;
    size_t devices = 0;

    for (int i = 0; i < DEVICES; i++)
        ask(large, 201, NULL, MAKE "{'externalId':'large%d','note':'%030000d'}", i, i);
    EACH_PAGE (page, large, DEVICE "?limit=100") {
        ck_assert_uint_lt(page->length, MIB + 65536);
        ck_assert_uint_gt(json_array_size(page->json), 0);
        devices += json_array_size(page->json);
        pages++;
    }
    ck_assert_uint_eq(devices, DEVICES);
    ck_assert_int_ge(pages, 2);
}

TEST(unlikely_values_give_warnings)
{
    ask(m, 201, "{'warnings':['*','*','*']}",
        MAKE "{'externalId':'Warned','capacity':5001,'fuelCode':'ES10','deviceTypeCode':'TC1100'}");
    ask(m, 200, "{" EXACT "}", "GET /api/device/Warned");
    ask(m, 200, "{" EXACT "}",
        "PATCH /api/device/Warned {'capacity':5000,'fuelCode':'ES200','deviceTypeCode':'T012345'}");
    EACH_TEXT (code, "TC11", "T0123", "T0123456", "T012345x")
        ask(m, 200, "{'warnings':['deviceTypeCode: *']}",
            "PATCH /api/device/Warned {'deviceTypeCode':'%s'}", code);
    ask(m, 200, "{'warnings':['fuelCode: *']}", "PATCH /api/device/Warned {'fuelCode':'ES1000'}");
}

TEST(values_may_reach_each_limit_but_not_exceed_it)
{
    const char *name = text_repeated("\u00fc", 255), *note = text_repeated("x", 32757);

    exchanges(host, {text(MAKE "{'externalId':'%s','note':'%s'}", name, note), m, 201},
              {text(MAKE "{'externalId':'%sx'}", name), m, 400, NAMELESS},
              {text(MAKE "{'externalId':'Large','note':'%sx'}", note), m, 400,
               "{'errors':[{'field':'attributes'}]}"},
              {MAKE "{'externalId':'Pole','latitude':'-90.0000000000000000000000000000',"
                    "'longitude':180,'capacity':10000000,'yieldValue':4000}",
               m, 201});
}

/* Clients and the database write all digits of such numbers, which do not fit in 64 bits. */
TEST(huge_numbers_in_attributes_are_read_back_with_their_digits)
{
    static const char body[] =
        "{\"externalId\":\"Huge\",\"a\":1e30,\"b\":[1.5e300,5,-10000000000000000000,"
        "9223372036854775807],"
        "\"c\":{\"-\":-9223372036854775808,\"0.5\":[9007199254740993,0.25]},"
        "\"text\":\"\\\"10000000000000000000000\\\\\"}";
    struct answer *made =
        ck_status(http_send(host,
                            &(struct call){
                                .method = "POST", .path = DEVICE, .token = m->token, .body = body}),
                  201);
    struct answer *read = ck_status(device_get(m, "Huge"), 200);
    struct answer *list = ck_status(http(host, "GET", DEVICE, m->token, NULL), 200);

    EACH_TEXT (part, "\"a\":1e+30,", "[1.5e+300,5,-10000000000000000000,9223372036854775807]",
               "\"-\":-9223372036854775808", "[9007199254740993,0.25]",
               "\"text\":\"\\\"10000000000000000000000\\\\\"") {
        ck_assert_msg(strstr(made->body, part), "%s", made->body);
        ck_assert_msg(strstr(read->body, part), "%s", read->body);
        ck_assert_msg(strstr(list->body, part), "%s", list->body);
    }
    struct answer *changed = ck_status(device_patch(m, "Huge", json_pack("{sf}", "d", 2e40)), 200);

    ck_assert_ptr_nonnull(strstr(changed->body, "2e+40"));
    ck_assert_ptr_nonnull(strstr(changed->body, "9007199254740993"));
}

/* The database adds blanks, and writes small numbers without an exponent. */
TEST(attributes_are_written_as_in_javascript)
{
    static const char *const attributes[] = {"{\"a\":{\"b\":[1,\"x: y, \\\" z\"]},\"c\":{}}",
                                             "{\"a\":[1e-7,0.000001,10.25],\"b\":\"1 0.0000001\"}",
                                             "{\"a\":\"\\\\\",\"b\":[]}", "{}"};

    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++) {
        const char *body =
            text("{\"externalId\":\"Script %zu\",\"attributes\":%s}", i, attributes[i]);
        const struct call call = {
            .method = "POST", .path = DEVICE, .token = m->token, .body = body};
        const char *part = text("\"attributes\":%s,", attributes[i]);
        struct answer *answers[] = {
            ck_status(http_send(host, &call), 201),
            ask(m, 200, NULL, "GET /api/device/Script%%20%zu", i),
            ask(m, 200, NULL, "GET /api/device?externalId=Script%%20%zu", i)};

        for (size_t n = 0; n < sizeof answers / sizeof *answers; n++)
            ck_assert_msg(strstr(answers[n]->body, part), "%s", answers[n]->body);
    }
}

/* Numbers near the equator or Greenwich keep exactly the digits that were sent. */
TEST(latitude_and_longitude_sent_as_numbers_keep_their_digits)
{
    static const char *const places[][2] = {
        {"0.0", "0"}, {"0.00005", "0.00005"}, {"-0.00001", "-0.00001"}, {"1e-300", "0"}};

    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        ask(m, 201, text("{'latitude':'%s','longitude':'%s'}", places[i][1], places[i][1]),
            MAKE "{'externalId':'Equator %zu','latitude':%s,'longitude':%s}", i, places[i][0],
            places[i][0]);
}

/* A client that registers an id with spaces around it may also request it with them. */
TEST(a_device_is_found_by_its_keys_with_surrounding_blanks)
{
    static const char found[] = "{'externalId':'Padded'}";

    exchanges(
        host,
        {MAKE "{'externalId':' Padded ','siteName':' Padded site ','serialNumber':' SN-padded '}",
         m, 201},
        {"GET /api/device/%20Padded%20", m, 200, found},
        {"GET /api/device/%C2%A0padded", m, 200, found},
        {"GET /api/device/SN-padded%20", m, 200, found},
        {"PATCH /api/device/by-site/%20Padded%20site%20 {'capacity':7}", m, 200, found},
        {"GET /api/device?siteName=%20Padded%20site%20&serialNumber=SN-padded%20", m, 200, "[{}]"});
}

OPENED_SUITE(devices, devices_open, 60)
