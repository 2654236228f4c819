/*
 * Changes of devices: an empty PATCH, or one with values that the device already has, returns the
 * unchanged device, writes nothing and raises no event.
 */
#include "stage.h"
#include "talk.h"

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
    return ck_status(http(host, "PATCH", text("/api/device/%s", key), m->token, device), 200);
}

static int64_t updates_of(const char *key)
{
    const char *values[] = {key};

    return atoll(sql_text(db,
                          "SELECT count(*) FROM spy_event WHERE name = 'device.updated'"
                          " AND payload::jsonb -> 'device' ->> 'externalId' = $1",
                          1, values));
}

static const char *whole(const char *key, const char *change)
{
    return json_with(
        text("{'externalId':'%s','countryCode':'de','commissioningDate':'2024-02-29',"
             "'capacity':9.9,'latitude':'52.5200','longitude':'13.4','timezone':'Europe/Berlin',"
             "'attributes':{'roof':true}}",
             key),
        change);
}

TEST(an_empty_patch_and_one_with_the_same_values_raise_no_event)
{
    struct answer *made = ask(m, 201, NULL, "POST /api/device %s", whole("same", "{}"));
    const char *const same[] = {"{}",
                                whole("same", "{}"),
                                "{\"siteName\":null}",
                                "{\"commissioningDate\":\"2024-02-29T12:00:00+0100\"}",
                                "{\"roof\":true}",
                                made->body};

    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        struct answer *answer = ask(m, 200, NULL, "PATCH /api/device/same %s", same[i]);

        ck_assert_msg(json_equal(answer->json, made->json), "%zu: %s", i, answer->body);
    }
    ck_assert_int_eq(updates_of("same"), 0);
    sql_is(db, 1,
           "SELECT count(*) FROM device WHERE external_id = 'same'"
           " AND updated_at = created_at");
}

TEST(a_patch_with_one_changed_value_is_a_change)
{
    struct answer *made = ask(m, 201, NULL, "POST /api/device %s", whole("other", "{}"));
    struct answer *changed =
        ask(m, 200, "{'siteName':'Now it has one'}", "PATCH /api/device/other %s",
            whole("other", "{'siteName':'Now it has one'}"));
    static const char *const others[] = {"{\"capacity\":9.8}", "{\"latitude\":\"52.52\"}",
                                         "{\"roof\":false}", "{\"wall\":1}"};

    ck_assert_str_ne(answer_text(changed, "updatedAt"), answer_text(made, "updatedAt"));
    ck_assert_int_eq(updates_of("other"), 1);
    for (int i = 0; i < 4; i++) {
        ask(m, 200, NULL, "PATCH /api/device/other %s", others[i]);
        ck_assert_int_eq(updates_of("other"), 2 + i);
    }
}

/* Clears everything that can be cleared; the externalId stays. */
static const char nothing[] =
    "{\"siteName\":null,\"countryCode\":null,\"commissioningDate\":null,\"capacity\":null,"
    "\"address\":null,\"latitude\":null,\"longitude\":null,\"fuelCode\":null,"
    "\"deviceTypeCode\":null,\"serialNumber\":null,\"timezone\":null,\"yieldValue\":null,"
    "\"attributes\":null}";

static void make_whole(const char *key)
{
    ask(m, 201, NULL, "POST /api/device %s",
        whole(key, "{'siteName':'Site','address':'Street 1','fuelCode':'ES100',"
                   "'deviceTypeCode':'TC110','serialNumber':'SN-1','yieldValue':1000}"));
}

TEST(null_clears_a_field_and_an_attribute)
{
    make_whole("cleared");
    ask(m, 201, NULL, "POST /api/device {'externalId':'bare'}");
    struct answer *bare = ask(m, 200, NULL, "GET /api/device/bare");

    ask(m, 200,
        "{'yieldValue':null,'siteName':null,'serialNumber':'SN-1',"
        "'attributes':{'wall':1,'roof':'(absent)'}}",
        "PATCH /api/device/cleared {'yieldValue':null,'projectName':null,"
        "'attributes':{'roof':null,'wall':1}}");
    ck_assert_int_eq(updates_of("cleared"), 1);
    ask(m, 200, "{'attributes':{'door':2,'wall':'(absent)'}}",
        "PATCH /api/device/cleared {'wall':null,'door':2}");
    ask(m, 200, NULL, "PATCH /api/device/cleared %s", nothing);
    struct answer *after = ask(m, 200, NULL, "GET /api/device/cleared");

    EACH_TEXT (member, "id", "uuid", "externalId", "createdAt", "updatedAt") {
        json_object_del(after->json, member);
        json_object_del(bare->json, member);
    }
    ck_assert_msg(json_equal(after->json, bare->json), "%s", after->body);
    ck_assert_int_eq(updates_of("cleared"), 3);
    ask(m, 200, NULL, "PATCH /api/device/cleared %s", nothing);
    ck_assert_int_eq(updates_of("cleared"), 3);
    ck_assert_str_eq(sql_text(db,
                              "SELECT payload::jsonb ->> 'changed' FROM spy_event WHERE"
                              " name = 'device.updated' AND payload LIKE '%cleared%'"
                              " ORDER BY wall_ms LIMIT 1",
                              0, NULL),
                     "[\"siteName\", \"yieldValue\", \"attributes\"]");
}

/* An empty text counts as absent, and the response warns about it. */
TEST(required_fields_of_a_device_cannot_be_cleared)
{
    static const char nameless[] = "{'errors':[{'field':'externalId'}]}";
    const struct exchange rows[] = {
        {"POST /api/device {'serialNumber':'only this one'}", m, 201},
        {"PATCH /api/device/named {'status':null}", m, 400, "{'errors':[{'field':'status'}]}"},
        {"PATCH /api/device/only%20this%20one {'serialNumber':null}", m, 400, nameless},
        {"PATCH /api/device/named {'externalId':null,'siteName':null,'serialNumber':null}", m, 400,
         nameless},
        {"PATCH /api/device/named {'address':''}", m, 200,
         "{'address':'Street 1','warnings':['address: *']}"},
        {"PATCH /api/device/named {'externalId':null}", m, 200, "{'externalId':null}"},
        {"GET /api/device/named", m, 404},
        {"GET /api/device/SN-1", m, 200},
    };

    make_whole("named");
    exchange_rows(host, rows);
}

/* Each attribute has a text of 100 digits, and 110 bytes as JSON; PostgreSQL adds two spaces. */
static json_t *attributes_of(char letter, int count)
{
    json_t *attributes = json_object();

    for (int i = 0; i < count; i++)
        json_object_set_new(attributes, text("%c%03d", letter, i), json_string(text("%0100d", i)));
    return json_pack("{so}", "attributes", attributes);
}

TEST(attributes_that_grow_by_patches_keep_their_size_limit)
{
    ask(m, 201, NULL, "POST /api/device {'externalId':'grown'}");
    patch("grown", attributes_of('a', 150));
    struct answer *full = patch("grown", attributes_of('b', 147)); /* 32,671 bytes */
    struct answer *over =
        ck_status(http(host, "PATCH", "/api/device/grown", m->token, attributes_of('c', 1)), 400);

    ck_assert_str_eq(answer_text(over, "message"), "The request is not valid");
    ck_assert_ptr_nonnull(strstr(over->body, "\"field\":\"attributes\""));
    struct answer *after = ck_status(http(host, "GET", "/api/device/grown", m->token, NULL), 200);

    ck_assert_msg(json_equal(after->json, full->json), "%s", after->body);
    ck_assert_int_eq(updates_of("grown"), 2);
    patch("grown", attributes_of('b', 1));
}

STAGE_SUITE(device_changes, set_up, 60)
