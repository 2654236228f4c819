#include "certificates.h"

#include <string.h>

#include "talk.h"

void certificates_open(const char *name)
{
    stage_open(&(struct host_spec){.name = name, .modules = METER_MODULES});
}

struct person *certificate_person(const char *name)
{
    return person_make(host, admin, name, NULL);
}

void certificates_issue(PGconn *database, struct host *by)
{
    const char *words[] = {"certificate", "issue", NULL};

    host_command(by, NULL, words);
    sql_soon(database, "SELECT (0 = (SELECT count(*) FROM reading_device"
                       " WHERE fresh_from IS NOT NULL)"
                       " + (SELECT count(*) FROM certificate_look)"
                       " + (SELECT count(*) FROM certificate_changed)"
                       " + (SELECT count(*) FROM certificate_history)"
                       " + (SELECT count(*) FROM certificate_due WHERE cycle_end <= now()))::int");
}

struct answer *certificate_group_try(const struct person *by, const char *frequency, int64_t start,
                                     const int64_t *devices, int count)
{
    json_t *ids = json_array();

    for (int i = 0; i < count; i++)
        json_array_append_new(ids, json_integer(devices[i]));
    return http(host, "POST", GROUPS, by->token,
                json_pack("{ss ss ss so}", "name", "Group", "frequency", frequency, "start",
                          time_text(start), "deviceIds", ids));
}

int64_t certificate_group_make(const struct person *by, const char *frequency, int64_t start,
                               const int64_t *devices, int count)
{
    return answer_int(ck_status(certificate_group_try(by, frequency, start, devices, count), 201),
                      "id");
}

int64_t certificate_group_carried(const struct person *by, int64_t group)
{
    struct answer *groups = ask(by, 200, NULL, "GET " GROUPS);
    size_t i;
    const json_t *found;

    json_array_foreach(groups->json, i, found)
    {
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

size_t log_entries(const struct person *by)
{
    return json_array_size(log_of(by, "?limit=1000")->json);
}

/* Carried entries have the negated id of their group instead of a certificate. */
void certificates_expect_sums(PGconn *database)
{
    ck_assert_int_eq(
        sql_number(database, "SELECT count(*) FROM certificate c WHERE c.id > 0 AND c.issued_wh <>"
                             " (SELECT coalesce(sum(e.wh), 0) FROM certificate_entry e"
                             " WHERE e.certificate = c.id)"),
        0);
    ck_assert_int_eq(sql_number(database,
                                "SELECT count(*) FROM certificate_group g WHERE g.carry_wh <>"
                                " (SELECT coalesce(sum(e.wh), 0) FROM certificate_entry e"
                                " WHERE e.certificate = -g.id AND e.status = 'Carried')"),
                     0);
    ck_assert_int_eq(sql_number(database, "SELECT count(*) FROM certificate_entry"
                                          " WHERE (certificate < 0) <> (status = 'Carried')"),
                     0);
}

static void add_page(const struct answer *page, struct sums *sums, json_t *seen)
{
    const json_t *list = json_object_get(page->json, "certificatelog"), *head, *entry;
    size_t i, j;

    json_array_foreach(list, i, head)
    {
        const json_t *entries = json_object_get(head, "perDeviceCertificateLog");
        const char *uid = text_in(head, "certificateTransactionUID");

        if (!json_object_get(seen, uid))
            sums->issued += int_in(head, "issued_watthour");
        json_object_set_new(seen, uid, json_true());
        json_array_foreach(entries, j, entry)
        {
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
