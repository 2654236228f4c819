#include "meter.h"
#include "exchange.h"

#include <time.h>

#include "talk.h"

#define READS "/api/meter-reads"

struct host *meter_host(const char *name, const char *more)
{
    return host_start(&(struct host_spec){.name = name, .modules = METER_MODULES, .more = more});
}

int64_t days_ago(int days)
{
    return ((int64_t)time(NULL) * 1000 / DAY_MS - days) * DAY_MS;
}

static char *time_as(const char *format, int64_t ms)
{
    char buffer[64];
    time_t seconds = (time_t)(ms / 1000);
    struct tm tm;

    gmtime_r(&seconds, &tm);
    strftime(buffer, sizeof(buffer), format, &tm);
    return text("%s", buffer);
}

char *date_text(int64_t ms)
{
    return time_as("%Y-%m-%d", ms);
}

char *time_text(int64_t ms)
{
    return text("%s.%03dZ", time_as("%Y-%m-%dT%H:%M:%S", ms), (int)(ms % 1000));
}

int64_t meter_make(const struct host *host, const struct person *by, const char *external_id,
                   double kw, int64_t commissioned)
{
    json_t *device = json_pack("{ss sf ss}", "externalId", external_id, "capacity", kw,
                               "commissioningDate", date_text(commissioned));

    return answer_int(ck_status(http(host, "POST", "/api/device", by->token, device), 201), "id");
}

struct answer *meter_post(const struct host *host, const struct person *by, const char *external_id,
                          json_t *body)
{
    return http(host, "POST", text(READS "/new/%s", encoded(external_id)), by->token, body);
}

struct answer *meter_read(const struct host *host, const struct person *by, const char *external_id,
                          const char *type, int64_t start, int64_t end, double wh)
{
    return meter_post(host, by, external_id,
                      json_pack("{ss ss ss ss sf}", "type", type, "unit", "Wh", "startDate",
                                time_text(start), "endDate", time_text(end), "value", wh));
}

struct answer *meter_series(const struct host *host, const struct person *by,
                            const char *external_id, const char *type, int64_t start,
                            int64_t length, int count, int wh)
{
    json_t *reads = json_array();

    for (int i = 0; i < count; i++)
        json_array_append_new(reads, json_pack("{ss ss si}", "startDate",
                                               time_text(start + i * length), "endDate",
                                               time_text(start + (i + 1) * length), "value", wh));
    return meter_post(host, by, external_id,
                      json_pack("{ss ss so}", "type", type, "unit", "Wh", "reads", reads));
}

struct answer *meter_list(const struct host *host, const struct person *by, const char *external_id,
                          const char *query)
{
    return http(host, "GET", text(READS "/new/%s%s", encoded(external_id), query), by->token, NULL);
}

int64_t meter_total(const struct host *host, const struct person *by, const char *external_id)
{
    int64_t total = 0;

    EACH_PAGE (page, by, text(READS "/new/%s?limit=3", encoded(external_id))) {
        size_t i;
        const json_t *read;

        json_array_foreach (page->json, i, read)
            total += int_in(read, "value");
    }
    return total;
}

const json_t *item_of(const struct answer *answer, const char *list, size_t index)
{
    const json_t *array = list ? json_object_get(answer->json, list) : answer->json;
    const json_t *item = json_array_get(array, index);

    ck_assert_msg(item != NULL, "no item %zu: %s", index, answer->body);
    return item;
}

const char *text_in(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));

    return value ? value : "";
}

int64_t int_in(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    ck_assert_msg(json_is_integer(value), "%s is not a whole number", key);
    return json_integer_value(value);
}

pid_t meter_issue_start(const struct host *by)
{
    const char *argv[] = {harness_program(by->plain), "-c", by->conf, "certificate", "issue", NULL};

    return process_start(
        &(struct process_spec){.argv = argv, .environment = by->environment, .log = by->log});
}
