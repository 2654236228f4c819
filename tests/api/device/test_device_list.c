/*
 * Lists of devices: sort orders, with cursors that stay valid while devices change; members of
 * groups; lists of values for forms.
 */
#include "devices.h"
#include "meter.h"
#include "talk.h"

#define GROUP "/api/device-group"

static void set_up(void)
{
    stage_open(&(struct host_spec){.name = "device_list", .modules = METER_MODULES});
    m = person_make(host, admin, "lists.m", NULL);
}

static struct answer *get(const struct person *who, const char *path)
{
    return ck_status(http(host, "GET", path, who->token, NULL), 200);
}

/* Returns the devices on all pages of this size, separated by spaces. */
static const char *names_of_pages(const struct person *who, const char *query, int limit)
{
    const char *names = "";

    EACH_PAGE (page, who, text(DEVICE "?%s&limit=%d", query, limit)) {
        ck_assert_uint_le(json_array_size(page->json), (size_t)limit);
        names = text("%s%s%s", names, *names ? " " : "", device_names(page));
    }
    return names;
}

static void make(const struct person *who, const char *name, const char *site, double capacity,
                 const char *commissioned)
{
    ck_status(device_post(who, json_pack("{ss ss* so* ss*}", "siteName", site, "externalId", name,
                                         "capacity", capacity > 0 ? json_real(capacity) : NULL,
                                         "commissioningDate", commissioned)),
              201);
}

static const struct {
    const char *query, *names;
} orders[] = {
    {"sort=id", "b C - a d"},
    {"order=desc", "d a - C b"},
    {"sort=externalId", "- a b C d"},
    {"sort=externalId&order=desc", "d C b a -"},
    {"sort=siteName", "d a b C -"},
    {"sort=siteName&order=desc", "- C b a d"},
    {"sort=capacity", "- d C b a"},
    {"sort=capacity&order=desc", "a b C d -"},
    {"sort=commissioningDate", "b a C - d"},
    {"sort=commissioningDate&order=desc", "d - C a b"},
    {"sort=updatedAt", "C - a d b"},
    {"sort=updatedAt&order=desc&capacityFrom=1.5", "b d a C"},
};

TEST(device_lists_are_sorted_across_pages)
{
    struct person *lister = person_make(host, admin, "lists.orders", NULL);

    make(lister, "b", "Oak 2", 3, NULL);
    make(lister, "C", "Oak 2", 2.5, "2022-01-01");
    make(lister, NULL, "Oak-9 \xc3\xa4&x=1", 0, "2023-01-01");
    make(lister, "a", "Oak 1", 3.5, "2021-12-31");
    make(lister, "d", "Oak 0", 2, "2024-02-29");
    ck_status(device_patch(lister, "b", json_pack("{ss}", "address", "moved")), 200);
    for (size_t i = 0; i < sizeof(orders) / sizeof(*orders); i++)
        for (int limit = 1; limit <= 6; limit++)
            ck_assert_str_eq(names_of_pages(lister, orders[i].query, limit), orders[i].names);
}

TEST(a_cursor_stays_valid_if_its_device_is_deleted)
{
    struct person *lister = person_make(host, admin, "lists.cursor", NULL);

    for (int i = 0; i < 6; i++)
        make(lister, text("n%d", i), "Same site", 1 + i % 2, NULL);
    struct answer *page = get(lister, DEVICE "?sort=capacity&limit=2");

    ck_assert_str_eq(device_names(page), "n0 n2");
    ck_status(http(host, "DELETE", DEVICE "/n2", lister->token, NULL), 200);
    ck_assert_str_eq(device_names(get(lister, next_page(page))), "n4 n1");
}

TEST(a_list_sorted_by_capacity_continues_after_the_smallest_number)
{
    struct person *lister = person_make(host, admin, "lists.small", NULL);

    EACH_TEXT (name, "s1", "s2")
        make(lister, name, "Small", 5e-324, NULL);
    ck_assert_str_eq(names_of_pages(lister, "sort=capacity", 1), "s1 s2");
    ck_assert_str_eq(names_of_pages(lister, "capacityTo=5e-324", 1), "s1 s2");
}

TEST(a_cursor_of_another_sort_order_is_refused)
{
    EACH_TEXT (query, "after=x", "after=1-5", "after=-1", "sort=capacity&after=1", "after=1-",
               "sort=capacity&after=1-5x", "sort=name", "sort=capacity&after=1-nan", "order=up",
               "sort=updatedAt&after=1-1e999", "sort=capacity&after=1-1e-999",
               "capacityFrom=1e-400", "inGroup=maybe",
               "sort=externalId&after=99999999999999999999-a")
        ask(m, 400, NULL, "GET /api/device?%s", query);
}

/* In every list, a filter that is not applied is reported. */
TEST(every_list_warns_about_unknown_parameters)
{
    meter_make(host, m, "ignored", 10, days_ago(100));
    EACH_TEXT (
        path, DEVICE, DEVICE "/my", DEVICE "/ignored/documents", "/api/admin/device-duplicates",
        "/api/reference/countries", "/api/reference/time-zones", "/api/meter-reads/new/ignored",
        "/api/meter-reads/new/ignored/totals", "/api/meter-reads/new/ignored/export.csv",
        "/api/meter-reads/refused", GROUP, "/api/certificate-log",
        "/api/certificate-log/export.csv", "/api/certificate-log/issuer/certifiedlogOfdevices") {
        const char *named =
            answer_header(get(admin, text("%s?colour=red", path)), "X-Ignored-Parameters");

        ck_assert_msg(named && !strcmp(named, "colour"), "%s: %s", path, named);
        ck_assert_ptr_null(answer_header(get(admin, path), "X-Ignored-Parameters"));
    }
}

/* ---- groups ---- */

static int64_t group_of(const struct person *who, const char *device)
{
    return answer_int(ask(who, 201, NULL,
                          "POST " GROUP
                          " {'name':'%s','deviceIds':['%s'],'frequency':'daily','start':'%s'}",
                          device, device, time_text(days_ago(3))),
                      "id");
}

TEST(devices_are_filtered_by_group_membership)
{
    struct person *lister = person_make(host, admin, "lists.groups", NULL);

    for (int i = 0; i < 4; i++)
        meter_make(host, lister, text("g%d", i), 10, days_ago(100));
    group_of(lister, "g1");
    int64_t left = group_of(lister, "g2"), ended = group_of(lister, "g3");

    ck_assert_str_eq(names_of_pages(lister, "inGroup=true", 2), "g1 g2 g3");
    ck_assert_str_eq(names_of_pages(lister, "inGroup=false", 2), "g0");
    ck_assert_str_eq(names_of_pages(lister, "inGroup=true&sort=externalId&order=desc", 1),
                     "g3 g2 g1");
    ck_assert_str_eq(
        answer_header(get(lister, DEVICE "?inGroup=false&count=true"), "X-Total-Count"), "1");
    ck_status(http(host, "DELETE", text(GROUP "/%jd/devices/g2", left), lister->token, NULL), 200);
    sql_run(db, text("UPDATE certificate_group SET end_at = now() - interval '1 hour'"
                     " WHERE id = %jd",
                     ended));
    ck_assert_str_eq(names_of_pages(lister, "inGroup=true", 2), "g1");
    ck_assert_str_eq(names_of_pages(lister, "inGroup=false", 2), "g0 g2 g3");
}

/* ---- lists for forms ---- */

/* Returns the item of a list whose member has this value; NULL: none. */
static const json_t *item_with(const struct answer *list, const char *key, const char *value)
{
    const json_t *item;
    size_t i;

    json_array_foreach (list->json, i, item) {
        const char *has = json_string_value(json_object_get(item, key));

        ck_assert_ptr_nonnull(has);
        if (!strcmp(has, value))
            return item;
    }
    return NULL;
}

TEST(reference_lists_have_countries_codes_and_time_zones)
{
    struct person *user = person_with_role(host, admin, "lists.user", "User");
    struct answer *countries = get(user, "/api/reference/countries");
    struct answer *fuels = get(user, "/api/reference/fuel-codes");
    struct answer *types = get(user, "/api/reference/device-types");
    struct answer *zones = get(user, "/api/reference/time-zones");
    const json_t *turkey = item_with(countries, "alpha2", "TR");

    ck_assert_uint_eq(json_array_size(countries->json), 249);
    ck_assert_str_eq(text_in(turkey, "alpha3"), "TUR");
    ck_assert_str_eq(text_in(turkey, "name"), "T\xc3\xbcrkiye");
    ck_assert_str_eq(text_in(item_of(countries, NULL, 0), "name"), "Afghanistan");
    ck_assert_str_eq(text_in(item_of(countries, NULL, 248), "name"), "Zimbabwe");
    ck_assert_str_eq(text_in(item_with(fuels, "code", "ES100"), "name"), "Solar");
    ck_assert_ptr_nonnull(item_with(types, "code", "TC110"));
    ck_assert_ptr_nonnull(item_with(zones, "name", "Europe/Berlin"));
    ck_assert_ptr_null(item_with(zones, "name", "localtime"));
}

/* Each country and zone offered has a code that a device accepts, and that causes no warning. */
TEST(every_value_of_the_reference_lists_is_accepted)
{
    static const struct {
        const char *list, *key, *field;
    } offers[] = {{"countries", "alpha2", "countryCode"},
                  {"countries", "alpha3", "countryCode"},
                  {"fuel-codes", "code", "fuelCode"},
                  {"device-types", "code", "deviceTypeCode"},
                  {"time-zones", "name", "timezone"}};
    json_t *patches = kept(json_array()), *patch;
    size_t at;

    /* the first patch has the first value of each field, and so on */
    for (size_t i = 0; i < COUNT(offers); i++) {
        struct answer *list = get(m, text("/api/reference/%s", offers[i].list));
        size_t first = i == 1 ? json_array_size(list->json) : 0;

        for (at = 0; at < json_array_size(list->json); at++) {
            while (json_array_size(patches) <= first + at)
                json_array_append_new(patches, json_object());
            json_object_set_new(json_array_get(patches, first + at), offers[i].field,
                                json_string(text_in(item_of(list, NULL, at), offers[i].key)));
        }
    }
    ck_status(device_post(m, device_named("offered")), 201);
    json_array_foreach (patches, at, patch) {
        struct answer *taken = ck_status(device_patch(m, "offered", json_incref(patch)), 200);

        ck_assert_msg(!json_object_get(taken->json, "warnings"), "%s", taken->body);
    }
}

STAGE_SUITE(device_list, set_up, 60)
