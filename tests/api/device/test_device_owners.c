/*
 * Devices as JSON: who may see and change them (threats O20 to O24), and parallel changes keep each
 * other's fields.
 */
#include <pthread.h>
#include <string.h>

#include "devices.h"
#include "suite.h"
#include "suites.h"
#include "talk.h"

static void set_up(void)
{
    devices_open("device_owners");
}

/* O20 */
TEST(a_device_is_registered_where_one_may_act)
{
    json_t *foreign = json_pack("{ss sI}", "externalId", "Foreign", "organizationId",
                                (json_int_t)m->organization);

    struct answer *own = ck_status(device_post(m, json_incref(foreign)), 201);

    ck_assert_int_eq(answer_int(own, "organizationId"), m->organization);
    answer_warns(own, NULL);
    struct answer *elsewhere = ck_status(device_post(k, foreign), 201);

    ck_assert_int_eq(answer_int(elsewhere, "organizationId"), k->organization);
    answer_warns(elsewhere, text("organizationId: %jd is ignored", (intmax_t)m->organization));
}

TEST(an_api_user_of_several_organizations_says_in_which)
{
    struct person *many = person_make(host, admin, "devices.many", "ApiUser");
    struct answer *second = ck_status(http(host, "POST", "/api/organization", many->token,
                                           json_pack("{ss}", "name", "Second of many")),
                                      201);
    int64_t organization = answer_int(second, "id");

    device_problem(device_post(many, device_named("Both")), "organizationId");
    ck_status(device_post(many, json_pack("{ss sI}", "externalId", "Both", "organizationId",
                                          (json_int_t)organization)),
              201);
    ck_status(device_post(many, json_pack("{ss sI}", "externalId", "both", "organizationId",
                                          (json_int_t)many->organization)),
              201);
    ck_error(device_post(many, json_pack("{ss sI}", "externalId", "Third", "organizationId",
                                         (json_int_t)m->organization)),
             403, "You may not act in this organization");
    ck_error(
        device_get(many, "Both"), 409,
        text("Several devices have this identifier: Both (organization %jd), both (organization"
             " %jd)",
             (intmax_t)organization, (intmax_t)many->organization));
    struct answer *one =
        http(host, "GET", text(DEVICE "/Both?organizationId=%jd", (intmax_t)organization),
             many->token, NULL);

    ck_assert_str_eq(device_field(ck_status(one, 200), "externalId"), "\"Both\"");
}

static struct answer *in(const struct person *who, const char *method, const char *path,
                         int64_t organization, json_t *body)
{
    return http(host, method, text("%s?organizationId=%jd", path, (intmax_t)organization),
                who->token, body);
}

/* A PATCH that only has files has no JSON body for the organization. */
TEST(an_organization_in_the_query_of_a_write_counts_too)
{
    struct person *two = person_make(host, admin, "devices.two", "ApiUser");
    struct answer *second = ck_status(http(host, "POST", "/api/organization", two->token,
                                           json_pack("{ss}", "name", "Second of two")),
                                      201);
    const int64_t organizations[] = {two->organization, answer_int(second, "id")};
    json_t *device = json_pack("{ss ss}", "externalId", "Of two", "siteName", "Site of two");

    for (int i = 0; i < 2; i++) {
        struct answer *made =
            ck_status(in(two, "POST", DEVICE, organizations[i], json_deep_copy(device)), 201);

        ck_assert_int_eq(answer_int(made, "organizationId"), organizations[i]);
    }
    for (int i = 0; i < 2; i++) {
        json_t *capacity = json_pack("{si}", "capacity", 7 + i);

        ck_status(in(two, "PATCH", DEVICE "/Of%20two", organizations[i], json_incref(capacity)),
                  200);
        struct answer *changed = ck_status(
            in(two, "PATCH", DEVICE "/by-site/Site%20of%20two", organizations[i], capacity), 200);

        ck_assert_int_eq(answer_int(changed, "organizationId"), organizations[i]);
    }
    ck_error(in(two, "POST", DEVICE, m->organization, device), 403, "");
    ck_error(in(two, "PATCH", DEVICE "/Of%20two", m->organization, json_object()), 403, "");
    struct answer *body = ck_status(in(two, "POST", DEVICE, organizations[0],
                                       json_pack("{ss sI}", "externalId", "By body",
                                                 "organizationId", (json_int_t)organizations[1])),
                                    201);

    ck_assert_int_eq(answer_int(body, "organizationId"), organizations[1]);
}

/* O21, O22 */
TEST(devices_of_others_are_unknown)
{
    ck_status(device_post(m, json_pack("{ss ss}", "externalId", "Of M", "siteName", "Shared site")),
              201);
    ck_status(device_post(k, json_pack("{ss ss}", "externalId", "Of K", "siteName", "Shared site")),
              201);
    ck_error(device_get(k, "Of M"), 404, "Device not found");
    ck_error(device_patch(k, "Of M", json_pack("{si}", "capacity", 7)), 404, "Device not found");
    struct answer *changed = ck_status(
        http(host, "PATCH", DEVICE "/by-site/Shared%20site", k->token,
             json_pack("{sI si}", "organizationId", (json_int_t)m->organization, "capacity", 7)),
        200);

    answer_warns(changed, "organizationId: ");
    ck_assert_str_eq(device_field(changed, "externalId"), "\"Of K\"");
    ck_assert_str_eq(device_field(device_get(m, "Of M"), "capacity"), "null");
    ck_status(device_get(admin, "Of M"), 200);
}

TEST(a_site_with_none_or_several_devices_is_not_changed)
{
    for (int i = 0; i < 2; i++)
        ck_status(device_post(m, json_pack("{ss ss}", "externalId", text("Twin %d", i), "siteName",
                                           "Twin site")),
                  201);
    ck_error(http(host, "PATCH", DEVICE "/by-site/No%20site", m->token, device_named("x")), 404,
             "");
    struct answer *several = ck_error(
        http(host, "PATCH", DEVICE "/by-site/Twin%20site", m->token, device_named("x")), 409, "");

    ck_assert_ptr_nonnull(strstr(answer_text(several, "message"), "Twin 0, Twin 1"));
}

TEST(a_serial_number_that_several_have_is_ambiguous)
{
    for (int i = 0; i < 2; i++)
        ck_status(device_post(m, json_pack("{ss ss}", "externalId", text("Serial %d", i),
                                           "serialNumber", "SN-twice")),
                  201);
    ck_error(device_get(m, "SN-twice"), 409, "");
    ck_status(device_post(m, json_pack("{ss}", "externalId", "SN-twice")), 201);
    ck_assert_str_eq(device_field(ck_status(device_get(m, "SN-twice"), 200), "externalId"),
                     "\"SN-twice\"");
}

enum { NAMED = 21 }; /* devices that a 409 response reads */

struct walk {
    const char *index;
    int64_t begin; /* the number of reads before */
};

static int64_t read_of(const char *index)
{
    return sql_number(db, text("SELECT idx_tup_read FROM pg_stat_user_indexes"
                               " WHERE indexrelname = '%s'",
                               index));
}

/* PostgreSQL's sessions report their statistics some seconds late. */
static bool was_walked(void *arg)
{
    const struct walk *walk = arg;

    return read_of(walk->index) >= walk->begin + NAMED;
}

/* Counts reads by that index and all other reads of devices. */
static void expect_few_rows(const char *method, const char *path, const char *index)
{
    static const char rows[] = "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables"
                               " WHERE relname = 'device'";
    struct walk walk = {index, read_of(index)};
    int64_t before = sql_number(db, rows);

    ck_error(http(host, method, path, admin->token, strcmp(method, "GET") ? json_object() : NULL),
             409, "");
    ck_assert_msg(wait_until(was_walked, &walk, 30000), "%s was not read", index);
    int64_t count = sql_number(db, rows) - before;

    ck_assert_msg(count < 10 * NAMED, "%jd devices were read", (intmax_t)count);
}

/* The devices are old and no pairs are recorded, so the job device.duplicates reads none of
 * them. */
TEST(of_a_name_that_very_many_share_a_few_are_read)
{
    sql_run(db, "SET session_replication_role = replica"); /* no triggers: they read devices */
    sql_run(db, "INSERT INTO device (id, uuid, organisation, serial_number, site_name, attributes,"
                " created_at, updated_at) SELECT 1000000 + n, gen_random_uuid(), 1000000 + n,"
                " 'Shared by all', 'Shared by all', '{}', '2020-01-01Z', '2020-01-01Z'"
                " FROM generate_series(1, 20000) n");
    sql_run(db, "DELETE FROM device_duplicate");
    sql_run(db, "ANALYZE device");
    sql_run(db, "SET session_replication_role = origin");
    expect_few_rows("GET", DEVICE "/Shared%20by%20all", "device_serial");
    expect_few_rows("PATCH", DEVICE "/by-site/Shared%20by%20all", "device_site");
    sql_run(db, "DELETE FROM device WHERE id > 1000000");
}

/* O23 */
TEST(what_the_host_gives_is_not_written)
{
    struct answer *made = ck_status(device_post(m, device_named("Assigned")), 201);
    struct answer *changed = ck_status(
        device_patch(m, "Assigned",
                     json_pack("{si ss ss s[] si}", "id", 1, "uuid", UNKNOWN_UUID, "createdAt",
                               "2000-01-01T00:00:00.000Z", "documents", "groupId", 9)),
        200);

    ck_assert_int_eq(answer_int(changed, "id"), answer_int(made, "id"));
    ck_assert_str_eq(answer_text(changed, "uuid"), answer_text(made, "uuid"));
    ck_assert_str_eq(answer_text(changed, "createdAt"), answer_text(made, "createdAt"));
    ck_assert_str_eq(device_field(changed, "attributes"), "{\"groupId\":9}");
}

/* O24 */
TEST(other_roles_register_nothing)
{
    struct person *owner = person_with_role(host, admin, "devices.owner", "DeviceOwner");

    ck_error(device_post(admin, device_named("By Admin")), 403, "Forbidden");
    ck_error(device_post(owner, device_named("By owner")), 403, "Forbidden");
    ck_error(device_get(m, "By owner"), 404, "");
}

struct patcher {
    const char *name;
    long bad;
};

static void *patch_often(void *arg)
{
    struct patcher *patcher = arg;

    for (int i = 1; i <= 50; i++) {
        struct answer *answer = device_patch(m, "Parallel", json_pack("{si}", patcher->name, i));

        patcher->bad += answer->status != 200;
    }
    return NULL;
}

TEST(parallel_changes_of_different_fields_all_survive)
{
    struct patcher patchers[] = {{"capacity", 0}, {"yieldValue", 0}, {"latitude", 0}, {"note", 0}};
    pthread_t threads[4];

    ck_status(device_post(m, device_named("Parallel")), 201);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, patch_often, &patchers[i]), 0);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        ck_assert_int_eq(patchers[i].bad, 0);
    }
    struct answer *device = ck_status(device_get(m, "Parallel"), 200);

    ck_assert_str_eq(device_field(device, "capacity"), "50");
    ck_assert_str_eq(device_field(device, "yieldValue"), "50");
    ck_assert_str_eq(device_field(device, "latitude"), "\"50\"");
    ck_assert_str_eq(device_field(device, "attributes"), "{\"note\":50}");
}

TEST(lists_are_filtered_and_paged)
{
    struct person *lister = person_make(host, admin, "devices.lister", NULL);

    for (int i = 0; i < 5; i++)
        ck_status(device_post(lister, json_pack("{ss ss}", "externalId", text("L%d", i),
                                                "countryCode", i % 2 ? "ES" : "DE")),
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

/* Returns the externalIds of a list, in order: "A B". */
static const char *names_in(const struct person *who, const char *query)
{
    struct answer *list =
        ck_status(http(host, "GET", text(DEVICE "/my?%s", query), who->token, NULL), 200);
    const char *names = "";
    size_t i;
    const json_t *device;

    json_array_foreach(list->json, i, device) names = text(
        "%s%s%s", names, i ? " " : "", json_string_value(json_object_get(device, "externalId")));
    return names;
}

static void make_filtered(const struct person *who, const char *name, const char *country,
                          double capacity, const char *commissioned)
{
    ck_status(device_post(who, json_pack("{ss ss sf ss ss ss}", "externalId", name, "countryCode",
                                         country, "capacity", capacity, "commissioningDate",
                                         commissioned, "serialNumber", text("SN%s", name),
                                         "address", text("Long Road 100%% %s", name))),
              201);
}

static const struct {
    const char *query, *names;
} filters[] = {
    {"countryCode=de", "Fa Fb"},
    {"countryCode=DEU", "Fa Fb"},
    {"countryCode=QQ", ""},
    {"externalId=fB", "Fb"},
    {"externalId=F", ""},
    {"search=ROAD%20100%25%20f", "Fa Fb Fc"},
    {"search=snfa", "Fa"},
    {"search=%25", "Fa Fb Fc"},
    {"search=_", ""},
    {"capacityFrom=2", "Fb Fc"},
    {"capacityTo=2", "Fa Fb"},
    {"capacityFrom=1.5&capacityTo=2.5", "Fb"},
    {"commissionedFrom=2022-01-01", "Fb Fc"},
    {"commissionedTo=2022-01-01", "Fa Fb"},
    {"commissionedFrom=2022-01-02&countryCode=FRA", "Fc"},
};

TEST(lists_are_filtered_by_what_one_looks_for)
{
    struct person *lister = person_make(host, admin, "devices.filters", NULL);

    make_filtered(lister, "Fa", "DE", 1, "2021-06-01");
    make_filtered(lister, "Fb", "DEU", 2, "2022-01-01");
    make_filtered(lister, "Fc", "FR", 3, "2023-01-01");
    for (size_t i = 0; i < sizeof(filters) / sizeof(*filters); i++)
        ck_assert_str_eq(names_in(lister, filters[i].query), filters[i].names);
    struct answer *counted = ck_status(
        http(host, "GET", DEVICE "?count=true&limit=1&countryCode=DE", lister->token, NULL), 200);

    ck_assert_uint_eq(json_array_size(counted->json), 1);
    ck_assert_str_eq(answer_header(counted, "X-Total-Count"), "2");
    ck_error(http(host, "GET", DEVICE "?commissionedFrom=yesterday", lister->token, NULL), 400, "");
    ck_error(http(host, "GET", DEVICE "?capacityFrom=-1", lister->token, NULL), 400, "");
}

TEST(a_device_is_found_by_its_id_and_by_the_older_path)
{
    struct answer *made = ck_status(device_post(m, device_named("By id")), 201);
    const char *id = text("%jd", (intmax_t)json_integer_value(json_object_get(made->json, "id")));

    ck_assert_str_eq(answer_text(ck_status(device_get(m, id), 200), "externalId"), "By id");
    struct answer *older =
        ck_status(http(host, "GET", DEVICE "/externalId/By%20id", m->token, NULL), 200);

    ck_assert_str_eq(answer_text(older, "uuid"), answer_text(made, "uuid"));
    ck_error(device_get(k, id), 404, "");
    ck_error(device_get(m, text("0%s", id)), 404, "");
    ck_error(device_get(m, "9223372036854775808"), 404, "");
    /* another device that has this number as its externalId takes precedence */
    ck_status(device_post(m, device_named(id)), 201);
    ck_assert_str_eq(answer_text(ck_status(device_get(m, id), 200), "externalId"), id);
}

STAGE_SUITE(device_owners, set_up, 60)
