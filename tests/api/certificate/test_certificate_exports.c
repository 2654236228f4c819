/*
 * The export of a large log is complete and correct and needs a constant amount of memory. Exports
 * that their clients do not read hold no connection to the database, delay no list, and are limited
 * for each account and in total.
 */
#include <sys/socket.h>

#include "meter.h"
#include "stage.h"
#include "talk.h"
#include "wire.h"

#define LOG "/api/certificate-log"
#define EXPORT LOG "/export.csv"

enum { ENTRIES = 40000, DEVICES = 200, GROWTH_KB = 4096, STALLED = 4 };

static struct person *m, *b;

/* Adds days of a group of devices in m's organization, and one group in b's. */
static void fill(void)
{
    sql_run(db,
            text("INSERT INTO device (id, uuid, organisation, external_id, attributes, created_at,"
                 " updated_at) SELECT 1000 + n, gen_random_uuid(), %jd, 'd' || n, '{}', now(),"
                 " now() FROM generate_series(1, %d) n",
                 m->organization, DEVICES));
    sql_run(db,
            text("INSERT INTO certificate_group VALUES (7, %jd, 'Large', 'daily', '2016-01-01Z',"
                 " NULL, 0, now())",
                 m->organization));
    sql_run(db, text("INSERT INTO certificate SELECT n, gen_random_uuid(), %jd, 7, '2016-01-01Z'"
                     "::timestamptz + n * interval '1 day', '2016-01-02Z'::timestamptz"
                     " + n * interval '1 day', 1000000, now() FROM generate_series(1, %d) n",
                     m->organization, ENTRIES / DEVICES));
    sql_run(db,
            "INSERT INTO certificate_entry (certificate, organisation, group_id, device, start_at,"
            " end_at, wh, status) SELECT c.id, c.organisation, 7, d.id, c.start_at, c.end_at,"
            " c.id * 7 + d.id, 'Succeeded' FROM certificate c, device d ORDER BY c.id, d.id");
    sql_run(db, text("INSERT INTO certificate VALUES (900000, gen_random_uuid(), %jd, NULL,"
                     " '2020-01-01Z', '2020-01-02Z', 5000, now())",
                     b->organization));
    sql_run(db,
            "INSERT INTO certificate_entry (certificate, organisation, device, start_at, end_at,"
            " wh) SELECT id, organisation, 1001, start_at, end_at, issued_wh FROM certificate"
            " WHERE id = 900000");
    sql_run(db, "ANALYZE certificate, certificate_entry");
}

static void set_up(void)
{
    stage_open(&(struct host_spec){.name = "exports",
                                   .modules = METER_MODULES,
                                   .environment = process_lean,
                                   .http = "  write_timeout: 600\n  idle_timeout: 600\n",
                                   .more = "certificate:\n  exports: 5\n"
                                           "reload:\n  drain: 600\n"});
    m = person_make(host, admin, "exports.m", NULL);
    b = person_make(host, admin, "exports.b", NULL);
    db = database_connect(the_postgres, "exports");
    fill();
    PQfinish(db);
}

static struct answer *export_of(const struct person *who, const char *query)
{
    return http(host, "GET", text(EXPORT "%s", query), who->token, NULL);
}

struct totals {
    int64_t rows, wh, ids;
    bool ordered;
};

/* Adds up the rows after the header; each must end with CRLF. The log has the newest id first. */
static struct totals totals_of(const char *csv)
{
    struct totals totals = {.ordered = true};
    int64_t last = INT64_MAX;
    const char *at = strchr(csv, '\n'), *stop;

    ck_assert_ptr_nonnull(at);
    for (at++; *at; at = stop + 1) {
        char *end;
        int64_t id = strtoll(at, &end, 10);
        const char *wh = strchr(strchr(end + 1, ',') + 1, ',') + 1;

        stop = strchr(at, '\n');
        ck_assert(stop && stop[-1] == '\r');
        totals.rows++;
        totals.ids += id;
        totals.wh += strtoll(wh, NULL, 10);
        totals.ordered = totals.ordered && id < last;
        last = id;
    }
    return totals;
}

static int64_t of_m(const char *what)
{
    return sql_number(db, text("SELECT %s FROM certificate_entry WHERE organisation = %jd", what,
                               m->organization));
}

TEST(an_export_of_a_large_log_is_complete_and_needs_constant_memory)
{
    ck_status(export_of(m, "?start=2016-01-05&end=2016-01-20"), 200); /* warms up */
    process_forget_peak(host->pid);
    int64_t before = process_status(host->pid, "VmRSS:");
    struct answer *csv = ck_status(export_of(m, ""), 200);
    int64_t growth = process_status(host->pid, "VmHWM:") - before;
    struct totals totals = totals_of(csv->body);

    ck_assert_int_eq(totals.rows, ENTRIES);
    ck_assert_int_eq(totals.rows, of_m("count(*)"));
    ck_assert_int_eq(totals.wh, of_m("sum(wh)"));
    ck_assert_int_eq(totals.ids, of_m("sum(id)"));
    ck_assert(totals.ordered);
    ck_assert_uint_gt(csv->length, 2 * GROWTH_KB * 1024);
    ck_assert_int_gt(before, 0);
    ck_assert_msg(process_shadowed() || growth < GROWTH_KB, "memory grew by %jd KiB for %zu bytes",
                  growth, csv->length);
    ck_assert_int_eq(totals_of(ck_status(export_of(b, ""), 200)->body).rows, 1);
}

/* ---- clients that do not read ---- */

/* Reads a stalled response to its end; returns whether the last chunk came: it is complete. */
static bool read_on(int fd, size_t *total)
{
    static const char last_chunk[] = "0\r\n\r\n";
    static char bytes[65536];
    size_t tail = 0;
    ssize_t got;

    *total = 0;
    while ((got = recv(fd, bytes + tail, sizeof bytes - tail, 0)) > 0) {
        size_t length = tail + (size_t)got;

        *total += (size_t)got;
        tail = length < sizeof last_chunk - 1 ? length : sizeof last_chunk - 1;
        memmove(bytes, bytes + length - tail, tail);
    }
    close(fd);
    return tail == sizeof last_chunk - 1 && !memcmp(bytes, last_chunk, tail);
}

TEST(exports_that_are_not_read_hold_no_connection_and_delay_no_list)
{
    int fds[STALLED];
    size_t bytes;

    for (int i = 0; i < STALLED; i++)
        fds[i] = wire_stall(host, EXPORT, m->token);
    sql_soon(db, "SELECT (count(*) = 0)::int FROM pg_stat_activity WHERE datname = 'exports'"
                 " AND application_name = 'busbar' AND query LIKE '%certificate_entry%'"
                 " AND (state <> 'idle' OR backend_xmin IS NOT NULL)");
    const char *const lists[] = {"", "?status=Succeeded", "?deviceId=1001", "?groupId=7"};

    for (int i = 0; i < 8; i++) {
        struct answer *list = http(host, "GET", text(LOG "%s", lists[i % 4]), m->token, NULL);

        ck_assert_uint_eq(json_array_size(ck_status(list, 200)->json), 100);
    }
    ck_assert(read_on(fds[0], &bytes));
    ck_assert_uint_gt(bytes, ENTRIES * 100);
    for (int i = 1; i < STALLED; i++)
        close(fds[i]);
    WAIT_UNTIL(export_of(m, "?start=2016-01-05&end=2016-01-06")->status == 200, 10000);
}

TEST(an_export_in_progress_at_a_reload_is_complete)
{
    const char *const reload[] = {"reload", NULL};
    int fd = wire_stall(host, EXPORT, m->token);
    size_t bytes;

    ck_assert_int_eq(host_command(host, NULL, reload), 0);
    ck_assert(read_on(fd, &bytes));
    ck_assert_uint_gt(bytes, ENTRIES * 100);
}

TEST(exports_are_limited_to_four_per_account_and_five_in_total)
{
    int fds[STALLED];

    for (int i = 0; i < STALLED; i++)
        fds[i] = wire_stall(host, EXPORT, m->token);
    struct answer *more =
        ck_error(export_of(m, ""), 429, "Too many exports in progress for this account");

    ck_assert_str_eq(answer_header(more, "Retry-After"), "5");
    int other = wire_stall(host, EXPORT, admin_of(host)->token);
    struct answer *full = ck_error(export_of(b, ""), 503, "Too many exports in progress");

    ck_assert_str_eq(answer_header(full, "Retry-After"), "5");
    close(other);
    WAIT_UNTIL(export_of(b, "?start=2016-01-05&end=2016-01-06")->status == 200, 10000);
    ck_error(export_of(m, ""), 429, "Too many exports in progress for this account");
    for (int i = 0; i < STALLED; i++)
        close(fds[i]);
    WAIT_UNTIL(export_of(m, "?start=2016-01-05&end=2016-01-06")->status == 200, 10000);
}

STAGE_SUITE(certificate_exports, set_up, 120)
