#include "readings.h"

#include <string.h>

#include "spy.h"

struct person *b;

void readings_open(const char *name)
{
    stage_open(&(struct host_spec){.name = name,
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

void expect_field(struct answer *answer, long status, const char *field)
{
    ck_error(answer, status, status == 409 ? "Conflict" : "");
    const char *named = text_in(item_of(answer, "errors", 0), "field");

    ck_assert_msg(!strcmp(named, field), "%s is not %s: %s", named, field, answer->body);
}
