/* Reads the filter of a query, and finds the devices that it selects. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "modules/certificate/log/filter.h"

#define FEW_DEVICES 64 /* up to this many, entries are searched device by device */

/* The calendar of responses: the years 1 to 9999. */
#define EARLIEST INT64_C(-62135596800000)
#define LATEST INT64_C(253402300800000)

int certificate_cursor(struct bb_request *rq, struct certificate_filter *filter)
{
    const char *after = bb_arg(rq, "after");
    char *end = NULL;

    filter->after_ms = LATEST;
    filter->after_id = INT64_MAX;
    if (!after)
        return 0;
    errno = 0;
    filter->after_ms = strtoll(after, &end, 10);
    bool good =
        end != after && *end == '-' && filter->after_ms >= EARLIEST && filter->after_ms < LATEST;

    if (good) {
        const char *id = end + 1;

        filter->after_id = strtoll(id, &end, 10);
        good = end != id && !*end && filter->after_id > 0 && !errno;
    }
    return good ? 0 : bb_invalid(rq, "after", "must be a cursor that a Link header gave");
}

/* $1 $2 scope, $3 to $7 the properties, $8 number of devices */
static const struct bb_sql choose = {
    "SELECT coalesce(array_agg(c.id), '{}')::text, count(*) FROM (SELECT d.id FROM device_chosen("
    "CASE WHEN $1::boolean THEN NULL ELSE $2::bigint[] END, $3::text, $4::text, $5::text, $6::text,"
    " $7::text) d (id) LIMIT $8::bigint) c",
    BB_SQL_LONG};

/* Returns 0, or the status of the response sent. */
static int choose_devices(struct bb_request *rq, struct certificate_filter *filter)
{
    const char **text = filter->text;

    if (!certificate_chooses(filter))
        return 0;
    const struct bb_rows *rows =
        bb_query(rq, &choose,
                 BB_ARGS(CERTIFICATE_SCOPE_ARGS(&filter->scope), bb_t(text[CERTIFICATE_OF_KEY]),
                         bb_t(text[CERTIFICATE_OF_COUNTRY]), bb_t(text[CERTIFICATE_OF_OTHER]),
                         bb_t(text[CERTIFICATE_OF_FUEL]), bb_t(text[CERTIFICATE_OF_TYPE]),
                         bb_i(FEW_DEVICES + 1)));

    if (!rows)
        return bb_failed(rq);
    if (bb_cell_int(rq, rows, 0, 1) <= FEW_DEVICES)
        text[CERTIFICATE_CHOSEN] = bb_cell(rq, rows, 0, 0);
    return 0;
}

static void read_texts(struct bb_request *rq, struct certificate_filter *filter)
{
    static const char *const names[CERTIFICATE_TEXTS] = {
        [CERTIFICATE_FROM_TIME] = "start",  [CERTIFICATE_BEFORE_TIME] = "end",
        [CERTIFICATE_IN_STATUS] = "status", [CERTIFICATE_OF_KEY] = "externalId",
        [CERTIFICATE_OF_FUEL] = "fuelCode", [CERTIFICATE_OF_TYPE] = "deviceTypeCode",
    };
    const struct certificate *certificate = rq->state;
    const char *country = bb_arg(rq, "countryCode"), *codes[2];

    for (size_t i = 0; i < CERTIFICATE_TEXTS; i++)
        filter->text[i] = names[i] ? bb_arg(rq, names[i]) : NULL;
    if (!country)
        return;
    certificate->devices->country_codes(certificate->devices_state, rq, country, codes);
    filter->text[CERTIFICATE_OF_COUNTRY] = codes[0];
    filter->text[CERTIFICATE_OF_OTHER] = codes[1];
}

int certificate_filter(struct bb_request *rq, struct certificate_filter *filter)
{
    *filter = (struct certificate_filter){
        .device = bb_arg_int(rq, "deviceId", 0),
        .group = bb_arg_int(rq, "groupId", 0),
        .least_wh = bb_arg_int(rq, "minWatthour", INT64_MIN),
        .most_wh = bb_arg_int(rq, "maxWatthour", INT64_MAX),
    };
    int refused = certificate_scope(rq, bb_arg_int(rq, "organizationId", 0), &filter->scope);

    read_texts(rq, filter);
    if (!refused)
        refused = certificate_shared(rq, filter->group, &filter->scope);
    return refused ? refused : choose_devices(rq, filter);
}

bool certificate_narrowed(const struct certificate_filter *filter)
{
    return filter->text[CERTIFICATE_IN_STATUS] || filter->least_wh != INT64_MIN ||
           filter->most_wh != INT64_MAX || certificate_chooses(filter) ||
           (filter->text[CERTIFICATE_CHOSEN] && (filter->group || filter->device)) ||
           (filter->group && filter->device);
}

enum certificate_way certificate_way(const struct certificate_filter *filter)
{
    if (filter->device)
        return CERTIFICATE_BY_DEVICE;
    if (filter->text[CERTIFICATE_CHOSEN])
        return CERTIFICATE_BY_CHOSEN;
    if (filter->group)
        return CERTIFICATE_BY_GROUP;
    return filter->scope.all ? CERTIFICATE_BY_TIME : CERTIFICATE_BY_ORGANIZATION;
}
