/* Webhooks get one event for each row that a bulk upload stores, whichever statement stored it. */
#include "bulk.h"
#include "devices.h"
#include "receive.h"

enum { PLANTS = 250, HOURS = 3, SOON_MS = 30000 };

static const char *const well[] = {ANSWER_OK, NULL};

static void set_up(void)
{
    struct host_spec spec = bulk_spec("bulk_events", false);

    spec.modules = "[auth, chat, bulk, device, reading, webhook, metrics]";
    spec.more = text("%s%s", spec.more, WEBHOOK_LOCAL);
    stage_open(&spec);
    bulk_settle("bulk_events");
    webhook_ready("bulk_events", 1);
    m = person_make(host, admin, "bulk_events.m", NULL);
    k = person_make(host, admin, "bulk_events.k", NULL);
}

static const char *devices_csv(const char *name)
{
    FILE *csv = csv_begin("externalId,siteName,capacity,commissioningDate\n");

    for (int i = 0; i < PLANTS; i++)
        fprintf(csv, "%s%d,\"%s \\\"\"%d\\\",5,2024-01-01\n", name, i, name, i);
    return csv_end(csv);
}

/* Returns how often a path was requested with this text in the body. */
static int times(struct catcher *catcher, const char *path, const char *words)
{
    int count = 0;

    for (size_t i = 0; i < catcher_count(catcher); i++)
        count += strstr(catcher->list[i].head, text("POST /%s ", path)) &&
                 strstr(catcher->list[i].body, words);
    return count;
}

static void ids_differ(struct catcher *catcher, size_t count, size_t webhooks)
{
    size_t same = 0;

    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count; j++)
            same += !strcmp(caught_header(&catcher->list[i], "webhook-id"),
                            caught_header(&catcher->list[j], "webhook-id"));
    ck_assert_uint_eq(same, count * webhooks);
}

TEST(each_webhook_gets_one_event_per_uploaded_device)
{
    struct catcher *catcher = catcher_start(well);

    webhook_make(host, m, catcher_url(catcher, "mine"), "device.registered");
    webhook_make(host, admin, catcher_url(catcher, "all"), "device.registered");
    webhook_make(host, k, catcher_url(catcher, "other"), "device.registered");
    bulk_store_all("Devices", devices_csv("told"), PLANTS);
    catcher_wait(catcher, 2 * PLANTS, SOON_MS);
    for (int i = 0; i < PLANTS; i++) {
        const char *words = text("\"externalId\":\"told%d\"", i);

        ck_assert_int_eq(times(catcher, "mine", words), 1);
        ck_assert_int_eq(times(catcher, "all", words), 1);
    }
    ck_assert_int_eq(times(catcher, "mine", "told 7"), 0);
    ck_assert_int_eq(times(catcher, "mine", "\"siteName\":\"told \\\\\\\"7\\\\\""), 1);
    ids_differ(catcher, 2 * PLANTS, 2);
    sql_is(db, 2 * PLANTS,
           "SELECT count(*) FROM webhook_delivery WHERE event = 'device.registered'");
}

/* The rows are hour by hour for all plants, so that each batch has many devices. */
static const char *reads_csv(const char *name)
{
    FILE *csv = csv_begin("externalId,type,startDate,endDate,value,unit\n");

    for (int hour = 0; hour < HOURS; hour++)
        for (int i = 0; i < PLANTS; i++)
            fprintf(csv, "%s%d,%s,2025-06-01T%02d:00:00Z,2025-06-01T%02d:00:00Z,0.5,kWh\n", name, i,
                    i % 3 ? "History" : "Delta", hour, hour + 1);
    return csv_end(csv);
}

TEST(webhooks_get_the_events_of_readings_of_many_devices)
{
    struct catcher *catcher = catcher_start(well);
    const char *last = "SELECT count(*) FROM reading_device d JOIN device v ON v.id = d.device"
                       " WHERE v.external_id ~ '^mixed' AND d.latest_end = '2025-06-01T03:00Z'"
                       " AND d.latest_start = '2025-06-01T02:00Z' AND d.latest_wh = 500"
                       " AND d.fresh_from = '2025-06-01T01:00Z' AND d.fresh_to = d.latest_end";

    bulk_store_all("Devices", devices_csv("mixed"), PLANTS);
    webhook_make(host, m, catcher_url(catcher, "reads"), "reading.accepted");
    bulk_store_all("Reads", reads_csv("mixed"), PLANTS * HOURS);
    ck_assert_int_eq(sql_number(db, last), PLANTS);
    sql_is(db, PLANTS,
           "SELECT count(*) FROM reading_device d WHERE"
           " latest_end = '0001-01-01Z' AND fresh_from IS NULL");
    sql_is(db, PLANTS * HOURS * 500, "SELECT sum(wh) FROM reading");
    sql_is(db, PLANTS * HOURS,
           "SELECT sum((body::json -> 'count')::text::int)"
           " FROM webhook_delivery WHERE event = 'reading.accepted'");
    catcher_wait(catcher, PLANTS, SOON_MS);
    for (int i = 0; i < PLANTS; i++)
        ck_assert_int_ge(times(catcher, "reads", text("\"externalId\":\"mixed%d\"", i)), 1);
}

static void ended_as(struct catcher *catcher, size_t index, const char *expected)
{
    catcher_wait(catcher, index + 1, SOON_MS);
    const json_t *told = kept(json_of(catcher->list[index].body));

    expect_json(told, text("{'type':'Devices','fileName':'x.csv','organizationId':%jd,'rows':3}",
                           m->organization));
    expect_json(told, expected);
}

/* The totals equal the number of rows and the totals in the log. */
TEST(the_event_bulk_finished_has_the_totals_of_the_upload)
{
    struct catcher *catcher = catcher_start(well);
    const char *csv = "externalId,capacity\nend1,1\nend2,-1\nend3,1\n";

    webhook_make(host, m, catcher_url(catcher, "end"), "bulk.finished");
    webhook_make(host, k, catcher_url(catcher, "foreign"), "bulk.finished");
    bulk_store(m, bulk_id(bulk_text(m, "", csv)));
    ended_as(catcher, 0, "{'status':'finished','succeeded':2,'failed':1,'cancelled':0}");
    ck_status(bulk_post(m, bulk_id(bulk_text(m, "", csv)), "cancel"), 200);
    /* all three, because the devices of the first upload exist */
    ended_as(catcher, 1, "{'status':'cancelled','succeeded':0,'failed':3,'cancelled':0}");
    csv = "externalId,capacity\nend4,1\nend5,-1\nend6,1\n";
    ck_status(bulk_post(m, bulk_id(bulk_text(m, "", csv)), "cancel"), 200);
    ended_as(catcher, 2, "{'status':'cancelled','succeeded':0,'failed':1,'cancelled':2}");
    ck_assert_int_eq(times(catcher, "foreign", ""), 0);
}

/* Some rows overlap stored readings, or belong to an inactive device; others are not affected. */
TEST(a_failed_row_of_a_device_affects_no_row_of_another_device)
{
    const char *head = "externalId,type,startDate,endDate,value,unit,timezone\n";
    const char *first = "few0,History,2025-07-01T00:00:00Z,2025-07-01T04:00:00Z,1,kWh,\n"
                        "few1,Delta,2025-07-01T00:00:00Z,2025-07-01T04:00:00Z,1,kWh,\n";
    const char *csv = text("%s%s", head,
                           "few2,History,2025-07-01T00:00:00Z,2025-07-01T01:00:00Z,1,kWh,\n"
                           "few1,History,2025-07-01T03:00:00Z,2025-07-01T05:00:00Z,1,kWh,\n"
                           "few0,History,2025-07-01T04:00:00Z,2025-07-01T05:00:00Z,1,kWh,\n"
                           "few0,History,2025-06-30T23:00:00Z,2025-07-01T00:00:00Z,1,kWh,\n"
                           "few0,History,2025-07-01T01:00:00Z,2025-07-01T02:00:00Z,1,kWh,\n"
                           "few3,Delta,,2025-07-01T01:00:00Z,1,kWh,\n"
                           "few2,History,2025-07-01T01:00:00,2025-07-01T02:00:00,1,kWh,UTC\n"
                           "few4,History,2025-07-01T01:00:00Z,2025-07-01T02:00:00Z,9,GWh,\n");

    bulk_store_all("Devices", devices_csv("few"), PLANTS);
    bulk_store_all("Reads", text("%s%s", head, first), 2);
    bulk_rows(bulk_store(m, bulk_id(bulk_text(m, "type=Reads", csv))),
              "1 few2 success\n"
              "2 few1 failed value: overlaps the stored Delta*\n"
              "3 few0 success\n"
              "4 few0 success\n"
              "5 few0 failed value: overlaps the stored History*\n"
              "6 few3 success\n"
              "7 few2 success\n"
              "8 few4 failed value: 9000000000 Wh is more*\n");
}

STAGE_SUITE(bulk_events, set_up, 120)
