#include "readings.h"

struct person *b;

void readings_open(const char *name)
{
    stage_open(&(struct host_spec){.name = name,
                                   .http = "  deadline: 60000\n", /* machines may be busy */
                                   .db = "  statement_timeout: 60000\n",
                                   .more = "device:\n  yields: {AF: 1000}\n",
                                   .modules = text("[auth, device, reading, metrics, \"%s\"]",
                                                   harness_test_module("module_spy"))});
    spy_await(name);
    m = person_make(host, admin, "readings.m", NULL);
    b = person_make(host, admin, "readings.b", NULL);
    meter_make(host, m, PLANT, 10, days_ago(100));
}

const char *plant(const char *name)
{
    meter_make(host, m, name, 10, days_ago(100));
    return name;
}

int64_t stored(const char *external_id)
{
    return sql_number(db, text("SELECT count(*) FROM reading r JOIN device d ON d.id = r.device"
                               " WHERE d.external_id = '%s'",
                               external_id));
}

const char *dated(const char *text)
{
    char *copy = NULL, *end;
    size_t length;
    FILE *out = open_memstream(&copy, &length);

    ck_assert_ptr_nonnull(out);
    while (*text) {
        if (*text != '@') {
            fputc(*text++, out);
            continue;
        }
        int64_t at = days_ago((int)strtol(text + 1, &end, 10));

        at += *end == '+' ? strtol(end + 1, &end, 10) * HOUR_MS : 0;
        fputs(time_text(at), out);
        text = end;
    }
    ck_assert_int_eq(fclose(out), 0);
    return kept(copy);
}

struct answer *post_reading(const char *key, const char *change, long status, const char *expected)
{
    const char *body = json_with("{'type':'Delta','unit':'Wh'}", dated(change));

    return ask(m, status, expected ? dated(expected) : NULL, "POST /api/meter-reads/new/%s %s",
               encoded(key), body);
}
