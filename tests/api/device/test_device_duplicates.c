/*
 * One plant that two organizations register is accepted with a warning and listed for Admins,
 * whichever way the device was registered.
 */
#include "bulk.h"
#include "devices.h"
#include "meter.h"
#include "talk.h"

#define DUPLICATES "/api/admin/device-duplicates"

static struct person *b;

static void set_up(void)
{
    stage_open(&(struct host_spec){
        .name = "duplicates",
        .modules = "[auth, device, bulk]",
        .more = text("bulk:\n  files: \"%s\"\n", harness_path("bulk-duplicates"))});
    m = person_make(host, admin, "duplicates.m", NULL);
    b = person_make(host, admin, "duplicates.b", NULL);
}

/* Register a device of a serial number, or at a place; with a warning, if it is like another. */
static struct answer *metered(const struct person *who, const char *name, const char *serial,
                              bool like)
{
    return ask(who, 201, like ? "{'warnings':['*']}" : "{'warnings':'(absent)'}",
               "POST /api/device {'externalId':'%s','serialNumber':'%s'}", name, serial);
}

static void placed(const struct person *who, const char *name, double kw, const char *latitude,
                   const char *longitude, bool like)
{
    ask(who, 201, like ? "{'warnings':['*']}" : "{'warnings':'(absent)'}",
        "POST /api/device {'externalId':'%s','capacity':%.1f,'latitude':'%s','longitude':'%s'}",
        name, kw, latitude, longitude);
}

/* Returns the newest pair that contains a device of this name; NULL: none. */
static const json_t *pair_of(const char *name)
{
    struct answer *list = ck_status(http(host, "GET", DUPLICATES, admin->token, NULL), 200);
    const json_t *pair, *device;
    size_t i, j;

    json_array_foreach (list->json, i, pair) {
        const json_t *devices = json_object_get(pair, "devices");

        ck_assert_uint_eq(json_array_size(devices), 2);
        json_array_foreach (devices, j, device) {
            if (!strcmp(text_in(device, "externalId"), name))
                return pair;
        }
    }
    return NULL;
}

static void ck_pair(const char *name, bool serial, bool place)
{
    const json_t *pair = pair_of(name);

    ck_assert_msg(pair != NULL, "%s is in no pair", name);
    ck_assert_int_eq(json_is_true(json_object_get(pair, "sameSerialNumber")), serial);
    ck_assert_int_eq(json_is_true(json_object_get(pair, "samePlace")), place);
}

TEST(a_meter_of_two_organizations_is_accepted_with_a_warning_and_listed)
{
    metered(m, "meter one", "SN 1", false);
    ck_assert_ptr_null(pair_of("meter one"));
    ck_assert_ptr_null(strstr(metered(b, "meter one", "SN 1", true)->body, m->email));
    ck_pair("meter one", true, false);
    expect_json(pair_of("meter one"),
                text("{'devices':[{'organizationId':%jd},{'organizationId':%jd}]}", m->organization,
                     b->organization));
}

TEST(the_same_organization_may_use_a_serial_number_twice)
{
    metered(m, "own 1", "SN 2", false);
    metered(m, "own 2", "SN 2", false);
    ck_assert_ptr_null(pair_of("own 2"));
}

/* 0.00044 degrees of latitude are 48.9 m, 0.00046 are 51.2 m; at 60 degrees a degree of longitude
 * is half as long. */
static const struct {
    const char *name, *latitude, *longitude;
    double kw;
    bool like;
} places[] = {
    {"49 m north", "52.50044", "13.4", 5.5, true},
    {"51 m north", "52.50046", "13.4", 5.5, false},
    {"other kW", "52.50000", "13.4", 5.6, false},
    {"far east", "52.50000", "14.4", 5.5, false},
    {"over the date line", "60.00000", "-179.9996", 7.5, true},
    {"too far over it", "60.00000", "-179.9994", 7.5, false},
};

TEST(devices_of_equal_capacity_within_50_metres_are_duplicates)
{
    placed(m, "place", 5.5, "+52.5", "13.40", false);
    placed(m, "date line", 7.5, "60", "179.9996", false);
    for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
        placed(b, places[i].name, places[i].kw, places[i].latitude, places[i].longitude,
               places[i].like);
        if (places[i].like)
            ck_pair(places[i].name, false, true);
        else
            ck_assert_ptr_null(pair_of(places[i].name));
    }
}

TEST(a_change_of_a_device_makes_and_ends_duplicates)
{
    metered(m, "old", "SN 3", false);
    ck_status(device_post(b, device_named("later")), 201);
    ck_assert_ptr_null(pair_of("later"));
    ask(b, 200, "{'warnings':['*']}", "PATCH /api/device/later {'serialNumber':'SN 3'}");
    ck_pair("later", true, false);
    ask(b, 200, "{'warnings':'(absent)'}", "PATCH /api/device/later {'serialNumber':'SN 4'}");
    ck_assert_ptr_null(pair_of("later"));
    ask(b, 200, NULL, "PATCH /api/device/later {'serialNumber':'SN 3'}");
    ck_pair("later", true, false);
    ask(m, 200, NULL, "DELETE /api/device/old");
    ck_assert_ptr_null(pair_of("later"));
}

TEST(duplicates_are_found_in_bulk_uploads)
{
    static const char rows[] = "externalId,serialNumber\nfrom a file,SN 5\n";

    metered(m, "single", "SN 5", false);
    struct answer *sent = bulk_send(host, b, "type=Devices", "devices.csv", rows, strlen(rows));

    bulk_store(b, bulk_id(sent));
    ck_pair("from a file", true, false);
}

/* Simulates two devices that were changed in the same instant, long after they were registered, so
 * that neither change saw the other; before them are more devices than the job reads in one
 * statement. */
TEST(the_job_finds_duplicates_of_simultaneous_changes)
{
    metered(m, "twin m", "SN 6", false);
    metered(b, "twin b", "SN 6", true);
    sql_run(db, text("INSERT INTO device (id, uuid, organisation, attributes, created_at,"
                     " updated_at) SELECT -n, gen_random_uuid(), %jd, '{}', t, t"
                     " FROM generate_series(1, 2500) n, (SELECT now() - interval '5 min' AS t) t",
                     m->organization));
    sql_run(db, "UPDATE device SET created_at = created_at - interval '1 week'"
                " WHERE external_id LIKE 'twin _'");
    sql_run(db, "INSERT INTO device_duplicate (device, other) VALUES (-9998, -9999)");
    sql_run(db, "DELETE FROM device_duplicate WHERE device > 0");
    ck_assert_ptr_null(pair_of("twin b"));
    host_says(host, 0, "reload"); /* jobs run some seconds later */
    WAIT_UNTIL(pair_of("twin b") != NULL, 30000);
    ck_pair("twin b", true, false);
    sql_soon(db, "SELECT (count(*) = 0)::int FROM device_duplicate WHERE device < 0");
    sql_run(db, "DELETE FROM device WHERE id < 0");
}

TEST(duplicates_are_listed_in_pages_newest_first)
{
    int pages = 0, seen = 0;
    int64_t last = INT64_MAX;

    for (int i = 0; i < 3; i++) {
        metered(m, text("m%d", i), text("page %d", i), false);
        metered(b, text("b%d", i), text("page %d", i), true);
    }
    EACH_PAGE (page, admin, DUPLICATES "?limit=2") {
        ck_assert_uint_le(json_array_size(page->json), 2);
        for (size_t i = 0; i < json_array_size(page->json); i++, seen++) {
            ck_assert_int_lt(int_in(item_of(page, NULL, i), "id"), last);
            last = int_in(item_of(page, NULL, i), "id");
        }
        pages++;
    }
    ck_assert_int_ge(seen, 3);
    ck_assert_int_eq(pages, (seen + 1) / 2);
}

STAGE_SUITE(device_duplicates, set_up, 60)
