#include "certificates.h"

#include "talk.h"

void certificates_open(const char *name)
{
    stage_open(&(struct host_spec){.name = name, .modules = METER_MODULES});
}

void certificates_begin(const char *name, const char *settings)
{
    host = host_start(&(struct host_spec){.name = name, .db = settings, .modules = METER_MODULES});
    db = database_connect(the_postgres, name);
}

void certificates_alone(const char *name, const char *settings)
{
    host =
        host_prepare(&(struct host_spec){.name = name, .db = settings, .modules = METER_MODULES});
    db = database_connect(the_postgres, name);
}

static const char *const issue[] = {"certificate", "issue", NULL};

bool certificates_try(void)
{
    bool done = host_command(host, NULL, issue) == 0;

    host_log_clean(host); /* also of commands that were killed, and of ones that may fail */
    return done;
}

void certificates_run(void)
{
    ck_assert(certificates_try());
}

int64_t certificates_issued(int64_t group)
{
    return sql_number(db, text("SELECT coalesce(sum(issued_wh), 0) FROM certificate"
                               " WHERE group_id = %jd",
                               group));
}

struct person *certificate_person(const char *name)
{
    return person_make(host, admin, name, NULL);
}

void certificates_await(PGconn *database)
{
    sql_soon(database, "SELECT (0 = (SELECT count(*) FROM reading_device"
                       " WHERE fresh_from IS NOT NULL)"
                       " + (SELECT count(*) FROM certificate_look)"
                       " + (SELECT count(*) FROM certificate_changed)"
                       " + (SELECT count(*) FROM certificate_history)"
                       " + (SELECT count(*) FROM certificate_due WHERE cycle_end <= now()))::int");
}

void certificates_issue(PGconn *database, struct host *by)
{
    host_command(by, NULL, issue);
    certificates_await(database);
}

int64_t certificate_device(const struct person *by, const char *key)
{
    return meter_make(host, by, key, 10, days_ago(100));
}

int64_t certificate_group_of(const struct person *by, const char *key, const char *frequency,
                             int64_t start, int64_t *device)
{
    int64_t made = certificate_device(by, key);

    if (device)
        *device = made;
    return certificate_group_make(by, frequency, start, &made, 1);
}

int64_t store(const struct person *by, const char *key, const char *type, int64_t start,
              int64_t end, double wh)
{
    struct answer *made = ck_status(meter_read(host, by, key, type, start, end, wh), 201);

    return int_in(item_of(made, "reads", 0), "id");
}

void store_series(const struct person *by, const char *key, const char *type, int64_t start,
                  int64_t length, int count, int wh)
{
    ck_status(meter_series(host, by, key, type, start, length, count, wh), 201);
}

int64_t certificate_group_make(const struct person *by, const char *frequency, int64_t start,
                               const int64_t *devices, int count)
{
    json_t *ids = json_array();

    for (int i = 0; i < count; i++)
        json_array_append_new(ids, json_integer(devices[i]));
    struct answer *made = http(host, "POST", GROUPS, by->token,
                               json_pack("{ss ss ss so}", "name", "Group", "frequency", frequency,
                                         "start", time_text(start), "deviceIds", ids));

    return answer_int(ck_status(made, 201), "id");
}

int64_t certificate_group_carried(const struct person *by, int64_t group)
{
    struct answer *groups = ask(by, 200, NULL, "GET " GROUPS);
    size_t i;
    const json_t *found;

    json_array_foreach (groups->json, i, found) {
        if (int_in(found, "id") == group)
            return int_in(found, "carriedWatthour");
    }
    ck_abort_msg("group not listed");
    return 0;
}

struct answer *log_of(const struct person *by, const char *query)
{
    return ask(by, 200, NULL, "GET " LOG "%s", query);
}

size_t log_count(const struct person *by, const char *query)
{
    return json_array_size(log_of(by, query)->json);
}

/* Carried entries have the negated id of their group instead of a certificate. */
void certificates_expect_sums(PGconn *database)
{
    sql_is(database, 0,
           "SELECT count(*) FROM certificate c WHERE c.id > 0 AND c.issued_wh <>"
           " (SELECT coalesce(sum(e.wh), 0) FROM certificate_entry e"
           " WHERE e.certificate = c.id)");
    sql_is(database, 0,
           "SELECT count(*) FROM certificate_group g WHERE g.carry_wh <>"
           " (SELECT coalesce(sum(e.wh), 0) FROM certificate_entry e"
           " WHERE e.certificate = -g.id AND e.status = 'Carried')");
    sql_is(database, 0,
           "SELECT count(*) FROM certificate_entry"
           " WHERE (certificate < 0) <> (status = 'Carried')");
}

static void add_page(const struct answer *page, struct sums *sums, json_t *seen)
{
    const json_t *list = json_object_get(page->json, "certificatelog"), *head, *entry;
    size_t i, j;

    json_array_foreach (list, i, head) {
        const json_t *entries = json_object_get(head, "perDeviceCertificateLog");
        const char *uid = text_in(head, "certificateTransactionUID");

        if (!json_object_get(seen, uid))
            sums->issued += int_in(head, "issued_watthour");
        json_object_set_new(seen, uid, json_true());
        json_array_foreach (entries, j, entry) {
            ck_assert_str_eq(keys_of(entry), ENTRY_KEYS);
            ck_assert_str_eq(text_in(entry, "certificateTransactionUID"), uid);
            sums->wh += int_in(entry, "readvalue_watthour");
            sums->entries++;
        }
    }
    sums->total_count = answer_int(page, "totalCount");
    sums->total_pages = answer_int(page, "totalPages");
}

struct sums pages_of(const struct person *by, const char *query)
{
    struct sums sums = {.total_pages = 1};
    json_t *seen = json_object();

    while (sums.pages < sums.total_pages) {
        const char *path = text(PAGES "?pageNumber=%jd%s", (intmax_t)++sums.pages, query);

        add_page(ask(by, 200, NULL, "GET %s", path), &sums, seen);
    }
    json_decref(seen);
    ck_assert_int_eq(sums.entries, sums.total_count);
    return sums;
}
