/* Devices and their readings: helpers of the tests of readings and certificates. */
#ifndef TESTS_METER_H
#define TESTS_METER_H

#include "people.h"

#define METER_MODULES "[auth, device, reading, certificate]"
#define HOUR_MS INT64_C(3600000)
#define DAY_MS (24 * HOUR_MS)

/* Starts a host with the modules on its own database of that name. `more`: sections, or NULL. */
struct host *meter_host(const char *name, const char *more);

/* Midnight (UTC) this many days ago: in ms since 1970, as a date, and as a date with the time. */
int64_t days_ago(int days);
char *date_text(int64_t ms);
char *time_text(int64_t ms);

/* Registers a device of this many kW, commissioned on that day; returns its id. */
int64_t meter_make(const struct host *host, const struct person *by, const char *external_id,
                   double kw, int64_t commissioned);

/* Send POST with a body (taken), with one reading in Wh, and with `count` readings of `wh` each for
 * consecutive periods of that length. */
struct answer *meter_post(const struct host *host, const struct person *by, const char *external_id,
                          json_t *body);
struct answer *meter_read(const struct host *host, const struct person *by, const char *external_id,
                          const char *type, int64_t start, int64_t end, double wh);
struct answer *meter_series(const struct host *host, const struct person *by,
                            const char *external_id, const char *type, int64_t start,
                            int64_t length, int count, int wh);

/* Sends GET for the readings; `query` may be "". */
struct answer *meter_list(const struct host *host, const struct person *by, const char *external_id,
                          const char *query);

/* Returns the sum of `value` over all pages. */
int64_t meter_total(const struct host *host, const struct person *by, const char *external_id);

/* Starts `busbar certificate issue` in the background; call process_wait() for the result. */
pid_t meter_issue_start(const struct host *by);

/* Returns a member of an item of the response's array (or of its member `list`) as text. */
const json_t *item_of(const struct answer *answer, const char *list, size_t index);
const char *text_in(const json_t *object, const char *key);
int64_t int_in(const json_t *object, const char *key);

#endif
